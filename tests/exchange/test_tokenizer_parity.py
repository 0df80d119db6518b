"""Imported tokenizers match HuggingFace's AutoTokenizer, or are refused."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from exchange.tokenizer_folders import KINDS, NAMES, MarianSetup, Setup, train_tokenizer
from regard.data.store import Store
from regard.errors import ModelError, RegardError
from regard.exchange.huggingface import marian, marian_tokenizer
from regard.exchange.huggingface.folder import HuggingFaceFolder
from regard.exchange.huggingface.tokenizer_classes import TokenizerImporter
from regard.text.config import ImportedTokenizerKind
from regard.text.id_mapping import IdMapping
from regard.text.imported import HuggingFaceTokenizer, MarianTokenizer
from regard.text.tokenizer import Tokenizers

transformers = pytest.importorskip("transformers")
SETUPS = 60  # of each family


def import_tokenizer(path: Path, kind: ImportedTokenizerKind) -> HuggingFaceTokenizer | str:
    """Return the imported tokenizer, or the reason why it is refused."""
    folder = HuggingFaceFolder(path)
    importer, size = TokenizerImporter(folder, kind), folder.config["vocab_size"]
    try:
        problems = list(importer.import_problems(size))
        if problems:
            return problems[0]
        tokenizer = importer.to_tokenizers(IdMapping(size)).target
    except RegardError as error:
        return str(error)
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    return tokenizer


def load_hf_tokenizer(folder: Path) -> Any:
    """Return HuggingFace's tokenizer; None if it cannot be loaded."""
    try:
        return transformers.AutoTokenizer.from_pretrained(str(folder))
    except Exception:
        return None


