"""The part of the vocabulary that a sentence can need, so that nothing else has to be scored.

The most frequent target subwords are always allowed. Beside them, each subword of a sentence
allows the few that it most likely stands for, and its own copy, as names and numbers need it.
`shortlist.json` in a model folder holds the lists, as subwords.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.config import Settings
from regard.data.lexicon import Ids
from regard.data.store import Part
from regard.errors import ModelError
from regard.files import write_text
from regard.schema import MEBIBYTE, JsonReader
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers

SHORTLIST = "shortlist.json"
FORMAT = 1
_json = partial(json.dumps, ensure_ascii=False)


@dataclass(frozen=True)
class _Fields(Settings):
    """The fields of `shortlist.json`."""

    format: int
    always: tuple[str, ...]
    allowed: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Shortlist:
    """Target ids that are always allowed, and those that each source id allows."""

    always: Ids
    rows: Sequence[Ids]

    def allowed(self, sentences: Sequence[NDArray[np.integer]]) -> Ids:
        """What the sentences of a batch may be translated with: ids that ascend."""
        sources = np.unique(np.concatenate(sentences))
        return np.unique(np.concatenate([self.always, *(self.rows[i] for i in sources)]))

    def write(self, folder: Path, tokenizers: Tokenizers) -> None:
        """As `shortlist.json`, a line for each source subword."""
        source, target = tokenizers.source, tokenizers.target
        names = source.pieces(range(len(self.rows)))
        lines = [
            f"    {_json(name)}: {_json(target.pieces(row.tolist()))}"
            for name, row in zip(names, self.rows, strict=True)
            if len(row)
        ]
        always = _json(target.pieces(self.always.tolist()))
        write_text(
            folder / SHORTLIST,
            f'{{\n  "format": {FORMAT},\n  "always": {always},\n  "allowed": {{\n'
            + ",\n".join(lines)
            + "\n  }\n}\n",
        )

    @staticmethod
    def read(folder: Path, tokenizers: Tokenizers) -> Shortlist:
        """What `write` wrote, of the same tokenizers."""
        path = folder / SHORTLIST
        reader = JsonReader(
            ModelError,
            f"Make it again with `regard shortlist {folder} --data ...`, or delete it.",
            limit=256 * MEBIBYTE,
        )
        found, _ = reader.versioned(_Fields, path, FORMAT)
        ids = _ids(tokenizers.target)
        names = tokenizers.source.pieces(range(tokenizers.source.vocab_size))
        listed = [("always", found.always), *found.allowed.items()]
        for name, pieces in listed:
            for unknown in {*pieces} - ids.keys():
                raise reader.wrong(path, f"{name} has {unknown!r}, which the tokenizer has not")
        for unknown in found.allowed.keys() - {*names}:
            raise reader.wrong(path, f"{unknown!r} is no subword of the tokenizer")
        end = tokenizers.target.pieces([SPECIAL.end])[0]
        if end not in found.always:
            raise reader.wrong(path, f"always lacks {end}, without which no translation ends")

        def row(pieces: Sequence[str]) -> Ids:
            return np.array([ids[piece] for piece in pieces], dtype=np.int64)

        return Shortlist(row(found.always), [row(found.allowed.get(name, ())) for name in names])


def shortlist(always: Ids, likeliest: Ids, tokenizers: Tokenizers) -> Shortlist:
    """Of what is always allowed, and the `lexicon.likeliest` of each source subword beside it."""
    source, own = tokenizers.source, _ids(tokenizers.target)
    copies = [own.get(piece, -1) for piece in source.pieces(range(source.vocab_size))]
    table = np.column_stack([likeliest, copies])
    rows = [np.array([*dict.fromkeys(row[row >= 0].tolist())], np.int64) for row in table]
    return Shortlist(always, rows)


def frequent(part: Part, size: int, count: int) -> Ids:
    """The most frequent of so many target subwords, and the end mark."""
    times = np.bincount(part.target.flat(), minlength=size)
    often = np.argsort(-times, kind="stable")[:count]
    return np.union1d(often[times[often] > 0], [SPECIAL.end])


@dataclass(frozen=True)
class Coverage:
    """What a shortlist leaves of the vocabulary, and of what is to be written."""

    covered: float  # share of the target tokens
    sentence: float  # subwords allowed, the mean over sentences
    batch: float  # the same over batches


def coverage(listed: Shortlist, part: Part, *, batch_size: int) -> Coverage:
    """Of given pairs, in batches of like length."""
    order = np.argsort(part.source.lengths(), kind="stable").tolist()
    allowed = [listed.allowed([part.source[i]]) for i in order]
    covered = sum(
        int(np.isin(part.target[i], own).sum()) for i, own in zip(order, allowed, strict=True)
    )
    batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
    return Coverage(
        covered / len(part.target.flat()),
        float(np.mean([len(own) for own in allowed])),
        float(np.mean([len(listed.allowed([part.source[i] for i in batch])) for batch in batches])),
    )


def _ids(tokenizer: Tokenizer) -> dict[str, int]:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return {piece: number for number, piece in enumerate(pieces)}
