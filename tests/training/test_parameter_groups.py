"""Freezing of parts, and layer-wise learning rate decay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.store import Store
from regard.errors import ConfigError
from regard.models.folder import WEIGHTS, named_weights, read_tensors
from regard.training.config import TrainingConfig
from regard.training.optimizer import make_optimizer, set_learning_rate
from regard.training.parameter_groups import ParameterLocation, freeze, learning_rate_factors
from toys import SIZES, initialize_for, random_model, run, small_transformer, some_run


@pytest.mark.parametrize(
    ("name", "location"),
    [
        ("source_embedding.table.weight", ParameterLocation("embeddings")),
        ("embedding.positions.table.weight", ParameterLocation("embeddings")),
        ("encoder.blocks.3.attention.project.weight", ParameterLocation("encoder", 3)),
        ("decoder.blocks.11.cross.query.adapters.query.down", ParameterLocation("decoder", 11)),
        ("encoder.cells.weight_hh_l1_reverse", ParameterLocation("encoder", 1)),
        ("decoder.recurrence.cells.bias_ih_l0", ParameterLocation("decoder", 0)),
        ("encoder.norm.weight", ParameterLocation("encoder")),
        ("projection.bias", ParameterLocation("projection")),
        ("head.dense.weight", ParameterLocation("head")),
    ],
)
def test_location_of_a_parameter_is_derived_from_its_name(
    name: str, location: ParameterLocation
) -> None:
    assert ParameterLocation.of(name) == location


@pytest.mark.parametrize("kind", SIZES)
def test_every_kind_has_embeddings_and_encoder_blocks(kind: str) -> None:
    locations = {
        ParameterLocation.of(name) for name, _ in random_model(0, kind=kind).named_parameters()
    }
    assert {
        ParameterLocation("embeddings"),
        ParameterLocation("encoder", 0),
        ParameterLocation("encoder", 1),
    } <= locations


@pytest.mark.parametrize(
    ("model", "settings", "frozen"),
    [
        ({"norm_order": "pre"}, {"freeze": ["embeddings"]}, ["source_embedding."]),
        ({"norm_order": "pre"}, {"freeze": ["encoder"]}, ["encoder."]),
        (
            {"num_encoder_layers": 2, "tied_embeddings": "none"},
            {"freeze": ["embeddings", "decoder"], "freeze_layers": 1},
            ["source_embedding.", "target_embedding.", "decoder.", "encoder.blocks.0."],
        ),
        ({"kind": "recurrent"}, {"freeze": ["encoder"]}, ["encoder."]),
        ({"kind": "recurrent", "num_layers": 2}, {"freeze_layers": 1}, ["_l0"]),
        (
            {"kind": "convolutional"},
            {"freeze": ["embeddings", "encoder"]},
            ["bedding.", "encoder."],
        ),
    ],
)
def test_only_frozen_weights_do_not_change(
    tmp_path: Path,
    unvalidated_store: Store,
    model: dict[str, Any],
    settings: dict[str, Any],
    frozen: list[str],
) -> None:
    method = {"optimizer": "adamw", "weight_decay": 0.1, "max_steps": 3, **settings}
    config = some_run(tmp_path, unvalidated_store, model, **method)
    before = named_weights(initialize_for(config, unvalidated_store)[1])
    run(config, unvalidated_store)
    after = read_tensors(tmp_path / WEIGHTS)[0]
    assert before.keys() == after.keys()
    for name, weights in before.items():
        is_frozen = any(part in name for part in frozen)
        assert torch.equal(weights, after[name]) == is_frozen, name


def test_invalid_freezing_is_refused() -> None:
    with pytest.raises(ConfigError, match="contains decoder, which this model does not have"):
        freeze(random_model(0, kind="causal"), ["embeddings", "decoder"], 0)
    with pytest.raises(ConfigError, match="freeze_layers is 9, but must be at most 2"):
        freeze(random_model(0, kind="causal"), [], 9)
    with pytest.raises(ConfigError, match="leave nothing to train"):
        freeze(random_model(0, kind="causal"), ["embeddings", "encoder"], 0)


def test_learning_rate_factors_decay_by_block() -> None:
    names = [
        *("source_embedding.table.weight", "encoder.norm.weight", "projection.bias"),
        *(f"encoder.blocks.{number}.attention.project.weight" for number in range(3)),
        *(f"decoder.blocks.{number}.cross.query.weight" for number in range(2)),
    ]
    factors = [1 / 8, 1.0, 1.0, 1 / 4, 1 / 2, 1.0, 1 / 2, 1.0]
    assert learning_rate_factors(names, 0.5) == dict(zip(names, factors, strict=True))
    assert {*learning_rate_factors(names, 1.0).values()} == {1.0}


def test_parameter_groups_have_their_weight_decay_and_learning_rate() -> None:
    model = small_transformer(output_bias=True, norm_order="pre", num_encoder_layers=3)
    freeze(model, ["embeddings"], 0)
    config = TrainingConfig(weight_decay=0.1, layer_decay=0.5)
    optimizer = make_optimizer(model, config)
    set_learning_rate(optimizer, 0.25)
    groups = {
        id(weights): (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for weights in group["params"]
    }
    factors = learning_rate_factors((name for name, _ in model.named_parameters()), 0.5)
    assert factors["encoder.blocks.0.attention.combine.weight"] == 0.25
    for name, weights in model.named_parameters():
        if name.startswith("source_embedding"):
            assert id(weights) not in groups
        else:
            decay = 0.1 if weights.ndim > 1 else 0.0
            assert groups[id(weights)] == (0.25 * factors[name], decay), name


def test_first_step_has_the_size_of_the_learning_rate() -> None:
    model, before = small_transformer(), small_transformer()
    optimizer = make_optimizer(model, TrainingConfig(layer_decay=0.5))
    for weights in model.parameters():
        weights.grad = torch.ones_like(weights)
    set_learning_rate(optimizer, 0.01)
    optimizer.step()
    factors = learning_rate_factors((name for name, _ in model.named_parameters()), 0.5)
    for (name, weights), old in zip(model.named_parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(old - weights, torch.full_like(old, 0.01 * factors[name]))