def assert_equal(tokenizer: HuggingFaceTokenizer, hf_tokenizer: Any, texts: list[str]) -> None:
    for text in texts:
        ids = hf_tokenizer(text, add_special_tokens=False)["input_ids"]
        if max(ids, default=0) >= tokenizer.id_mapping.size:
            continue  # HuggingFace's model would fail, too
        assert tokenizer.id_mapping.to_imported(tokenizer.encode(text)) == ids, text
        plain = hf_tokenizer.decode(ids, skip_special_tokens=True)
        assert tokenizer.decode(tokenizer.id_mapping.to_internal(ids)) == plain, text


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", KINDS)
def test_random_settings_match_huggingface(family: str, tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    kind: Any = KINDS[family]
    for seed in range(SETUPS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        setup = Setup(family, seed)
        setup.write(folder)
        tokenizer, hf_tokenizer = import_tokenizer(folder, kind), load_hf_tokenizer(folder)
        if hf_tokenizer is None:
            assert isinstance(tokenizer, str)
            outcomes["unreadable"] += 1
        elif isinstance(tokenizer, str):
            exceeds_vocab = (
                max(hf_tokenizer.get_vocab().values())
                >= json.loads((folder / "config.json").read_text())["vocab_size"]
            )
            assert exceeds_vocab or "has different settings in" in tokenizer, tokenizer
            outcomes["refused"] += 1
        else:
            assert_equal(tokenizer, hf_tokenizer, setup.texts(15))
            outcomes["equal"] += 1
    assert outcomes["equal"] > SETUPS / 3


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("bert", {"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class is BertJapanese"),
        ("gpt2", {"tokenizer_class": "BertTokenizer"}, "not supported for this model_type"),
        ("roberta", {"split_special_tokens": True}, "split_special_tokens"),
        ("xlnet", {"auto_map": {"AutoTokenizer": ["a.B", None]}}, "Python code"),
        ("bert", {"unk_token": "[NONE]"}, "unk_token is [NONE]"),
        ("bert", {"unk_token": {"content": "[UNK]"}}, "must be a string or an AddedToken"),
        ("bert", {"added_tokens_decoder": {"0": {"contents": "[UNK]"}}}, "is not an added token"),
    ],
)
def test_unsupported_settings_are_refused(
    family: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    content = train_tokenizer(family)
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    config = {"model_type": family, "vocab_size": len(json.loads(content)["model"]["vocab"])}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    kind: Any = KINDS[family]
    result = import_tokenizer(tmp_path, kind)
    assert isinstance(result, str)
    assert message in result


WRONG: list[Any] = [None, True, -1, 10**20, "x", 1.5, [], [[]], [1], {}, {"0": {}}, {"a": 1}]


def corrupt(table: Any, draw: random.Random) -> Any:
    """Return a JSON value in which something has another type or is missing."""
    if not isinstance(table, dict) or not table or draw.random() < 0.1:
        return draw.choice(WRONG)
    name = draw.choice(list(table)[:30])
    if draw.random() < 0.2:
        return {key: value for key, value in table.items() if key != name}
    return table | {name: corrupt(table[name], draw)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", [*KINDS, "marian"])
def test_damaged_files_are_imported_or_refused(family: str, tmp_path: Path) -> None:
    for seed in range(SETUPS):
        folder, draw = tmp_path / str(seed), random.Random(f"{family} {seed}")
        folder.mkdir()
        setup = MarianSetup(seed) if family == "marian" else Setup(family, seed)
        setup.write(folder)
        path = draw.choice([p for p in folder.glob("*.json") if p.name != "config.json"])
        path.write_text(json.dumps(corrupt(json.loads(path.read_text()), draw)))
        try:
            kind: Any = KINDS.get(family)
            result = import_marian(folder) if family == "marian" else import_tokenizer(folder, kind)
        except RegardError:
            continue
        tokenizer = result.target if isinstance(result, Tokenizers) else result
        if isinstance(tokenizer, str):
            continue
        for text in setup.texts(3):
            tokenizer.decode(tokenizer.encode(text))


def test_tokenizer_config_takes_precedence_over_tokenizer_json(tmp_path: Path) -> None:
    content = json.loads(train_tokenizer("bert"))
    content["normalizer"]["lowercase"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    config = {"model_type": "bert", "vocab_size": len(content["model"]["vocab"])}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    encoded = []
    for lower in (True, False):
        settings = {"do_lower_case": lower, **{f"{k}_token": v for k, v in NAMES["bert"].items()}}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        tokenizer = import_tokenizer(tmp_path, "wordpiece")
        assert isinstance(tokenizer, HuggingFaceTokenizer)
        encoded.append([tokenizer.encode("Dog"), tokenizer.encode("dog")])
    assert encoded[0][0] == encoded[0][1]
    assert encoded[1][0] != encoded[1][1]


def import_marian(path: Path) -> Tokenizers | str:
    folder = HuggingFaceFolder(path)
    special_ids = marian._special_token_ids(marian._settings(folder))
    problems = list(marian_tokenizer.tokenizer_import_problems(folder, special_ids))
    return problems[0] if problems else marian_tokenizer.import_tokenizers(folder, special_ids)


def assert_equal_marian(
    tokenizer: Tokenizers, hf_tokenizer: Any, texts: list[str], seed: int
) -> None:
    source, target = tokenizer.source, tokenizer.target
    assert isinstance(source, MarianTokenizer)
    assert isinstance(target, MarianTokenizer)
    for text in texts:
        ids = hf_tokenizer(text, add_special_tokens=False)["input_ids"]
        assert source.id_mapping.to_imported(source.encode(text)) == ids, text
        ids = hf_tokenizer(text_target=text, add_special_tokens=False)["input_ids"]
        assert target.id_mapping.to_imported(target.encode(text)) == ids, text
        plain = hf_tokenizer.decode(ids, skip_special_tokens=True)
        assert target.decode(target.id_mapping.to_internal(ids)) == plain, text
    draw = random.Random(seed)
    for _ in range(10):
        ids = draw.choices(range(len(target.table)), k=9)
        plain = hf_tokenizer.decode(ids, skip_special_tokens=True)
        assert target.decode(target.id_mapping.to_internal(ids)) == plain, ids


@pytest.mark.filterwarnings("ignore")
def test_random_settings_of_marian_match_huggingface(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(SETUPS):
        folder, again = tmp_path / str(seed), tmp_path / f"{seed} again"
        folder.mkdir()
        again.mkdir()
        setup = MarianSetup(seed)
        setup.write(folder)
        tokenizer, hf_tokenizer = import_marian(folder), load_hf_tokenizer(folder)
        if isinstance(tokenizer, str):
            assert "the id of" in tokenizer
            assert "but the vocabulary size is" in tokenizer
            outcomes["refused"] += 1
            continue
        texts = setup.texts(15)
        assert_equal_marian(tokenizer, hf_tokenizer, texts, seed)
        for name, content in marian_tokenizer.tokenizer_files(tokenizer).items():
            (again / name).write_bytes(content)
        settings = {
            "separate_vocabs": setup.separate,
            **marian_tokenizer.tokenizer_settings(tokenizer),
        }
        (again / "tokenizer_config.json").write_text(json.dumps(settings))
        (again / "config.json").write_bytes((folder / "config.json").read_bytes())
        assert_equal_marian(tokenizer, load_hf_tokenizer(again), texts, seed)
        assert import_marian(again) == tokenizer
        outcomes["equal"] += 1
    assert outcomes["equal"] > SETUPS / 3


def test_older_marian_folders_have_no_added_tokens(tmp_path: Path) -> None:
    setup = MarianSetup(0)
    setup.write(tmp_path)
    tokenizer = import_marian(tmp_path)
    assert isinstance(tokenizer, Tokenizers)
    files = tokenizer.files()
    del files["special_tokens.json"]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    old = Tokenizers.load(tmp_path, tokenizer.config)
    assert len(tokenizer.source.encode("<unk>")) == 1
    assert len(old.source.encode("<unk>")) > 1
    (tmp_path / "special_tokens.json").write_text('{"tokens": {"1": {"contents": 3}}}')
    with pytest.raises(ModelError, match="is damaged"):
        Tokenizers.load(tmp_path, tokenizer.config)


@pytest.mark.filterwarnings("ignore")
def test_special_tokens_in_text_are_not_parsed_after_export(
    reversal_store: Store, tmp_path: Path
) -> None:
    tokenizer = reversal_store.tokenizers
    for name, content in marian_tokenizer.tokenizer_files(tokenizer).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(marian_tokenizer.tokenizer_settings(tokenizer))
    )
    hf_tokenizer = transformers.MarianTokenizer.from_pretrained(str(tmp_path))
    for text in ("a </s> b", "<unk>", "<pad><s> x", "a b c"):
        assert hf_tokenizer(text, add_special_tokens=False)["input_ids"] == tokenizer.source.encode(
            text
        )
