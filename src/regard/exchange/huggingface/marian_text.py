"""Marian's tokenizer, both ways: two SentencePiece models, and the ids of their pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from regard.errors import ModelError
from regard.exchange.huggingface.added_tokens import special_tokens
from regard.exchange.huggingface.folder import TOKENIZER, ForeignFolder
from regard.exchange.normalizer import self_normalizing
from regard.text.added import AddedToken, AddedTokens
from regard.text.config import TokenizerConfig
from regard.text.foreign import (
    PIECES,
    SPECIAL_TOKENS,
    VOCABULARIES,
    ForeignTokenizer,
    MarianTokenizer,
    made_of,
    vocabulary_table,
)
from regard.text.numbering import Numbering
from regard.text.tokenizer import Tokenizers

_CLASS = "MarianTokenizer"
_UNKNOWN, _END, _PAD = "<unk>", "</s>", "<pad>"
_USUAL = {"unk_token": _UNKNOWN, "eos_token": _END, "pad_token": _PAD}


class Marks(NamedTuple):
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
    settings = folder.json(TOKENIZER)
    name = str(settings.get("tokenizer_class") or _CLASS).removesuffix("Fast")
    if name != _CLASS:
        yield f"tokenizer_class is {name}; {_CLASS} is needed"
    if settings.get("auto_map"):
        yield f"auto_map of {TOKENIZER} names Python code, which regard does not run"
    if settings.get("sp_model_kwargs"):
        yield "sp_model_kwargs is not empty; SentencePiece is used without options here"
    names = [*PIECES, *VOCABULARIES[: 1 if _is_joint(folder) else 2]]
    missing = [name for name in names if not (folder.path / name).is_file()]
    if missing:
        yield f"its tokenizer is incomplete: {', '.join(missing)} cannot be found"
        return
    for name, size in zip(names[2:], (marks.source_size, marks.target_size), strict=False):
        table = vocabulary_table(folder.files(name)[name], folder.path / name)
        if max(table.values(), default=0) >= size:
            yield f"{name} has ids up to {max(table.values())}, and the model {size} words"
    if all(_UNKNOWN in folder.json(name) for name in names[2:]):
        yield from _obstacles_in_tokens(folder, marks, names[2:])


def _obstacles_in_tokens(
    folder: ForeignFolder, marks: Marks, tables: Sequence[str]
) -> Iterator[str]:
    """What is wrong with special and added tokens."""
    named = special_tokens(folder, _USUAL, ()).named
    for name in ("unk_token", "eos_token"):
        if str(named[name]) != _USUAL[name]:
            yield f"{name} is {named[name]}; {_USUAL[name]} is needed"
            return
    added = _added_tokens(folder, marks)
    if added.ids[_END] != marks.end:
        yield f"{_END} is {added.ids[_END]} for its tokenizer, and eos_token_id is {marks.end}"
    for name, size in zip(tables, (marks.source_size, marks.target_size), strict=False):
        table = folder.json(name)
        for text, number in added.ids.items():
            if number >= size:
                yield f"the added token {text!r} is {number}, and the model has {size} words"
            elif table.get(text, number) != number:
                yield f"the added token {text!r} is {number}, and {table[text]} in {name}"


def _added_tokens(folder: ForeignFolder, marks: Marks) -> AddedTokens:
    """Their special and added tokens; ids are the source's, for both sides."""
    settings, tokens = folder.json(TOKENIZER), special_tokens(folder, _USUAL, ())
    added, known = dict(tokens.added), folder.json(VOCABULARIES[0])
    known |= {token.content: number for number, token in added.items()}
    special = [str(x) for x in [*tokens.named.values(), *tokens.more] if x is not None and str(x)]
    new = iter(range(len(known), len(known) + len(special)))
    ids = {text: known[text] if text in known else next(new) for text in dict.fromkeys(special)}
    for text, number in ids.items():
        if not (text in tokens.defaults and text != _END and number >= marks.source_size):
            token = added.setdefault(number, AddedToken(text, normalized=False, special=True))
            if token.content != text:
                raise ModelError(
                    f"The tokenizer of {folder.path} has one id ({number}) for two tokens, "
                    f"{text!r} and {token.content!r}. Copy the whole folder again."
                )
    return AddedTokens(
        added,
        frozenset(ids.values()),
        splits=not settings.get("split_special_tokens"),
        clean_up=bool(settings.get("clean_up_tokenization_spaces")),
    )


def read_text(folder: ForeignFolder, marks: Marks) -> Tokenizers:
    """Their tokenizers, with our numbers.

    What is unknown is a word like any other, because their searches may write it; only if theirs
    are forbidden to, is it our unknown, which nobody writes.
    """
    config = TokenizerConfig(
        kind="marian", joint=_is_joint(folder), vocab_size=max(marks.source_size, marks.target_size)
    )
    files = folder.files(*PIECES, *VOCABULARIES[: 1 if config.joint else 2])
    files[SPECIAL_TOKENS] = _added_tokens(folder, marks).to_json()
    tables = [vocabulary_table(files[name], name) for name in files if name in VOCABULARIES]
    forbidden = folder.forbidden_words()
    unknown = tables[-1][_UNKNOWN] if [tables[-1][_UNKNOWN]] in forbidden else None
    source, target = (
        Numbering(size, pad=marks.pad, unknown=unknown, start=marks.start, end=marks.end)
        for size in (marks.source_size, marks.target_size)
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


def text_settings(tokenizers: Tokenizers) -> dict[str, Any]:
    """What their tokenizer_config.json says of special and added tokens."""
    target = tokenizers.target
    if not isinstance(target, MarianTokenizer):
        return {"split_special_tokens": True}  # to ours, "<unk>" in a text is text
    added = target.added
    silent = (added.tokens[i].content for i in sorted(added.silent or ()) if i in added.tokens)
    return {
        "added_tokens_decoder": {str(i): asdict(token) for i, token in added.tokens.items()},
        "extra_special_tokens": [text for text in silent if text not in _USUAL.values()],
        "split_special_tokens": not added.splits,
        "clean_up_tokenization_spaces": added.clean_up,
    }


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
    files.pop(SPECIAL_TOKENS, None)
    if tokenizers.config.joint:
        files.pop(VOCABULARIES[1], None)
    return files
