"""Tokenizers of imported models, as their files describe them.

marian       source.spm, target.spm: SentencePiece, each side its own
             vocab.json: what ids the pieces have; target_vocab.json, if the target has other ids
             special_tokens.json: tokens that are looked for in text first; absent in older folders
wordpiece    tokenizer.json, which the package `tokenizers` reads
byte_bpe     the same
xlnet        the same: SentencePiece's unigrams
numbering.json, with all of them: which of their ids are our marks
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sentencepiece

from regard.config import Settings, as_tree
from regard.errors import ConfigError, ModelError
from regard.regular import read_regular
from regard.schema import MEBIBYTE, JsonReader
from regard.text.added import AddedTokens
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.numbering import ALONE, Numbering
from regard.text.special import SPECIAL

if TYPE_CHECKING:
    import tokenizers

NUMBERING, LIBRARY = "numbering.json", "tokenizer.json"
PIECES, VOCABULARIES = ("source.spm", "target.spm"), ("vocab.json", "target_vocab.json")
SPECIAL_TOKENS = "special_tokens.json"
FOREIGN_FILES = (NUMBERING, LIBRARY, *PIECES, *VOCABULARIES, SPECIAL_TOKENS)
LARGEST = 256 * MEBIBYTE  # bytes of a file
_SPACE = "▁"
_CODE = re.compile(">>.*?<<", re.DOTALL)  # the language to translate to, before a text: >>fra<<
_UNKNOWN = "<unk>"
# What stands for a line feed and for a space.
_LINE_BREAK = {"byte_bpe": "Ċ", "xlnet": "<eop>", "unigram_json": "<0x0A>"}
_WORD = {"byte_bpe": "Ġ", "xlnet": _SPACE, "unigram_json": _SPACE}


_READER = JsonReader(ModelError, "Copy the whole folder again.", limit=LARGEST)


@dataclass(frozen=True)
class _Numberings(Settings):
    """The fields of `numbering.json`."""

    source: Numbering
    target: Numbering


def vocabulary_table(content: bytes, name: Path | str) -> dict[str, int]:
    """Their pieces and ids, from a JSON file; the unknown token must be there."""
    table = _READER.parse(content, name)
    for piece, number in table.items():
        if type(number) is not int or number < 0:
            raise _READER.wrong(name, f"{piece!r} has the id {str(number)[:40]}")
    if _UNKNOWN not in table:
        raise _READER.wrong(name, f"it has no {_UNKNOWN}")
    return table


class ForeignTokenizer(Tokenizer):
    """What imported tokenizers have in common: files, and a numbering."""

    def __init__(
        self, files: dict[str, bytes], numbering: Numbering, config: TokenizerConfig
    ) -> None:
        self.files = files
        self.numbering = numbering
        self.config = config
        self.model = b"".join([*files.values(), str(numbering).encode()])

    @property
    def vocab_size(self) -> int:
        """How many ids there are, marks included."""
        return len(self.numbering.theirs)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id looks like; what is ours alone, or has no name, is told by its number."""
        theirs = (self.numbering.theirs[int(number)] for number in ids)
        names = [None if number == ALONE else self._piece(number) for number in theirs]
        return [
            f"<{number}>" if name is None else name for number, name in zip(ids, names, strict=True)
        ]

    def word_begins(self) -> list[bool]:
        """For each id, whether its piece begins a word."""
        return [self._begins(piece) for piece in self.pieces(range(self.vocab_size))]

    @property
    def line_break(self) -> int:
        """The id between two lines of a running text: where there is no other, the end mark."""
        return SPECIAL.end

    def _piece(self, theirs: int) -> str | None:
        """The name of an id of theirs."""
        raise NotImplementedError

    def _begins(self, piece: str) -> bool:
        raise NotImplementedError


