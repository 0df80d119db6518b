"""The perplexity of a model with a memory, and texts that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cli.commands import Command, regard
from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.generator import Generator
from regard.decoding.score import token_gains
from regard.errors import ConfigError
from regard.evaluation.perplexity import documents_of, perplexity
from regard.models.folder import load_model
from regard.models.permuted import Permuted
from regard.text.special import SPECIAL
from toys import write_model_folder, write_text_store

__all__ = ["regard"]  # a fixture


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def folder(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    return write_model_folder(out, store, kind="xl", layers=2, memory=8, max_positions=8)


def test_with_all_in_memory_it_is_that_of_one_long_segment(store: Store, folder: Path) -> None:
    generator = Generator.load(folder)
    documents = documents_of(store.folder.parent / "valid.txt")[:6]
    ids = [
        token
        for text in documents
        for token in (*generator.tokenizer.encode_lines(text), SPECIAL.end)
    ]
    read = [SPECIAL.start if token == SPECIAL.end else token for token in [SPECIAL.end, *ids[:-1]]]
    with torch.no_grad():
        wanted = -float(
            token_gains(generator.model, Batch(Ragged.of([read]), Ragged.of([ids]))).sum()
        )
    found = perplexity(generator.model, generator.tokenizer, documents, memory=10_000)
    assert found.nll == pytest.approx(wanted, rel=1e-5)
    assert found.tokens == len(ids)
    assert found.memory == 10_000
    less = perplexity(generator.model, generator.tokenizer, documents)
    assert less.memory == 8
    assert less.nll != pytest.approx(wanted, rel=1e-5)


def test_words_in_any_order_are_asked_for_in_theirs(store: Store, tmp_path: Path) -> None:
    shape = {"kind": "permuted", "layers": 2, "memory": 8, "max_positions": 8}
    described, model = load_model(write_model_folder(tmp_path, store, **shape), torch.device("cpu"))
    assert isinstance(model, Permuted)
    tokenizer = described.tokenizers.target
    documents = documents_of(store.folder.parent / "valid.txt")[:6]
    ids = [token for text in documents for token in (*tokenizer.encode_lines(text), SPECIAL.end)]
    with torch.no_grad():
        wanted = -float(token_gains(model, model.in_order(ids, None)).sum())
    found = perplexity(model, tokenizer, documents, memory=10_000)
    assert found.nll == pytest.approx(wanted, rel=1e-5)
    with pytest.raises(ConfigError, match="only a model for language modeling"):
        Generator.load(tmp_path)


def test_what_does_not_go_together(store: Store, folder: Path, tmp_path: Path) -> None:
    generator = Generator.load(folder)
    with pytest.raises(ConfigError, match="--stride"):
        perplexity(generator.model, generator.tokenizer, ["a b"], stride=2)
    forgetful = Generator.load(write_model_folder(tmp_path, store, kind="causal", layers=1))
    with pytest.raises(ConfigError, match="--memory"):
        perplexity(forgetful.model, forgetful.tokenizer, ["a b"], memory=2)


def test_the_command(store: Store, folder: Path, regard: Command) -> None:
    text = store.folder.parent / "valid.txt"
    found = regard("evaluate", folder, "--text", text, "--memory", 16, "--format", "json")
    assert found.status == 0, found.err
    (row,) = json.loads(found.out)["results"]
    assert row["memory"] == 16
    assert regard("generate", folder, "a b c", "--max-tokens", 20).status == 0


def test_a_text_may_be_as_long_as_what_is_remembered(folder: Path) -> None:
    generator = Generator.load(folder)
    assert generator.context == 16
    (found,) = generator.generate(["a b c"], max_tokens=12, beam_size=1)
    told: list[str] = []
    generator.stream("a b c", told.append, max_tokens=12, beam_size=1)
    assert "".join(told) == found.continuations[0].text
