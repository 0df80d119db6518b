"""Fixtures and helpers of distillation tests: a small teacher."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.data.sampling import Shard
from regard.data.store import Store
from regard.data.target_replacement import TargetReplacement
from regard.decoding.config import DistillConfig
from regard.pipelines.distill import Distillation
from regard.pipelines.translator import Translator
from toys import run, small_run

CHUNK_SIZE = 100  # of about 350 sentences: three full chunks and a smaller one


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    """A briefly trained model."""
    out = tmp_path_factory.mktemp("teacher") / "reversal"
    run(small_run(out, reversal_store, max_steps=60, checkpoint_every=60), reversal_store)
    return out


@pytest.fixture(scope="module")
def translator(teacher: Path) -> Translator:
    return Translator.load(teacher, device="cpu")


def config(**changes: Any) -> DistillConfig:
    return build(DistillConfig, {"search": {"beam_size": 2}, "chunk_size": CHUNK_SIZE, **changes})


def work_on(
    work: Distillation,
    translator: Translator,
    shard: Shard | None = None,
    *,
    stop_after: int = 10,
    similarity: Callable[[str, str], float] = lambda text, old: 0.0,
) -> TargetReplacement | None:
    """Translate a shard, or only some chunks of it, and join the chunks if none is missing."""
    shard = shard or Shard()
    with work.locked_shard(shard) as folder:
        chunks = work.missing_chunks(shard)[:stop_after]
        translated = work.translate(
            chunks, folder, translator, similarity=similarity, batch_size=32, notice=pytest.fail
        )
        assert [*translated] == chunks
    return work.join()
