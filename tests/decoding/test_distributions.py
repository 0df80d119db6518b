"""A teacher's distributions are its softmax at each place of the targets that the store has."""

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
from regard.data.pairs import with_ends
from regard.data.sampling import Turn
from regard.data.store import Store
from regard.decoding.distill import Distillation, refuse_unsuitable
from regard.decoding.translator import Translator
from regard.decoding.wrappers import mean_probability
from regard.errors import ConfigError, DataError, RunError
from regard.models.base import Model
from toys import write_reversal_store

__all__ = ["teacher", "translator"]  # fixtures


@pytest.fixture(scope="module")
def mixed(
    tmp_path_factory: pytest.TempPathFactory,
    reversal_store: Store,
    teacher: Path,
    translator: Translator,
) -> Store:
    """With the old pairs after the new ones, by one process that was never stopped."""
    out = tmp_path_factory.mktemp("mixed") / "distilled"
    work = Distillation(reversal_store, [teacher], out, config(distributions=3, mix=True))
    assert work_on(work, translator) is not None
    return Store(out)


def softmax(models: list[Model], store: Store, index: int) -> Any:
    """At each place of a training target, its end among them. (T + 1, V)"""
    part = store.part("train")
    batch = Batch(with_ends([part.source[index]]), with_ends([part.target[index]]))
    found = [model(batch) for model in models]
    logs = [one.project(one.hidden).log_softmax(-1) for one in found]
    return mean_probability(logs).exp().detach()


def test_they_are_the_softmax_at_each_place(mixed: Store, translator: Translator) -> None:
    found, part = read_distributions(mixed), mixed.part("train")
    assert found.lengths().tolist() == (part.target.lengths() + 1).tolist()
    for index in range(0, len(part), 7):
        best = softmax(translator.models, mixed, index).topk(3)
        np.testing.assert_allclose(
            found[index]["probabilities"], best.values.numpy(), rtol=2e-3, atol=1e-5
        )
        apart = np.diff(best.values.numpy(), append=0) < -1e-4  # rounding may turn others round
        leads = apart & np.roll(apart, 1, 1)
        leads[:, 0] = apart[:, 0]
        assert leads.any()
        np.testing.assert_array_equal(found[index]["ids"][leads], best.indices.numpy()[leads])
    assert found.flat()["ids"].dtype == np.uint16
    assert found.flat()["probabilities"].dtype == np.float16


def test_stops_and_shares_change_nothing(
    mixed: Store, reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    out = tmp_path / "distilled"
    settings = config(distributions=3, mix=True)
    work_on(Distillation(reversal_store, [teacher], out, settings), translator, Turn(1, 2))
    portions = tmp_path / "distilled.portions"
    assert sorted(path.name for path in portions.glob("2-of-2/0*")) == [
        f"00000{number}.{kind}" for number in (1, 3) for kind in ("new", "old", "txt")
    ]
    (portions / "2-of-2" / "000003.old").unlink()  # as if only texts had been copied
    work = Distillation(reversal_store, [teacher], out, settings)
    assert work.missing(Turn()) == [0, 2, 3]
    assert work_on(work, translator) is not None
    assert (out / DISTRIBUTIONS).read_bytes() == (mixed.folder / DISTRIBUTIONS).read_bytes()
    assert not portions.exists()


def test_an_ensemble_has_one_distribution(
    reversal_store: Store, teacher: Path, tmp_path: Path
) -> None:
    shutil.copytree(teacher, tmp_path / "second")
    both = Translator.load(teacher, tmp_path / "second", device="cpu")
    with_noise = both.models[1]
    for parameter in with_noise.parameters():
        parameter.data += 0.05
    [(ids, probabilities)] = both.likeliest(["a b c"], [[7, 8]], 4)
    tokenizer = reversal_store.tokenizers.source
    batch = Batch(with_ends([tokenizer.encode("a b c")]), with_ends([[7, 8]]))
    own = [one.project(one.hidden).softmax(-1) for one in (model(batch) for model in both.models)]
    best = ((own[0] + own[1]) / 2).topk(4)
    np.testing.assert_allclose(probabilities, best.values.detach().numpy(), rtol=1e-4)
    np.testing.assert_array_equal(ids, best.indices.numpy())


def test_what_cannot_be_is_refused(
    mixed: Store, reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    spelled = write_reversal_store(tmp_path, valid=True, tokenizer="char")
    with pytest.raises(ConfigError, match="writes other subwords than"):
        refuse_unsuitable(translator, spelled, config(distributions=3))
    with pytest.raises(ConfigError, match=r"--distributions 999: there are only \d+ subwords"):
        refuse_unsuitable(translator, reversal_store, config(distributions=999))
    out = tmp_path / "distilled"
    work_on(Distillation(reversal_store, [teacher], out, config()), translator, stop_after=1)
    other = Distillation(reversal_store, [teacher], out, config(distributions=3))
    with pytest.raises(RunError, match="distributions: 0 -> 3"), other.held(Turn()):
        pass


def test_a_store_without_them_says_so(mixed: Store, reversal_store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no distributions of a teacher\. Make a folder with"):
        read_distributions(reversal_store)
    damaged = tmp_path / "damaged"
    shutil.copytree(mixed.folder, damaged)
    content = bytearray((damaged / DISTRIBUTIONS).read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / DISTRIBUTIONS).write_bytes(content)
    with pytest.raises(DataError, match="its digest differs"):
        read_distributions(Store(damaged))
    os.truncate(damaged / DISTRIBUTIONS, 100)
    with pytest.raises(DataError, match="of other text than the store"):
        read_distributions(Store(damaged))
    (damaged / DISTRIBUTIONS).unlink()
    with pytest.raises(DataError, match="is missing"):
        read_distributions(Store(damaged))
