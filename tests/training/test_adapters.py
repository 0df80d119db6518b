"""Runs with adapters: a small folder, an origin that must not change, and use like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.loader import validation_batches
from regard.data.pairs import PairDataset
from regard.data.store import Store
from regard.errors import ConfigError, ModelError
from regard.layers.adapters import is_adapted
from regard.models.folder import (
    CONFIG,
    WEIGHTS,
    ModelFolder,
    load_model,
    put_weights,
    read_tensors,
    weights_of,
    whole_weights,
)
from regard.training.checkpoint import OPTIMIZER, folders
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import altered, begun_on, run, small_run, some_run, validated, write_text_store

CPU = torch.device("cpu")
LORA = {"rank": 2, "dropout": 0.2}


def learned(out: Path, store: Store, **training: Any) -> Path:
    """A model that knows a little."""
    run(small_run(out, store, max_steps=10, **training), store)
    return out


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    return learned(tmp_path_factory.mktemp("origin") / "run", reversal_store)


def adapting(out: Path, origin: Path, store: Store, **training: Any) -> RunConfig:
    """The settings of a run with adapters."""
    settings = {"lora": LORA, **training}
    return altered(small_run(out, store), init_from=str(origin), training=settings)


@pytest.fixture
def both(tmp_path: Path, origin: Path, reversal_store: Store) -> Path:
    """A folder with an origin of its own, and its adapter."""
    shutil.copytree(origin, tmp_path / "both" / "origin")
    config = adapting(
        tmp_path / "both" / "adapter", tmp_path / "both" / "origin", reversal_store, max_steps=10
    )
    run(config, reversal_store)
    return tmp_path / "both"


@pytest.mark.parametrize(
    "method",
    [
        {},
        {"ema_decay": 0.5, "average_last": 2},
        {"ema_decay": 0.5, "average_best": 2, "r_drop": 1.0, "accumulate": 2},
        {"lora": {**LORA, "layers": "all"}, "weight_decay": 0.1, "layer_decay": 0.5},
    ],
)
def test_what_is_loaded_is_what_was_validated(
    tmp_path: Path, origin: Path, reversal_store: Store, method: dict[str, Any]
) -> None:
    config = adapting(tmp_path, origin, reversal_store, **method)
    run(config, reversal_store)
    noted = read_tensors(tmp_path / WEIGHTS)[1]
    _, model = load_model(tmp_path, CPU)
    assert validated(model, reversal_store, config).loss == float(noted["valid_loss"])
    old = min(row["valid_loss"] for row in read_metrics(origin) if "valid_loss" in row)
    assert float(noted["valid_loss"]) < old


def test_a_folder_has_what_learned_and_nothing_else(both: Path) -> None:
    expected = 3 * 2 * 2 * (16 + 16)  # within encoder, decoder and across; queries and values
    files = [both / "adapter" / WEIGHTS, *(path / WEIGHTS for path in folders(both / "adapter"))]
    for file in files:
        tensors = read_tensors(file)[0]
        assert all(".adapters." in name for name in tensors)
        assert sum(tensor.numel() for tensor in tensors.values()) == expected
    remembered = read_tensors(folders(both / "adapter")[-1] / OPTIMIZER)[0]
    assert {name.rsplit(":", 1)[0] for name in remembered} == {*read_tensors(files[0])[0]}


def test_merged_is_unmerged(both: Path, reversal_store: Store) -> None:
    config = adapting(both / "another", both / "origin", reversal_store)
    unmerged = begun_on(config, reversal_store)[1].eval()
    put_weights(unmerged, read_tensors(both / "adapter" / WEIGHTS)[0], both)
    described, merged = load_model(both / "adapter", CPU)
    assert is_adapted(unmerged)
    assert not is_adapted(merged)
    assert described.adapter is None
    for batch in validation_batches(PairDataset(reversal_store.part("valid")), 300):
        one, other = (model.projection(model(batch).hidden) for model in (unmerged, merged))
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_the_origin_is_left_as_it_is(both: Path, origin: Path, reversal_store: Store) -> None:
    assert (both / "origin" / WEIGHTS).read_bytes() == (origin / WEIGHTS).read_bytes()
    config = adapting(both / "another", both / "origin", reversal_store)
    old, (_, model) = whole_weights(origin), begun_on(config, reversal_store)
    frozen = {n: w for n, w in model.named_parameters() if not w.requires_grad}
    assert {name.replace(".frozen", ".weight") for name in frozen} == old.keys()
    for name, weights in frozen.items():
        assert torch.equal(weights, old[name.replace(".frozen", ".weight")])


def test_both_may_move_together_but_not_apart(both: Path, tmp_path: Path) -> None:
    before = weights_of(load_model(both / "adapter", CPU)[1])
    moved = both.rename(tmp_path / "moved")
    after = weights_of(load_model(moved / "adapter", CPU)[1])
    assert all(torch.equal(weights, after[name]) for name, weights in before.items())
    assert all(
        torch.equal(weights, whole_weights(moved / "adapter")[name])
        for name, weights in before.items()
    )
    (moved / "origin").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match=r"which is not there\. Put that model folder back"):
        regard.load(moved / "adapter")
    path = moved / "adapter" / CONFIG
    description = json.loads(path.read_text())
    description["adapter"]["origin"] = "../../elsewhere"
    path.write_text(json.dumps(description))
    load_model(moved / "adapter", CPU)


def test_the_adapter_alone_may_move(both: Path, tmp_path: Path) -> None:
    (both / "adapter").rename(tmp_path / "far")
    load_model(tmp_path / "far", CPU)


def test_a_changed_origin_is_refused(both: Path, reversal_store: Store) -> None:
    learned(both / "other", reversal_store, seed=2)
    shutil.copy(both / "other" / WEIGHTS, both / "origin" / WEIGHTS)
    for refused in (both / "adapter", both / "adapter" / "checkpoints" / "00000010"):
        with pytest.raises(ModelError, match="whose weights are others now"):
            load_model(refused, CPU)
    longer = adapting(both / "adapter", both / "origin", reversal_store)
    with pytest.raises(ModelError, match="whose weights are others now"):
        run(longer, reversal_store)


def test_a_run_goes_on_where_its_origin_went(both: Path, reversal_store: Store) -> None:
    moved = both.rename(both.with_name("moved"))
    longer = adapting(moved / "adapter", both / "origin", reversal_store, max_steps=12)
    assert run(longer, reversal_store).began_at == 10  # beside it, though it is said elsewhere
    (moved / "origin").rename(moved / "renamed")
    longer = adapting(moved / "adapter", moved / "renamed", reversal_store, max_steps=14)
    assert run(longer, reversal_store).began_at == 12
    load_model(moved / "adapter", CPU)


def test_an_adapter_may_be_adapted_and_trained_on(
    both: Path, tmp_path: Path, reversal_store: Store
) -> None:
    before = whole_weights(both / "adapter")
    for name, lora in (("adapted", LORA), ("trained", {"rank": 0})):
        config = adapting(
            *(tmp_path / name, both / "adapter", reversal_store), lora=lora, learning_rate=0.0
        )
        run(config, reversal_store)
        after = whole_weights(tmp_path / name)
        assert all(torch.equal(weights, after[n]) for n, weights in before.items())
    assert ModelFolder.read(tmp_path / "trained").adapter is None


@pytest.mark.parametrize("kind", ["causal", "masked", "xl", "permuted"])
def test_models_of_running_text_have_adapters_too(tmp_path: Path, kind: str) -> None:
    store = write_text_store(tmp_path)
    model = {"kind": kind, "max_positions": 16}
    if kind in ("xl", "permuted"):
        model["memory"] = 8
    first = some_run(tmp_path / "origin", store, model, max_steps=4)
    run(first, store)
    config = altered(
        first,
        out=str(tmp_path / "adapter"),
        init_from=str(tmp_path / "origin"),
        training={"lora": LORA, "max_steps": 10},
    )
    run(config, store)
    noted = read_tensors(tmp_path / "adapter" / WEIGHTS)[1]
    old = read_tensors(tmp_path / "origin" / WEIGHTS)[1]
    assert float(noted["valid_loss"]) < float(old["valid_loss"])
    load_model(tmp_path / "adapter", CPU)


def test_what_contradicts_adapters_is_said(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    config = small_run(tmp_path, reversal_store)
    with pytest.raises(ConfigError, match="name it with --from"):
        altered(config, training={"lora": {"rank": 4}})
    with pytest.raises(ConfigError, match="leave out freeze and freeze_blocks"):
        adapting(tmp_path, origin, reversal_store, freeze_blocks=1)
    bare = tmp_path / "bare"
    shutil.copytree(origin, bare, ignore=shutil.ignore_patterns(WEIGHTS, "checkpoints"))
    with pytest.raises(ModelError, match="is incomplete"):
        run(adapting(tmp_path / "run", bare, reversal_store), reversal_store)
