"""Attention maps of a finished pair or of a text, and alignments from attention.

For an alignment, one head is looked at as a word is written, or a step later, as it is read; the
later is often the better (Chen et al., 2020, arXiv:2004.14837). End marks are not looked at.
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

from regard.attention.multihead import AttentionRecord
from regard.data.aligner import Ids
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.ragged import Ragged
from regard.data.rows import Rows
from regard.decoding.engine import over_pairs
from regard.decoding.parallel import written_at_once
from regard.errors import ConfigError
from regard.layers.ctc import BLANK
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import TextReader
from regard.text.tokenizer import Tokenizers

Weights = NDArray[np.float32]
_PORTION = 2000  # pairs that are sorted by length at a time


@dataclass(frozen=True)
class Attention:
    """Weights of every layer and head between the subwords of a pair; no layers where none look.

    A text is a source whose tokens see all of it, or a target whose tokens see what came before.
    Row t of `decoder` and `cross` is the step that wrote `target[t]`; the decoder's columns are
    what it `read`: the start mark and the target without its end, or copies of the source.
    """

    source: list[str]
    target: list[str]
    read: list[str]
    encoder: Weights  # (layers, H, S, S)
    decoder: Weights  # (layers, H, T, T)
    cross: Weights  # (layers, H, T, S)


@torch.inference_mode()
def look(
    model: Model, tokenizers: Tokenizers, source: Sequence[int], target: Sequence[int]
) -> Attention:
    """The attention of one pair of sentences.

    Where all words are written at once, the target is what is written, blanks and repetitions of
    CTC included.
    """
    pieces = [*tokenizers.source.pieces(source), "</s>"]
    if model.config.autoregressive:
        batch = Batch(with_ends([source]), with_ends([target]))
        record = model.attention_record(batch.to(model.device))
        written = [*tokenizers.target.pieces(target), "</s>"]
        return _maps(record, pieces, written, ["<s>", *written[:-1]])
    record = AttentionRecord()
    found = written_at_once(cast(NonAutoregressive, model), with_ends([source]), record)
    read = [pieces[place] for place in found.origins]
    return _maps(record, pieces, written_pieces(tokenizers, found.words), read)


@torch.inference_mode()
def look_at_text(model: Model, tokenizers: Tokenizers, ids: Sequence[int]) -> Attention:
    """The attention of a text to itself, by a model that reads running text."""
    pieces = tokenizers.target.pieces(ids)
    if not model.config.has_attention_maps:
        raise ConfigError(
            f"Attention maps are not implemented for model kind {model.config.kind!r}."
        )
    if model.config.autoregressive:
        whole = with_ends([ids]).to(model.device)
        inputs = whole.shifted_right(model.config.start_mark)
        record = model.attention_record(Batch(inputs, whole))
        return _maps(record, [], [*pieces, "</s>"], ["<s>", *pieces])
    record, reader = AttentionRecord(), cast(TextReader, model)
    reader.read(Ragged.of([reader.text_row(ids)]).to(model.device), record=record)
    return _maps(record, ["<s>", *tokenizers.source.pieces(ids), "</s>"], [], [])


def written_pieces(tokenizers: Tokenizers, words: Sequence[int]) -> list[str]:
    """What was written at each place, a blank as a dash."""
    return ["-" if word == BLANK else tokenizers.target.pieces([word])[0] for word in words]


def _maps(
    record: AttentionRecord, source: list[str], target: list[str], read: list[str]
) -> Attention:
    def stacked(layers: list[Tensor], rows: list[str], columns: list[str]) -> Weights:
        if not layers or not columns:  # there is no such attention
            return np.zeros((0, 0, len(rows), len(columns)), dtype=np.float32)
        weights: Weights = torch.cat(layers).float().cpu().numpy()
        return weights

    return Attention(
        source,
        target,
        read,
        encoder=stacked(record.encoder, source, source),
        decoder=stacked(record.decoder, target, read),
        cross=stacked(record.cross, target, source),
    )


def side_by_side(looks: Sequence[Attention]) -> Attention | None:
    """One picture for a text of several pieces, which do not look at each other."""
    if len(looks) <= 1:
        return looks[0] if looks else None
    parts: dict[str, Any] = {}
    for name in (field.name for field in fields(Attention)):
        blocks = [getattr(look, name) for look in looks]
        parts[name] = [*chain(*blocks)] if isinstance(blocks[0], list) else _diagonal(blocks)
    return Attention(**parts)


def _diagonal(blocks: Sequence[Weights]) -> Weights:
    rows, columns = (sum(block.shape[axis] for block in blocks) for axis in (2, 3))
    whole = np.zeros((*blocks[0].shape[:2], rows, columns), dtype=np.float32)
    row = column = 0
    for block in blocks:
        height, width = block.shape[2:]
        whole[:, :, row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return whole


@dataclass(frozen=True)
class View:
    """One of the places where attention can be looked at."""

    reads: bool  # as a word is read, not as it is written
    layer: int  # from 0
    head: int | None  # from 0; None: the mean of all

    def __str__(self) -> str:
        head = "all heads" if self.head is None else f"head {self.head + 1}"
        return f"layer {self.layer + 1}, {head}, as a word is {'read' if self.reads else 'written'}"


@dataclass(frozen=True)
class Seen:
    """Where all views of one pair look most: from each target word, and from each source word."""

    forward: Ids  # (2, layers, H + 1, T); 0: as a word is written, 1: as it is read
    backward: Ids  # (2, layers, H + 1, S)

    @property
    def views(self) -> list[View]:
        """All there are: each head and the mean of a layer, layer by layer."""
        _, layers, heads, _ = self.forward.shape
        return [
            View(reads, layer, head)
            for reads in (False, True)
            for layer in range(layers)
            for head in [*range(heads - 1), None]
        ]

    def through(self, view: View) -> tuple[Ids, Ids]:
        """One view: a source word for each target word, a target word for each source word."""
        place = int(view.reads), view.layer, -1 if view.head is None else view.head
        return self.forward[place], self.backward[place]


@dataclass(frozen=True)
class Gaze:
    """One view of a model, as an aligner."""

    model: Model
    view: View

    def heads(self, source: Rows, target: Rows) -> Iterator[tuple[Ids, Ids]]:
        """For each pair, the places that target words come from, and those of source words."""
        for seen in all_views(self.model, source, target):
            yield seen.through(self.view)


def all_views(model: Model, source: Rows, target: Rows) -> Iterator[Seen]:
    """Where a model looks in each pair, in their order."""

    @torch.inference_mode()
    def of(batch: Batch) -> list[Seen]:
        record = AttentionRecord()
        model(batch, record)
        if not record.cross:
            raise ConfigError("This model does not look at its source. Choose one with attention.")
        layers = torch.stack(record.cross, 1).float()  # (B, layers, H, T, S)
        views = torch.cat([layers, layers.mean(2, keepdim=True)], 2).cpu().numpy()
        sizes = [side.lengths.longer(-1).host.tolist() for side in batch.sides]
        return [*map(_most, views, *sizes)]

    for begin in range(0, len(source), _PORTION):
        own = range(begin, min(begin + _PORTION, len(source)))
        pairs = [(source[index].tolist(), target[index].tolist()) for index in own]
        yield from over_pairs(pairs, model.device, None, of)


def _most(views: NDArray[np.float32], sources: int, targets: int) -> Seen:
    weights = np.stack([views[:, :, :targets], views[:, :, 1 : targets + 1]])[..., :sources]
    if not sources or not targets:
        shape = weights.shape[:3]
        return Seen(np.full((*shape, targets), -1), np.full((*shape, sources), -1))
    return Seen(weights.argmax(-1), weights.argmax(-2))
