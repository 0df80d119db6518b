"""A run on running text that stopped goes on as if it had not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.models.folder import WEIGHTS
from toys import altered, run, some_run, write_text_store

KINDS: dict[str, dict[str, Any]] = {
    "causal": {"kind": "causal", "max_positions": 8},
    "masked": {"kind": "masked", "max_positions": 8},
    "next sentence": {"kind": "masked", "max_positions": 9, "segments": 2, "next_sentence": True},
    "xl": {"kind": "xl", "max_positions": 8, "memory": 12},
    "permuted": {"kind": "permuted", "max_positions": 8, "memory": 12},
    "xl, each document for itself": {
        "kind": "xl",
        "max_positions": 8,
        "memory": 12,
        "across_documents": False,
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_is_uninterrupted(kind: str, tmp_path: Path) -> None:
    store = write_text_store(tmp_path)
    whole = some_run(tmp_path / "whole", store, KINDS[kind])
    parts = altered(whole, out=str(tmp_path / "parts"))
    run(whole, store)
    for steps in (3, 10, 20):
        run(altered(parts, training={"max_steps": steps}), store)
    one, other = ((tmp_path / name / WEIGHTS).read_bytes() for name in ("whole", "parts"))
    assert one == other
