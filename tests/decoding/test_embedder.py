"""Vectors of texts: the same in any batch, pooled by definition, from every kind that reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from exchange.languages import own_folder
from regard.cli import build_app
from regard.config import build
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.embedder import MAX_TOKENS, Embedder
from regard.errors import ConfigError
from regard.layers.pooling import pool_words as pooled
from regard.models import ARCHITECTURES
from regard.models.folder import ModelFolder
from text.learned import LINES, learned
from toys import TINY, write_model_folder

TEXTS = [*LINES[:7], ""]


def embedder(kind: str, **changes: object) -> Embedder:
    torch.manual_seed(3)
    config = build(ARCHITECTURES[kind][0], TINY[kind] | changes)
    folder: ModelFolder = own_folder(config, learned(LINES))
    return Embedder(Path("unused"), folder, folder.model().eval())


@pytest.mark.parametrize("kind", ["masked", "causal", "transformer"])
def test_a_text_has_its_vector_in_any_batch(kind: str) -> None:
    reader = embedder(kind)
    together = reader.embed(TEXTS)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    alone = np.concatenate([reader.embed([text]) for text in TEXTS])
    assert np.allclose(together, alone, atol=1e-5)
    assert np.allclose(together, reader.embed(TEXTS, batch_size=3), atol=1e-5)
    assert reader.embed([]).shape == (0, reader.model.config.width)


def test_pooling_is_what_it_says() -> None:
    text = Ragged.of([[4, 5, 6], [7]])
    states = torch.randn(4, 5)
    assert torch.equal(pooled(states, text.lengths, "first"), states[[0, 3]])
    assert torch.equal(pooled(states, text.lengths, "last"), states[[2, 3]])
    means = torch.stack([states[:3].mean(0), states[3]])
    torch.testing.assert_close(pooled(states, text.lengths, "mean"), means)


def test_what_is_too_long_is_read_as_far_as_it_can_be() -> None:
    reader = embedder("masked", positions="learned", max_positions=8)
    assert reader.longest == 6
    long = " ".join(["the dog"] * 20)
    ids = reader.folder.tokenizers.source.encode(long)[:6]
    same = reader.folder.tokenizers.source.decode(ids)
    notices: list[str] = []
    vectors = reader.embed(["the", long], notice=notices.append, first_line=5)
    assert np.allclose(vectors[1:], reader.embed([same]), atol=1e-6)
    count = len(reader.folder.tokenizers.source.encode(long))
    assert notices == [f"Line 6 has {count} tokens, of which the first 6 are read."]


@pytest.mark.parametrize("kind", ["causal", "transformer"])
def test_a_model_without_a_limit_reads_a_bounded_text(kind: str) -> None:
    reader = embedder(kind)
    assert reader.model.max_length is None
    assert reader.longest == MAX_TOKENS - 1
    notices: list[str] = []
    found = reader.embed(["the dog " * 12_000], notice=notices.append)  # in no time
    assert np.isfinite(found).all()
    assert len(notices) == 1


def test_the_command_writes_an_array(reversal_store: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model", reversal_store)
    out = tmp_path / "vectors.npy"
    command = ["embed", str(folder), "--pool", "last", "--raw", "--out", str(out)]
    done = CliRunner().invoke(build_app(), command, input="a b c\nd\n")
    assert done.exit_code == 0, done.output
    expected = Embedder.load(folder).embed(["a b c", "d"], pool="last", normalize=False)
    assert np.array_equal(np.load(out), expected)


def test_who_reads_nothing_by_itself_says_so() -> None:
    with pytest.raises(ConfigError, match="no stack that reads a text"):
        embedder("recurrent")
