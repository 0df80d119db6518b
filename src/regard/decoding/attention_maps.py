"""Attention maps of a sentence pair or a text, and word alignment from cross-attention.

A target token is aligned by the attention of one head at the step that predicts the token
(NAIVE-ATT), or at the next step, where it is the decoder input (SHIFT-ATT), which is often better
(Chen et al., 2020, arXiv:2004.14837). EOS is not aligned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention.multihead import AttentionRecorder
from regard.data.aligner import Ids
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.data.rows import Rows
from regard.decoding.nonautoregressive import decode_sentence
from regard.decoding.pair_batches import map_pairs_by_length
from regard.errors import ConfigError
from regard.layers.ctc import BLANK
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import TextEncoder
from regard.text.tokenizer import Tokenizers

Weights = NDArray[np.float32]
_CHUNK = 2000  # pairs that are sorted by length at a time


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of all layers and heads between the subwords of a pair.

    Row t of `decoder` and `cross` is the step that predicts `target[t]`; the columns of `decoder`
    are `decoder_inputs`: BOS and the target without EOS, or copies of the source. A single text is
    the source of a bidirectional model, or the target of a causal one. Attention types that the
    model does not have are arrays with 0 layers.
    """

    source: list[str]
    target: list[str]
    decoder_inputs: list[str]
    encoder: Weights  # (layers, H, S, S)
    decoder: Weights  # (layers, H, T, T)
    cross: Weights  # (layers, H, T, S)


@torch.inference_mode()
def pair_attention_maps(
    model: Model, tokenizers: Tokenizers, source: Sequence[int], target: Sequence[int]
) -> AttentionMaps:
    """The attention maps of a sentence pair.

    For non-autoregressive models, the target is the model's output, blanks and repetitions of CTC
    included.
    """
    source_tokens = [*tokenizers.source.ids_to_tokens(source), "</s>"]
    if model.config.autoregressive:
        batch = Batch(with_eos([source]), with_eos([target]))
        recorder = model.record_attention(batch.to(model.device))
        target_tokens = [*tokenizers.target.ids_to_tokens(target), "</s>"]
        return _to_maps(recorder, source_tokens, target_tokens, ["<s>", *target_tokens[:-1]])
    recorder = AttentionRecorder()
    decoded = decode_sentence(cast(NonAutoregressive, model), with_eos([source]), recorder)
    inputs = [source_tokens[position] for position in decoded.source_positions]
    outputs = output_subwords(tokenizers, decoded.tokens)
    return _to_maps(recorder, source_tokens, outputs, inputs)


@torch.inference_mode()
def text_attention_maps(model: Model, tokenizers: Tokenizers, ids: Sequence[int]) -> AttentionMaps:
    """The self-attention maps of a text, by a language model."""
    tokens = tokenizers.target.ids_to_tokens(ids)
    if not model.config.has_attention_maps:
        raise ConfigError(
            f"Attention maps are not implemented for model kind {model.config.kind!r}."
        )
    if model.config.autoregressive:
        targets = with_eos([ids]).to(model.device)
        inputs = targets.shifted_right(model.config.decoder_start_id)
        recorder = model.record_attention(Batch(inputs, targets))
        return _to_maps(recorder, [], [*tokens, "</s>"], ["<s>", *tokens])
    recorder, reader = AttentionRecorder(), cast(TextEncoder, model)
    row = Ragged.of([reader.with_special_tokens(ids)]).to(model.device)
    reader.hidden_states(row, recorder=recorder)
    return _to_maps(recorder, ["<s>", *tokenizers.source.ids_to_tokens(ids), "</s>"], [], [])


def output_subwords(tokenizers: Tokenizers, ids: Sequence[int]) -> list[str]:
    """The subwords of decoder output; the blank of CTC is written as a dash."""
    return ["-" if i == BLANK else tokenizers.target.ids_to_tokens([i])[0] for i in ids]


def _to_maps(
    recorder: AttentionRecorder, source: list[str], target: list[str], decoder_inputs: list[str]
) -> AttentionMaps:
    def stack(layers: list[Tensor], rows: list[str], columns: list[str]) -> Weights:
        if not layers or not columns:
            return np.zeros((0, 0, len(rows), len(columns)), dtype=np.float32)
        weights: Weights = torch.cat(layers).float().cpu().numpy()
        return weights

    return AttentionMaps(
        source,
        target,
        decoder_inputs,
        encoder=stack(recorder.encoder, source, source),
        decoder=stack(recorder.decoder, target, decoder_inputs),
        cross=stack(recorder.cross, target, source),
    )


