"""CTC against all paths, written out one by one."""

from __future__ import annotations

import itertools
import math
import random
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from compiling import assert_compiles
from regard.data.pairs import with_ends
from regard.data.ragged import Lengths, Ragged
from regard.layers.ctc import (
    BLANK,
    _states,
    _words,
    best_paths,
    kept,
    negative_log_likelihood,
    plain_best_states,
)

WORDS = [BLANK, 4, 5, 6]


def read(path: tuple[int, ...]) -> list[int]:
    """What a path reads as, by the definition."""
    return [word for word, _ in itertools.groupby(path) if word != BLANK]


def some(seed: int, lengths: list[int], targets: list[list[int]]) -> tuple[Tensor, Lengths, Ragged]:
    torch.manual_seed(seed)
    log_probs = (3 * torch.randn(sum(lengths), 7)).log_softmax(-1)
    return log_probs, Lengths.of(lengths), with_ends(targets)


def all_paths(log_probs: Tensor, target: list[int]) -> dict[tuple[int, ...], float]:
    """Every path that reads as the target, and how likely it is."""
    paths = itertools.product(WORDS, repeat=len(log_probs))
    return {
        path: float(sum(log_probs[place, word] for place, word in enumerate(path)))
        for path in paths
        if read(path) == target
    }


CASES = [
    ([3, 5, 4], [[4, 5], [4, 4, 5], [6]]),
    ([4, 4, 1], [[], [5, 5], [4]]),
    ([5], [[4, 5, 4, 5, 4]]),
    ([5, 2], [[4, 4, 4], [6, 5]]),
]


@pytest.mark.parametrize(("lengths", "targets"), CASES)
@pytest.mark.parametrize("seed", range(5))
def test_the_loss_counts_every_path(
    lengths: list[int], targets: list[list[int]], seed: int
) -> None:
    log_probs, places, labels = some(seed, lengths, targets)
    found = negative_log_likelihood(log_probs, places, labels)
    for part, target, one in zip(log_probs.split(lengths), targets, found.tolist(), strict=True):
        likely = sum(math.exp(total) for total in all_paths(part, target).values())
        assert one == pytest.approx(-math.log(likely), abs=1e-4)


@pytest.mark.parametrize(("lengths", "targets"), CASES)
@pytest.mark.parametrize("seed", range(5))
def test_the_best_path_is_the_likeliest_of_all(
    lengths: list[int], targets: list[list[int]], seed: int
) -> None:
    log_probs, places, labels = some(seed, lengths, targets)
    found = best_paths(log_probs, places, labels).split(lengths)
    for part, target, path in zip(log_probs.split(lengths), targets, found, strict=True):
        paths = all_paths(part, target)
        assert tuple(path.tolist()) == max(paths, key=lambda one: paths[one])


def test_gradients_are_those_of_the_definition() -> None:
    logits = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    places, labels = Lengths.of([4]), with_ends([[4, 5]])
    log_probs = logits.log_softmax(-1)
    (found,) = torch.autograd.grad(
        negative_log_likelihood(log_probs, places, labels).sum(), logits, retain_graph=True
    )
    paths = [path for path in itertools.product(WORDS, repeat=4) if read(path) == [4, 5]]
    totals = torch.stack([log_probs[torch.arange(4), torch.tensor(path)].sum() for path in paths])
    (expected,) = torch.autograd.grad(-totals.logsumexp(0), logits)
    torch.testing.assert_close(found, expected)


def test_too_few_places_cost_nothing_and_break_nothing() -> None:
    log_probs, places, labels = some(0, [2, 3], [[4, 5, 6, 4], [4, 5]])
    found = negative_log_likelihood(log_probs, places, labels)
    assert found[0] == 0
    assert found[1] > 0
    first, second = best_paths(log_probs, places, labels).split([2, 3])
    assert set(first.tolist()) <= {BLANK, 4, 5, 6}
    assert read(tuple(second.tolist())) == [4, 5]


