"""A resumed run on plain text equals an uninterrupted run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.models.folder import WEIGHTS
from toys import altered, run, some_run, write_text_store

KINDS: dict[str, dict[str, Any]] = {
    "causal": {"kind": "causal", "max_positions": 8},
    "masked": {"kind": "masked", "max_positions": 8},
    "next sentence": {
        "kind": "masked",
        "max_positions": 9,
        "num_segments": 2,
        "next_sentence": True,
    },
    "xl": {"kind": "xl", "max_positions": 8, "memory_length": 12},
    "permuted": {"kind": "permuted", "max_positions": 8, "memory_length": 12},
    "xl, within documents": {
        "kind": "xl",
        "max_positions": 8,
        "memory_length": 12,
        "across_documents": False,
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_run_on_plain_text_is_resumed_exactly(kind: str, tmp_path: Path) -> None:
    store = write_text_store(tmp_path)
    whole = some_run(tmp_path / "whole", store, KINDS[kind])
    parts = altered(whole, out=str(tmp_path / "parts"))
    run(whole, store)
    for steps in (3, 10, 20):
        run(altered(parts, training={"max_steps": steps}), store)
    expected, actual = ((tmp_path / name / WEIGHTS).read_bytes() for name in ("whole", "parts"))
    assert actual == expected