class MarianTokenizer(ForeignTokenizer):
    """SentencePiece, whose pieces have the ids of a table."""

    def __init__(
        self,
        side: tuple[str, str],
        files: dict[str, bytes],
        numbering: Numbering,
        config: TokenizerConfig,
    ) -> None:
        special = [name for name in (SPECIAL_TOKENS,) if name in files]
        super().__init__({name: files[name] for name in (*side, *special)}, numbering, config)
        pieces, table = (files[name] for name in side)
        self._processor = _processor(pieces)
        # With one table of ids, theirs decodes by the source's model.
        self._decoder = _processor(files[PIECES[0]]) if config.joint else self._processor
        self.table = vocabulary_table(table, side[1])
        self.added = AddedTokens()
        if special:
            content = files[SPECIAL_TOKENS]
            self.added = AddedTokens.from_json(content, _READER, SPECIAL_TOKENS, numbering.size)
        self._known = self.table | self.added.ids
        if max(self.table.values()) >= numbering.size:
            raise _READER.wrong(side[1], f"it has ids beyond the {numbering.size} of {NUMBERING}")
        self._names = {number: piece for piece, number in self.table.items()}
        self._names |= {number: token.content for number, token in self.added.tokens.items()}
        marks = {self.numbering.pad, self.numbering.end, self.table[_UNKNOWN]}
        self._silent = marks if self.added.silent is None else self.added.silent

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts; a code of a language before a text is one piece."""
        parts = [self.added.parts(text) for text in texts]
        plain = [part for text in parts for part in text if isinstance(part, str)]
        codes = [code[0] if (code := _CODE.match(text)) else "" for text in plain]
        rest = [text[len(code) :] for text, code in zip(plain, codes, strict=True)]
        cut = self._processor.encode(rest, out_type=str, num_threads=1)
        pieces = ([code, *own] if code else own for code, own in zip(codes, cut, strict=True))
        return [
            self.numbering.ours(
                number
                for part in text
                for number in ([part] if isinstance(part, int) else self._ids(next(pieces)))
            )
            for text in parts
        ]

    def _ids(self, pieces: Sequence[str]) -> list[int]:
        """Their ids."""
        unknown = self.table[_UNKNOWN]
        return [self._known.get(piece, unknown) for piece in pieces]

    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The texts of many ids; marks give no text."""
        return [self._text(ids) for ids in sentences]

    def _text(self, ids: Sequence[int]) -> str:
        theirs = (number for number in self.numbering.written(ids) if number not in self._silent)
        text: str = self._decoder.decode_pieces([self._name(number) for number in theirs])
        return self.added.cleaned(text.replace(_SPACE, " ").strip())

    def _name(self, theirs: int) -> str:
        """What an id is decoded as; one without a name is SentencePiece's piece of that number."""
        name = self._names.get(theirs)
        if name is None and theirs < self._decoder.vocab_size():
            name = self._decoder.id_to_piece(theirs)
        return name or ""

    def _piece(self, theirs: int) -> str | None:
        return self._names.get(theirs)

    def _begins(self, piece: str) -> bool:
        return piece.startswith(_SPACE)


class LibraryTokenizer(ForeignTokenizer):
    """WordPiece, byte-level BPE or unigrams, by the package `tokenizers`."""

    def __init__(
        self, files: dict[str, bytes], numbering: Numbering, config: TokenizerConfig
    ) -> None:
        super().__init__({LIBRARY: files[LIBRARY]}, numbering, config)

    @cached_property
    def library(self) -> tokenizers.Tokenizer:
        """The package's own; made when there is text, since who trains needs ids alone."""
        found = library_tokenizer(self.files[LIBRARY])
        largest = max(found.get_vocab().values(), default=0)
        if largest >= self.numbering.size:
            raise ModelError(
                f"{LIBRARY} has ids up to {largest}, and {NUMBERING} is for {self.numbering.size}. "
                "Copy the whole folder again."
            )
        return found

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, without start or end."""
        found = self.library.encode_batch(list(texts), add_special_tokens=False)
        return [self.numbering.ours(one.ids) for one in found]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Ids of each word; to byte-level BPE, the space before a word is a part of it."""
        if self.config.kind == "byte_bpe":
            words = [*words[:1], *(f" {word}" for word in words[1:])]
        return super().encode_words(words)

    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The texts of many ids; marks give no text."""
        return self.library.decode_batch([self.numbering.written(ids) for ids in sentences])

    @property
    def line_break(self) -> int:
        """The id of a line feed, or of XLNet's end of a paragraph."""
        name = _LINE_BREAK.get(self.config.kind)
        found = None if name is None else self.library.token_to_id(name)
        return super().line_break if found is None else self.numbering.ours([found])[0]

    def encode_lines(self, text: str) -> list[int]:
        """Ids of a running text; line breaks are text to byte-level BPE."""
        return self.encode(text) if self.config.kind == "byte_bpe" else super().encode_lines(text)

    def decode_lines(self, ids: Sequence[int]) -> str:
        """The running text of ids."""
        return self.decode(ids) if self.config.kind == "byte_bpe" else super().decode_lines(ids)

    def _piece(self, theirs: int) -> str | None:
        return self.library.id_to_token(theirs)

    def _begins(self, piece: str) -> bool:
        if self.config.kind == "wordpiece":
            return not piece.startswith("##")
        return piece.startswith(_WORD[self.config.kind])


