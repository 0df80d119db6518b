"""The flat batch against plain lists, and its gradients against plain indexing."""

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
    """Random numbers for each place of padded rows, with a gradient."""
    size = (len(lengths), max(lengths), *shape)
    return torch.randn(*size, dtype=torch.float64, requires_grad=True)


def plainly_padded(lengths: list[int], row: Tensor) -> Tensor:
    """What `pad` has to give, written with PyTorch's own function."""
    return torch.nn.utils.rnn.pad_sequence(list(row.split(lengths)), batch_first=True)


def plainly_unpadded(lengths: list[int], padded: Tensor) -> Tensor:
    """What `unpad` has to give, written with slices."""
    return torch.cat([padded[i, :length] for i, length in enumerate(lengths)])


# Where things lie.


@settings(deadline=None)
@given(lengths)
def test_places_are_those_of_plain_loops(lengths: list[int]) -> None:
    ragged = Lengths.of(lengths)
    sentence, positions, slots, offsets = [], [], [], [0]
    for i, length in enumerate(lengths):
        offsets.append(offsets[-1] + length)
        for place in range(length):
            sentence.append(i)
            positions.append(place)
            slots.append(i * max(lengths) + place)
    assert ragged.sentence.tolist() == sentence
    assert ragged.positions.tolist() == positions
    assert ragged.slots.tolist() == slots
    assert ragged.offsets.tolist() == offsets


@settings(deadline=None)
@given(lengths)
def test_sizes_are_those_of_the_list(lengths: list[int]) -> None:
    ragged = Lengths.of(lengths)
    assert (len(ragged), ragged.longest, ragged.total) == (len(lengths), max(lengths), sum(lengths))
    assert ragged.lengths.tolist() == lengths


@settings(deadline=None)
@given(lengths)
def test_the_mask_is_true_where_tokens_are(lengths: list[int]) -> None:
    rows = [[place < length for place in range(max(lengths))] for length in lengths]
    assert Lengths.of(lengths).mask.tolist() == rows


def test_offsets_are_of_the_type_that_kernels_take() -> None:
    assert Lengths.of([2, 1]).offsets.dtype == torch.int32


def test_empty_sentences_have_no_tokens_and_no_mask() -> None:
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
def test_padding_puts_zeros_after_each_sentence(lengths: list[int], shape: tuple[int, ...]) -> None:
    row = row_of(lengths, shape)
    assert_close(Lengths.of(lengths).pad(row), plainly_padded(lengths, row), rtol=0, atol=0)


@settings(deadline=None)
@given(lengths, shapes)
def test_unpadding_takes_the_tokens_out(lengths: list[int], shape: tuple[int, ...]) -> None:
    padded = padded_of(lengths, shape)
    found = Lengths.of(lengths).unpad(padded)
    assert_close(found, plainly_unpadded(lengths, padded), rtol=0, atol=0)


@settings(deadline=None)
@given(lengths, shapes)
def test_unpadding_undoes_padding(lengths: list[int], shape: tuple[int, ...]) -> None:
    ragged, row = Lengths.of(lengths), row_of(lengths, shape)
    assert torch.equal(ragged.unpad(ragged.pad(row)), row)


@settings(deadline=None)
@given(lengths)
def test_padding_undoes_unpadding_but_for_the_padding(lengths: list[int]) -> None:
    ragged, padded = Lengths.of(lengths), padded_of(lengths)
    assert torch.equal(ragged.pad(ragged.unpad(padded)), padded * ragged.mask[..., None])


@settings(deadline=None)
@given(lengths, shapes)
def test_the_gradient_of_padding_is_that_of_plain_indexing(
    lengths: list[int], shape: tuple[int, ...]
) -> None:
    row, weights = row_of(lengths, shape), padded_of(lengths, shape).detach()
    [ours] = torch.autograd.grad((Lengths.of(lengths).pad(row) * weights).sum(), row)
    [plain] = torch.autograd.grad((plainly_padded(lengths, row) * weights).sum(), row)
    assert torch.equal(ours, plain)


@settings(deadline=None)
@given(lengths, shapes)
def test_the_gradient_of_unpadding_is_that_of_plain_indexing(
    lengths: list[int], shape: tuple[int, ...]
) -> None:
    padded, weights = padded_of(lengths, shape), row_of(lengths, shape).detach()
    [ours] = torch.autograd.grad((Lengths.of(lengths).unpad(padded) * weights).sum(), padded)
    [plain] = torch.autograd.grad((plainly_unpadded(lengths, padded) * weights).sum(), padded)
    assert torch.equal(ours, plain)


