"""Runs with LoRA adapters: their folders, and their base model, which must not change."""

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
    load_weights,
    merged_weights,
    named_weights,
    read_tensors,
)
from regard.training.checkpoint import OPTIMIZER, checkpoint_folders
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import altered, initialize_for, run, small_run, some_run, validated, write_text_store

CPU = torch.device("cpu")
LORA = {"rank": 2, "dropout": 0.2}


def train_model(out: Path, store: Store, **training: Any) -> Path:
    """Train a model for a few steps."""
    run(small_run(out, store, max_steps=10, **training), store)
    return out


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    return train_model(tmp_path_factory.mktemp("base") / "run", reversal_store)


def lora_run(out: Path, base: Path, store: Store, **training: Any) -> RunConfig:
    """Settings of a run with adapters."""
    settings = {"lora": LORA, **training}
    return altered(small_run(out, store), init_from=str(base), training=settings)


@pytest.fixture
def both(tmp_path: Path, base: Path, reversal_store: Store) -> Path:
    """A folder with a base model and its adapter."""
    shutil.copytree(base, tmp_path / "both" / "base")
    config = lora_run(
        tmp_path / "both" / "adapter", tmp_path / "both" / "base", reversal_store, max_steps=10
    )
    run(config, reversal_store)
    return tmp_path / "both"


@pytest.mark.parametrize(
    "method",
    [
        {},
        {"ema_decay": 0.5, "average_last": 2},
        {"ema_decay": 0.5, "average_best": 2, "r_drop": 1.0, "gradient_accumulation_steps": 2},
        {"lora": {**LORA, "target_modules": "all"}, "weight_decay": 0.1, "layer_decay": 0.5},
    ],
)
def test_loaded_model_has_the_validated_loss(
    tmp_path: Path, base: Path, reversal_store: Store, method: dict[str, Any]
) -> None:
    config = lora_run(tmp_path, base, reversal_store, **method)
    run(config, reversal_store)
    metadata = read_tensors(tmp_path / WEIGHTS)[1]
    _, model = load_model(tmp_path, CPU)
    assert validated(model, reversal_store, config).loss == float(metadata["valid_loss"])
    old = min(row["valid_loss"] for row in read_metrics(base) if "valid_loss" in row)
    assert float(metadata["valid_loss"]) < old


def test_folder_contains_only_adapter_weights(both: Path) -> None:
    expected = 3 * 2 * 2 * (16 + 16)  # encoder, decoder and cross-attention; queries and values
    files = [
        both / "adapter" / WEIGHTS,
        *(path / WEIGHTS for path in checkpoint_folders(both / "adapter")),
    ]
    for file in files:
        tensors = read_tensors(file)[0]
        assert all(".adapters." in name for name in tensors)
        assert sum(tensor.numel() for tensor in tensors.values()) == expected
    optimizer_state = read_tensors(checkpoint_folders(both / "adapter")[-1] / OPTIMIZER)[0]
    assert {name.rsplit(":", 1)[0] for name in optimizer_state} == {*read_tensors(files[0])[0]}


def test_merged_model_equals_unmerged_model(both: Path, reversal_store: Store) -> None:
    config = lora_run(both / "another", both / "base", reversal_store)
    unmerged = initialize_for(config, reversal_store)[1].eval()
    load_weights(unmerged, read_tensors(both / "adapter" / WEIGHTS)[0], both)
    description, merged = load_model(both / "adapter", CPU)
    assert is_adapted(unmerged)
    assert not is_adapted(merged)
    assert description.adapter is None
    for batch in validation_batches(PairDataset(reversal_store.part("valid")), 300):
        expected, actual = (model.projection(model(batch).hidden) for model in (unmerged, merged))
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


def test_base_model_is_not_changed(both: Path, base: Path, reversal_store: Store) -> None:
    assert (both / "base" / WEIGHTS).read_bytes() == (base / WEIGHTS).read_bytes()
    config = lora_run(both / "another", both / "base", reversal_store)
    old, (_, model) = merged_weights(base), initialize_for(config, reversal_store)
    frozen = {n: w for n, w in model.named_parameters() if not w.requires_grad}
    assert {name.replace(".frozen", ".weight") for name in frozen} == old.keys()
    for name, weights in frozen.items():
        assert torch.equal(weights, old[name.replace(".frozen", ".weight")])


