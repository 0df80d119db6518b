"""CTC against an enumeration of all paths."""

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
from regard.data.pairs import with_eos
from regard.data.ragged import Lengths, Ragged
from regard.layers.ctc import (
    BLANK,
    _labels,
    _states,
    best_paths,
    collapse_mask,
    eager_viterbi,
    negative_log_likelihood,
)

TOKENS = [BLANK, 4, 5, 6]


def collapse(path: tuple[int, ...]) -> list[int]:
    """A path without repetitions and blanks."""
    return [token for token, _ in itertools.groupby(path) if token != BLANK]


def random_case(
    seed: int, lengths: list[int], targets: list[list[int]]
) -> tuple[Tensor, Lengths, Ragged]:
    torch.manual_seed(seed)
    log_probs = (3 * torch.randn(sum(lengths), 7)).log_softmax(-1)
    return log_probs, Lengths.of(lengths), with_eos(targets)


def all_paths(log_probs: Tensor, target: list[int]) -> dict[tuple[int, ...], float]:
    """All paths that collapse to the target, with their log-probs."""
    paths = itertools.product(TOKENS, repeat=len(log_probs))
    return {
        path: float(sum(log_probs[position, token] for position, token in enumerate(path)))
        for path in paths
        if collapse(path) == target
    }


CASES = [
    ([3, 5, 4], [[4, 5], [4, 4, 5], [6]]),
    ([4, 4, 1], [[], [5, 5], [4]]),
    ([5], [[4, 5, 4, 5, 4]]),
    ([5, 2], [[4, 4, 4], [6, 5]]),
]


@pytest.mark.parametrize(("lengths", "targets"), CASES)
@pytest.mark.parametrize("seed", range(5))
def test_loss_sums_over_all_paths(lengths: list[int], targets: list[list[int]], seed: int) -> None:
    log_probs, positions, labels = random_case(seed, lengths, targets)
    actual = negative_log_likelihood(log_probs, positions, labels)
    for sentence_log_probs, target, nll in zip(
        log_probs.split(lengths), targets, actual.tolist(), strict=True
    ):
        probability = sum(
            math.exp(total) for total in all_paths(sentence_log_probs, target).values()
        )
        assert nll == pytest.approx(-math.log(probability), abs=1e-4)


@pytest.mark.parametrize(("lengths", "targets"), CASES)
@pytest.mark.parametrize("seed", range(5))
def test_viterbi_finds_the_most_probable_path(
    lengths: list[int], targets: list[list[int]], seed: int
) -> None:
    log_probs, positions, labels = random_case(seed, lengths, targets)
    actual = best_paths(log_probs, positions, labels).split(lengths)
    for sentence_log_probs, target, path in zip(
        log_probs.split(lengths), targets, actual, strict=True
    ):
        paths = all_paths(sentence_log_probs, target)
        assert tuple(path.tolist()) == max(paths, key=lambda candidate: paths[candidate])


def test_gradients_match_the_definition() -> None:
    logits = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    positions, labels = Lengths.of([4]), with_eos([[4, 5]])
    log_probs = logits.log_softmax(-1)
    (actual,) = torch.autograd.grad(
        negative_log_likelihood(log_probs, positions, labels).sum(), logits, retain_graph=True
    )
    paths = [path for path in itertools.product(TOKENS, repeat=4) if collapse(path) == [4, 5]]
    totals = torch.stack([log_probs[torch.arange(4), torch.tensor(path)].sum() for path in paths])
    (expected,) = torch.autograd.grad(-totals.logsumexp(0), logits)
    torch.testing.assert_close(actual, expected)


def test_sentences_with_too_few_positions_have_zero_loss() -> None:
    log_probs, positions, labels = random_case(0, [2, 3], [[4, 5, 6, 4], [4, 5]])
    actual = negative_log_likelihood(log_probs, positions, labels)
    assert actual[0] == 0
    assert actual[1] > 0
    first, second = best_paths(log_probs, positions, labels).split([2, 3])
    assert set(first.tolist()) <= {BLANK, 4, 5, 6}
    assert collapse(tuple(second.tolist())) == [4, 5]


