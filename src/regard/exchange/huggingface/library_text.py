"""Our tokenizers as a tokenizer.json, which the package `tokenizers` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regard.config import Tree
from regard.exchange.huggingface.weights import their_numbering
from regard.exchange.requirements import need
from regard.text.base import Tokenizer
from regard.text.foreign import LIBRARY, LibraryTokenizer
from regard.text.numbering import ALONE
from regard.text.special import SPECIAL
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizers

_MARKS_OF_OURS = 4
_SPACE = "▁"


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


def token_settings(tokenizer: Tokenizer, ids: Mapping[str, int]) -> Tree:
    """Return their settings of the tokenizer: the names of special tokens, by our ids."""
    theirs = their_numbering(tokenizer).theirs
    named = [tokenizer.library.id_to_token] if isinstance(tokenizer, LibraryTokenizer) else []
    names = {
        f"{mark}_token": tokenizer.pieces([number])[0]
        for mark, number in ids.items()
        if theirs[number] != ALONE and all(name(theirs[number]) for name in named)
    }
    return {"tokenizer_class": "PreTrainedTokenizerFast", **names}


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
    lines = normalizers.Replace(Regex(r"\n(?!\n|\z)"), "\n ")  # no piece is in an empty line
    made.normalizer = normalizers.Sequence(
        [*first, normalizers.Prepend(" "), lines, normalizers.Replace(" ", _SPACE)]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace("\n" + _SPACE, "\n"),
            decoders.Replace(_SPACE, " "),
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
