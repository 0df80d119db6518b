"""A task that requires a memory of the previous segment, and training of a permuted model."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from regard.config import build
from regard.data.plain_text_files import TextReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.text.config import TokenizerConfig
from toys import run, some_run, write_text_store

SEGMENT, LETTERS = 6, "abcdefgh"


def write_echo_store(folder: Path) -> Store:
    """Blocks of six random letters, each repeated sixteen times."""
    draw = random.Random(5)
    for part, blocks in (("train", 60), ("valid", 15)):
        words = [word for _ in range(blocks) for word in draw.choices(LETTERS, k=SEGMENT) * 16]
        (folder / f"{part}.txt").write_text(" ".join(words) + "\n")
    prepare(
        TextReader({part: [folder / f"{part}.txt"] for part in ("train", "valid")}),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300}),
    )
    return Store(folder / "prepared")


@pytest.mark.parametrize("memory", [0, SEGMENT])
def test_memory_extends_the_context(memory: int, tmp_path: Path) -> None:
    store = write_echo_store(tmp_path)
    shape = {
        "kind": "xl",
        "d_model": 32,
        "num_heads": 2,
        "ffn_dim": 32,
        "dropout": 0.0,
        "max_positions": SEGMENT,
        "memory_length": memory,
    }
    out = tmp_path / "run"
    watcher = run(some_run(out, store, shape, max_steps=250, checkpoint_every=250, seed=5), store)
    loss = min(row["valid_loss"] for row in watcher.rows if "valid_loss" in row)
    uniform_loss = math.log(len(LETTERS))
    if memory:
        assert loss < 0.5 * uniform_loss  # one letter in sixteen is new
    else:
        assert loss > 0.95 * uniform_loss


def test_permuted_model_learns_from_both_sides(tmp_path: Path) -> None:
    store = write_text_store(tmp_path)
    shape = {
        "kind": "permuted",
        "num_layers": 2,
        "d_model": 32,
        "num_heads": 2,
        "ffn_dim": 64,
        "dropout": 0.0,
        "max_positions": 16,
        "memory_length": 8,
        "partial_prediction_k": 4,
    }
    changes = {"max_steps": 400, "checkpoint_every": 200, "label_smoothing": 0.0}
    watcher = run(some_run(tmp_path / "run", store, shape, **changes), store)
    loss = min(row["valid_loss"] for row in watcher.rows if "valid_loss" in row)
    assert loss < 1.0  # that of a letter drawn from 26 is 3.3