@given(st.lists(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=9), min_size=1, max_size=4))
def test_collapse_mask_matches_the_definition(paths: list[list[int]]) -> None:
    positions = Lengths.of([len(path) for path in paths])
    path_tokens = torch.tensor([token for path in paths for token in path])
    mask = collapse_mask(path_tokens, positions)
    actual = [
        sentence_log_probs[sentence_mask].tolist()
        for sentence_log_probs, sentence_mask in zip(
            path_tokens.split(positions.lengths.tolist()),
            mask.split(positions.lengths.tolist()),
            strict=True,
        )
    ]
    assert actual == [collapse(tuple(path)) for path in paths]


def test_results_do_not_depend_on_the_batch() -> None:
    draw = random.Random(0)
    lengths = [draw.randint(6, 12) for _ in range(8)]
    targets = [[draw.choice(TOKENS[1:]) for _ in range(draw.randint(0, 4))] for _ in lengths]
    log_probs, positions, labels = random_case(1, lengths, targets)
    together = best_paths(log_probs, positions, labels)
    alone = [
        best_paths(sentence_log_probs, Lengths.of([len(sentence_log_probs)]), with_eos([target]))
        for sentence_log_probs, target in zip(log_probs.split(lengths), targets, strict=True)
    ]
    assert torch.equal(together, torch.cat(alone))


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from regard.layers.ctc_kernel import _ctc_loss, _viterbi

kinds = {"skips": "*i1", "input_lengths": "*i64", "label_lengths": "*i64"}
kinds |= {"steps": "*i8", "path": "*i64"}
kinds |= {"longest": "i32", "states": "i32", "block": "constexpr"}
for kernel in (_ctc_loss, _viterbi):
    for block in (16, 64, 256):
        signature = {name: kinds.get(name, "*fp32") for name in kernel.arg_names}
        source = ASTSource(kernel, signature=signature, constexprs={"block": block})
        options = {"num_warps": max(1, block // 64)}
        compile(source, target=GPUTarget("cuda", 90, 32), options=options)
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_viterbi_kernel_matches_eager_viterbi() -> None:
    from regard.layers.ctc_kernel import viterbi

    draw = random.Random(3)
    lengths = [draw.randint(1, 14) for _ in range(12)]
    targets = [[draw.choice(TOKENS[1:]) for _ in range(draw.randint(0, 6))] for _ in lengths]
    targets[0], lengths[0] = [4, 4, 5, 6], 2  # too few positions
    log_probs, positions, labels = random_case(5, lengths, targets)
    tokens, label_lengths = _labels(labels)
    states, skips = _states(tokens)
    scores = positions.pad(log_probs.gather(1, states[positions.sentence]))
    parts = scores, skips, positions.lengths, label_lengths
    device = "cuda" if torch.cuda.is_available() else "cpu"  # where Triton interprets
    actual = viterbi(*(sentence_log_probs.to(device) for sentence_log_probs in parts)).cpu()
    assert torch.equal(positions.unpad(actual), positions.unpad(eager_viterbi(*parts)))


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_loss_kernel_matches_pytorch() -> None:
    """Loss and gradients, including filler and sentences with too few positions."""
    from regard.layers.ctc_kernel import ctc_loss

    draw = random.Random(4)
    lengths = [draw.randint(1, 14) for _ in range(12)]
    targets = [[draw.choice(TOKENS[1:]) for _ in range(draw.randint(0, 6))] for _ in lengths]
    targets[0], lengths[0] = [4, 4, 5, 6], 2  # too few positions
    targets[1], lengths[1] = [4, 4, 5, 4, 4], 12
    log_probs, positions, labels = random_case(6, lengths, targets)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    logits = log_probs.clone().requires_grad_()
    weights = torch.rand(12)
    plain = negative_log_likelihood(logits.log_softmax(-1), positions, labels)
    (expected,) = torch.autograd.grad((plain * weights).sum(), logits)
    tokens, label_lengths = _labels(labels)
    states, skips = _states(tokens)
    scores = positions.pad(logits.log_softmax(-1).gather(1, states[positions.sentence]))
    parts = (
        sentence_log_probs.to(device)
        for sentence_log_probs in (scores, states, skips, positions.lengths, label_lengths)
    )
    actual = ctc_loss(*parts).cpu()
    (gradient,) = torch.autograd.grad((actual * weights).sum(), logits)
    torch.testing.assert_close(actual, plain, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    assert_compiles(COMPILE, tmp_path)
