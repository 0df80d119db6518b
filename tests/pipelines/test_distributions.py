"""Stored distributions are the teacher's softmax at each target position."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distilling import config, teacher, translator, work_on
from regard.data.batch import Batch
from regard.data.distributions import DISTRIBUTIONS, read_distributions
from regard.data.pairs import with_eos
from regard.data.sampling import Shard
from regard.data.store import Store
from regard.decoding.wrappers import average_log_probs
from regard.errors import ConfigError, DataError, RunError
from regard.models.base import Model
from regard.pipelines.distill import Distillation, refuse_unsuitable_teacher
from regard.pipelines.translator import Translator
from toys import write_reversal_store

__all__ = ["teacher", "translator"]  # fixtures


@pytest.fixture(scope="module")
def mixed(
    tmp_path_factory: pytest.TempPathFactory,
    reversal_store: Store,
    teacher: Path,
    translator: Translator,
) -> Store:
    """A result with the original pairs after the new ones, by one process."""
    out = tmp_path_factory.mktemp("mixed") / "distilled"
    work = Distillation(reversal_store, [teacher], out, config(distributions=3, mix=True))
    assert work_on(work, translator) is not None
    return Store(out)


def softmax(models: list[Model], store: Store, index: int) -> Any:
    """The distribution at each position of a training target, EOS included. (T + 1, V)"""
    part = store.part("train")
    batch = Batch(with_eos([part.source[index]]), with_eos([part.target[index]]))
    predictions = [model(batch) for model in models]
    log_probs = [each.project(each.hidden).log_softmax(-1) for each in predictions]
    return average_log_probs(log_probs).exp().detach()


def test_distributions_match_the_softmax(mixed: Store, translator: Translator) -> None:
    stored, part = read_distributions(mixed), mixed.part("train")
    assert stored.lengths().tolist() == (part.target.lengths() + 1).tolist()
    for index in range(0, len(part), 7):
        best = softmax(translator.models, mixed, index).topk(3)
        np.testing.assert_allclose(
            stored[index]["probabilities"], best.values.numpy(), rtol=2e-3, atol=1e-5
        )
        distinct = np.diff(best.values.numpy(), append=0) < -1e-4  # rounding may swap others
        ordered = distinct & np.roll(distinct, 1, 1)
        ordered[:, 0] = distinct[:, 0]
        assert ordered.any()
        np.testing.assert_array_equal(stored[index]["ids"][ordered], best.indices.numpy()[ordered])
    assert stored.flat()["ids"].dtype == np.uint16
    assert stored.flat()["probabilities"].dtype == np.float16


def test_interrupted_and_sharded_distributions_are_the_same(
    mixed: Store, reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    out = tmp_path / "distilled"
    settings = config(distributions=3, mix=True)
    work_on(Distillation(reversal_store, [teacher], out, settings), translator, Shard(1, 2))
    chunks = tmp_path / "distilled.portions"
    assert sorted(path.name for path in chunks.glob("2-of-2/0*")) == [
        f"00000{number}.{kind}" for number in (1, 3) for kind in ("new", "old", "txt")
    ]
    (chunks / "2-of-2" / "000003.old").unlink()  # as if only the texts were copied
    work = Distillation(reversal_store, [teacher], out, settings)
    assert work.missing_chunks(Shard()) == [0, 2, 3]
    assert work_on(work, translator) is not None
    assert (out / DISTRIBUTIONS).read_bytes() == (mixed.folder / DISTRIBUTIONS).read_bytes()
    assert not chunks.exists()


def test_distributions_of_an_ensemble_are_averaged(
    reversal_store: Store, teacher: Path, tmp_path: Path
) -> None:
    shutil.copytree(teacher, tmp_path / "second")
    ensemble = Translator.load(teacher, tmp_path / "second", device="cpu")
    for parameter in ensemble.models[1].parameters():
        parameter.data += 0.05
    [(ids, probabilities)] = ensemble.likeliest(["a b c"], [[7, 8]], 4)
    tokenizer = reversal_store.tokenizers.source
    batch = Batch(with_eos([tokenizer.encode("a b c")]), with_eos([[7, 8]]))
    predictions = [model(batch) for model in ensemble.models]
    first, second = (each.project(each.hidden).softmax(-1) for each in predictions)
    best = ((first + second) / 2).topk(4)
    np.testing.assert_allclose(probabilities, best.values.detach().numpy(), rtol=1e-4)
    np.testing.assert_array_equal(ids, best.indices.numpy())


def test_unsupported_settings_are_refused(
    mixed: Store, reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    char_store = write_reversal_store(tmp_path, valid=True, tokenizer="char")
    with pytest.raises(ConfigError, match="use different target tokenizers"):
        refuse_unsuitable_teacher(translator, char_store, config(distributions=3))
    with pytest.raises(
        ConfigError, match=r"--distributions 999 exceeds the vocabulary of \d+ subwords"
    ):
        refuse_unsuitable_teacher(translator, reversal_store, config(distributions=999))
    out = tmp_path / "distilled"
    work_on(Distillation(reversal_store, [teacher], out, config()), translator, stop_after=1)
    other = Distillation(reversal_store, [teacher], out, config(distributions=3))
    with pytest.raises(RunError, match="distributions: 0 -> 3"), other.locked_shard(Shard()):
        pass


def test_errors_of_missing_or_damaged_distributions(
    mixed: Store, reversal_store: Store, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"has no teacher distributions\. Make a folder with"):
        read_distributions(reversal_store)
    damaged = tmp_path / "damaged"
    shutil.copytree(mixed.folder, damaged)
    content = bytearray((damaged / DISTRIBUTIONS).read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / DISTRIBUTIONS).write_bytes(content)
    with pytest.raises(DataError, match="its digest differs"):
        read_distributions(Store(damaged))
    os.truncate(damaged / DISTRIBUTIONS, 100)
    with pytest.raises(DataError, match="does not match the store"):
        read_distributions(Store(damaged))
    (damaged / DISTRIBUTIONS).unlink()
    with pytest.raises(DataError, match="is missing"):
        read_distributions(Store(damaged))
