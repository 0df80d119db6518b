"""Word-level distillation from stored distributions, and fine-tuning with a teacher."""

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
from regard.data.pairs import concatenate_rows, with_eos
from regard.data.sampling import Position
from regard.data.store import Store
from regard.errors import ConfigError, DataError
from regard.files import write_json
from regard.models.folder import WEIGHTS, read_tensors
from regard.models.nonautoregressive import FertilityPredictions
from regard.tasks import task_of
from regard.tasks.nonautoregressive_translation import NonAutoregressiveObjective
from regard.tasks.teacher_risk import reverse_kl, teacher_risk
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import (
    altered,
    nonautoregressive_model,
    run,
    sentences,
    small_transformer,
    some_run,
    write_model_folder,
    write_reversal_store,
)


def batch() -> FertilityBatch:
    """Random pairs in which every source token has fertility 1."""
    sources = sentences(6)
    targets = [line[::-1] for line in sources]
    fertilities = concatenate_rows([[1] * len(line) for line in sources], last=0)
    return FertilityBatch(with_eos(sources), with_eos(targets), fertilities=fertilities)


def one_hot_distributions(tokens: torch.Tensor) -> Distributions:
    """Distributions of two tokens, with all probability on the targets."""
    token_ids = torch.stack([tokens, torch.full_like(tokens, 5)], 1)
    return Distributions(token_ids, torch.tensor([[0.5, 0.0]]).repeat(len(tokens), 1).half())


@pytest.mark.parametrize("nonautoregressive", [False, True])
@pytest.mark.parametrize("passes", [1, 2])
def test_one_hot_teacher_equals_the_target(nonautoregressive: bool, passes: int) -> None:
    pairs = batch()
    model = nonautoregressive_model() if nonautoregressive else small_transformer()
    distilled_pairs = DistilledFertilityBatch(
        *pairs.sides,
        fertilities=pairs.fertilities,
        distributions=one_hot_distributions(pairs.target.tokens),
    )
    r_drop = 1e-9 if passes == 2 else 0.0
    config = TrainingConfig(label_smoothing=0.0, r_drop=r_drop, word_distillation=0.7)
    objective = Objective(config)
    if nonautoregressive:
        objective = NonAutoregressiveObjective(model, config)
    plain, distilled = objective(model, pairs), objective(model, distilled_pairs)
    torch.testing.assert_close(distilled.total, plain.total)
    torch.testing.assert_close(distilled.nll, plain.nll)


