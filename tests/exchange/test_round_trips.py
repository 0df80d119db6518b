"""Export and import: equal logits, text and folders after a round trip."""

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

from exchange.language_models import TEXTS, describe_model, write_bert, write_gpt2, write_xlnet
from exchange.marian_models import SENTENCES, write_marian
from parity.permutations import LENGTH, ROWS, batch_of
from parity.weights import shake
from regard.config import build
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.errors import ModelError
from regard.exchange.huggingface import (
    export_folder,
    export_problems_after_training,
    import_folder,
)
from regard.models import ARCHITECTURES
from regard.models.base import Model
from regard.models.causal import Causal
from regard.models.folder import DataStatistics, ModelFolder, load_model
from regard.models.masked import Masked, MaskedConfig
from regard.models.protocol import Vocabulary
from regard.models.stacks import BlockConfig
from regard.models.transformer import TransformerConfig
from regard.pipelines.generator import Generator
from regard.pipelines.mask_filler import MaskFiller
from regard.text.imported import ImportedTokenizer
from regard.text.tokenizer import Tokenizers
from text.toy_tokenizers import LINES, WORDS, train_toy_tokenizers
from toys import TINY

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")

# Settings to vary by model kind, with few that HuggingFace does not support.
VARIANTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "transformer": {
        "norm_order": ("pre", "post"),
        "sinusoid_layout": ("interleaved", "halves"),
        "decoder_start_token": ("bos", "eos", "pad"),
    },
    "causal": {
        "positional_encoding": ("learned",),
        "norm_order": ("pre",),
        "decoder_start_token": ("bos", "eos"),
        "bare_prompts": (False, True),
        "output_bias": (False, False, True),
        "embedding_dropout": (None, 0.2),
    },
    "masked": {
        "positional_encoding": ("learned",),
        "num_segments": (0, 1, 2),
        "head": (True, False),
        "next_sentence": (False, False, True),
        "output_bias": (True, False),
    },
    "permuted": {
        "segment_documents": (False,),
        "memory_length": (0, 8),
        "max_distance": (None, 6),
        "sinusoid_layout": ("interleaved", "halves"),
    },
}
COMMON_VARIANTS: dict[str, tuple[Any, ...]] = {
    "d_model": (12, 15, 24),
    "num_heads": (1, 3),
    "activation": ACTIVATIONS,
    "scale_embedding": (False, True),
    "tied_embeddings": ("all", "none"),
}


def draw_fields(kind: str, draw: random.Random) -> dict[str, Any]:
    fields = {n: draw.choice(values) for n, values in (COMMON_VARIANTS | VARIANTS[kind]).items()}
    if kind != "transformer":
        fields["norm_eps"] = draw.choice((None, 1e-3))
    if kind == "masked":
        fields["head_activation"] = fields["activation"]
        fields |= {"num_segments": 2, "head": True} if fields["next_sentence"] else {}
    return TINY[kind] | fields


def describe_random_model(kind: str, draw: random.Random) -> ModelFolder:
    fields = draw_fields(kind, draw)
    tokenizers = train_toy_tokenizers(
        LINES, lowercase=draw.random() < 0.5, nfkc=draw.random() < 0.5
    )
    size = tokenizers.source.vocab_size
    languages: dict[str, str | None] = {"source": None, "target": None}
    config = build(ARCHITECTURES[kind][0], fields)
    return ModelFolder(
        Vocabulary(size, size, True), tokenizers, languages, DataStatistics(64, 1.0), config
    )


@torch.no_grad()
def logits_of(model: Model, ids: list[list[int]]) -> Tensor:
    """Return the logits of tokens, or hidden states of a model without head."""
    if isinstance(model, Masked):
        text = Ragged.of(ids)
        return model.logits(text) if model.config.head else model.hidden_states(text)
    if model.config.kind == "permuted":
        row = (ids[0] * LENGTH)[:LENGTH]
        predictions = model(batch_of(torch.tensor([row] * ROWS)))
    else:
        text = with_eos(ids)
        predictions = model(Batch(text, text))
    return predictions.project(predictions.hidden)


def assert_same_text(first: Tokenizers, second: Tokenizers, seed: int) -> None:
    draw = random.Random(seed)
    parts = [*WORDS, " ", "  ", "\n", "Xyz", "é", "ﬁ", "7", "İ"]
    texts = [" ".join(draw.choices(parts, k=draw.randint(0, 9))) for _ in range(25)]
    for tokenizer, reimported in ((first.source, second.source), (first.target, second.target)):
        for text in [*LINES[:5], *texts]:
            ids = tokenizer.encode_lines(text)
            assert ids == reimported.encode_lines(text), text
            assert tokenizer.decode_lines(ids) == reimported.decode_lines(ids)
        assert tokenizer.line_break == reimported.line_break


