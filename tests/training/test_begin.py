"""Fine-tuning: a run that begins with a trained model."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import as_tree
from regard.data.store import Store
from regard.errors import ConfigError, ModelError, RegardError
from regard.models.folder import (
    WEIGHTS,
    ModelFolder,
    Training,
    load_model,
    read_tensors,
    shown_weights,
    weights_of,
    write_tensors,
)
from regard.tasks.recipes import run_config
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import altered, begun_on, run, small_run, validated, write_reversal_store

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    """A trained model."""
    out = tmp_path_factory.mktemp("origin") / "run"
    run(small_run(out, reversal_store, max_steps=10), reversal_store)
    return out


def tuning(out: Path, origin: Path, store: Store, **training: Any) -> RunConfig:
    """The settings of a run that begins with a model."""
    config = small_run(out, store, **{"learning_rate": 0.001, **training})
    return altered(config, init_from=str(origin))


def test_it_begins_with_the_weights_and_the_loss_of_the_model(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    config = tuning(tmp_path, origin, reversal_store)
    model = begun_on(config, reversal_store)[1].eval()
    for name, tensor in read_tensors(origin / WEIGHTS)[0].items():
        assert torch.equal(weights_of(model)[name], tensor)
    loss = validated(model, reversal_store, config).loss
    assert loss == min(row["valid_loss"] for row in read_metrics(origin) if "valid_loss" in row)


@pytest.mark.parametrize(
    "method",
    [
        {},
        {"ema_decay": 0.9, "average_last": 3},
        {"ema_decay": 0.9, "average_best": 3, "r_drop": 1.0},
        {"optimizer": "adamw", "weight_decay": 0.5, "schedule": "linear"},
    ],
)
def test_at_a_rate_of_zero_nothing_is_forgotten(
    tmp_path: Path, origin: Path, reversal_store: Store, method: dict[str, Any]
) -> None:
    config = tuning(tmp_path, origin, reversal_store, learning_rate=0.0, max_steps=17, **method)
    run(config, reversal_store)
    before, after = read_tensors(origin / WEIGHTS)[0], read_tensors(tmp_path / WEIGHTS)[0]
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_it_learns_from_where_it_begins(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    run(tuning(tmp_path / "tuned", origin, reversal_store), reversal_store)
    run(small_run(tmp_path / "fresh", reversal_store, learning_rate=0.001), reversal_store)
    tuned, fresh, old = (
        min(row["valid_loss"] for row in read_metrics(path) if "valid_loss" in row)
        for path in (tmp_path / "tuned", tmp_path / "fresh", origin)
    )
    assert tuned < old < fresh


def test_data_of_another_tokenizer_is_refused(tmp_path: Path, origin: Path) -> None:
    store = write_reversal_store(tmp_path, valid=False, tokenizer="unigram")
    with pytest.raises(ConfigError, match=f"`regard prepare --tokenizer-from {origin}`"):
        run(tuning(tmp_path / "run", origin, store), store)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"width": 32}, r"model.width: 16 -> 32"),
        ({"key_width": 5}, r"model.key_width: None -> 5"),
        ({"activation": "gelu"}, r"model.activation: relu -> gelu"),
        ({"heads": 4, "decoder_layers": 2}, r"decoder_layers: 1 -> 2; model.heads: 2 -> 4"),
    ],
)
def test_another_form_is_refused_by_its_settings(
    tmp_path: Path, origin: Path, reversal_store: Store, change: dict[str, Any], named: str
) -> None:
    config = altered(tuning(tmp_path / "run", origin, reversal_store), model=change)
    with pytest.raises(ConfigError, match=f"{named}. Leave these settings out"):
        run(config, reversal_store)
    assert not (tmp_path / "run").exists()


def test_dropouts_are_no_part_of_the_form(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    names = ("dropout", "embedding_dropout", "word_dropout", "attention_dropout")
    dropouts = dict.fromkeys((*names, "activation_dropout"), 0.35)
    config = altered(tuning(tmp_path, origin, reversal_store, max_steps=2), model=dropouts)
    run(config, reversal_store)
    assert load_model(tmp_path, CPU)[0].config == config.model


def test_a_limit_of_length_is_no_part_of_the_form_unless_positions_were_learned(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    longer = altered(tuning(tmp_path, origin, reversal_store), model={"max_positions": 999})
    assert as_tree(begun_on(longer, reversal_store)[0].config)["max_positions"] == 999
    learned = {"positions": "learned", "max_positions": 64}
    other = altered(small_run(tmp_path / "learned", reversal_store, max_steps=1), model=learned)
    run(other, reversal_store)
    longer = altered(other, out=str(tmp_path / "longer"), init_from=other.out)
    with pytest.raises(ConfigError, match="max_positions: 64 -> 999"):
        begun_on(altered(longer, model={"max_positions": 999}), reversal_store)


def settings(origin: Path | str, *assignments: str) -> RunConfig:
    changes = {"out": "somewhere", "init_from": str(origin)}
    return run_config(None, preset=None, changes=changes, assignments=assignments)


def test_the_form_comes_with_the_model_and_what_is_told_lies_above(origin: Path) -> None:
    old = ModelFolder.read(origin).config
    assert settings(origin).model == old
    told = settings(origin, "model.dropout=0.5", "training.max_steps=3")
    assert told.model == dataclasses.replace(old, dropout=0.5)
    assert told.training.max_steps == 3


def test_none_is_no_folder(origin: Path) -> None:
    assert settings("none") == settings(origin, "init_from=none")
    assert settings("none").init_from is None


def test_a_model_that_is_no_table_is_said_so(origin: Path) -> None:
    with pytest.raises(ConfigError, match=r"model is .* and must be a table"):
        settings(origin, "model=tiny")


def test_a_folder_that_cannot_be_begun_with_is_said_so(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    with pytest.raises(ModelError, match="There is no model folder"):
        settings(tmp_path / "nowhere")
    bare = tmp_path / "bare"
    shutil.copytree(origin, bare, ignore=shutil.ignore_patterns(WEIGHTS))
    for folder, named in ((tmp_path / "nowhere", "no model folder"), (bare, "is incomplete")):
        with pytest.raises(RegardError, match=named):
            run(tuning(tmp_path / "run", folder, reversal_store), reversal_store)
    assert not (tmp_path / "run").exists()


def test_what_the_model_has_seen_is_not_forgotten(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    older = ModelFolder.read(origin)
    seen = Training(longest_source=older.seen.longest_source + 90, several_sentences=0.5)
    dataclasses.replace(older, seen=seen).write(tmp_path / "wise")
    write_tensors(tmp_path / "wise" / WEIGHTS, shown_weights(origin), {})
    run(tuning(tmp_path / "tuned", tmp_path / "wise", reversal_store, max_steps=1), reversal_store)
    tuned = ModelFolder.read(tmp_path / "tuned")
    assert tuned.seen == seen
    assert tuned.languages == older.languages


def test_it_goes_on_when_its_origin_is_gone(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    shutil.copytree(origin, tmp_path / "origin")
    changes = {"init_from": str(tmp_path / "origin"), "out": str(tmp_path / "tuned")}

    def settings(steps: int) -> RunConfig:
        assignments = [f"training.max_steps={steps}", "training.tensorboard=false"]
        return run_config(None, preset=None, changes=changes, assignments=assignments)

    run(settings(2), reversal_store)
    shutil.rmtree(tmp_path / "origin")
    run(settings(4), reversal_store)
    assert ModelFolder.read(tmp_path / "tuned").config.width == 16


def test_its_rate_is_one_that_does_not_spoil_the_model(tmp_path: Path, origin: Path) -> None:
    changes = {"init_from": str(origin), "out": str(tmp_path)}
    for preset in (None, "tiny"):
        found = run_config(None, preset=preset, changes=changes, assignments=[])
        assert found.training.learning_rate == 2e-4
    for told, rate in (("learning_rate=1", 1.0), ("lora.rank=4", 2e-3), ("lora.rank=0", 2e-4)):
        own = run_config(None, preset=None, changes=changes, assignments=[f"training.{told}"])
        assert own.training.learning_rate == rate


def test_it_may_begin_with_a_checkpoint(
    tmp_path: Path, origin: Path, reversal_store: Store
) -> None:
    checkpoint = origin / "checkpoints" / "00000005"
    run(tuning(tmp_path, checkpoint, reversal_store, learning_rate=0.0), reversal_store)
    before, after = read_tensors(checkpoint / WEIGHTS)[0], read_tensors(tmp_path / WEIGHTS)[0]
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
