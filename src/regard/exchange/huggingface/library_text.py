"""Tokenizers that the package `tokenizers` reads: WordPiece, byte-level BPE, XLNet's unigrams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from regard.exchange.huggingface.folder import ForeignFolder
from regard.exchange.huggingface.tokenizer_classes import (
    build,
    is_generic,
    obstacles_in_class,
    tokens_of,
)
from regard.exchange.huggingface.vocabularies import library_content
from regard.exchange.packages import need
from regard.text.config import ForeignKind, TokenizerConfig
from regard.text.foreign import LIBRARY, LibraryTokenizer
from regard.text.numbering import Numbering
from regard.text.special import SPECIAL
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizers

XLNET_MARKS = {
    **{mark: f"<{mark}>" for mark in ("unk", "cls", "sep", "pad", "mask")},
    "bos": "<s>",
    "eos": "</s>",
    "document": "<eod>",
}
_MARKS = {
    "wordpiece": {m: f"[{m.upper()}]" for m in ("pad", "unk", "cls", "sep", "mask")},
    "byte_bpe": {
        **{mark: f"<{mark}>" for mark in ("pad", "unk", "mask")},
        "cls": "<s>",
        "sep": "</s>",
        "bos": "<s>",
    },
    "xlnet": XLNET_MARKS,
}
_MARKS_OF_OURS = 4
_SPACE = "▁"
_UNIGRAM = "Unigram"
_LIBRARY_NAME = {"wordpiece": "WordPiece", "byte_bpe": "BPE", "xlnet": _UNIGRAM}


def obstacles_in_text(folder: ForeignFolder, kind: ForeignKind, words: int) -> Iterator[str]:
    """What is wrong with the files of their tokenizer, for a model of so many words."""
    need("tokenizers", extra="huggingface")
    if found := list(obstacles_in_class(folder, kind)):
        yield from found
        return
    needed = [_LIBRARY_NAME[kind], *([_UNIGRAM] if is_generic(folder) else [])]
    for content in folder.files(LIBRARY).values():
        model = library_content(content)["model"].get("type")
        if model not in (None, *needed):
            yield f"its tokenizer is {model}; {' or '.join(needed)} is needed"
            return
    library = build(folder, kind)
    largest = max(library.get_vocab().values(), default=0)
    if largest >= words:
        yield f"its tokenizer has ids up to {largest}, and the model {words} words"


def marks_of(folder: ForeignFolder, kind: ForeignKind) -> dict[str, int | None]:
    """Their ids of their marks: pad, unk, cls, sep, mask, and what else their kind has."""
    library, named = build(folder, kind), tokens_of(folder).named
    return {
        mark: library.token_to_id(str(named.get(f"{mark}_token") or usual))
        for mark, usual in _MARKS[kind].items()
    }


def read_text(folder: ForeignFolder, kind: ForeignKind, numbering: Numbering) -> Tokenizers:
    """Their tokenizer, with our numbers; the kind is what such models have as a rule."""
    content = _content(folder, kind)
    model = library_content(content)["model"]
    if model.get("type") == _UNIGRAM and (kind != "xlnet" or model.get("byte_fallback")):
        kind = "unigram_json"
    config = TokenizerConfig(kind=kind, vocab_size=numbering.size)
    both = LibraryTokenizer({LIBRARY: content}, numbering, config)
    return Tokenizers(both, both, config)


def begins_with(folder: ForeignFolder, kind: ForeignKind, token: int | None) -> bool:
    """Whether their tokenizer writes this id before each text."""
    return list(build(folder, kind).encode("a").ids[:1]) == [token]


def unwritable_text(tokenizers: Tokenizers) -> Iterator[str]:
    """Why a tokenizer cannot be written as a tokenizer.json."""
    tokenizer = tokenizers.target
    if isinstance(tokenizer, LibraryTokenizer):
        return
    if tokenizers.config.kind != "unigram":
        yield (
            f"its tokenizer is {tokenizers.config.kind}; of ours, tokenizer.json can be a unigram"
        )
    elif not tokenizer.pieces([_MARKS_OF_OURS])[0].startswith("<0x"):
        yield "its tokenizer has tags, which no unigram of theirs would leave whole"


def text_files(tokenizers: Tokenizers, template: str, mask: int | None = None) -> dict[str, bytes]:
    """The tokenizer.json of a tokenizer; of one of ours, a text stands as in the template.

    mask: the id that stands for a hidden word, the spaces around it included
    """
    tokenizer = tokenizers.target
    if isinstance(tokenizer, LibraryTokenizer):
        return dict(tokenizer.files)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    need("tokenizers", extra="huggingface")
    text: str = _unigram(tokenizer, template, mask).to_str()
    return {LIBRARY: text.encode()}


def _unigram(tokenizer: SentencePieceTokenizer, template: str, mask: int | None) -> Any:
    """Our SentencePiece model: a space before each line, and bytes for what no piece covers."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, processors

    size = tokenizer.vocab_size
    pieces = list(zip(tokenizer.pieces(range(size)), tokenizer.scores(), strict=True))
    made = Tokenizer(models.Unigram(pieces, unk_id=SPECIAL.unknown, byte_fallback=True))
    config = tokenizer.config
    first: list[Any] = [normalizers.NFKC()] if config.nfkc else []
    first += [normalizers.Lowercase()] if config.lowercase else []
    spaces: list[tuple[Any, str]] = [
        (Regex(r"\n(?!\n|\z)"), "\n "),
        (" ", _SPACE),
    ]  # no piece is in an empty line
    made.normalizer = normalizers.Sequence(
        [*first, normalizers.Prepend(" "), *(normalizers.Replace(*pair) for pair in spaces)]
    )
    joined = [("\n" + _SPACE, "\n"), (_SPACE, " ")]
    made.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Fuse(),
            *(decoders.Replace(*pair) for pair in joined),
            decoders.Strip(" ", 1, 0),
        ]
    )
    marks = dict(zip(("<pad>", "<unk>", "<s>", "</s>"), range(_MARKS_OF_OURS), strict=True))
    for mark, number in marks.items():  # a space is put before whatever follows one
        spaced = number == mask
        token = AddedToken(mark, lstrip=spaced, rstrip=spaced, normalized=False, special=True)
        made.add_special_tokens([token])
    special = [(mark, number) for mark, number in marks.items() if mark in template.split()]
    pair = f"{template} $B:1 </s>:1" if template.endswith("</s>") else "$A $B:1"
    made.post_processor = processors.TemplateProcessing(
        single=template, pair=pair, special_tokens=special
    )
    return made


def _content(folder: ForeignFolder, kind: ForeignKind) -> bytes:
    """Their tokenizer as one tokenizer.json, which says all."""
    text: str = build(folder, kind).to_str()
    return text.encode()