def assert_same_folders(first: Path, second: Path) -> None:
    """Compare config.json, and weights up to rounding."""
    settings = [json.loads((folder / "config.json").read_text()) for folder in (first, second)]
    assert settings[0] == settings[1]
    weights = [load_file(folder / "model.safetensors") for folder in (first, second)]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert_close(tensor, weights[1][name], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("seed", range(4))
def test_exported_models_can_be_imported(kind: str, seed: int, tmp_path: Path) -> None:
    folder = describe_random_model(kind, random.Random(seed))
    model = folder.model().eval()
    shake(model, 0.1)
    assert (export_problems_after_training(folder) != []) == (
        expected_export_problem(folder) is not None
    )
    if reason := expected_export_problem(folder):
        with pytest.raises(ModelError, match=reason):
            export_folder(folder, model, tmp_path / "hf")
        return
    name = export_folder(folder, model, tmp_path / "hf")
    import_folder(tmp_path / "hf", tmp_path / "again")
    reimported, reimported_model = load_model(tmp_path / "again", CPU)
    if kind != "transformer":
        assert_same_text(folder.tokenizers, reimported.tokenizers, seed)
    ids = [folder.tokenizers.target.encode_lines(line) for line in LINES[:3]]
    tokenizer = reimported.tokenizers.target
    assert isinstance(tokenizer, ImportedTokenizer)
    expected, actual = (
        logits_of(model, ids),
        logits_of(reimported_model, [*map(tokenizer.id_mapping.to_internal, ids)]),
    )
    if expected.shape[1] == folder.vocabulary.target:
        actual = actual[:, tokenizer.id_mapping.to_internal(range(expected.shape[1]))]
    assert_close(expected, actual, atol=2e-5, rtol=0)
    assert export_folder(reimported, reimported_model, tmp_path / "there") == name
    getattr(transformers, name).from_pretrained(tmp_path / "there")
    if kind == "causal":
        assert_same_continuations(folder, model, reimported, reimported_model)


def expected_export_problem(folder: ModelFolder) -> str | None:
    """Return the expected export problem of a random model, if any."""
    config = folder.config
    assert isinstance(config, BlockConfig)
    if config.kind == "permuted" and config.d_model % 2:
        return "model.d_model is 15"
    if config.kind == "causal" and config.output_bias:
        return "its output bias"
    if isinstance(config, TransformerConfig) and config.norm_order == "pre":
        return "tied_embeddings" if config.tied_embeddings != "all" else None
    return None


def assert_same_continuations(*pair: Any) -> None:
    folder, model, reimported, network = pair
    assert isinstance(model, Causal)
    assert isinstance(network, Causal)
    prompts = ["", *LINES[:3]]
    first, second = (
        Generator(Path("unused"), description, net).generate(prompts, max_tokens=8, beam_size=2)
        for description, net in ((folder, model), (reimported, network))
    )
    for description, other in zip(first, second, strict=True):
        expected, actual = description.continuations[0], other.continuations[0]
        assert expected.score == pytest.approx(actual.score, abs=1e-4)
        # Invalid UTF-8 is decoded differently by the two packages.
        assert "\N{REPLACEMENT CHARACTER}" in expected.text or expected.text == actual.text


def test_masked_token_predictions_are_equal(tmp_path: Path) -> None:
    fields = {"positional_encoding": "learned", "activation": "gelu"}
    tokenizers = train_toy_tokenizers(LINES)
    folder = describe_model(build(MaskedConfig, TINY["masked"] | fields), tokenizers)
    model = folder.model().eval()
    assert isinstance(model, Masked)
    shake(model, 0.1)
    export_folder(folder, model, tmp_path / "hf")
    import_folder(tmp_path / "hf", tmp_path / "again")
    texts = ["the dog [MASK] and runs", "[MASK] house", "to its [MASK]", "the [MASK] [MASK] runs"]
    before = MaskFiller(tmp_path, folder, model).fill(texts)
    after = MaskFiller.load(tmp_path / "again", device="cpu").fill(texts)
    for first, second in zip(before, after, strict=True):
        for expected_predictions, predictions in zip(first.blanks, second.blanks, strict=True):
            expected = [prediction.probability for prediction in expected_predictions]
            assert [prediction.probability for prediction in predictions] == pytest.approx(
                expected, abs=1e-5
            )


HF_WRITERS: dict[str, Callable[[Path], Any]] = {
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


@pytest.mark.parametrize("name", HF_WRITERS)
def test_imported_models_can_be_exported(name: str, tmp_path: Path) -> None:
    HF_WRITERS[name](tmp_path / "hf")
    first = import_folder(tmp_path / "hf", tmp_path / "one")
    export_folder(*load_model(tmp_path / "one", CPU), tmp_path / "there")
    second = import_folder(tmp_path / "there", tmp_path / "two")
    assert (first.config, first.vocabulary) == (second.config, second.vocabulary)
    weights = [
        load_file(tmp_path / tokenizer / "model.safetensors") for tokenizer in ("one", "two")
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(tensor, weights[1][n]) for n, tensor in weights[0].items())
    for tokenizer, reimported in ((first.tokenizers.source, second.tokenizers.source),):
        assert isinstance(tokenizer, ImportedTokenizer)
        assert isinstance(reimported, ImportedTokenizer)
        assert tokenizer.id_mapping == reimported.id_mapping
        for text in [*TEXTS, *SENTENCES]:
            assert tokenizer.encode_lines(text) == reimported.encode_lines(text)
    export_folder(*load_model(tmp_path / "two", CPU), tmp_path / "there again")
    assert_same_folders(tmp_path / "there", tmp_path / "there again")
