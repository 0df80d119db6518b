"""Marian's tokenizer, both ways: two SentencePiece models, and the ids of their pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from regard.errors import ModelError
from regard.exchange.huggingface.folder import GENERATION, TOKENIZER, ForeignFolder
from regard.exchange.normalizer import self_normalizing
from regard.text.config import TokenizerConfig
from regard.text.foreign import PIECES, VOCABULARIES, ForeignTokenizer, made_of
from regard.text.numbering import Numbering
from regard.text.tokenizer import Tokenizers

_UNKNOWN, _END, _PAD = "<unk>", "</s>", "<pad>"


@dataclass(frozen=True)
class Marks:
    """Their ids of what has a meaning beside text, and how many ids each side has."""

    source_size: int
    target_size: int
    pad: int | None
    start: int | None
    end: int


def _is_joint(folder: ForeignFolder) -> bool:
    return not folder.json(TOKENIZER).get("separate_vocabs", False)


def obstacles_in_text(folder: ForeignFolder, marks: Marks) -> Iterator[str]:
    """What is wrong with the files of their tokenizer."""
    names = [*PIECES, *VOCABULARIES[: 1 if _is_joint(folder) else 2]]
    missing = [name for name in names if not (folder.path / name).is_file()]
    if missing:
        yield f"its tokenizer is incomplete: {', '.join(missing)} cannot be found"
        return
    for name, size in zip(names[2:], (marks.source_size, marks.target_size), strict=False):
        table = folder.json(name)
        if _UNKNOWN not in table:
            yield f"{name} has no {_UNKNOWN}"
        if max(table.values(), default=0) >= size:
            yield f"{name} has ids up to {max(table.values())}, and the model {size} words"
        if table.get(_END, marks.end) != marks.end:
            yield f"{_END} is {table[_END]} in {name}, and eos_token_id is {marks.end}"


def read_text(folder: ForeignFolder, marks: Marks) -> Tokenizers:
    """Their tokenizers, with our numbers.

    What is unknown is a word like any other, because their searches may write it; only if theirs
    are forbidden to, is it our unknown, which nobody writes.
    """
    config = TokenizerConfig(
        kind="marian", joint=_is_joint(folder), vocab_size=max(marks.source_size, marks.target_size)
    )
    files = folder.files(*PIECES, *VOCABULARIES[: 1 if config.joint else 2])
    tables = [json.loads(files[name]) for name in files if name in VOCABULARIES]
    forbidden = (folder.json(GENERATION) or folder.config).get("bad_words_ids") or []
    unknown = tables[-1][_UNKNOWN] if [tables[-1][_UNKNOWN]] in forbidden else None
    target = Numbering(
        marks.target_size, pad=marks.pad, unknown=unknown, start=marks.start, end=marks.end
    )
    source = Numbering(
        marks.source_size, pad=marks.pad, unknown=unknown, start=marks.start, end=marks.end
    )
    if not config.joint:
        source = Numbering(
            marks.source_size,
            pad=tables[0].get(_PAD),
            unknown=tables[0][_UNKNOWN],
            end=tables[0].get(_END, marks.end),
        )
    try:
        return Tokenizers(*made_of(files, source, target, config), config)
    except RuntimeError:
        raise ModelError(
            f"{' or '.join(PIECES)} of {folder.path} is no SentencePiece model. Copy it again."
        ) from None


def unwritable_text(tokenizers: Tokenizers) -> Iterator[str]:
    """Why tokenizers of ours cannot be Marian's."""
    config = tokenizers.config
    if config.is_foreign and config.kind != "marian":
        yield f"its tokenizer is {config.kind}; it knows SentencePiece"


def text_files(tokenizers: Tokenizers) -> dict[str, bytes]:
    """The files of their tokenizer, but for its settings."""
    both = tokenizers.source, tokenizers.target
    files: dict[str, bytes] = {}
    for tokenizer, pieces, table in zip(both, PIECES, VOCABULARIES, strict=True):
        if isinstance(tokenizer, ForeignTokenizer):
            files.update(tokenizer.files)
            continue
        files[pieces] = self_normalizing(tokenizer)
        names = tokenizer.pieces(range(tokenizer.vocab_size))
        numbers = {piece: number for number, piece in enumerate(names)}
        files[table] = json.dumps(numbers, ensure_ascii=False, indent=2).encode()
    if tokenizers.config.joint:
        files.pop(VOCABULARIES[1], None)
    return files
