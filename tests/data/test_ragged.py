"""Ragged rows against Python lists, and their gradients against indexing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from regard.data.ragged import Lengths, Ragged

lengths = st.lists(st.integers(1, 7), min_size=1, max_size=6)
sentences = st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=7), min_size=1, max_size=6)
shapes = st.sampled_from([(), (3,), (2, 3)])


def row_of(lengths: list[int], shape: tuple[int, ...] = (3,)) -> Tensor:
    """Random numbers for each token, with a gradient."""
    return torch.randn(sum(lengths), *shape, dtype=torch.float64, requires_grad=True)


def padded_of(lengths: list[int], shape: tuple[int, ...] = (3,)) -> Tensor:
    """Random numbers for each position of padded rows, with a gradient."""
    size = (len(lengths), max(lengths), *shape)
    return torch.randn(*size, dtype=torch.float64, requires_grad=True)


def reference_pad(lengths: list[int], row: Tensor) -> Tensor:
    """The expected result of `pad`, by `pad_sequence`."""
    return torch.nn.utils.rnn.pad_sequence(list(row.split(lengths)), batch_first=True)


def reference_unpad(lengths: list[int], padded: Tensor) -> Tensor:
    """The expected result of `unpad`, by slicing."""
    return torch.cat([padded[i, :length] for i, length in enumerate(lengths)])


# Indices.


@settings(deadline=None)
@given(lengths)
def test_indices_match_loops(lengths: list[int]) -> None:
    ragged = Lengths.of(lengths)
    sentence, positions, padded_indices, offsets = [], [], [], [0]
    for i, length in enumerate(lengths):
        offsets.append(offsets[-1] + length)
        for position in range(length):
            sentence.append(i)
            positions.append(position)
            padded_indices.append(i * max(lengths) + position)
    assert ragged.sentence.tolist() == sentence
    assert ragged.positions.tolist() == positions
    assert ragged.padded_indices.tolist() == padded_indices
    assert ragged.offsets.tolist() == offsets


@settings(deadline=None)
@given(lengths)
def test_sizes_match_the_list(lengths: list[int]) -> None:
    ragged = Lengths.of(lengths)
    assert (len(ragged), ragged.longest, ragged.total) == (len(lengths), max(lengths), sum(lengths))
    assert ragged.lengths.tolist() == lengths


@settings(deadline=None)
@given(lengths)
def test_mask_is_true_for_tokens(lengths: list[int]) -> None:
    rows = [[position < length for position in range(max(lengths))] for length in lengths]
    assert Lengths.of(lengths).mask.tolist() == rows


def test_offsets_are_int32() -> None:
    assert Lengths.of([2, 1]).offsets.dtype == torch.int32


def test_empty_sentences() -> None:
    ragged = Lengths.of([2, 0, 1, 0])
    assert ragged.offsets.tolist() == [0, 2, 2, 3, 3]
    assert ragged.sentence.tolist() == [0, 0, 2]
    assert ragged.mask.tolist() == [[True, True], [False] * 2, [True, False], [False] * 2]
    row = torch.arange(1.0, 4.0)
    assert ragged.pad(row).tolist() == [[1, 2], [0, 0], [3, 0], [0, 0]]
    assert_close(ragged.unpad(ragged.pad(row)), row, rtol=0, atol=0)


# Padding.


@settings(deadline=None)
@given(lengths, shapes)
def test_pad_matches_pad_sequence(lengths: list[int], shape: tuple[int, ...]) -> None:
    row = row_of(lengths, shape)
    assert_close(Lengths.of(lengths).pad(row), reference_pad(lengths, row), rtol=0, atol=0)


@settings(deadline=None)
@given(lengths, shapes)
def test_unpad_matches_slicing(lengths: list[int], shape: tuple[int, ...]) -> None:
    padded = padded_of(lengths, shape)
    unpadded = Lengths.of(lengths).unpad(padded)
    assert_close(unpadded, reference_unpad(lengths, padded), rtol=0, atol=0)


@settings(deadline=None)
@given(lengths, shapes)
def test_unpad_inverts_pad(lengths: list[int], shape: tuple[int, ...]) -> None:
    ragged, row = Lengths.of(lengths), row_of(lengths, shape)
    assert torch.equal(ragged.unpad(ragged.pad(row)), row)


@settings(deadline=None)
@given(lengths)
def test_pad_inverts_unpad_except_for_padding(lengths: list[int]) -> None:
    ragged, padded = Lengths.of(lengths), padded_of(lengths)
    assert torch.equal(ragged.pad(ragged.unpad(padded)), padded * ragged.mask[..., None])


@settings(deadline=None)
@given(lengths, shapes)
def test_gradient_of_pad_matches_indexing(lengths: list[int], shape: tuple[int, ...]) -> None:
    row, weights = row_of(lengths, shape), padded_of(lengths, shape).detach()
    [gradient] = torch.autograd.grad((Lengths.of(lengths).pad(row) * weights).sum(), row)
    [expected] = torch.autograd.grad((reference_pad(lengths, row) * weights).sum(), row)
    assert torch.equal(gradient, expected)


@settings(deadline=None)
@given(lengths, shapes)
def test_gradient_of_unpad_matches_indexing(lengths: list[int], shape: tuple[int, ...]) -> None:
    padded, weights = padded_of(lengths, shape), row_of(lengths, shape).detach()
    [gradient] = torch.autograd.grad((Lengths.of(lengths).unpad(padded) * weights).sum(), padded)
    [expected] = torch.autograd.grad((reference_unpad(lengths, padded) * weights).sum(), padded)
    assert torch.equal(gradient, expected)


@settings(deadline=None)
@given(lengths)
def test_pad_and_unpad_are_transposes(lengths: list[int]) -> None:
    ragged = Lengths.of(lengths)
    row, padded = row_of(lengths, ()).detach(), padded_of(lengths, ()).detach()
    pad = torch.autograd.functional.jacobian(ragged.pad, row).flatten(0, 1)
    unpad = torch.autograd.functional.jacobian(ragged.unpad, padded).flatten(1, 2)
    assert torch.equal(pad, unpad.T)


def test_gradients_pass_gradcheck() -> None:
    ragged = Lengths.of([2, 3, 1])
    assert torch.autograd.gradcheck(ragged.pad, row_of([2, 3, 1], (2,)))
    assert torch.autograd.gradcheck(ragged.unpad, padded_of([2, 3, 1], (2,)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64, torch.bool])
def test_pad_keeps_the_dtype(dtype: torch.dtype) -> None:
    row = torch.ones(3, dtype=dtype)
    padded = Lengths.of([1, 2]).pad(row)
    assert padded.dtype == dtype
    assert padded.long().tolist() == [[1, 0], [1, 1]]


# Sentences.


@settings(deadline=None)
@given(sentences)
def test_ragged_concatenates_sentences(sentences: list[list[int]]) -> None:
    ragged = Ragged.of(sentences)
    assert ragged.tokens.tolist() == [token for sentence in sentences for token in sentence]
    assert ragged.lengths.lengths.tolist() == [len(sentence) for sentence in sentences]


@settings(deadline=None)
@given(sentences)
def test_shifted_right_prepends_bos_and_drops_the_last_token(
    sentences: list[list[int]],
) -> None:
    ragged = Ragged.of(sentences)
    shifted = ragged.shifted_right(2)
    expected = [token for sentence in sentences for token in [2, *sentence[:-1]]]
    assert shifted.tokens.tolist() == expected
    assert shifted.lengths is ragged.lengths


def test_shifted_right_does_not_modify_its_input() -> None:
    ragged = Ragged.of([[5, 6], [7]])
    ragged.shifted_right(2)
    assert ragged.tokens.tolist() == [5, 6, 7]


def test_sizes_are_kept_on_another_device() -> None:
    moved = Lengths.of([3, 1]).to(torch.device("meta"))
    assert moved.lengths.device.type == "meta"
    assert (len(moved), moved.longest, moved.total) == (2, 3, 4)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(0, 3))
def test_pack_matches_pack_padded_sequence(lengths: list[int], slack: int) -> None:
    ragged = Lengths.of(lengths).padded_to(max(lengths) + slack)
    row = torch.arange(2.0 * sum(lengths)).view(-1, 2)
    packed = ragged.pack(row)
    reference = pack_padded_sequence(
        ragged.pad(row), ragged.lengths, batch_first=True, enforce_sorted=False
    )
    assert torch.equal(packed.batch_sizes, reference.batch_sizes)
    restored, _ = pad_packed_sequence(packed, batch_first=True)
    assert torch.equal(restored, Lengths.of(lengths).pad(row))
    assert torch.equal(ragged.unpack(packed), row)


def test_host_lengths_are_kept() -> None:
    lengths = Lengths.of([3, 1])
    assert lengths.host is lengths.lengths
    assert lengths.repeat(2).host.tolist() == [3, 1, 3, 1]
    moved = lengths.to(torch.device("meta"))
    assert moved.host is lengths.lengths  # no copy from the device
    assert moved.repeat(2).host.tolist() == [3, 1, 3, 1]
    assert moved.padded_to(5).host is lengths.lengths


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_copy_to_host_is_synchronous() -> None:
    device, expected = torch.device("cuda"), torch.arange(1 << 20)
    row = Ragged(expected, Lengths.of([len(expected)]))
    busy = torch.randn(8192, 8192, device=device)
    for _ in range(5):
        for _ in range(5):
            busy = busy @ busy
            busy /= busy.norm()  # the copies below wait for this work
        on_gpu = Ragged(expected.to(device) + 0, row.lengths.to(device))
        assert torch.equal(on_gpu.to(torch.device("cpu")).tokens, expected)
