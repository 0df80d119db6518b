"""What is chosen where; and, on a GPU, that what is replayed is what would be done."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.data.batch import Batch
from regard.data.shapes import Shape
from regard.errors import ConfigError
from regard.layers.adapters import LoraConfig, adapt
from regard.models.folder import read_tensors
from regard.processes import Team
from regard.recording import recordable
from regard.tasks import task_of
from regard.training.checkpoint import OPTIMIZER, folders
from regard.training.config import RunConfig, TrainingConfig
from regard.training.engine import Engine
from regard.training.loop import train
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import (
    Silent,
    altered,
    any_model,
    fertile,
    pairs,
    read_by,
    small_run,
    write_reversal_store,
)

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_cpu_replays_nothing(tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=False)
    config = small_run(tmp_path / "run", store)
    assert re.fullmatch(r"CPU with \d+ threads?, float32", str(Engine.chosen(config, CPU)))
    half = altered(config, training={"precision": "bfloat16"})
    assert str(Engine.chosen(half, CPU)).endswith(", bfloat16")
    with pytest.raises(ConfigError, match="needs a GPU"):
        Engine.chosen(altered(config, training={"replay": True}), CPU)


def test_several_processes_replay_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.training.engine.has_triton", lambda: True)
    config = small_run(tmp_path / "run", write_reversal_store(tmp_path, valid=False))
    assert Engine.chosen(config, GPU).replay
    assert not Engine.chosen(config, GPU, Team(1, 2)).replay
    with pytest.raises(ConfigError, match="several processes exchange gradients"):
        Engine.chosen(altered(config, training={"replay": True}), GPU, Team(1, 2))


@needs_gpu
@pytest.mark.parametrize(
    "model", [{"norm": "batch"}, {"attention": {"select": "hard"}}, {"attention": {"score": "dot"}}]
)
def test_what_would_notice_filler_is_not_replayed(tmp_path: Path, model: dict[str, Any]) -> None:
    store = write_reversal_store(tmp_path, valid=False)
    config = altered(small_run(tmp_path / "run", store), model=model)
    assert not Engine.chosen(config, GPU).replay
    with pytest.raises(ConfigError, match="Leave it unset"):
        Engine.chosen(altered(config, training={"replay": True}), GPU)


FORMS: dict[str, dict[str, Any]] = {
    "Transformer": {"attention_dropout": 0.1},
    "convolutional": {"kind": "convolutional"},
    "wide convolutional": {"kind": "convolutional", "width": 256},
    "CTC": {"kind": "nonautoregressive", "lengths": "ctc"},
    "fertilities": {"kind": "nonautoregressive"},
    "GPT": {"kind": "causal"},
    "BERT": {"kind": "masked"},
    "UniLM": {"kind": "unilm"},
}


def learned(
    form: dict[str, Any], batches: list[Batch], *, replay: bool, **settings: Any
) -> tuple[Tensor, list[Tensor]]:
    """The sums of some updates, each of two batches, and the weights after them."""
    kind = form.get("kind", "transformer")
    model = any_model(0, dropout=0.2, **{**form, "kind": kind}).to(GPU).train()
    if kind == "nonautoregressive":
        settings["glancing"] = 0.5
    config = TrainingConfig(**settings)
    if config.lora.rank:
        adapt(model, config.lora)
    objective = task_of(model.config).new_objective(
        model, RunConfig("unused", init_from="unused", model=model.config, training=config)
    )
    updater = Updater(model, make_optimizer(model, config), objective)
    sums = []
    with recordable(GPU):
        if replay:
            updater.replay(8 * 64)
        for step in range(1, len(batches)):
            done = updater(batches[step - 1 : step + 1], step=step, rate=1e-2)
            sums.append(done.sums / done.tokens)
    return torch.stack(sums), [weights.detach() for weights in model.parameters()]


@needs_gpu
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_what_is_replayed_is_what_would_be_done(weight: float, form: dict[str, Any]) -> None:
    counts, kind = (20, 30, 20, 30, 21, 31, 3, 20, 30), form.get("kind", "transformer")
    batches = [read_by(kind, pairs(count, seed=count)) for count in counts]
    if form == FORMS["fertilities"]:
        batches = [fertile(batch) for batch in batches]
    filled = [Shape.around(batch, 64, 128).filled(batch) for batch in batches]
    expected, weights = learned(form, filled, replay=False, r_drop=weight)
    found, also = learned(form, batches, replay=True, r_drop=weight)
    if kind in ("masked", "unilm"):  # recorded, all places are looked at
        assert_close(found, expected, rtol=1e-3, atol=1e-3)
        return
    assert torch.equal(found, expected)
    assert all(map(torch.equal, weights, also))


@needs_gpu
@pytest.mark.parametrize("form", ["Transformer", "convolutional", "GPT"])
def test_adapters_and_rates_by_depth_are_replayed(form: str) -> None:
    kind = FORMS[form].get("kind", "transformer")
    batches = [read_by(kind, pairs(count, seed=count)) for count in (20, 30, 20, 30, 20, 30)]
    filled = [Shape.around(batch, 64, 128).filled(batch) for batch in batches]
    settings = {"lora": LoraConfig(rank=2, dropout=0.2, layers="all"), "layer_decay": 0.5}
    expected, weights = learned(FORMS[form], filled, replay=False, **settings)
    found, also = learned(FORMS[form], batches, replay=True, **settings)
    assert torch.equal(found, expected)
    assert all(map(torch.equal, weights, also))


@needs_gpu
def test_a_replayed_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=True)
    saved = []
    for name, stops in (("whole", [20]), ("parts", [3, 10, 20])):
        for stop in stops:
            config = small_run(tmp_path / name, store, max_steps=stop, replay=True)
            train(config, store, task_of(config.model), GPU, watcher=Silent())
        last = folders(tmp_path / name)[-1]
        saved.append(read_tensors(last / OPTIMIZER)[0])
    assert saved[0].keys() == saved[1].keys()
    assert all(torch.equal(saved[0][name], saved[1][name]) for name in saved[0])
