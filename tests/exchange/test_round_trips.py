"""There and back: what is exported can be imported again, with the same logits and text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close

from exchange.languages import TEXTS, own_folder, write_bert, write_gpt2, write_xlnet
from exchange.marians import SENTENCES, write_marian
from parity.permutations import LENGTH, ROWS, batch_of
from parity.weights import shake
from regard.config import build
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.ragged import Ragged
from regard.decoding.filler import MaskFiller
from regard.decoding.generator import Generator
from regard.errors import ModelError
from regard.exchange.huggingface import (
    export_folder,
    import_folder,
    obstacles_after_training,
)
from regard.models import ARCHITECTURES
from regard.models.base import Model
from regard.models.causal import Causal
from regard.models.folder import ModelFolder, Training, load_model
from regard.models.masked import Masked, MaskedConfig
from regard.models.protocol import Vocabulary
from regard.models.stacks import BlockConfig
from regard.models.transformer import TransformerConfig
from regard.text.foreign import ForeignTokenizer
from regard.text.tokenizer import Tokenizers
from text.learned import LINES, WORDS, learned
from toys import TINY

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")

# What each kind may vary in and still be one of theirs, and what it may not.
VARIED: dict[str, dict[str, tuple[Any, ...]]] = {
    "transformer": {
        "norm_order": ("pre", "post"),
        "sinusoid_layout": ("interleaved", "halves"),
        "start_token": ("start", "end", "pad"),
    },
    "causal": {
        "positions": ("learned",),
        "norm_order": ("pre",),
        "start_token": ("start", "end"),
        "bare_prompts": (False, True),
        "output_bias": (False, False, True),
        "embedding_dropout": (None, 0.2),
    },
    "masked": {
        "positions": ("learned",),
        "segments": (0, 1, 2),
        "head": (True, False),
        "next_sentence": (False, False, True),
        "output_bias": (True, False),
    },
    "permuted": {
        "segment_documents": (False,),
        "memory": (0, 8),
        "max_distance": (None, 6),
        "sinusoid_layout": ("interleaved", "halves"),
    },
}
EVERYWHERE: dict[str, tuple[Any, ...]] = {
    "width": (12, 15, 24),
    "heads": (1, 3),
    "activation": ACTIVATIONS,
    "scale_embedding": (False, True),
    "tied_embeddings": ("all", "none"),
}


def drawn_form(kind: str, draw: random.Random) -> dict[str, Any]:
    form = {n: draw.choice(values) for n, values in (EVERYWHERE | VARIED[kind]).items()}
    if kind != "transformer":
        form["norm_epsilon"] = draw.choice((None, 1e-3))
    if kind == "masked":
        form["head_activation"] = form["activation"]
        form |= {"segments": 2, "head": True} if form["next_sentence"] else {}
    return TINY[kind] | form


def described(kind: str, draw: random.Random) -> ModelFolder:
    form = drawn_form(kind, draw)
    tokenizers = learned(LINES, lowercase=draw.random() < 0.5, nfkc=draw.random() < 0.5)
    size = tokenizers.source.vocab_size
    languages: dict[str, str | None] = {"source": None, "target": None}
    config = build(ARCHITECTURES[kind][0], form)
    return ModelFolder(
        config, Vocabulary(size, size, True), tokenizers, languages, Training(64, 1.0)
    )


@torch.no_grad()
def logits_of(model: Model, ids: list[list[int]]) -> Tensor:
    """The scores of all words for given tokens; of a model without scores, its vectors."""
    if isinstance(model, Masked):
        text = Ragged.of(ids)
        return model.logits(text) if model.config.head else model.read(text)
    if model.config.kind == "permuted":
        row = (ids[0] * LENGTH)[:LENGTH]
        found = model(batch_of(torch.tensor([row] * ROWS)))
    else:
        text = with_ends(ids)
        found = model(Batch(text, text))
    return found.project(found.hidden)


def assert_same_text(first: Tokenizers, second: Tokenizers, seed: int) -> None:
    draw = random.Random(seed)
    parts = [*WORDS, " ", "  ", "\n", "Xyz", "é", "ﬁ", "7", "İ"]
    texts = [" ".join(draw.choices(parts, k=draw.randint(0, 9))) for _ in range(25)]
    for one, other in ((first.source, second.source), (first.target, second.target)):
        for text in [*LINES[:5], *texts]:
            ids = one.encode_lines(text)
            assert ids == other.encode_lines(text), text
            assert one.decode_lines(ids) == other.decode_lines(ids)
        assert one.line_break == other.line_break


def assert_same_folders(first: Path, second: Path) -> None:
    """Their settings, and their weights up to rounding."""
    settings = [json.loads((folder / "config.json").read_text()) for folder in (first, second)]
    assert settings[0] == settings[1]
    weights = [load_file(folder / "model.safetensors") for folder in (first, second)]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert_close(tensor, weights[1][name], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", VARIED)
@pytest.mark.parametrize("seed", range(4))
def test_models_of_ours_come_back(kind: str, seed: int, tmp_path: Path) -> None:
    folder = described(kind, random.Random(seed))
    model = folder.model().eval()
    shake(model, 0.1)
    assert (obstacles_after_training(folder) != []) == (no_counterpart(folder) is not None)
    if reason := no_counterpart(folder):
        with pytest.raises(ModelError, match=reason):
            export_folder(folder, model, tmp_path / "theirs")
        return
    name = export_folder(folder, model, tmp_path / "theirs")
    import_folder(tmp_path / "theirs", tmp_path / "again")
    again, other = load_model(tmp_path / "again", CPU)
    if kind != "transformer":
        assert_same_text(folder.tokenizers, again.tokenizers, seed)
    ids = [folder.tokenizers.target.encode_lines(line) for line in LINES[:3]]
    tokenizer = again.tokenizers.target
    assert isinstance(tokenizer, ForeignTokenizer)
    ours, theirs = logits_of(model, ids), logits_of(other, [*map(tokenizer.numbering.ours, ids)])
    if ours.shape[1] == folder.vocabulary.target:
        theirs = theirs[:, tokenizer.numbering.ours(range(ours.shape[1]))]
    assert_close(ours, theirs, atol=2e-5, rtol=0)
    assert export_folder(again, other, tmp_path / "there") == name
    getattr(transformers, name).from_pretrained(tmp_path / "there")
    if kind == "causal":
        assert_same_continuations(folder, model, again, other)


def no_counterpart(folder: ModelFolder) -> str | None:
    """Why such a model has none, among the forms that are drawn."""
    config = folder.config
    assert isinstance(config, BlockConfig)
    if config.kind == "permuted" and config.width % 2:
        return "model.width is 15"
    if config.kind == "causal" and config.output_bias:
        return "its output has biases"
    if isinstance(config, TransformerConfig) and config.norm_order == "pre":
        return "tied_embeddings" if config.tied_embeddings != "all" else None
    return None


def assert_same_continuations(*pair: Any) -> None:
    folder, model, again, network = pair
    assert isinstance(model, Causal)
    assert isinstance(network, Causal)
    prompts = ["", *LINES[:3]]
    first, second = (
        Generator(Path("unused"), one, net).generate(prompts, max_tokens=8, beam_size=2)
        for one, net in ((folder, model), (again, network))
    )
    for one, other in zip(first, second, strict=True):
        mine, theirs = one.continuations[0], other.continuations[0]
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)
        # Bytes that are no UTF-8 look different in the two packages.
        assert "\N{REPLACEMENT CHARACTER}" in mine.text or mine.text == theirs.text


def test_blanks_are_filled_as_before(tmp_path: Path) -> None:
    form = {"positions": "learned", "activation": "gelu"}
    tokenizers = learned(LINES)
    folder = own_folder(build(MaskedConfig, TINY["masked"] | form), tokenizers)
    model = folder.model().eval()
    assert isinstance(model, Masked)
    shake(model, 0.1)
    export_folder(folder, model, tmp_path / "theirs")
    import_folder(tmp_path / "theirs", tmp_path / "again")
    texts = ["the dog [MASK] and runs", "[MASK] house", "to its [MASK]", "the [MASK] [MASK] runs"]
    before = MaskFiller(tmp_path, folder, model).fill(texts)
    after = MaskFiller.load(tmp_path / "again", device="cpu").fill(texts)
    for one, other in zip(before, after, strict=True):
        for ours, theirs in zip(one.blanks, other.blanks, strict=True):
            expected = [guess.probability for guess in ours]
            assert [guess.probability for guess in theirs] == pytest.approx(expected, abs=1e-5)


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "Marian": write_marian,
    "Marian, two vocabularies": lambda folder: write_marian(folder, separate=True),
    "GPT-2": write_gpt2,
    "GPT-2, own start": lambda folder: write_gpt2(folder, bos_token_id=5, vocab_size=330),
    "GPT-2, untied": lambda folder: write_gpt2(folder, tie_word_embeddings=False),
    "BERT": write_bert,
    "BERT, untied": lambda folder: write_bert(folder, tie_word_embeddings=False),
    "BERT, no head": lambda folder: write_bert(folder, "BertModel"),
    "BERT, pre-training": lambda folder: write_bert(folder, "BertForPreTraining"),
    "RoBERTa": lambda folder: write_bert(folder, "RobertaForMaskedLM"),
    "RoBERTa, no head": lambda folder: write_bert(folder, "RobertaModel"),
    "XLNet": write_xlnet,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_models_of_theirs_come_back(name: str, tmp_path: Path) -> None:
    FOREIGN[name](tmp_path / "theirs")
    first = import_folder(tmp_path / "theirs", tmp_path / "one")
    export_folder(*load_model(tmp_path / "one", CPU), tmp_path / "there")
    second = import_folder(tmp_path / "there", tmp_path / "two")
    assert (first.config, first.vocabulary) == (second.config, second.vocabulary)
    weights = [load_file(tmp_path / one / "model.safetensors") for one in ("one", "two")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(tensor, weights[1][n]) for n, tensor in weights[0].items())
    for one, other in ((first.tokenizers.source, second.tokenizers.source),):
        assert isinstance(one, ForeignTokenizer)
        assert isinstance(other, ForeignTokenizer)
        assert one.numbering == other.numbering
        for text in [*TEXTS, *SENTENCES]:
            assert one.encode_lines(text) == other.encode_lines(text)
    export_folder(*load_model(tmp_path / "two", CPU), tmp_path / "there again")
    assert_same_folders(tmp_path / "there", tmp_path / "there again")
