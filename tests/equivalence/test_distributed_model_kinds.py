"""Two processes train the same as one, for every model kind that supports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from equivalence.test_distributed_training import assert_same_training, train_distributed
from labelled import write_labelled_store, write_tagged_store
from regard.data.store import Store
from regard.distributed import DistributedContext
from regard.errors import ConfigError
from regard.tasks import task_of
from regard.training.config import RunConfig
from regard.training.loop import Trainer
from toys import CollectingCallback, altered, run, some_run, write_reversal_store, write_text_store

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT": ("text", {"kind": "causal"}),
    "BERT": ("text", {"kind": "masked"}),
    "tagger": ("tagged", {"kind": "tagger"}),
    "tagger with CRF": ("tagged", {"kind": "tagger", "crf": True, "char_embedding_dim": 4}),
    "classifier": ("labelled", {"kind": "classifier"}),
    "UniLM": (
        "pairs",
        {"kind": "unilm", "masks": {"left_to_right": 1.0, "bidirectional": 1.0}},
    ),
    "CTC": (
        "pairs",
        {"kind": "nonautoregressive", "length_prediction": "ctc", "positional_attention": False},
    ),
    "recurrent": ("pairs", {"kind": "recurrent"}),
    "convolutional": ("pairs", {"kind": "convolutional"}),
}
CASES = [f"{kind}, {size}" for kind in KINDS for size in ("large batches", "empty shards")]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    return {
        "text": write_text_store(tmp_path_factory.mktemp("text")),
        "tagged": write_tagged_store(tmp_path_factory.mktemp("tagged")),
        "labelled": write_labelled_store(tmp_path_factory.mktemp("labelled")),
        "pairs": write_reversal_store(tmp_path_factory.mktemp("pairs"), valid=True),
    }


def run_settings(name: str, folder: Path, stores: dict[str, Store]) -> RunConfig:
    kind, size = name.split(", ")
    content, model = KINDS[kind]
    training = {"max_steps": 10, "log_every": 1, "label_smoothing": 0.0}
    config = some_run(folder / name, stores[content], {**model, "dropout": 0.0}, **training)
    return altered(config, data={"batch_tokens": 300 if size == "large batches" else 12})


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory, stores: dict[str, Store]) -> Path:
    folder = tmp_path_factory.mktemp("two")
    train_distributed([run_settings(name, folder, stores) for name in CASES], folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_the_same_as_one(
    name: str, two_processes: Path, tmp_path: Path, stores: dict[str, Store]
) -> None:
    config = run_settings(name, tmp_path, stores)
    run(config, stores[KINDS[name.split(", ")[0]][0]])
    assert_same_training(two_processes / name, tmp_path / name)


@pytest.mark.parametrize(
    ("content", "model", "message"),
    [
        ("text", {"kind": "xl"}, "memory of one process"),
        ("text", {"kind": "permuted"}, "memory of one process"),
        (
            "text",
            {"kind": "masked", "next_sentence": True, "num_segments": 2},
            "set model.next_sentence=false",
        ),
        ("pairs", {"kind": "nonautoregressive"}, "model.length_prediction=ctc"),
    ],
)
def test_unsupported_kinds_are_refused_with_advice(
    content: str, model: dict[str, Any], message: str, tmp_path: Path, stores: dict[str, Store]
) -> None:
    config = some_run(tmp_path / "run", stores[content], model)
    task = task_of(config.model)
    with pytest.raises(ConfigError, match=message):
        Trainer(
            config,
            stores[content],
            task,
            torch.device("cpu"),
            CollectingCallback(),
            DistributedContext(0, 2),
        )
