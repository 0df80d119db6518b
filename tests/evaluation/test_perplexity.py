"""Perplexity of models with segment recurrence, and texts that they generate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cli.commands import Command, regard
from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.score import token_log_probs
from regard.errors import ConfigError
from regard.evaluation.perplexity import perplexity, read_documents
from regard.models.folder import load_model
from regard.models.permuted import Permuted
from regard.pipelines.generator import Generator
from regard.text.special import SPECIAL
from toys import write_model_folder, write_text_store

__all__ = ["regard"]  # a fixture


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def folder(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    return write_model_folder(out, store, kind="xl", num_layers=2, memory_length=8, max_positions=8)


def test_long_memory_matches_a_single_segment(store: Store, folder: Path) -> None:
    generator = Generator.load(folder)
    documents = read_documents(store.folder.parent / "valid.txt")[:6]
    ids = [
        token
        for text in documents
        for token in (*generator.tokenizer.encode_lines(text), SPECIAL.eos)
    ]
    inputs = [SPECIAL.bos if token == SPECIAL.eos else token for token in [SPECIAL.eos, *ids[:-1]]]
    with torch.no_grad():
        expected = -float(
            token_log_probs(generator.model, Batch(Ragged.of([inputs]), Ragged.of([ids]))).sum()
        )
    result = perplexity(generator.model, generator.tokenizer, documents, memory=10_000)
    assert result.nll == pytest.approx(expected, rel=1e-5)
    assert result.tokens == len(ids)
    assert result.memory == 10_000
    less = perplexity(generator.model, generator.tokenizer, documents)
    assert less.memory == 8
    assert less.nll != pytest.approx(expected, rel=1e-5)


def test_permutation_model_scores_left_to_right(store: Store, tmp_path: Path) -> None:
    shape = {"kind": "permuted", "num_layers": 2, "memory_length": 8, "max_positions": 8}
    description, model = load_model(
        write_model_folder(tmp_path, store, **shape), torch.device("cpu")
    )
    assert isinstance(model, Permuted)
    tokenizer = description.tokenizers.target
    documents = read_documents(store.folder.parent / "valid.txt")[:6]
    ids = [token for text in documents for token in (*tokenizer.encode_lines(text), SPECIAL.eos)]
    with torch.no_grad():
        expected = -float(token_log_probs(model, model.left_to_right_batch(ids, None)).sum())
    result = perplexity(model, tokenizer, documents, memory=10_000)
    assert result.nll == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ConfigError, match="only a model for language modeling"):
        Generator.load(tmp_path)


def test_options_without_effect_are_refused(store: Store, folder: Path, tmp_path: Path) -> None:
    generator = Generator.load(folder)
    with pytest.raises(ConfigError, match="--stride"):
        perplexity(generator.model, generator.tokenizer, ["a b"], stride=2)
    causal = Generator.load(write_model_folder(tmp_path, store, kind="causal", num_layers=1))
    with pytest.raises(ConfigError, match="--memory"):
        perplexity(causal.model, causal.tokenizer, ["a b"], memory=2)


def test_evaluate_command_with_memory(store: Store, folder: Path, regard: Command) -> None:
    text = store.folder.parent / "valid.txt"
    result = regard("evaluate", folder, "--text", text, "--memory", 16, "--format", "json")
    assert result.status == 0, result.err
    (row,) = json.loads(result.out)["results"]
    assert row["memory"] == 16
    assert regard("generate", folder, "a b c", "--max-tokens", 20).status == 0


def test_generation_is_limited_by_memory(folder: Path) -> None:
    generator = Generator.load(folder)
    assert generator.context == 16
    (result,) = generator.generate(["a b c"], max_tokens=12, beam_size=1)
    streamed: list[str] = []
    generator.stream("a b c", streamed.append, max_tokens=12, beam_size=1)
    assert "".join(streamed) == result.continuations[0].text
