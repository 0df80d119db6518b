"""A teacher that knows a little, and its work, portion by portion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.data.retarget import Retargeted
from regard.data.sampling import Turn
from regard.data.store import Store
from regard.decoding.config import DistillConfig
from regard.decoding.distill import Distillation
from regard.decoding.translator import Translator
from toys import run, small_run

PORTION = 100  # of some 350 sentences: three portions and a part


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    """A model that knows a little."""
    out = tmp_path_factory.mktemp("teacher") / "reversal"
    run(small_run(out, reversal_store, max_steps=60, checkpoint_every=60), reversal_store)
    return out


@pytest.fixture(scope="module")
def translator(teacher: Path) -> Translator:
    return Translator.load(teacher, device="cpu")


def config(**changes: Any) -> DistillConfig:
    return build(DistillConfig, {"search": {"beam_size": 2}, "portion": PORTION, **changes})


def work_on(
    work: Distillation,
    translator: Translator,
    turn: Turn | None = None,
    *,
    stop_after: int = 10,
    nearness: Callable[[str, str], float] = lambda text, old: 0.0,
) -> Retargeted | None:
    """Do a share, or only some portions of it, and join if that was the last."""
    turn = turn or Turn()
    with work.held(turn) as folder:
        for portion in work.missing(turn)[:stop_after]:
            work.translate(
                portion, folder, translator, batch_size=32, nearness=nearness, notice=pytest.fail
            )
    return work.join()
