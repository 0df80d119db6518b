"""Recurrent layers against PyTorch's, and the decoder against its equations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.config import AttentionConfig, AttentionShape
from regard.attention.multihead import AttentionRecorder, UnprojectedCrossAttention
from regard.attention.scores import Additive
from regard.data.ragged import Lengths
from regard.layers.recurrent import CELLS, Cell, Recurrence, RecurrentDecoder

LENGTHS = Lengths.of([4, 1, 6, 6, 3])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_recurrence_matches_pytorch(cell: Cell, layers: int, bidirectional: bool) -> None:
    torch.manual_seed(0)
    ours = Recurrence(cell, 5, 8, layers, 0.0, bidirectional=bidirectional)
    theirs = CELLS[cell](
        5, 4 if bidirectional else 8, layers, batch_first=True, bidirectional=bidirectional
    )
    theirs.load_state_dict(ours.cells.state_dict())
    x = torch.randn(LENGTHS.total, 5)
    actual, last = ours(x, LENGTHS)
    packed = pack_padded_sequence(
        LENGTHS.pad(x), LENGTHS.lengths, batch_first=True, enforce_sorted=False
    )
    output, states = theirs(packed)
    padded, _ = pad_packed_sequence(output, batch_first=True)
    torch.testing.assert_close(LENGTHS.pad(actual), padded, atol=1e-6, rtol=0)
    for part, state in zip(last, states if cell == "lstm" else [states], strict=True):
        ways = state.view(layers, -1, len(LENGTHS), state.shape[-1])
        joined = torch.cat(ways.unbind(1), -1).transpose(0, 1)
        torch.testing.assert_close(part, joined, atol=1e-6, rtol=0)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_match_pytorch(cell: Cell) -> None:
    torch.manual_seed(0)
    ours, theirs = Recurrence(cell, 5, 8, 2, 0.0), CELLS[cell](5, 8, 2, batch_first=True)
    theirs.load_state_dict(ours.cells.state_dict())
    x = torch.randn(LENGTHS.total, 5, requires_grad=True)
    weights = torch.randn(LENGTHS.total, 8)
    (ours(x, LENGTHS)[0] * weights).sum().backward()
    actual, x.grad = x.grad, None
    # One sentence at a time: no padding, no packing.
    for row, part in zip(
        x.split(LENGTHS.lengths.tolist()), weights.split(LENGTHS.lengths.tolist()), strict=True
    ):
        (theirs(row[None])[0][0] * part).sum().backward()
    torch.testing.assert_close(actual, x.grad, atol=1e-5, rtol=0)
    for our_weight, their_weight in zip(ours.cells.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(our_weight.grad, their_weight.grad, atol=1e-5, rtol=0)


@pytest.mark.parametrize("cell", CELLS)
def test_steps_match_the_full_pass(cell: Cell) -> None:
    torch.manual_seed(0)
    layer, lengths = Recurrence(cell, 5, 8, 2, 0.0), Lengths.of([6, 6, 6])
    x = torch.randn(18, 5)
    _, state = layer(torch.randn(18, 5), lengths)
    whole, last = layer(x, lengths, state)
    for position, column in enumerate(lengths.pad(x).unbind(1)):
        y, state = layer.step(column, state)
        torch.testing.assert_close(y, lengths.pad(whole)[:, position], atol=1e-6, rtol=0)
    for step_state, full_state in zip(state, last, strict=True):
        torch.testing.assert_close(step_state, full_state, atol=1e-6, rtol=0)


def decoder(*, input_feeding: bool) -> RecurrentDecoder:
    torch.manual_seed(0)
    shape = AttentionShape(d_model=8, num_heads=1, config=AttentionConfig(score="additive"))
    return RecurrentDecoder(
        "elman", 8, 1, 0.0, UnprojectedCrossAttention(shape), input_feeding=input_feeding
    )


def by_hand(layer: RecurrentDecoder, x: Tensor, s: Tensor, encoder_output: Tensor) -> list[Tensor]:
    """The decoder output of one sentence, from the equations."""
    cells, score, combine = layer.recurrence.cells, layer.attention, layer.combine
    assert isinstance(cells, nn.RNN)
    assert score is not None
    assert combine is not None
    assert isinstance(score.score, Additive)
    query_weight, key_weight, v = (
        part.detach().squeeze(0) for part in (score.score.query, score.score.key, score.score.out)
    )
    (w, u, b, c), h, outputs = cells.all_weights[0], torch.zeros(8), []
    for x_t in x:
        inputs = torch.cat([x_t, h]) if w.shape[1] == 16 else x_t
        s = torch.tanh(w @ inputs + b + u @ s + c)
        scores = torch.stack(
            [torch.tanh(s @ query_weight + k @ key_weight) @ v[:, 0] for k in encoder_output]
        )
        context = (scores.softmax(0)[:, None] * encoder_output).sum(0)
        h = torch.tanh(combine(torch.cat([context, s])))
        outputs.append(h)
    return outputs


@pytest.mark.parametrize("input_feeding", [False, True])
def test_additive_attention_matches_its_equations(input_feeding: bool) -> None:
    layer = decoder(input_feeding=input_feeding)
    targets, sources = Lengths.of([3, 5]), Lengths.of([4, 2])
    x, encoder_output = torch.randn(8, 8), torch.randn(6, 8)
    first = torch.randn(2, 1, 8)
    actual = layer(x, targets, (encoder_output, layer.initial_state((first,))), sources)
    expected = [
        row
        for inputs, s, source_states in zip(
            x.split([3, 5]), first[:, 0], encoder_output.split([4, 2]), strict=True
        )
        for row in by_hand(layer, inputs, s, source_states)
    ]
    torch.testing.assert_close(actual, torch.stack(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("input_feeding", [False, True])
def test_recorded_attention_maps_cover_all_steps_without_padding(input_feeding: bool) -> None:
    layer = decoder(input_feeding=input_feeding)
    targets, sources, recorder = Lengths.of([3, 5]), Lengths.of([4, 2]), AttentionRecorder()
    state = layer.initial_state((torch.randn(2, 1, 8),))
    layer(torch.randn(8, 8), targets, (torch.randn(6, 8), state), sources, recorder)
    [weights] = recorder.cross
    assert weights.shape == (2, 1, 5, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 5))
    assert weights[1, :, :, 2:].abs().max() == 0
