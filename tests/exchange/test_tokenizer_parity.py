"""Imported tokenizers give the ids and texts of HuggingFace's AutoTokenizer, or are refused."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from exchange.tokenizer_folders import KINDS, NAMES, MarianSetup, Setup, trained
from regard.data.store import Store
from regard.errors import ModelError, RegardError
from regard.exchange.huggingface import marian, marian_text
from regard.exchange.huggingface.folder import ForeignFolder
from regard.exchange.huggingface.tokenizer_classes import LibraryText
from regard.text.config import ForeignKind
from regard.text.foreign import LibraryTokenizer, MarianTokenizer
from regard.text.numbering import Numbering
from regard.text.tokenizer import Tokenizers

transformers = pytest.importorskip("transformers")
SETUPS = 60  # of each family


def imported(place: Path, kind: ForeignKind) -> LibraryTokenizer | str:
    """The tokenizer, or why there is none."""
    folder = ForeignFolder(place)
    text, size = LibraryText(folder, kind), folder.config["vocab_size"]
    try:
        found = list(text.obstacles(size))
        if found:
            return found[0]
        tokenizer = text.read(Numbering(size)).target
    except RegardError as error:
        return str(error)
    assert isinstance(tokenizer, LibraryTokenizer)
    return tokenizer


def theirs(place: Path) -> Any:
    """Their tokenizer; None where they cannot read it either."""
    try:
        return transformers.AutoTokenizer.from_pretrained(str(place))
    except Exception:
        return None


def assert_equal(own: LibraryTokenizer, their: Any, texts: list[str]) -> None:
    for text in texts:
        ids = their(text, add_special_tokens=False)["input_ids"]
        if max(ids, default=0) >= own.numbering.size:
            continue  # their model would fail, too
        assert own.numbering.written(own.encode(text)) == ids, text
        plain = their.decode(ids, skip_special_tokens=True)
        assert own.decode(own.numbering.ours(ids)) == plain, text


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", KINDS)
def test_random_settings_give_their_ids_and_texts(family: str, tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    kind: Any = KINDS[family]
    for seed in range(SETUPS):
        place = tmp_path / str(seed)
        place.mkdir()
        setup = Setup(family, seed)
        setup.write(place)
        own, their = imported(place, kind), theirs(place)
        if their is None:
            assert isinstance(own, str)
            outcomes["unreadable"] += 1
        elif isinstance(own, str):
            beyond = (
                max(their.get_vocab().values())
                >= json.loads((place / "config.json").read_text())["vocab_size"]
            )
            assert beyond or "described in two ways" in own, own
            outcomes["refused"] += 1
        else:
            assert_equal(own, their, setup.texts(15))
            outcomes["equal"] += 1
    assert outcomes["equal"] > SETUPS / 3


@pytest.mark.parametrize(
    ("family", "settings", "said"),
    [
        ("bert", {"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class is BertJapanese"),
        ("gpt2", {"tokenizer_class": "BertTokenizer"}, "not for models of this type"),
        ("roberta", {"split_special_tokens": True}, "split_special_tokens"),
        ("xlnet", {"auto_map": {"AutoTokenizer": ["a.B", None]}}, "Python code"),
        ("bert", {"unk_token": "[NONE]"}, "unk_token is [NONE]"),
        ("bert", {"unk_token": {"content": "[UNK]"}}, "neither a text nor an AddedToken"),
        ("bert", {"added_tokens_decoder": {"0": {"contents": "[UNK]"}}}, "is no added token"),
    ],
)
def test_what_cannot_be_expressed_is_refused(
    family: str, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    content = trained(family)
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    config = {"model_type": family, "vocab_size": len(json.loads(content)["model"]["vocab"])}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    kind: Any = KINDS[family]
    found = imported(tmp_path, kind)
    assert isinstance(found, str)
    assert said in found


WRONG: list[Any] = [None, True, -1, 10**20, "x", 1.5, [], [[]], [1], {}, {"0": {}}, {"a": 1}]


def changed(table: Any, draw: random.Random) -> Any:
    """A JSON value in which something is of another type, or missing."""
    if not isinstance(table, dict) or not table or draw.random() < 0.1:
        return draw.choice(WRONG)
    name = draw.choice(list(table)[:30])
    if draw.random() < 0.2:
        return {key: value for key, value in table.items() if key != name}
    return table | {name: changed(table[name], draw)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", [*KINDS, "marian"])
def test_damaged_files_are_refused_in_a_sentence(family: str, tmp_path: Path) -> None:
    for seed in range(SETUPS):
        place, draw = tmp_path / str(seed), random.Random(f"{family} {seed}")
        place.mkdir()
        setup = MarianSetup(seed) if family == "marian" else Setup(family, seed)
        setup.write(place)
        path = draw.choice([p for p in place.glob("*.json") if p.name != "config.json"])
        path.write_text(json.dumps(changed(json.loads(path.read_text()), draw)))
        try:
            kind: Any = KINDS.get(family)
            own = imported_marian(place) if family == "marian" else imported(place, kind)
        except RegardError:
            continue
        tokenizer = own.target if isinstance(own, Tokenizers) else own
        if isinstance(tokenizer, str):
            continue
        for text in setup.texts(3):
            tokenizer.decode(tokenizer.encode(text))


def test_tokenizer_config_wins_over_tokenizer_json(tmp_path: Path) -> None:
    content = json.loads(trained("bert"))
    content["normalizer"]["lowercase"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    config = {"model_type": "bert", "vocab_size": len(content["model"]["vocab"])}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    encoded = []
    for lower in (True, False):
        settings = {"do_lower_case": lower, **{f"{k}_token": v for k, v in NAMES["bert"].items()}}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        own = imported(tmp_path, "wordpiece")
        assert isinstance(own, LibraryTokenizer)
        encoded.append([own.encode("Dog"), own.encode("dog")])
    assert encoded[0][0] == encoded[0][1]
    assert encoded[1][0] != encoded[1][1]


def imported_marian(place: Path) -> Tokenizers | str:
    folder = ForeignFolder(place)
    marks = marian._marks(marian._settings(folder))
    found = list(marian_text.obstacles_in_text(folder, marks))
    return found[0] if found else marian_text.read_text(folder, marks)


def assert_equal_marian(own: Tokenizers, their: Any, texts: list[str], seed: int) -> None:
    source, target = own.source, own.target
    assert isinstance(source, MarianTokenizer)
    assert isinstance(target, MarianTokenizer)
    for text in texts:
        ids = their(text, add_special_tokens=False)["input_ids"]
        assert source.numbering.written(source.encode(text)) == ids, text
        ids = their(text_target=text, add_special_tokens=False)["input_ids"]
        assert target.numbering.written(target.encode(text)) == ids, text
        plain = their.decode(ids, skip_special_tokens=True)
        assert target.decode(target.numbering.ours(ids)) == plain, text
    draw = random.Random(seed)
    for _ in range(10):
        ids = draw.choices(range(len(target.table)), k=9)
        plain = their.decode(ids, skip_special_tokens=True)
        assert target.decode(target.numbering.ours(ids)) == plain, ids


@pytest.mark.filterwarnings("ignore")
def test_random_settings_of_marian_give_their_ids_and_texts(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(SETUPS):
        place, again = tmp_path / str(seed), tmp_path / f"{seed} again"
        place.mkdir()
        again.mkdir()
        setup = MarianSetup(seed)
        setup.write(place)
        own, their = imported_marian(place), theirs(place)
        if isinstance(own, str):
            assert "added token" in own
            assert "and the model has" in own
            outcomes["refused"] += 1
            continue
        texts = setup.texts(15)
        assert_equal_marian(own, their, texts, seed)
        for name, content in marian_text.text_files(own).items():
            (again / name).write_bytes(content)
        settings = {"separate_vocabs": setup.separate, **marian_text.text_settings(own)}
        (again / "tokenizer_config.json").write_text(json.dumps(settings))
        (again / "config.json").write_bytes((place / "config.json").read_bytes())
        assert_equal_marian(own, theirs(again), texts, seed)
        assert imported_marian(again) == own
        outcomes["equal"] += 1
    assert outcomes["equal"] > SETUPS / 3


def test_marians_of_old_folders_look_for_no_tokens(tmp_path: Path) -> None:
    setup = MarianSetup(0)
    setup.write(tmp_path)
    own = imported_marian(tmp_path)
    assert isinstance(own, Tokenizers)
    files = own.files()
    del files["special_tokens.json"]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    old = Tokenizers.load(tmp_path, own.config)
    assert len(own.source.encode("<unk>")) == 1
    assert len(old.source.encode("<unk>")) > 1
    (tmp_path / "special_tokens.json").write_text('{"tokens": {"1": {"contents": 3}}}')
    with pytest.raises(ModelError, match="is damaged"):
        Tokenizers.load(tmp_path, own.config)


@pytest.mark.filterwarnings("ignore")
def test_special_tokens_in_text_stay_text_in_exports_of_ours(
    reversal_store: Store, tmp_path: Path
) -> None:
    own = reversal_store.tokenizers
    for name, content in marian_text.text_files(own).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(marian_text.text_settings(own)))
    their = transformers.MarianTokenizer.from_pretrained(str(tmp_path))
    for text in ("a </s> b", "<unk>", "<pad><s> x", "a b c"):
        assert their(text, add_special_tokens=False)["input_ids"] == own.source.encode(text)