def test_adapter_and_base_model_can_be_moved_together(both: Path, tmp_path: Path) -> None:
    before = named_weights(load_model(both / "adapter", CPU)[1])
    moved = both.rename(tmp_path / "moved")
    after = named_weights(load_model(moved / "adapter", CPU)[1])
    assert all(torch.equal(weights, after[name]) for name, weights in before.items())
    assert all(
        torch.equal(weights, merged_weights(moved / "adapter")[name])
        for name, weights in before.items()
    )
    (moved / "base").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match=r"which does not exist\. Restore that model folder"):
        regard.load(moved / "adapter")
    path = moved / "adapter" / CONFIG
    description = json.loads(path.read_text())
    description["adapter"]["origin"] = "../../elsewhere"
    path.write_text(json.dumps(description))
    load_model(moved / "adapter", CPU)


def test_adapter_can_be_moved_alone(both: Path, tmp_path: Path) -> None:
    (both / "adapter").rename(tmp_path / "moved")
    load_model(tmp_path / "moved", CPU)


def test_changed_base_model_is_refused(both: Path, reversal_store: Store) -> None:
    train_model(both / "other", reversal_store, seed=2)
    shutil.copy(both / "other" / WEIGHTS, both / "base" / WEIGHTS)
    for folder in (both / "adapter", both / "adapter" / "checkpoints" / "00000010"):
        with pytest.raises(ModelError, match="whose weights have changed"):
            load_model(folder, CPU)
    longer = lora_run(both / "adapter", both / "base", reversal_store)
    with pytest.raises(ModelError, match="whose weights have changed"):
        run(longer, reversal_store)


def test_run_is_resumed_with_a_moved_base_model(both: Path, reversal_store: Store) -> None:
    moved = both.rename(both.with_name("moved"))
    longer = lora_run(moved / "adapter", both / "base", reversal_store, max_steps=12)
    assert run(longer, reversal_store).first_step == 10  # found at its relative path
    (moved / "base").rename(moved / "renamed")
    longer = lora_run(moved / "adapter", moved / "renamed", reversal_store, max_steps=14)
    assert run(longer, reversal_store).first_step == 12
    load_model(moved / "adapter", CPU)


def test_adapter_can_be_a_base_model(both: Path, tmp_path: Path, reversal_store: Store) -> None:
    before = merged_weights(both / "adapter")
    for name, lora in (("adapted", LORA), ("trained", {"rank": 0})):
        config = lora_run(
            *(tmp_path / name, both / "adapter", reversal_store), lora=lora, learning_rate=0.0
        )
        run(config, reversal_store)
        after = merged_weights(tmp_path / name)
        assert all(torch.equal(weights, after[n]) for n, weights in before.items())
    assert ModelFolder.read(tmp_path / "trained").adapter is None


@pytest.mark.parametrize("kind", ["causal", "masked", "xl", "permuted"])
def test_language_models_support_adapters(tmp_path: Path, kind: str) -> None:
    store = write_text_store(tmp_path)
    model = {"kind": kind, "max_positions": 16}
    if kind in ("xl", "permuted"):
        model["memory_length"] = 8
    first = some_run(tmp_path / "base", store, model, max_steps=4)
    run(first, store)
    config = altered(
        first,
        out=str(tmp_path / "adapter"),
        init_from=str(tmp_path / "base"),
        training={"lora": LORA, "max_steps": 10},
    )
    run(config, store)
    metadata = read_tensors(tmp_path / "adapter" / WEIGHTS)[1]
    old = read_tensors(tmp_path / "base" / WEIGHTS)[1]
    assert float(metadata["valid_loss"]) < float(old["valid_loss"])
    load_model(tmp_path / "adapter", CPU)


def test_settings_that_contradict_adapters_are_refused(
    tmp_path: Path, base: Path, reversal_store: Store
) -> None:
    config = small_run(tmp_path, reversal_store)
    with pytest.raises(ConfigError, match="use --from"):
        altered(config, training={"lora": {"rank": 4}})
    with pytest.raises(ConfigError, match="leave out freeze and freeze_layers"):
        lora_run(tmp_path, base, reversal_store, freeze_layers=1)
    bare = tmp_path / "bare"
    shutil.copytree(base, bare, ignore=shutil.ignore_patterns(WEIGHTS, "checkpoints"))
    with pytest.raises(ModelError, match="is incomplete"):
        run(lora_run(tmp_path / "run", bare, reversal_store), reversal_store)