@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), min_size=1, max_size=4))
def test_what_is_kept_is_what_is_read(paths: list[list[int]]) -> None:
    places = Lengths.of([len(path) for path in paths])
    row = torch.tensor([word for path in paths for word in path])
    keep = kept(row, places)
    found = [
        part[own].tolist()
        for part, own in zip(
            row.split(places.lengths.tolist()), keep.split(places.lengths.tolist()), strict=True
        )
    ]
    assert found == [read(tuple(path)) for path in paths]


def test_a_sentence_does_not_see_its_batch() -> None:
    draw = random.Random(0)
    lengths = [draw.randint(6, 12) for _ in range(8)]
    targets = [[draw.choice(WORDS[1:]) for _ in range(draw.randint(0, 4))] for _ in lengths]
    log_probs, places, labels = some(1, lengths, targets)
    together = best_paths(log_probs, places, labels)
    alone = [
        best_paths(part, Lengths.of([len(part)]), with_ends([target]))
        for part, target in zip(log_probs.split(lengths), targets, strict=True)
    ]
    assert torch.equal(together, torch.cat(alone))


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from regard.layers.ctc_kernel import _all_paths, _best_states

kinds = {"skips": "*i1", "places": "*i64", "labels": "*i64", "steps": "*i8", "path": "*i64"}
kinds |= {"longest": "i32", "states": "i32", "block": "constexpr"}
for kernel in (_all_paths, _best_states):
    for block in (16, 64, 256):
        own = {name: kinds.get(name, "*fp32") for name in kernel.arg_names}
        source = ASTSource(kernel, signature=own, constexprs={"block": block})
        options = {"num_warps": max(1, block // 64)}
        compile(source, target=GPUTarget("cuda", 90, 32), options=options)
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_the_kernel_finds_the_same_path() -> None:
    from regard.layers.ctc_kernel import best_states

    draw = random.Random(3)
    lengths = [draw.randint(1, 14) for _ in range(12)]
    targets = [[draw.choice(WORDS[1:]) for _ in range(draw.randint(0, 6))] for _ in lengths]
    targets[0], lengths[0] = [4, 4, 5, 6], 2  # too few places
    log_probs, places, labels = some(5, lengths, targets)
    words, counts = _words(labels)
    states, skips = _states(words)
    scores = places.pad(log_probs.gather(1, states[places.sentence]))
    parts = scores, skips, places.lengths, counts
    device = "cuda" if torch.cuda.is_available() else "cpu"  # where Triton interprets
    found = best_states(*(part.to(device) for part in parts)).cpu()
    assert torch.equal(places.unpad(found), places.unpad(plain_best_states(*parts)))


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_the_kernel_counts_every_path() -> None:
    """And its gradient is PyTorch's, filler and sentences with too few places included."""
    from regard.layers.ctc_kernel import all_paths

    draw = random.Random(4)
    lengths = [draw.randint(1, 14) for _ in range(12)]
    targets = [[draw.choice(WORDS[1:]) for _ in range(draw.randint(0, 6))] for _ in lengths]
    targets[0], lengths[0] = [4, 4, 5, 6], 2  # too few places
    targets[1], lengths[1] = [4, 4, 5, 4, 4], 12
    log_probs, places, labels = some(6, lengths, targets)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    logits = log_probs.clone().requires_grad_()
    weights = torch.rand(12)
    plain = negative_log_likelihood(logits.log_softmax(-1), places, labels)
    (expected,) = torch.autograd.grad((plain * weights).sum(), logits)
    words, counts = _words(labels)
    states, skips = _states(words)
    scores = places.pad(logits.log_softmax(-1).gather(1, states[places.sentence]))
    parts = (part.to(device) for part in (scores, states, skips, places.lengths, counts))
    found = all_paths(*parts).cpu()
    (gradient,) = torch.autograd.grad((found * weights).sum(), logits)
    torch.testing.assert_close(found, plain, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_the_kernel_compiles_for_a_gpu_that_is_not_here(tmp_path: Path) -> None:
    assert_compiles(COMPILE, tmp_path)
