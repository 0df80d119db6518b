"""The conditional random field against an enumeration of all paths."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import Tensor

from labelled import first_illegal
from regard.data.ragged import Lengths, Ragged
from regard.layers.crf import Crf, valid_transitions

FREE = ["x", "y", "z"]
BIO = ["O", "B-a", "I-a", "B-b", "I-b"]


def random_crf(labels: list[str], lengths: list[int], seed: int = 0) -> tuple[Crf, Tensor, Lengths]:
    torch.manual_seed(seed)
    crf = Crf(labels)
    for weight in crf.parameters():
        torch.nn.init.normal_(weight)
    return crf, 2 * torch.randn(sum(lengths), len(labels)), Lengths.of(lengths)


def all_paths(crf: Crf, scores: Tensor, labels: list[str]) -> dict[tuple[int, ...], Tensor]:
    """All valid paths of one sentence with their scores, by the definition."""
    actual = {}
    for path in itertools.product(range(len(labels)), repeat=len(scores)):
        if labels is BIO and first_illegal([BIO[label] for label in path]) is not None:
            continue
        total = scores.new_zeros(())
        if path:
            total = crf.begin[path[0]] + crf.end[path[-1]]
        total = total + sum(scores[position, label] for position, label in enumerate(path))
        actual[path] = total + sum(
            crf.follow[before, after] for before, after in itertools.pairwise(path)
        )
    return actual


CASES = [[4, 1, 3], [0, 3, 2], [1], [2, 0], [0, 0]]


@pytest.mark.parametrize("labels", [FREE, BIO])
@pytest.mark.parametrize("lengths", CASES)
def test_loss_sums_over_all_paths(labels: list[str], lengths: list[int]) -> None:
    crf, scores, positions = random_crf(labels, lengths)
    draw = random.Random(1)
    gold, expected = [], []
    for sentence_scores in scores.split(lengths):
        paths = all_paths(crf, sentence_scores, labels)
        gold.append(list(draw.choice(list(paths))))
        expected.append(torch.stack(list(paths.values())).logsumexp(0) - paths[tuple(gold[-1])])
    expected_labels = Ragged(
        torch.tensor([label for path in gold for label in path]).long(), positions
    )
    actual = crf.negative_log_likelihood(scores, expected_labels)
    torch.testing.assert_close(actual, torch.stack(expected), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("labels", [FREE, BIO])
@pytest.mark.parametrize("lengths", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_viterbi_finds_the_best_path(labels: list[str], lengths: list[int], seed: int) -> None:
    crf, scores, positions = random_crf(labels, lengths, seed)
    actual = crf.best_paths(scores, positions).split(lengths)
    for sentence_scores, path in zip(scores.split(lengths), actual, strict=True):
        paths = all_paths(crf, sentence_scores, labels)
        assert tuple(path.tolist()) == max(paths, key=lambda candidate: paths[candidate].item())


@pytest.mark.parametrize("labels", [FREE, BIO])
@pytest.mark.parametrize("lengths", CASES)
def test_marginals_sum_over_all_paths(labels: list[str], lengths: list[int]) -> None:
    crf, scores, positions = random_crf(labels, lengths)
    actual = crf.marginals(scores, positions)
    for sentence_scores, expected_labels in zip(
        scores.split(lengths), actual.split(lengths), strict=True
    ):
        paths = all_paths(crf, sentence_scores, labels)
        expected = torch.zeros_like(sentence_scores)
        probabilities = torch.stack(list(paths.values())).softmax(0)
        for path, probability in zip(paths, probabilities, strict=True):
            for position, label in enumerate(path):
                expected[position, label] += probability
        torch.testing.assert_close(expected_labels, expected, atol=1e-5, rtol=1e-4)


def test_gradients_match_finite_differences() -> None:
    crf, scores, _ = random_crf(BIO, [3, 0, 4])
    crf = crf.double()
    labels = Ragged.of([[1, 2, 0], [], [0, 3, 4, 4]])
    parameters = tuple(crf.parameters())
    torch.autograd.gradcheck(
        lambda scores, *_: crf.negative_log_likelihood(scores, labels),
        (scores.double().requires_grad_(), *parameters),
    )


def test_invalid_transitions_have_no_gradient_and_are_never_predicted() -> None:
    crf, scores, positions = random_crf(BIO, [3, 4])
    scores[:, BIO.index("I-b")] += 1000.0
    labels = Ragged.of([[0, 1, 2], [3, 4, 0, 0]])
    crf.negative_log_likelihood(scores, labels).sum().backward()
    for weight in crf.parameters():
        assert weight.grad is not None
        assert weight.grad.isfinite().all()
    assert crf.begin.grad is not None
    assert crf.follow.grad is not None
    assert (crf.begin.grad[~crf.valid_starts] == 0).all()
    assert (crf.follow.grad[~crf.valid_transitions] == 0).all()
    for path in crf.best_paths(scores, positions).split([3, 4]):
        assert first_illegal([BIO[label] for label in path]) is None


def test_label_set_without_begin_label() -> None:
    crf, scores, positions = random_crf(["O", "I-a"], [3])
    loss = crf.negative_log_likelihood(scores.requires_grad_(), Ragged.of([[0, 0, 0]]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-5)  # there is one valid path
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert crf.best_paths(scores.detach(), positions).tolist() == [0, 0, 0]


def test_valid_transitions_of_iob_labels() -> None:
    begin, follow = valid_transitions(BIO)
    assert begin.tolist() == [True, True, False, True, False]
    assert follow.tolist() == [
        [True, True, False, True, False],  # after O
        [True, True, True, True, False],  # after B-a
        [True, True, True, True, False],
        [True, True, False, True, True],
        [True, True, False, True, True],
    ]
    assert all(sentence_scores.all() for sentence_scores in valid_transitions(FREE))


def test_results_do_not_depend_on_the_batch() -> None:
    lengths = [5, 0, 1, 9, 3]
    crf, scores, positions = random_crf(BIO, lengths)
    path = crf.best_paths(scores, positions)
    loss = crf.negative_log_likelihood(scores, Ragged(path, positions))
    marginals = crf.marginals(scores, positions.padded_to(12))
    parts = zip(scores.split(lengths), path.split(lengths), loss, strict=True)
    for number, (sentence_scores, expected_labels, cost) in enumerate(parts):
        alone = Lengths.of([lengths[number]])
        assert torch.equal(crf.best_paths(sentence_scores, alone), expected_labels)
        again = crf.negative_log_likelihood(sentence_scores, Ragged(expected_labels, alone))
        torch.testing.assert_close(again[0], cost, atol=1e-5, rtol=1e-5)
        expected = marginals.split(lengths)[number]
        torch.testing.assert_close(crf.marginals(sentence_scores, alone), expected)


def test_autocast_has_no_effect() -> None:
    crf, scores, positions = random_crf(BIO, [40, 7])
    labels = Ragged(crf.best_paths(scores, positions), positions)
    expected = crf.negative_log_likelihood(scores.bfloat16().float(), labels)
    with torch.autocast("cpu", torch.bfloat16):
        actual = crf.negative_log_likelihood(scores.bfloat16(), labels)
    assert actual.dtype == torch.float32
    assert torch.equal(actual, expected)
