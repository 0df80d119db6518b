"""Where a model looked: one forward pass over a finished pair, or over a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.ragged import Ragged
from regard.decoding.parallel import written_at_once
from regard.errors import ConfigError
from regard.layers.ctc import BLANK
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import TextReader
from regard.text.tokenizer import Tokenizers

Weights = NDArray[np.float32]


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
    """The attention of one pair of sentences."""
    if not model.config.autoregressive:
        return _look_at_all(cast(NonAutoregressive, model), tokenizers, source)
    batch = Batch(with_ends([source]), with_ends([target]))
    record = model.attention_record(batch.to(model.device))
    written = [*tokenizers.target.pieces(target), "</s>"]
    return _seen(record, tokenizers, source, written, ["<s>", *written[:-1]])


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
        seen = _stacked(record.decoder, len(pieces) + 1, len(pieces) + 1)
        nothing = np.zeros((0, 0, 0, 0), dtype=np.float32)
        return Attention([], [*pieces, "</s>"], ["<s>", *pieces], nothing, seen, nothing)
    record, reader = AttentionRecord(), cast(TextReader, model)
    reader.read(Ragged.of([reader.text_row(ids)]).to(model.device), record=record)
    return _seen(record, tokenizers, ids, [], [], "<s>")


def _look_at_all(
    model: NonAutoregressive, tokenizers: Tokenizers, source: Sequence[int]
) -> Attention:
    """The same where all words are written at once, blanks and repetitions of CTC included."""
    record = AttentionRecord()
    written = written_at_once(model, with_ends([source]), record)
    copies = [*tokenizers.source.pieces(source), "</s>"]
    read = [copies[place] for place in written.origins]
    pieces = written_pieces(tokenizers, written.words)
    return _seen(record, tokenizers, source, pieces, read)


def written_pieces(tokenizers: Tokenizers, words: Sequence[int]) -> list[str]:
    """What was written at each place, a blank as a dash."""
    return ["-" if word == BLANK else tokenizers.target.pieces([word])[0] for word in words]


def _seen(
    record: AttentionRecord,
    tokenizers: Tokenizers,
    source: Sequence[int],
    written: list[str],
    read: list[str],
    *before: str,
) -> Attention:
    seen = [*before, *tokenizers.source.pieces(source), "</s>"]
    rows, columns = len(written), len(seen)
    return Attention(
        seen,
        written,
        read,
        _stacked(record.encoder, columns, columns),
        _stacked(record.decoder, rows, rows),
        _stacked(record.cross, rows, columns),
    )


def _stacked(layers: list[Tensor], rows: int, columns: int) -> Weights:
    if not layers:  # there is no such attention
        return np.zeros((0, 0, rows, columns), dtype=np.float32)
    stacked: Weights = torch.cat(layers).float().cpu().numpy()
    return stacked


def side_by_side(looks: Sequence[Attention]) -> Attention | None:
    """One picture for a text of several pieces, which do not look at each other."""
    if len(looks) <= 1:
        return looks[0] if looks else None
    return Attention(
        [token for one in looks for token in one.source],
        [token for one in looks for token in one.target],
        [token for one in looks for token in one.read],
        _diagonal([one.encoder for one in looks]),
        _diagonal([one.decoder for one in looks]),
        _diagonal([one.cross for one in looks]),
    )


def _diagonal(blocks: Sequence[Weights]) -> Weights:
    rows, columns = (sum(block.shape[axis] for block in blocks) for axis in (2, 3))
    whole = np.zeros((*blocks[0].shape[:2], rows, columns), dtype=np.float32)
    row = column = 0
    for block in blocks:
        height, width = block.shape[2:]
        whole[:, :, row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return whole
