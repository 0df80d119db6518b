"""The conditional random field against all paths, written out one by one."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import Tensor

from labelled import first_illegal
from regard.data.ragged import Lengths, Ragged
from regard.layers.crf import Crf, legal

FREE = ["x", "y", "z"]
BIO = ["O", "B-a", "I-a", "B-b", "I-b"]


def some(labels: list[str], lengths: list[int], seed: int = 0) -> tuple[Crf, Tensor, Lengths]:
    torch.manual_seed(seed)
    crf = Crf(labels)
    for weight in crf.parameters():
        torch.nn.init.normal_(weight)
    return crf, 2 * torch.randn(sum(lengths), len(labels)), Lengths.of(lengths)


def all_paths(crf: Crf, scores: Tensor, labels: list[str]) -> dict[tuple[int, ...], Tensor]:
    """Every legal path through one sentence, and what it scores, by the definition."""
    found = {}
    for path in itertools.product(range(len(labels)), repeat=len(scores)):
        if labels is BIO and first_illegal([BIO[label] for label in path]) is not None:
            continue
        total = scores.new_zeros(())
        if path:
            total = crf.begin[path[0]] + crf.end[path[-1]]
        total = total + sum(scores[place, label] for place, label in enumerate(path))
        found[path] = total + sum(
            crf.follow[before, after] for before, after in itertools.pairwise(path)
        )
    return found


CASES = [[4, 1, 3], [0, 3, 2], [1], [2, 0], [0, 0]]


@pytest.mark.parametrize("labels", [FREE, BIO])
@pytest.mark.parametrize("lengths", CASES)
def test_the_loss_counts_every_path(labels: list[str], lengths: list[int]) -> None:
    crf, scores, places = some(labels, lengths)
    draw = random.Random(1)
    gold, expected = [], []
    for part in scores.split(lengths):
        paths = all_paths(crf, part, labels)
        gold.append(list(draw.choice(list(paths))))
        expected.append(torch.stack(list(paths.values())).logsumexp(0) - paths[tuple(gold[-1])])
    own = Ragged(torch.tensor([label for one in gold for label in one]).long(), places)
    found = crf.negative_log_likelihood(scores, own)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("labels", [FREE, BIO])
@pytest.mark.parametrize("lengths", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_the_best_path_is_the_best_of_all(labels: list[str], lengths: list[int], seed: int) -> None:
    crf, scores, places = some(labels, lengths, seed)
    found = crf.best_paths(scores, places).split(lengths)
    for part, path in zip(scores.split(lengths), found, strict=True):
        paths = all_paths(crf, part, labels)
        assert tuple(path.tolist()) == max(paths, key=lambda one: paths[one].item())


@pytest.mark.parametrize("labels", [FREE, BIO])
@pytest.mark.parametrize("lengths", CASES)
def test_marginals_are_shares_of_all_paths(labels: list[str], lengths: list[int]) -> None:
    crf, scores, places = some(labels, lengths)
    found = crf.marginals(scores, places)
    for part, own in zip(scores.split(lengths), found.split(lengths), strict=True):
        paths = all_paths(crf, part, labels)
        expected = torch.zeros_like(part)
        shares = torch.stack(list(paths.values())).softmax(0)
        for path, share in zip(paths, shares, strict=True):
            for place, label in enumerate(path):
                expected[place, label] += share
        torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-4)


def test_gradients_are_those_of_differences() -> None:
    crf, scores, _ = some(BIO, [3, 0, 4])
    crf = crf.double()
    labels = Ragged.of([[1, 2, 0], [], [0, 3, 4, 4]])
    parameters = tuple(crf.parameters())
    torch.autograd.gradcheck(
        lambda scores, *_: crf.negative_log_likelihood(scores, labels),
        (scores.double().requires_grad_(), *parameters),
    )


def test_what_is_impossible_has_no_gradient_and_is_never_found() -> None:
    crf, scores, places = some(BIO, [3, 4])
    scores[:, BIO.index("I-b")] += 1000.0
    labels = Ragged.of([[0, 1, 2], [3, 4, 0, 0]])
    crf.negative_log_likelihood(scores, labels).sum().backward()
    for weight in crf.parameters():
        assert weight.grad is not None
        assert weight.grad.isfinite().all()
    assert crf.begin.grad is not None
    assert crf.follow.grad is not None
    assert (crf.begin.grad[~crf.may_begin] == 0).all()
    assert (crf.follow.grad[~crf.may_follow] == 0).all()
    for path in crf.best_paths(scores, places).split([3, 4]):
        assert first_illegal([BIO[label] for label in path]) is None


def test_a_type_that_never_begins_breaks_nothing() -> None:
    crf, scores, places = some(["O", "I-a"], [3])
    loss = crf.negative_log_likelihood(scores.requires_grad_(), Ragged.of([[0, 0, 0]]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-5)  # there is one legal path
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert crf.best_paths(scores.detach(), places).tolist() == [0, 0, 0]


def test_legality_follows_from_names() -> None:
    begin, follow = legal(BIO)
    assert begin.tolist() == [True, True, False, True, False]
    assert follow.tolist() == [
        [True, True, False, True, False],  # after O
        [True, True, True, True, False],  # after B-a
        [True, True, True, True, False],
        [True, True, False, True, True],
        [True, True, False, True, True],
    ]
    assert all(part.all() for part in legal(FREE))


def test_a_sentence_does_not_see_its_batch() -> None:
    lengths = [5, 0, 1, 9, 3]
    crf, scores, places = some(BIO, lengths)
    path = crf.best_paths(scores, places)
    loss = crf.negative_log_likelihood(scores, Ragged(path, places))
    marginals = crf.marginals(scores, places.up_to(12))
    parts = zip(scores.split(lengths), path.split(lengths), loss, strict=True)
    for number, (part, own, cost) in enumerate(parts):
        alone = Lengths.of([lengths[number]])
        assert torch.equal(crf.best_paths(part, alone), own)
        again = crf.negative_log_likelihood(part, Ragged(own, alone))
        torch.testing.assert_close(again[0], cost, atol=1e-5, rtol=1e-5)
        expected = marginals.split(lengths)[number]
        torch.testing.assert_close(crf.marginals(part, alone), expected)


def test_autocast_changes_nothing() -> None:
    crf, scores, places = some(BIO, [40, 7])
    labels = Ragged(crf.best_paths(scores, places), places)
    expected = crf.negative_log_likelihood(scores.bfloat16().float(), labels)
    with torch.autocast("cpu", torch.bfloat16):
        found = crf.negative_log_likelihood(scores.bfloat16(), labels)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
