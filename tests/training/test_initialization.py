"""Fine-tuning: a run that is initialized from a trained model."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.store import Store
from regard.errors import ConfigError, ModelError, RegardError
from regard.models.folder import (
    WEIGHTS,
    DataStatistics,
    ModelFolder,
    inference_weights,
    load_model,
    named_weights,
    read_tensors,
    write_tensors,
)
from regard.settings_tree import to_tree
from regard.tasks.recipes import build_run_config
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import altered, initialize_for, run, small_run, validated, write_reversal_store

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def base_model(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    """A trained model."""
    out = tmp_path_factory.mktemp("base") / "run"
    run(small_run(out, reversal_store, max_steps=10), reversal_store)
    return out


def fine_tuning(out: Path, base_model: Path, store: Store, **training: Any) -> RunConfig:
    """Settings of a run that is initialized from a model."""
    config = small_run(out, store, **{"learning_rate": 0.001, **training})
    return altered(config, init_from=str(base_model))


def test_run_starts_with_the_weights_and_loss_of_the_base_model(
    tmp_path: Path, base_model: Path, reversal_store: Store
) -> None:
    config = fine_tuning(tmp_path, base_model, reversal_store)
    model = initialize_for(config, reversal_store)[1].eval()
    for name, tensor in read_tensors(base_model / WEIGHTS)[0].items():
        assert torch.equal(named_weights(model)[name], tensor)
    loss = validated(model, reversal_store, config).loss
    assert loss == min(row["valid_loss"] for row in read_metrics(base_model) if "valid_loss" in row)


@pytest.mark.parametrize(
    "method",
    [
        {},
        {"ema_decay": 0.9, "average_last": 3},
        {"ema_decay": 0.9, "average_best": 3, "r_drop": 1.0},
        {"optimizer": "adamw", "weight_decay": 0.5, "schedule": "linear"},
    ],
)
def test_learning_rate_zero_keeps_the_weights(
    tmp_path: Path, base_model: Path, reversal_store: Store, method: dict[str, Any]
) -> None:
    config = fine_tuning(
        tmp_path, base_model, reversal_store, learning_rate=0.0, max_steps=17, **method
    )
    run(config, reversal_store)
    before, after = read_tensors(base_model / WEIGHTS)[0], read_tensors(tmp_path / WEIGHTS)[0]
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_fine_tuning_improves_on_the_base_model(
    tmp_path: Path, base_model: Path, reversal_store: Store
) -> None:
    run(fine_tuning(tmp_path / "tuned", base_model, reversal_store), reversal_store)
    run(small_run(tmp_path / "fresh", reversal_store, learning_rate=0.001), reversal_store)
    tuned, fresh, old = (
        min(row["valid_loss"] for row in read_metrics(path) if "valid_loss" in row)
        for path in (tmp_path / "tuned", tmp_path / "fresh", base_model)
    )
    assert tuned < old < fresh


def test_data_with_another_tokenizer_is_refused(tmp_path: Path, base_model: Path) -> None:
    store = write_reversal_store(tmp_path, valid=False, tokenizer="unigram")
    with pytest.raises(ConfigError, match=f"`regard prepare --tokenizer-from {base_model}`"):
        run(fine_tuning(tmp_path / "run", base_model, store), store)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 32}, r"model.d_model: 16 -> 32"),
        ({"key_dim": 5}, r"model.key_dim: None -> 5"),
        ({"activation": "gelu"}, r"model.activation: relu -> gelu"),
        (
            {"num_heads": 4, "num_decoder_layers": 2},
            r"decoder_layers: 1 -> 2; model.num_heads: 2 -> 4",
        ),
    ],
)
def test_other_architecture_is_refused_with_its_settings(
    tmp_path: Path, base_model: Path, reversal_store: Store, change: dict[str, Any], message: str
) -> None:
    config = altered(fine_tuning(tmp_path / "run", base_model, reversal_store), model=change)
    with pytest.raises(ConfigError, match=f"{message}. Leave out these settings"):
        run(config, reversal_store)
    assert not (tmp_path / "run").exists()


def test_dropout_may_differ_from_the_base_model(
    tmp_path: Path, base_model: Path, reversal_store: Store
) -> None:
    names = ("dropout", "embedding_dropout", "word_dropout", "attention_dropout")
    dropouts = dict.fromkeys((*names, "activation_dropout"), 0.35)
    config = altered(fine_tuning(tmp_path, base_model, reversal_store, max_steps=2), model=dropouts)
    run(config, reversal_store)
    assert load_model(tmp_path, CPU)[0].config == config.model


def test_max_positions_may_differ_unless_positions_are_learned(
    tmp_path: Path, base_model: Path, reversal_store: Store
) -> None:
    longer = altered(
        fine_tuning(tmp_path, base_model, reversal_store), model={"max_positions": 999}
    )
    assert to_tree(initialize_for(longer, reversal_store)[0].config)["max_positions"] == 999
    learned = {"positional_encoding": "learned", "max_positions": 64}
    other = altered(small_run(tmp_path / "learned", reversal_store, max_steps=1), model=learned)
    run(other, reversal_store)
    longer = altered(other, out=str(tmp_path / "longer"), init_from=other.out)
    with pytest.raises(ConfigError, match="max_positions: 64 -> 999"):
        initialize_for(altered(longer, model={"max_positions": 999}), reversal_store)


def settings(base_model: Path | str, *assignments: str) -> RunConfig:
    changes = {"out": "somewhere", "init_from": str(base_model)}
    return build_run_config(None, preset=None, changes=changes, assignments=assignments)


def test_settings_override_those_of_the_base_model(base_model: Path) -> None:
    old = ModelFolder.read(base_model).config
    assert settings(base_model).model == old
    config = settings(base_model, "model.dropout=0.5", "training.max_steps=3")
    assert config.model == dataclasses.replace(old, dropout=0.5)
    assert config.training.max_steps == 3


def test_none_means_random_initialization(base_model: Path) -> None:
    assert settings("none") == settings(base_model, "init_from=none")
    assert settings("none").init_from is None


def test_model_that_is_not_a_table_is_refused(base_model: Path) -> None:
    with pytest.raises(ConfigError, match=r"model is .* but must be a table"):
        settings(base_model, "model=tiny")


def test_unusable_base_model_is_refused(
    tmp_path: Path, base_model: Path, reversal_store: Store
) -> None:
    with pytest.raises(ModelError, match="There is no model folder"):
        settings(tmp_path / "nowhere")
    bare = tmp_path / "bare"
    shutil.copytree(base_model, bare, ignore=shutil.ignore_patterns(WEIGHTS))
    for folder, message in ((tmp_path / "nowhere", "no model folder"), (bare, "is incomplete")):
        with pytest.raises(RegardError, match=message):
            run(fine_tuning(tmp_path / "run", folder, reversal_store), reversal_store)
    assert not (tmp_path / "run").exists()


def test_data_statistics_include_those_of_the_base_model(
    tmp_path: Path, base_model: Path, reversal_store: Store
) -> None:
    base = ModelFolder.read(base_model)
    statistics = DataStatistics(
        longest_source=base.data_statistics.longest_source + 90, several_sentences=0.5
    )
    dataclasses.replace(base, data_statistics=statistics).write(tmp_path / "changed")
    write_tensors(tmp_path / "changed" / WEIGHTS, inference_weights(base_model), {})
    run(
        fine_tuning(tmp_path / "tuned", tmp_path / "changed", reversal_store, max_steps=1),
        reversal_store,
    )
    tuned = ModelFolder.read(tmp_path / "tuned")
    assert tuned.data_statistics == statistics
    assert tuned.languages == base.languages


def test_run_is_resumed_without_its_base_model(
    tmp_path: Path, base_model: Path, reversal_store: Store
) -> None:
    shutil.copytree(base_model, tmp_path / "base")
    changes = {"init_from": str(tmp_path / "base"), "out": str(tmp_path / "tuned")}

    def settings(steps: int) -> RunConfig:
        assignments = [f"training.max_steps={steps}", "training.tensorboard=false"]
        return build_run_config(None, preset=None, changes=changes, assignments=assignments)

    run(settings(2), reversal_store)
    shutil.rmtree(tmp_path / "base")
    run(settings(4), reversal_store)
    assert ModelFolder.read(tmp_path / "tuned").config.d_model == 16


def test_fine_tuning_has_a_lower_default_learning_rate(tmp_path: Path, base_model: Path) -> None:
    changes = {"init_from": str(base_model), "out": str(tmp_path)}
    for preset in (None, "tiny"):
        config = build_run_config(None, preset=preset, changes=changes, assignments=[])
        assert config.training.learning_rate == 2e-4
    for assignment, rate in (
        ("learning_rate=1", 1.0),
        ("lora.rank=4", 2e-3),
        ("lora.rank=0", 2e-4),
    ):
        config = build_run_config(
            None, preset=None, changes=changes, assignments=[f"training.{assignment}"]
        )
        assert config.training.learning_rate == rate


def test_run_can_be_initialized_from_a_checkpoint(
    tmp_path: Path, base_model: Path, reversal_store: Store
) -> None:
    checkpoint = base_model / "checkpoints" / "00000005"
    run(fine_tuning(tmp_path, checkpoint, reversal_store, learning_rate=0.0), reversal_store)
    before, after = read_tensors(checkpoint / WEIGHTS)[0], read_tensors(tmp_path / WEIGHTS)[0]
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
