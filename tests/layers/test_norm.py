"""Norms against PyTorch's and against the definition."""

from __future__ import annotations

import pytest
import torch

from regard.data.ragged import Lengths
from regard.layers.norm import BatchNorm, make_norm
from regard.models.folder import put_weights, weights_of
from toys import pairs, small_model


@pytest.mark.parametrize("kind", ["layer", "rms", "batch"])
def test_norms_are_pytorchs(kind: str) -> None:
    theirs = {
        "layer": torch.nn.LayerNorm(6),
        "rms": torch.nn.RMSNorm(6),
        "batch": torch.nn.BatchNorm1d(6),
    }[kind]
    ours = make_norm(kind, 6)  # type: ignore[arg-type]
    for _ in range(3):  # batch norm remembers
        x = torch.randn(20, 6) * 3 + 1
        torch.testing.assert_close(ours(x), theirs(x))
    x = torch.randn(5, 6)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_layer_norm_is_the_batch_norm_of_the_transpose() -> None:
    x = torch.randn(8, 5)
    layer, batch = torch.nn.LayerNorm(5), BatchNorm(8)
    torch.testing.assert_close(layer(x), batch(x.T).T)


def test_it_does_not_matter_how_a_batch_was_padded() -> None:
    lengths = Lengths.of([2, 5, 3])
    x = torch.randn(10, 4)
    padded = lengths.pad(x)
    mean = torch.stack([padded[b, :n].sum(0) for b, n in enumerate([2, 5, 3])]).sum(0) / 10
    norm = BatchNorm(4)
    found = norm(x)
    torch.testing.assert_close(found.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(norm.get_buffer("mean"), 0.1 * mean)


def test_a_single_token_is_taken_by_the_running_statistics() -> None:
    norm = BatchNorm(4)
    x = torch.randn(1, 4)
    torch.testing.assert_close(norm(x), norm.eval()(x))


def test_running_statistics_belong_to_the_weights(tmp_path: object) -> None:
    model = small_model(0, norm="batch").train()
    model(pairs(5))
    other = small_model(1, norm="batch")
    put_weights(other, weights_of(model), tmp_path)  # type: ignore[arg-type]
    batch = pairs(3)
    torch.testing.assert_close(other(batch).hidden, model.eval()(batch).hidden)
