"""Recurrent layers: PyTorch's own on flat batches, and attention by its equations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.config import AttentionConfig, AttentionShape
from regard.attention.multihead import AttentionRecord, MemoryAttention
from regard.attention.scores import Additive
from regard.data.ragged import Lengths
from regard.layers.recurrent import CELLS, Cell, Recurrence, RecurrentDecoder

LENGTHS = Lengths.of([4, 1, 6, 6, 3])


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_it_is_pytorchs_from_equal_weights(cell: Cell, layers: int, both_ways: bool) -> None:
    torch.manual_seed(0)
    ours = Recurrence(cell, 5, 8, layers, 0.0, both_ways=both_ways)
    theirs = CELLS[cell](
        5, 4 if both_ways else 8, layers, batch_first=True, bidirectional=both_ways
    )
    theirs.load_state_dict(ours.cells.state_dict())
    x = torch.randn(LENGTHS.total, 5)
    found, last = ours(x, LENGTHS)
    packed = pack_padded_sequence(
        LENGTHS.pad(x), LENGTHS.lengths, batch_first=True, enforce_sorted=False
    )
    output, states = theirs(packed)
    padded, _ = pad_packed_sequence(output, batch_first=True)
    torch.testing.assert_close(LENGTHS.pad(found), padded, atol=1e-6, rtol=0)
    for part, state in zip(last, states if cell == "lstm" else [states], strict=True):
        ways = state.view(layers, -1, len(LENGTHS), state.shape[-1])
        joined = torch.cat(ways.unbind(1), -1).transpose(0, 1)
        torch.testing.assert_close(part, joined, atol=1e-6, rtol=0)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_pytorchs(cell: Cell) -> None:
    torch.manual_seed(0)
    ours, theirs = Recurrence(cell, 5, 8, 2, 0.0), CELLS[cell](5, 8, 2, batch_first=True)
    theirs.load_state_dict(ours.cells.state_dict())
    x = torch.randn(LENGTHS.total, 5, requires_grad=True)
    weights = torch.randn(LENGTHS.total, 8)
    (ours(x, LENGTHS)[0] * weights).sum().backward()
    found, x.grad = x.grad, None
    # One sentence at a time: no padding, no packing.
    for row, part in zip(
        x.split(LENGTHS.lengths.tolist()), weights.split(LENGTHS.lengths.tolist()), strict=True
    ):
        (theirs(row[None])[0][0] * part).sum().backward()
    torch.testing.assert_close(found, x.grad, atol=1e-5, rtol=0)
    for one, other in zip(ours.cells.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=0)


@pytest.mark.parametrize("cell", CELLS)
def test_steps_are_the_whole_sequence(cell: Cell) -> None:
    torch.manual_seed(0)
    layer, lengths = Recurrence(cell, 5, 8, 2, 0.0), Lengths.of([6, 6, 6])
    x = torch.randn(18, 5)
    _, past = layer(torch.randn(18, 5), lengths)
    whole, last = layer(x, lengths, past)
    for place, column in enumerate(lengths.pad(x).unbind(1)):
        y, past = layer.step(column, past)
        torch.testing.assert_close(y, lengths.pad(whole)[:, place], atol=1e-6, rtol=0)
    for one, other in zip(past, last, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def decoder(*, feeding: bool) -> RecurrentDecoder:
    torch.manual_seed(0)
    shape = AttentionShape(width=8, heads=1, config=AttentionConfig(score="additive"))
    return RecurrentDecoder("elman", 8, 1, 0.0, MemoryAttention(shape), feeding=feeding)


def by_hand(layer: RecurrentDecoder, x: Tensor, s: Tensor, memory: Tensor) -> list[Tensor]:
    """One sentence, written from the equations."""
    cells, score, combine = layer.recurrence.cells, layer.attention, layer.combine
    assert isinstance(cells, nn.RNN)
    assert score is not None
    assert combine is not None
    assert isinstance(score.score, Additive)
    of_query, of_key, v = (
        part.detach().squeeze(0) for part in (score.score.query, score.score.key, score.score.out)
    )
    (w, u, b, c), h, written = cells.all_weights[0], torch.zeros(8), []
    for word in x:
        read = torch.cat([word, h]) if w.shape[1] == 16 else word
        s = torch.tanh(w @ read + b + u @ s + c)
        scores = torch.stack([torch.tanh(s @ of_query + k @ of_key) @ v[:, 0] for k in memory])
        found = (scores.softmax(0)[:, None] * memory).sum(0)
        h = torch.tanh(combine(torch.cat([found, s])))
        written.append(h)
    return written


@pytest.mark.parametrize("feeding", [False, True])
def test_additive_attention_is_its_equations(feeding: bool) -> None:
    layer = decoder(feeding=feeding)
    targets, sources = Lengths.of([3, 5]), Lengths.of([4, 2])
    x, memory = torch.randn(8, 8), torch.randn(6, 8)
    first = torch.randn(2, 1, 8)
    found = layer(x, targets, (memory, layer.first((first,))), sources)
    expected = [
        row
        for words, s, seen in zip(x.split([3, 5]), first[:, 0], memory.split([4, 2]), strict=True)
        for row in by_hand(layer, words, s, seen)
    ]
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("feeding", [False, True])
def test_the_record_has_every_step_and_no_padding(feeding: bool) -> None:
    layer = decoder(feeding=feeding)
    targets, sources, record = Lengths.of([3, 5]), Lengths.of([4, 2]), AttentionRecord()
    past = layer.first((torch.randn(2, 1, 8),))
    layer(torch.randn(8, 8), targets, (torch.randn(6, 8), past), sources, record)
    [weights] = record.cross
    assert weights.shape == (2, 1, 5, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 5))
    assert weights[1, :, :, 2:].abs().max() == 0