def join_attention_maps(maps: Sequence[AttentionMaps]) -> AttentionMaps | None:
    """The maps of all segments of a text as block-diagonal matrices; None without segments."""
    if len(maps) <= 1:
        return maps[0] if maps else None
    parts: dict[str, Any] = {}
    for name in (field.name for field in fields(AttentionMaps)):
        blocks = [getattr(segment, name) for segment in maps]
        parts[name] = [*chain(*blocks)] if isinstance(blocks[0], list) else _block_diagonal(blocks)
    return AttentionMaps(**parts)


def _block_diagonal(blocks: Sequence[Weights]) -> Weights:
    rows, columns = (sum(block.shape[axis] for block in blocks) for axis in (2, 3))
    weights = np.zeros((*blocks[0].shape[:2], rows, columns), dtype=np.float32)
    row = column = 0
    for block in blocks:
        height, width = block.shape[2:]
        weights[:, :, row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return weights


@dataclass(frozen=True)
class AlignmentHead:
    """A cross-attention head from which word alignments are extracted."""

    shift: bool  # SHIFT-ATT rather than NAIVE-ATT
    layer: int  # from 0
    head: int | None  # from 0; None: the mean of all heads

    def __str__(self) -> str:
        head = "all heads" if self.head is None else f"head {self.head + 1}"
        return f"layer {self.layer + 1}, {head}, {'SHIFT-ATT' if self.shift else 'NAIVE-ATT'}"


@dataclass(frozen=True)
class HeadAlignments:
    """The alignments of one pair by all heads: the position with the highest attention weight."""

    forward: Ids  # (2, layers, H + 1, T) source positions; first axis: NAIVE-ATT, SHIFT-ATT
    backward: Ids  # (2, layers, H + 1, S) target positions

    @property
    def heads(self) -> list[AlignmentHead]:
        """All heads and the mean of each layer, layer by layer."""
        _, layers, heads, _ = self.forward.shape
        return [
            AlignmentHead(shift, layer, head)
            for shift in (False, True)
            for layer in range(layers)
            for head in [*range(heads - 1), None]
        ]

    def by_head(self, head: AlignmentHead) -> tuple[Ids, Ids]:
        """The source position of each target token, the target position of each source token."""
        index = int(head.shift), head.layer, -1 if head.head is None else head.head
        return self.forward[index], self.backward[index]


@dataclass(frozen=True)
class AttentionAligner:
    """Word alignment by the attention of one head of a model."""

    model: Model
    head: AlignmentHead

    def align(self, source: Rows, target: Rows) -> Iterator[tuple[Ids, Ids]]:
        """For each pair, the source position of each target token, and the reverse."""
        for alignments in align_by_all_heads(self.model, source, target):
            yield alignments.by_head(self.head)


def align_by_all_heads(model: Model, source: Rows, target: Rows) -> Iterator[HeadAlignments]:
    """The alignments of each pair by all heads of a model."""

    @torch.inference_mode()
    def align_batch(batch: Batch) -> list[HeadAlignments]:
        recorder = AttentionRecorder()
        model(batch, recorder)
        if not recorder.cross:
            raise ConfigError(
                "This model has no cross-attention. Use a model with cross-attention."
            )
        layers = torch.stack(recorder.cross, 1).float()  # (B, layers, H, T, S)
        weights = torch.cat([layers, layers.mean(2, keepdim=True)], 2).cpu().numpy()
        lengths = [side.lengths.extended(-1).host.tolist() for side in batch.sides]
        return [*map(_align_by_argmax, weights, *lengths)]

    for start in range(0, len(source), _CHUNK):
        chunk = range(start, min(start + _CHUNK, len(source)))
        pairs = [(source[index].tolist(), target[index].tolist()) for index in chunk]
        yield from map_pairs_by_length(pairs, model.device, None, align_batch)


def _align_by_argmax(weights: Weights, source_length: int, target_length: int) -> HeadAlignments:
    """Align each position to the one with the highest weight. (layers, H + 1, T + 1, S + 1)"""
    naive, shifted = weights[:, :, :target_length], weights[:, :, 1 : target_length + 1]
    weights = np.stack([naive, shifted])[..., :source_length]
    if not source_length or not target_length:
        shape = weights.shape[:3]
        return HeadAlignments(
            np.full((*shape, target_length), -1), np.full((*shape, source_length), -1)
        )
    return HeadAlignments(weights.argmax(-1), weights.argmax(-2))