@contextmanager
def refusing_panics(where: Path | str) -> Iterator[None]:
    """Turn a panic of the package `tokenizers`, which is no `Exception`, into a sentence."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"The tokenizer of {where} is damaged ({error}). Copy it again.") from None


def library_tokenizer(content: bytes) -> tokenizers.Tokenizer:
    """A tokenizer.json, ready to cut texts of any length."""
    try:
        import tokenizers
    except ImportError:
        raise ConfigError(
            "This model's tokenizer needs the package tokenizers, which is not installed. "
            "Install what belongs to it: pip install 'regard[huggingface]'"
        ) from None
    try:
        with refusing_panics(LIBRARY):
            found = tokenizers.Tokenizer.from_str(content.decode())
    except ModelError:
        raise
    except Exception as error:  # it raises nothing more particular
        raise ModelError(
            f"{LIBRARY} is damaged, or newer than the package tokenizers that is installed "
            f"({error}). Copy it again, or update the package."
        ) from None
    found.no_padding()
    found.no_truncation()
    return found


def foreign_files(source: Tokenizer, target: Tokenizer) -> dict[str, bytes]:
    """What to store of two imported tokenizers, by file name."""
    sides = {"source": source, "target": target}
    files: dict[str, bytes] = {}
    numbers: dict[str, Any] = {}
    for side, tokenizer in sides.items():
        assert isinstance(tokenizer, ForeignTokenizer)
        files.update(tokenizer.files)
        numbers[side] = as_tree(tokenizer.numbering)
    return {**files, NUMBERING: (json.dumps(numbers, indent=2) + "\n").encode()}


def foreign_tokenizers(folder: Path, config: TokenizerConfig) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides, from a folder with the files of `foreign_files`."""
    names = [NUMBERING, LIBRARY]
    if config.kind == "marian":
        names = [NUMBERING, *PIECES, *VOCABULARIES[: 1 if config.joint else 2]]
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise ModelError(
            f"{folder} is incomplete: {missing[0]} is missing. Copy the whole folder again."
        )
    files = {name: read_regular(folder / name, LARGEST) for name in names}
    if config.kind == "marian" and (folder / SPECIAL_TOKENS).exists():
        files[SPECIAL_TOKENS] = read_regular(folder / SPECIAL_TOKENS, LARGEST)
    numbers = _READER.build(
        _Numberings, _READER.parse(files[NUMBERING], folder / NUMBERING), folder / NUMBERING
    )
    try:
        return made_of(files, numbers.source, numbers.target, config)
    except (RuntimeError, ValueError, KeyError) as error:
        raise ModelError(
            f"The tokenizer in {folder} is damaged ({error}). Copy the whole folder again."
        ) from None


def made_of(
    files: dict[str, bytes], source: Numbering, target: Numbering, config: TokenizerConfig
) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of both sides from the contents of their files."""
    if config.kind == "marian":
        first, last = VOCABULARIES[0], VOCABULARIES[0 if config.joint else 1]
        return (
            MarianTokenizer((PIECES[0], first), files, source, config),
            MarianTokenizer((PIECES[1], last), files, target, config),
        )
    both = LibraryTokenizer(files, source, config)
    return both, both


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """SentencePiece with a model."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return processor
