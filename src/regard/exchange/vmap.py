"""A shortlist as CTranslate2 reads it: `vmap.txt` in a model's folder, used with `use_vmap`.

A line for each source subword: the subword, a tab, and what it allows, between spaces. The line of
nothing allows always. CTranslate2 itself adds the marks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from regard.data.shortlist import Shortlist
from regard.files import write_text
from regard.text.tokenizer import Tokenizers

VMAP = "vmap.txt"


def write_vmap(listed: Shortlist, tokenizers: Tokenizers, folder: Path) -> None:
    """Write the lists into the folder of an exported model."""
    source, target = tokenizers.source, tokenizers.target
    names = ["", *source.pieces(range(source.vocab_size))]
    rows = [listed.always, *listed.rows]
    lines = [
        f"{name}\t{' '.join(_plain(target.pieces(row.tolist())))}\n"
        for name, row in zip(names, rows, strict=True)
        if len(row) and _is_plain(name)
    ]
    write_text(folder / VMAP, "".join(lines))


def _plain(pieces: Iterable[str]) -> list[str]:
    return [piece for piece in pieces if _is_plain(piece)]


def _is_plain(piece: str) -> bool:
    """Whether a subword has no white space, which would end it."""
    return not any(letter.isspace() for letter in piece)
