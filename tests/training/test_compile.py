"""Compiled blocks give the same losses as eager ones. Compiling takes a minute on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.training.metrics_log import read_metrics
from toys import run, small_run, write_reversal_store


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # the compiler warns
def test_compiled_blocks_give_the_same_losses(tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=True)
    losses = {}
    for compiled in (False, True):
        out = tmp_path / str(compiled)
        run(small_run(out, store, compile=compiled, max_steps=12, log_every=1), store)
        losses[compiled] = [row["loss"] for row in read_metrics(out) if "loss" in row]
    assert losses[True] == pytest.approx(losses[False], rel=1e-4)
