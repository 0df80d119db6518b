"""What was seen a segment ago: a model with a memory learns to tell, and one without cannot.

And words in any order, from whatever is seen around them.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from regard.config import build
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.data.text_files import TextReader
from regard.text.config import TokenizerConfig
from toys import run, some_run, write_text_store

SEGMENT, LETTERS = 6, "abcdefgh"


def write_echo_store(folder: Path) -> Store:
    """Six letters, which come sixteen times before others do: each is as six letters ago."""
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
def test_only_a_memory_reaches_back_a_segment(memory: int, tmp_path: Path) -> None:
    store = write_echo_store(tmp_path)
    shape = {
        "kind": "xl",
        "width": 32,
        "heads": 2,
        "feedforward_width": 32,
        "dropout": 0.0,
        "max_positions": SEGMENT,
        "memory": memory,
    }
    out = tmp_path / "run"
    seen = run(some_run(out, store, shape, max_steps=250, checkpoint_every=250, seed=5), store)
    loss = min(row["valid_loss"] for row in seen.rows if "valid_loss" in row)
    blind = math.log(len(LETTERS))
    if memory:
        assert loss < 0.5 * blind  # one letter in sixteen is new
    else:
        assert loss > 0.95 * blind


def test_a_letter_is_found_from_those_around_it(tmp_path: Path) -> None:
    store = write_text_store(tmp_path)
    shape = {
        "kind": "permuted",
        "layers": 2,
        "width": 32,
        "heads": 2,
        "feedforward_width": 64,
        "dropout": 0.0,
        "max_positions": 16,
        "memory": 8,
        "one_in": 4,
    }
    changes = {"max_steps": 400, "checkpoint_every": 200, "label_smoothing": 0.0}
    seen = run(some_run(tmp_path / "run", store, shape, **changes), store)
    loss = min(row["valid_loss"] for row in seen.rows if "valid_loss" in row)
    assert loss < 1.0  # that of a letter drawn from 26 is 3.3
