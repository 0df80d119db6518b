"""The execution plan, and, on a GPU, that CUDA graphs give the same updates as eager execution."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.cuda_graphs import capture_stream
from regard.data.batch import Batch
from regard.data.shapes import BatchShape
from regard.distributed import DistributedContext
from regard.errors import ConfigError
from regard.layers.adapters import LoraConfig, add_adapters
from regard.models.folder import read_tensors
from regard.tasks import task_of
from regard.training.checkpoint import OPTIMIZER, checkpoint_folders
from regard.training.config import RunConfig, TrainingConfig
from regard.training.execution_plan import ExecutionPlan
from regard.training.loop import train
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import (
    CollectingCallback,
    add_fertilities,
    altered,
    batch_for_kind,
    pairs,
    random_model,
    small_run,
    write_reversal_store,
)

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_cpu_does_not_support_cuda_graphs(tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=False)
    config = small_run(tmp_path / "run", store)
    assert re.fullmatch(r"CPU with \d+ threads?, float32", str(ExecutionPlan.choose(config, CPU)))
    bfloat16 = altered(config, training={"precision": "bfloat16"})
    assert str(ExecutionPlan.choose(bfloat16, CPU)).endswith(", bfloat16")
    with pytest.raises(ConfigError, match="requires a GPU"):
        ExecutionPlan.choose(altered(config, training={"cuda_graphs": True}), CPU)


def test_several_processes_do_not_support_cuda_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.training.execution_plan.has_triton", lambda: True)
    config = small_run(tmp_path / "run", write_reversal_store(tmp_path, valid=False))
    assert ExecutionPlan.choose(config, GPU).cuda_graphs
    assert not ExecutionPlan.choose(config, GPU, DistributedContext(1, 2)).cuda_graphs
    with pytest.raises(ConfigError, match="several processes reduce gradients"):
        ExecutionPlan.choose(
            altered(config, training={"cuda_graphs": True}), GPU, DistributedContext(1, 2)
        )


@needs_gpu
@pytest.mark.parametrize(
    "model", [{"norm": "batch"}, {"attention": {"select": "hard"}}, {"attention": {"score": "dot"}}]
)
def test_models_that_depend_on_padding_do_not_support_cuda_graphs(
    tmp_path: Path, model: dict[str, Any]
) -> None:
    store = write_reversal_store(tmp_path, valid=False)
    config = altered(small_run(tmp_path / "run", store), model=model)
    assert not ExecutionPlan.choose(config, GPU).cuda_graphs
    with pytest.raises(ConfigError, match="Leave it out"):
        ExecutionPlan.choose(altered(config, training={"cuda_graphs": True}), GPU)


VARIANTS: dict[str, dict[str, Any]] = {
    "Transformer": {"attention_dropout": 0.1},
    "convolutional": {"kind": "convolutional"},
    "wide convolutional": {"kind": "convolutional", "d_model": 256},
    "CTC": {"kind": "nonautoregressive", "length_prediction": "ctc"},
    "fertilities": {"kind": "nonautoregressive"},
    "GPT": {"kind": "causal"},
    "BERT": {"kind": "masked"},
    "UniLM": {"kind": "unilm"},
}


def train_updates(
    variant: dict[str, Any], batches: list[Batch], *, cuda_graphs: bool, **settings: Any
) -> tuple[Tensor, list[Tensor]]:
    """The losses of updates of two batches each, and the weights after them."""
    kind = variant.get("kind", "transformer")
    model = random_model(0, dropout=0.2, **{**variant, "kind": kind}).to(GPU).train()
    if kind == "nonautoregressive":
        settings["glancing"] = 0.5
    config = TrainingConfig(**settings)
    if config.lora.rank:
        add_adapters(model, config.lora)
    objective = task_of(model.config).new_objective(
        model, RunConfig("unused", init_from="unused", model=model.config, training=config)
    )
    updater = Updater(model, make_optimizer(model, config), objective)
    sums = []
    with capture_stream(GPU):
        if cuda_graphs:
            updater.capture(8 * 64)
        for step in range(1, len(batches)):
            update = updater(batches[step - 1 : step + 1], step=step, rate=1e-2)
            sums.append(update.sums / update.tokens)
    return torch.stack(sums), [weights.detach() for weights in model.parameters()]


@needs_gpu
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_captured_updates_equal_eager_updates(weight: float, variant: dict[str, Any]) -> None:
    counts, kind = (20, 30, 20, 30, 21, 31, 3, 20, 30), variant.get("kind", "transformer")
    batches = [batch_for_kind(kind, pairs(count, seed=count)) for count in counts]
    if variant == VARIANTS["fertilities"]:
        batches = [add_fertilities(batch) for batch in batches]
    padded = [BatchShape.bucket(batch, 64, 128).filled(batch) for batch in batches]
    expected, weights = train_updates(variant, padded, cuda_graphs=False, r_drop=weight)
    actual, actual_weights = train_updates(variant, batches, cuda_graphs=True, r_drop=weight)
    if kind in ("masked", "unilm"):  # a captured update computes all positions
        assert_close(actual, expected, rtol=1e-3, atol=1e-3)
        return
    assert torch.equal(actual, expected)
    assert all(map(torch.equal, weights, actual_weights))


@needs_gpu
@pytest.mark.parametrize("variant", ["Transformer", "convolutional", "GPT"])
def test_captured_updates_with_adapters_and_layer_decay(variant: str) -> None:
    kind = VARIANTS[variant].get("kind", "transformer")
    batches = [batch_for_kind(kind, pairs(count, seed=count)) for count in (20, 30, 20, 30, 20, 30)]
    padded = [BatchShape.bucket(batch, 64, 128).filled(batch) for batch in batches]
    settings = {"lora": LoraConfig(rank=2, dropout=0.2, target_modules="all"), "layer_decay": 0.5}
    expected, weights = train_updates(VARIANTS[variant], padded, cuda_graphs=False, **settings)
    actual, actual_weights = train_updates(VARIANTS[variant], batches, cuda_graphs=True, **settings)
    assert torch.equal(actual, expected)
    assert all(map(torch.equal, weights, actual_weights))


@needs_gpu
def test_run_with_cuda_graphs_is_resumed_exactly(tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=True)
    saved = []
    for name, stops in (("whole", [20]), ("parts", [3, 10, 20])):
        for stop in stops:
            config = small_run(tmp_path / name, store, max_steps=stop, cuda_graphs=True)
            train(config, store, task_of(config.model), GPU, callback=CollectingCallback())
        last = checkpoint_folders(tmp_path / name)[-1]
        saved.append(read_tensors(last / OPTIMIZER)[0])
    assert saved[0].keys() == saved[1].keys()
    assert all(torch.equal(saved[0][name], saved[1][name]) for name in saved[0])