@settings(deadline=None)
@given(lengths)
def test_padding_and_unpadding_are_transposes(lengths: list[int]) -> None:
    ragged = Lengths.of(lengths)
    row, padded = row_of(lengths, ()).detach(), padded_of(lengths, ()).detach()
    pad = torch.autograd.functional.jacobian(ragged.pad, row).flatten(0, 1)
    unpad = torch.autograd.functional.jacobian(ragged.unpad, padded).flatten(1, 2)
    assert torch.equal(pad, unpad.T)


def test_gradients_are_right_by_finite_differences() -> None:
    ragged = Lengths.of([2, 3, 1])
    assert torch.autograd.gradcheck(ragged.pad, row_of([2, 3, 1], (2,)))
    assert torch.autograd.gradcheck(ragged.unpad, padded_of([2, 3, 1], (2,)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64, torch.bool])
def test_padding_keeps_the_type(dtype: torch.dtype) -> None:
    row = torch.ones(3, dtype=dtype)
    padded = Lengths.of([1, 2]).pad(row)
    assert padded.dtype == dtype
    assert padded.long().tolist() == [[1, 0], [1, 1]]


# Sentences.


@settings(deadline=None)
@given(sentences)
def test_sentences_lie_end_to_end(sentences: list[list[int]]) -> None:
    ragged = Ragged.of(sentences)
    assert ragged.tokens.tolist() == [token for sentence in sentences for token in sentence]
    assert ragged.lengths.lengths.tolist() == [len(sentence) for sentence in sentences]


@settings(deadline=None)
@given(sentences)
def test_shifting_puts_the_start_before_each_sentence_and_drops_its_last_token(
    sentences: list[list[int]],
) -> None:
    ragged = Ragged.of(sentences)
    shifted = ragged.shifted_right(2)
    wanted = [token for sentence in sentences for token in [2, *sentence[:-1]]]
    assert shifted.tokens.tolist() == wanted
    assert shifted.lengths is ragged.lengths


def test_shifting_leaves_the_sentences_as_they_were() -> None:
    ragged = Ragged.of([[5, 6], [7]])
    ragged.shifted_right(2)
    assert ragged.tokens.tolist() == [5, 6, 7]


def test_moving_to_another_device_keeps_what_is_known_without_asking_it() -> None:
    moved = Lengths.of([3, 1]).to(torch.device("meta"))
    assert moved.lengths.device.type == "meta"
    assert (len(moved), moved.longest, moved.total) == (2, 3, 4)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(0, 3))
def test_a_packed_sequence_is_pytorchs_own(lengths: list[int], slack: int) -> None:
    where = Lengths.of(lengths).up_to(max(lengths) + slack)
    row = torch.arange(2.0 * sum(lengths)).view(-1, 2)
    packed = where.pack(row)
    theirs = pack_padded_sequence(
        where.pad(row), where.lengths, batch_first=True, enforce_sorted=False
    )
    assert torch.equal(packed.batch_sizes, theirs.batch_sizes)
    restored, _ = pad_packed_sequence(packed, batch_first=True)
    assert torch.equal(restored, Lengths.of(lengths).pad(row))
    assert torch.equal(where.unpack(packed), row)


def test_the_host_remembers_lengths() -> None:
    lengths = Lengths.of([3, 1])
    assert lengths.host is lengths.lengths
    assert lengths.repeated(2).host.tolist() == [3, 1, 3, 1]
    moved = lengths.to(torch.device("meta"))
    assert moved.host is lengths.lengths  # a device need not be asked
    assert moved.repeated(2).host.tolist() == [3, 1, 3, 1]
    assert moved.up_to(5).host is lengths.lengths


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_batch_has_arrived_on_the_host_when_it_is_read() -> None:
    device, wanted = torch.device("cuda"), torch.arange(1 << 20)
    row = Ragged(wanted, Lengths.of([len(wanted)]))
    busy = torch.randn(8192, 8192, device=device)
    for _ in range(5):
        for _ in range(5):
            busy = busy @ busy
            busy /= busy.norm()  # the copies below wait for this work
        there = Ragged(wanted.to(device) + 0, row.lengths.to(device))
        assert torch.equal(there.to(torch.device("cpu")).tokens, wanted)