def test_reverse_kl_matches_its_definition() -> None:
    model, teacher, pairs = nonautoregressive_model(), small_transformer(3), batch()
    predictions = model(pairs)
    assert predictions.lengths is not None
    kls, eos_nlls = reverse_kl(
        teacher, pairs.source, predictions.hidden, predictions.project, predictions.lengths
    )
    sizes = predictions.lengths.lengths.tolist()
    probabilities = predictions.project(predictions.hidden).softmax(-1).split(sizes)
    sources = pairs.source.tokens.split(pairs.source.lengths.lengths.tolist())
    for source, probs, kl, eos_nll in zip(sources, probabilities, kls, eos_nlls, strict=True):
        allowed = probs.clone()
        allowed[:, :4] = 0  # no special tokens
        output = allowed.argmax(-1).tolist()
        pair = Batch(with_eos([source.tolist()[:-1]]), with_eos([output]))
        teacher_predictions = teacher(pair)
        *log_probs, last = teacher_predictions.project(teacher_predictions.hidden).log_softmax(-1)
        expected = -(probs * torch.stack(log_probs)).sum()
        torch.testing.assert_close(kl, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(eos_nll, -last[3], rtol=1e-4, atol=1e-4)


def test_fertilities_are_trained_by_reinforce() -> None:
    """The gradient is that of the log-probability of the samples, times a factor per sentence."""
    model, teacher, pairs = nonautoregressive_model().train(), small_transformer(3), batch()
    predictions = model(pairs)
    assert isinstance(predictions, FertilityPredictions)
    torch.manual_seed(1)
    term = teacher_risk(model, teacher, pairs.source, predictions)
    (gradient,) = torch.autograd.grad(term, predictions.fertilities.logits)
    torch.manual_seed(1)
    log_probs = predictions.fertilities.logits.log_softmax(-1)
    sampled = torch.multinomial(log_probs.detach().exp(), 1)
    (score,) = torch.autograd.grad(
        log_probs.gather(1, sampled).sum(), predictions.fertilities.logits
    )
    ratio = (gradient * score).sum(-1) / (score * score).sum(-1)  # one factor for each sentence
    torch.testing.assert_close(gradient, ratio[:, None] * score, rtol=1e-3, atol=1e-4)
    for part in ratio.split(pairs.source.lengths.lengths.tolist()):
        torch.testing.assert_close(part, part[:1].expand_as(part), rtol=1e-3, atol=1e-3)


def test_training_reduces_the_reverse_kl() -> None:
    model, teacher, pairs = nonautoregressive_model().train(), small_transformer(3), batch()
    config = TrainingConfig(teacher="somewhere", teacher_weight=1.0)
    objective = NonAutoregressiveObjective(model, config, teacher)
    updater = Updater(model, make_optimizer(model, config), objective)

    def total_kl() -> float:
        predictions = model(pairs)
        assert predictions.lengths is not None
        kl, _ = reverse_kl(
            teacher, pairs.source, predictions.hidden, predictions.project, predictions.lengths
        )
        return float(kl.detach().sum())

    before = total_kl()
    for step in range(1, 81):
        updater([pairs], step=step, rate=1e-3)
    assert total_kl() < 0.7 * before


@pytest.fixture
def distilled_store(tmp_path: Path) -> Store:
    """The reversal store with fertilities and one-hot distributions of a teacher."""
    store = write_reversal_store(tmp_path, valid=True)
    for name in ("train", "valid"):
        lengths = store.part(name).source.lengths()
        write_fertilities(store.folder, name, [np.ones(length, np.int64) for length in lengths])
    targets = store.part("train").target
    pairs = []
    for index in range(len(targets)):
        token_ids = np.append(targets[index], 3)[:, None]
        pairs.append((token_ids, np.ones(token_ids.shape)))
    write_distributions(store.folder / DISTRIBUTIONS, store.description["dtype"], pairs)
    description = {**store.description, "distilled": {"distributions": 1}}
    write_json(store.folder / "store.json", with_checksums(description, store.folder))
    return Store(store.folder)


@pytest.mark.parametrize("kind", ["transformer", "nonautoregressive"])
def test_batches_contain_distributions(tmp_path: Path, distilled_store: Store, kind: str) -> None:
    config = some_run(tmp_path / "run", distilled_store, {"kind": kind}, word_distillation=0.5)
    data = task_of(config.model).training_data(distilled_store, config)
    _, first = next(Loader(data, 300, seed=1).batches(Position()))
    assert isinstance(first, DistilledBatch)
    assert isinstance(first, FertilityBatch) == (kind == "nonautoregressive")
    assert torch.equal(first.distributions.token_ids[:, 0], first.target.tokens)


def test_fine_tuning_with_a_teacher_resumes(tmp_path: Path, distilled_store: Store) -> None:
    teacher = write_model_folder(tmp_path / "teacher", distilled_store)
    model = {"kind": "nonautoregressive", "norm_order": "pre"}
    settings = {"teacher": str(teacher), "word_distillation": 0.5, "max_steps": 8}
    whole = some_run(tmp_path / "whole", distilled_store, model, **settings)
    run(whole, distilled_store)
    part = altered(whole, out=str(tmp_path / "parts"), training={"max_steps": 5})
    run(part, distilled_store)
    run(altered(part, training={"max_steps": 8}), distilled_store)
    whole_weights, part_weights = (
        read_tensors(tmp_path / name / WEIGHTS)[0] for name in ("whole", "parts")
    )
    assert all(torch.equal(tensor, part_weights[name]) for name, tensor in whole_weights.items())


def test_unsuitable_teachers_are_refused(
    tmp_path: Path, distilled_store: Store, reversal_store: Store
) -> None:
    model = {"kind": "nonautoregressive", "norm_order": "pre"}
    student = write_model_folder(tmp_path / "student", distilled_store, kind="nonautoregressive")
    with pytest.raises(ConfigError, match="must be autoregressive"):
        run(
            some_run(tmp_path / "one", distilled_store, model, teacher=str(student)),
            distilled_store,
        )
    with pytest.raises(ConfigError, match=r"training\.teacher has no effect"):
        some_run(tmp_path / "two", distilled_store, {}, teacher=str(student))
    ctc = {**model, "length_prediction": "ctc"}
    with pytest.raises(ConfigError, match="length_prediction=fertility"):
        some_run(tmp_path / "two", distilled_store, ctc, teacher=str(student))
    with pytest.raises(ConfigError, match="word_distillation"):
        some_run(tmp_path / "three", distilled_store, ctc, word_distillation=1)
    with pytest.raises(DataError, match="--distributions"):
        run(some_run(tmp_path / "four", reversal_store, {}, word_distillation=0.5), reversal_store)
    sampling = some_run(tmp_path / "five", distilled_store, {}, word_distillation=0.5)
    with pytest.raises(ConfigError, match="subword_nbest_size"):
        run(altered(sampling, data={"subword_nbest_size": 2}), distilled_store)
