"""Frozen parts stay as they are, and blocks learn at the rates that the formula says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.store import Store
from regard.errors import ConfigError
from regard.models.folder import WEIGHTS, read_tensors, weights_of
from regard.training.config import TrainingConfig
from regard.training.optimizer import make_optimizer, set_rate
from regard.training.parts import Place, freeze, rate_factors
from toys import SIZES, any_model, begun_on, run, small_model, some_run


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("source_embedding.table.weight", Place("embeddings")),
        ("embedding.positions.table.weight", Place("embeddings")),
        ("encoder.blocks.3.attention.project.weight", Place("encoder", 3)),
        ("decoder.blocks.11.cross.query.adapters.query.down", Place("decoder", 11)),
        ("encoder.cells.weight_hh_l1_reverse", Place("encoder", 1)),
        ("decoder.recurrence.cells.bias_ih_l0", Place("decoder", 0)),
        ("encoder.norm.weight", Place("encoder")),
        ("projection.bias", Place("projection")),
        ("head.dense.weight", Place("head")),
    ],
)
def test_the_place_of_a_weight_is_in_its_name(name: str, place: Place) -> None:
    assert Place.of(name) == place


@pytest.mark.parametrize("kind", SIZES)
def test_every_kind_has_embeddings_and_an_encoder_of_blocks(kind: str) -> None:
    places = {Place.of(name) for name, _ in any_model(0, kind=kind).named_parameters()}
    assert {Place("embeddings"), Place("encoder", 0), Place("encoder", 1)} <= places


@pytest.mark.parametrize(
    ("model", "settings", "frozen"),
    [
        ({"norm_order": "pre"}, {"freeze": ["embeddings"]}, ["source_embedding."]),
        ({"norm_order": "pre"}, {"freeze": ["encoder"]}, ["encoder."]),
        (
            {"encoder_layers": 2, "tied_embeddings": "none"},
            {"freeze": ["embeddings", "decoder"], "freeze_blocks": 1},
            ["source_embedding.", "target_embedding.", "decoder.", "encoder.blocks.0."],
        ),
        ({"kind": "recurrent"}, {"freeze": ["encoder"]}, ["encoder."]),
        ({"kind": "recurrent", "layers": 2}, {"freeze_blocks": 1}, ["_l0"]),
        (
            {"kind": "convolutional"},
            {"freeze": ["embeddings", "encoder"]},
            ["bedding.", "encoder."],
        ),
    ],
)
def test_frozen_weights_do_not_change_and_all_others_do(
    tmp_path: Path,
    unvalidated_store: Store,
    model: dict[str, Any],
    settings: dict[str, Any],
    frozen: list[str],
) -> None:
    method = {"optimizer": "adamw", "weight_decay": 0.1, "max_steps": 3, **settings}
    config = some_run(tmp_path, unvalidated_store, model, **method)
    before = weights_of(begun_on(config, unvalidated_store)[1])
    run(config, unvalidated_store)
    after = read_tensors(tmp_path / WEIGHTS)[0]
    assert before.keys() == after.keys()
    for name, weights in before.items():
        stays = any(part in name for part in frozen)
        assert torch.equal(weights, after[name]) == stays, name


def test_what_cannot_be_frozen_is_said() -> None:
    with pytest.raises(ConfigError, match="names decoder, which this model does not have"):
        freeze(any_model(0, kind="causal"), ["embeddings", "decoder"], 0)
    with pytest.raises(ConfigError, match="freeze_blocks is 9, and this model has 2 blocks"):
        freeze(any_model(0, kind="causal"), [], 9)
    with pytest.raises(ConfigError, match="leave nothing that could learn"):
        freeze(any_model(0, kind="causal"), ["embeddings", "encoder"], 0)


def test_each_block_has_the_rate_of_the_one_above_it_times_the_decay() -> None:
    names = [
        *("source_embedding.table.weight", "encoder.norm.weight", "projection.bias"),
        *(f"encoder.blocks.{number}.attention.project.weight" for number in range(3)),
        *(f"decoder.blocks.{number}.cross.query.weight" for number in range(2)),
    ]
    factors = [1 / 8, 1.0, 1.0, 1 / 4, 1 / 2, 1.0, 1 / 2, 1.0]
    assert rate_factors(names, 0.5) == dict(zip(names, factors, strict=True))
    assert {*rate_factors(names, 1.0).values()} == {1.0}


def test_groups_keep_their_weight_decay_and_get_their_rates() -> None:
    model = small_model(output_bias=True, norm_order="pre", encoder_layers=3)
    freeze(model, ["embeddings"], 0)
    config = TrainingConfig(weight_decay=0.1, layer_decay=0.5)
    optimizer = make_optimizer(model, config)
    set_rate(optimizer, 0.25)
    found = {
        id(weights): (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for weights in group["params"]
    }
    factors = rate_factors((name for name, _ in model.named_parameters()), 0.5)
    assert factors["encoder.blocks.0.attention.combine.weight"] == 0.25
    for name, weights in model.named_parameters():
        if name.startswith("source_embedding"):
            assert id(weights) not in found
        else:
            decay = 0.1 if weights.ndim > 1 else 0.0
            assert found[id(weights)] == (0.25 * factors[name], decay), name


def test_the_first_step_of_each_weight_is_as_long_as_its_rate() -> None:
    model, before = small_model(), small_model()
    optimizer = make_optimizer(model, TrainingConfig(layer_decay=0.5))
    for weights in model.parameters():
        weights.grad = torch.ones_like(weights)
    set_rate(optimizer, 0.01)
    optimizer.step()
    factors = rate_factors((name for name, _ in model.named_parameters()), 0.5)
    for (name, weights), old in zip(model.named_parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(old - weights, torch.full_like(old, 0.01 * factors[name]))
