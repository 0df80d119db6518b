"""Normalization layers against PyTorch's and against their definitions."""

from __future__ import annotations

import pytest
import torch

from regard.data.ragged import Lengths
from regard.layers.norm import BatchNorm, make_norm
from regard.models.folder import load_weights, named_weights
from toys import pairs, small_transformer


@pytest.mark.parametrize("kind", ["layer", "rms", "batch"])
def test_norms_match_pytorch(kind: str) -> None:
    theirs = {
        "layer": torch.nn.LayerNorm(6),
        "rms": torch.nn.RMSNorm(6),
        "batch": torch.nn.BatchNorm1d(6),
    }[kind]
    ours = make_norm(kind, 6)  # type: ignore[arg-type]
    for _ in range(3):  # batch norm has running statistics
        x = torch.randn(20, 6) * 3 + 1
        torch.testing.assert_close(ours(x), theirs(x))
    x = torch.randn(5, 6)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_layer_norm_is_batch_norm_of_the_transpose() -> None:
    x = torch.randn(8, 5)
    layer, batch = torch.nn.LayerNorm(5), BatchNorm(8)
    torch.testing.assert_close(layer(x), batch(x.T).T)


def test_batch_norm_ignores_padding() -> None:
    lengths = Lengths.of([2, 5, 3])
    x = torch.randn(10, 4)
    padded = lengths.pad(x)
    mean = torch.stack([padded[b, :n].sum(0) for b, n in enumerate([2, 5, 3])]).sum(0) / 10
    norm = BatchNorm(4)
    actual = norm(x)
    torch.testing.assert_close(actual.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(norm.get_buffer("mean"), 0.1 * mean)


def test_single_token_uses_running_statistics() -> None:
    norm = BatchNorm(4)
    x = torch.randn(1, 4)
    torch.testing.assert_close(norm(x), norm.eval()(x))


def test_running_statistics_are_saved_with_weights(tmp_path: object) -> None:
    model = small_transformer(0, norm="batch").train()
    model(pairs(5))
    loaded = small_transformer(1, norm="batch")
    load_weights(loaded, named_weights(model), tmp_path)  # type: ignore[arg-type]
    batch = pairs(3)
    torch.testing.assert_close(loaded(batch).hidden, model.eval()(batch).hidden)
