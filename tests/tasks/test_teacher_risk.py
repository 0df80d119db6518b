"""What a teacher says: word by word from the disk, and of what a model writes itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.batch import (
    Batch,
    DistilledBatch,
    DistilledFertilityBatch,
    Distributions,
    FertilityBatch,
)
from regard.data.content import with_checksums
from regard.data.distributions import DISTRIBUTIONS, write_distributions
from regard.data.fertilities import write_fertilities
from regard.data.loader import Loader
from regard.data.pairs import joined, with_ends
from regard.data.sampling import Position
from regard.data.store import Store
from regard.errors import ConfigError, DataError
from regard.files import write_json
from regard.models.folder import WEIGHTS, read_tensors
from regard.models.nonautoregressive import FertilityPredictions
from regard.tasks import task_of
from regard.tasks.nonautoregressive_translation import NonAutoregressiveObjective
from regard.tasks.teacher_risk import disagreement, teacher_risk
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import (
    altered,
    parallel_model,
    run,
    sentences,
    small_model,
    some_run,
    write_model_folder,
    write_reversal_store,
)


def batch() -> FertilityBatch:
    """Every source token stands for one target token."""
    sources = sentences(6)
    targets = [line[::-1] for line in sources]
    counts = joined([[1] * len(line) for line in sources], last=0)
    return FertilityBatch(with_ends(sources), with_ends(targets), fertilities=counts)


def surely(tokens: torch.Tensor) -> Distributions:
    """A teacher that finds the targets and nothing else likely, of two words that it names."""
    words = torch.stack([tokens, torch.full_like(tokens, 5)], 1)
    return Distributions(words, torch.tensor([[0.5, 0.0]]).repeat(len(tokens), 1).half())


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("passes", [1, 2])
def test_a_sure_teacher_is_the_target(at_once: bool, passes: int) -> None:
    pairs = batch()
    model = parallel_model() if at_once else small_model()
    taught_pairs = DistilledFertilityBatch(
        *pairs.sides,
        fertilities=pairs.fertilities,
        distributions=surely(pairs.target.tokens),
    )
    r_drop = 1e-9 if passes == 2 else 0.0
    config = TrainingConfig(label_smoothing=0.0, r_drop=r_drop, word_distillation=0.7)
    objective = Objective(config)
    if at_once:
        objective = NonAutoregressiveObjective(model, config)
    plain, taught = objective(model, pairs), objective(model, taught_pairs)
    torch.testing.assert_close(taught.total, plain.total)
    torch.testing.assert_close(taught.nll, plain.nll)


def test_disagreement_is_its_definition() -> None:
    model, teacher, pairs = parallel_model(), small_model(3), batch()
    said = model(pairs)
    assert said.lengths is not None
    found, ends = disagreement(teacher, pairs.source, said.hidden, said.project, said.lengths)
    sizes = said.lengths.lengths.tolist()
    likely = said.project(said.hidden).softmax(-1).split(sizes)
    sources = pairs.source.tokens.split(pairs.source.lengths.lengths.tolist())
    for source, own, risk, end in zip(sources, likely, found, ends, strict=True):
        allowed = own.clone()
        allowed[:, :4] = 0  # marks are not written
        written = allowed.argmax(-1).tolist()
        alone = Batch(with_ends([source.tolist()[:-1]]), with_ends([written]))
        answer = teacher(alone)
        *judged, last = answer.project(answer.hidden).log_softmax(-1)
        expected = -(own * torch.stack(judged)).sum()
        torch.testing.assert_close(risk, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(end, -last[3], rtol=1e-4, atol=1e-4)


def test_fertilities_learn_from_what_they_lead_to() -> None:
    """Their gradient is that of the chance of what was drawn, times how much worse it was."""
    model, teacher, pairs = parallel_model().train(), small_model(3), batch()
    said = model(pairs)
    assert isinstance(said, FertilityPredictions)
    torch.manual_seed(1)
    term = teacher_risk(model, teacher, pairs.source, said)
    (found,) = torch.autograd.grad(term, said.fertilities.logits)
    torch.manual_seed(1)
    chances = said.fertilities.logits.log_softmax(-1)
    drawn = torch.multinomial(chances.detach().exp(), 1)
    (each,) = torch.autograd.grad(chances.gather(1, drawn).sum(), said.fertilities.logits)
    ratio = (found * each).sum(-1) / (each * each).sum(-1)  # one factor for each sentence
    torch.testing.assert_close(found, ratio[:, None] * each, rtol=1e-3, atol=1e-4)
    for part in ratio.split(pairs.source.lengths.lengths.tolist()):
        torch.testing.assert_close(part, part[:1].expand_as(part), rtol=1e-3, atol=1e-3)


def test_words_come_to_agree_with_the_teacher() -> None:
    model, teacher, pairs = parallel_model().train(), small_model(3), batch()
    config = TrainingConfig(teacher="somewhere", teacher_weight=1.0)
    objective = NonAutoregressiveObjective(model, config, teacher)
    update = Updater(model, make_optimizer(model, config), objective)

    def risk() -> float:
        said = model(pairs)
        assert said.lengths is not None
        found, _ = disagreement(teacher, pairs.source, said.hidden, said.project, said.lengths)
        return float(found.detach().sum())

    before = risk()
    for step in range(1, 81):
        update([pairs], step=step, rate=1e-3)
    assert risk() < 0.7 * before


@pytest.fixture
def taught_store(tmp_path: Path) -> Store:
    """Reversals with fertilities and with a teacher that is sure of them."""
    store = write_reversal_store(tmp_path, valid=True)
    for name in ("train", "valid"):
        lengths = store.part(name).source.lengths()
        write_fertilities(store.folder, name, [np.ones(length, np.int64) for length in lengths])
    targets = store.part("train").target
    pairs = []
    for index in range(len(targets)):
        words = np.append(targets[index], 3)[:, None]
        pairs.append((words, np.ones(words.shape)))
    write_distributions(store.folder / DISTRIBUTIONS, store.description["dtype"], pairs)
    description = {**store.description, "distilled": {"distributions": 1}}
    write_json(store.folder / "store.json", with_checksums(description, store.folder))
    return Store(store.folder)


@pytest.mark.parametrize("kind", ["transformer", "nonautoregressive"])
def test_distributions_come_with_batches(tmp_path: Path, taught_store: Store, kind: str) -> None:
    config = some_run(tmp_path / "run", taught_store, {"kind": kind}, word_distillation=0.5)
    data = task_of(config.model).training_data(taught_store, config)
    _, first = next(Loader(data, 300, seed=1).batches(Position()))
    assert isinstance(first, DistilledBatch)
    assert isinstance(first, FertilityBatch) == (kind == "nonautoregressive")
    assert torch.equal(first.distributions.words[:, 0], first.target.tokens)


def test_fine_tuning_with_a_teacher_resumes(tmp_path: Path, taught_store: Store) -> None:
    teacher = write_model_folder(tmp_path / "teacher", taught_store)
    model = {"kind": "nonautoregressive", "norm_order": "pre"}
    settings = {"teacher": str(teacher), "word_distillation": 0.5, "max_steps": 8}
    whole = some_run(tmp_path / "whole", taught_store, model, **settings)
    run(whole, taught_store)
    part = altered(whole, out=str(tmp_path / "parts"), training={"max_steps": 5})
    run(part, taught_store)
    run(altered(part, training={"max_steps": 8}), taught_store)
    one, other = (read_tensors(tmp_path / name / WEIGHTS)[0] for name in ("whole", "parts"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_teacher_must_fit(tmp_path: Path, taught_store: Store, reversal_store: Store) -> None:
    model = {"kind": "nonautoregressive", "norm_order": "pre"}
    pupil = write_model_folder(tmp_path / "pupil", taught_store, kind="nonautoregressive")
    with pytest.raises(ConfigError, match="must be autoregressive"):
        run(some_run(tmp_path / "one", taught_store, model, teacher=str(pupil)), taught_store)
    with pytest.raises(ConfigError, match=r"training\.teacher has no effect"):
        some_run(tmp_path / "two", taught_store, {}, teacher=str(pupil))
    ctc = {**model, "lengths": "ctc"}
    with pytest.raises(ConfigError, match="lengths=fertility"):
        some_run(tmp_path / "two", taught_store, ctc, teacher=str(pupil))
    with pytest.raises(ConfigError, match="word_distillation"):
        some_run(tmp_path / "three", taught_store, ctc, word_distillation=1)
    with pytest.raises(DataError, match="--distributions"):
        run(some_run(tmp_path / "four", reversal_store, {}, word_distillation=0.5), reversal_store)
    sampling = some_run(tmp_path / "five", taught_store, {}, word_distillation=0.5)
    with pytest.raises(ConfigError, match="sampling_candidates"):
        run(altered(sampling, data={"sampling_candidates": 2}), taught_store)
