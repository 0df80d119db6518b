"""Vocabulary shortlists: the target subwords to score for a sentence (lexical shortlist).

The most frequent target subwords are always allowed. In addition, each source subword allows its
most likely translations and its copy, for names and numbers. `shortlist.json` in a model folder
has the lists, as subwords.
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
    """Target ids that are always allowed, and those allowed by each source id."""

    always: Ids
    rows: Sequence[Ids]

    def allowed(self, sentences: Sequence[NDArray[np.integer]]) -> Ids:
        """The target ids allowed for a batch of sentences, ascending."""
        sources = np.unique(np.concatenate(sentences))
        return np.unique(np.concatenate([self.always, *(self.rows[i] for i in sources)]))

    def write(self, folder: Path, tokenizers: Tokenizers) -> None:
        """Write `shortlist.json`, with a line for each source subword."""
        source, target = tokenizers.source, tokenizers.target
        names = source.ids_to_tokens(range(len(self.rows)))
        lines = [
            f"    {_json(name)}: {_json(target.ids_to_tokens(row.tolist()))}"
            for name, row in zip(names, self.rows, strict=True)
            if len(row)
        ]
        always = _json(target.ids_to_tokens(self.always.tolist()))
        write_text(
            folder / SHORTLIST,
            f'{{\n  "format": {FORMAT},\n  "always": {always},\n  "allowed": {{\n'
            + ",\n".join(lines)
            + "\n  }\n}\n",
        )

    @staticmethod
    def read(folder: Path, tokenizers: Tokenizers) -> Shortlist:
        """Read what `write` wrote with the same tokenizers."""
        path = folder / SHORTLIST
        reader = JsonReader(
            ModelError,
            f"Make it again with `regard shortlist {folder} --data ...`, or delete it.",
            limit=256 * MEBIBYTE,
        )
        fields, _ = reader.read_versioned(_Fields, path, FORMAT)
        ids = _ids(tokenizers.target)
        names = tokenizers.source.ids_to_tokens(range(tokenizers.source.vocab_size))
        listed = [("always", fields.always), *fields.allowed.items()]
        for name, subwords in listed:
            for unknown in {*subwords} - ids.keys():
                raise reader.content_error(
                    path, f"{name} has {unknown!r}, which is not in the tokenizer's vocabulary"
                )
        for unknown in fields.allowed.keys() - {*names}:
            raise reader.content_error(path, f"{unknown!r} is not in the tokenizer's vocabulary")
        eos = tokenizers.target.ids_to_tokens([SPECIAL.eos])[0]
        if eos not in fields.always:
            raise reader.content_error(path, f"always lacks {eos}, so translations could not end")

        def row(subwords: Sequence[str]) -> Ids:
            return np.array([ids[subword] for subword in subwords], dtype=np.int64)

        return Shortlist(row(fields.always), [row(fields.allowed.get(name, ())) for name in names])


def build_shortlist(always: Ids, translations: Ids, tokenizers: Tokenizers) -> Shortlist:
    """A shortlist from `most_frequent_targets` and `lexicon.most_likely_targets`."""
    source, target_ids = tokenizers.source, _ids(tokenizers.target)
    copies = [
        target_ids.get(subword, -1) for subword in source.ids_to_tokens(range(source.vocab_size))
    ]
    table = np.column_stack([translations, copies])
    rows = [np.array([*dict.fromkeys(row[row >= 0].tolist())], np.int64) for row in table]
    return Shortlist(always, rows)


def most_frequent_targets(part: Part, size: int, count: int) -> Ids:
    """The `count` most frequent target subwords in a vocabulary of `size`, and EOS."""
    counts = np.bincount(part.target.flat(), minlength=size)
    frequent = np.argsort(-counts, kind="stable")[:count]
    return np.union1d(frequent[counts[frequent] > 0], [SPECIAL.eos])


@dataclass(frozen=True)
class Coverage:
    """How much of the vocabulary and of the references a shortlist covers."""

    covered: float  # fraction of the target tokens
    sentence: float  # mean number of allowed subwords per sentence
    batch: float  # the same per batch


def compute_coverage(shortlist: Shortlist, part: Part, *, batch_size: int) -> Coverage:
    """The coverage of sentence pairs, in batches of similar length."""
    order = np.argsort(part.source.lengths(), kind="stable").tolist()
    allowed = [shortlist.allowed([part.source[i]]) for i in order]
    covered = sum(
        int(np.isin(part.target[i], ids).sum()) for i, ids in zip(order, allowed, strict=True)
    )
    batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
    return Coverage(
        covered / len(part.target.flat()),
        float(np.mean([len(ids) for ids in allowed])),
        float(
            np.mean([len(shortlist.allowed([part.source[i] for i in batch])) for batch in batches])
        ),
    )


def _ids(tokenizer: Tokenizer) -> dict[str, int]:
    subwords = tokenizer.ids_to_tokens(range(tokenizer.vocab_size))
    return {subword: token_id for token_id, subword in enumerate(subwords)}
