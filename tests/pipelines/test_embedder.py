"""Embeddings do not depend on the batch, and match the definition of pooling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from exchange.language_models import describe_model
from regard.cli import build_app
from regard.config import build
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.errors import ConfigError
from regard.layers.pooling import pool_subwords as pooled
from regard.models import ARCHITECTURES
from regard.models.folder import ModelFolder
from regard.pipelines.embedder import MAX_TOKENS, Embedder
from text.toy_tokenizers import LINES, train_toy_tokenizers
from toys import TINY, write_model_folder

TEXTS = [*LINES[:7], ""]


def embedder(kind: str, **changes: object) -> Embedder:
    torch.manual_seed(3)
    config = build(ARCHITECTURES[kind][0], TINY[kind] | changes)
    folder: ModelFolder = describe_model(config, train_toy_tokenizers(LINES))
    return Embedder(Path("unused"), folder, folder.model().eval())


@pytest.mark.parametrize("kind", ["masked", "causal", "transformer"])
def test_embeddings_do_not_depend_on_the_batch(kind: str) -> None:
    reader = embedder(kind)
    together = reader.embed(TEXTS)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    alone = np.concatenate([reader.embed([text]) for text in TEXTS])
    assert np.allclose(together, alone, atol=1e-5)
    assert np.allclose(together, reader.embed(TEXTS, batch_size=3), atol=1e-5)
    assert reader.embed([]).shape == (0, reader.model.config.d_model)


def test_pooling_matches_its_definition() -> None:
    text = Ragged.of([[4, 5, 6], [7]])
    states = torch.randn(4, 5)
    assert torch.equal(pooled(states, text.lengths, "first"), states[[0, 3]])
    assert torch.equal(pooled(states, text.lengths, "last"), states[[2, 3]])
    means = torch.stack([states[:3].mean(0), states[3]])
    torch.testing.assert_close(pooled(states, text.lengths, "mean"), means)


def test_long_texts_are_truncated() -> None:
    reader = embedder("masked", positional_encoding="learned", max_positions=8)
    assert reader.longest == 6
    long = " ".join(["the dog"] * 20)
    ids = reader.folder.tokenizers.source.encode(long)[:6]
    same = reader.folder.tokenizers.source.decode(ids)
    notices: list[str] = []
    vectors = reader.embed(["the", long], notice=notices.append)
    assert np.allclose(vectors[1:], reader.embed([same]), atol=1e-6)
    count = len(reader.folder.tokenizers.source.encode(long))
    assert notices == [f"Line 2 has {count} tokens and is truncated to 6."]


@pytest.mark.parametrize("kind", ["causal", "transformer"])
def test_default_limit_of_models_without_a_limit(kind: str) -> None:
    reader = embedder(kind)
    assert reader.model.max_length is None
    assert reader.longest == MAX_TOKENS - 1
    notices: list[str] = []
    vectors = reader.embed(["the dog " * 12_000], notice=notices.append)  # takes little time
    assert np.isfinite(vectors).all()
    assert len(notices) == 1


def test_embed_command_writes_an_array(reversal_store: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model", reversal_store)
    out = tmp_path / "vectors.npy"
    command = ["embed", str(folder), "--pooling", "last", "--no-normalize", "--out", str(out)]
    result = CliRunner().invoke(build_app(), command, input="a b c\nd\n")
    assert result.exit_code == 0, result.output
    expected = Embedder.load(folder).embed(["a b c", "d"], pool="last", normalize=False)
    assert np.array_equal(np.load(out), expected)


def test_models_that_cannot_embed_are_refused() -> None:
    with pytest.raises(ConfigError, match="Embeddings are not supported for model kind"):
        embedder("recurrent")
