"""Tokenizers of imported models, and the files they are stored in.

marian       source.spm, target.spm: SentencePiece models
             vocab.json: ids of the subwords; target_vocab.json if source and target ids differ
             special_tokens.json: added tokens; absent in older folders
wordpiece    tokenizer.json, in the format of the package `tokenizers`
byte_bpe     the same
xlnet        the same, with a SentencePiece unigram model
unigram_json the same
all          numbering.json: the mapping between imported and internal ids
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

from regard.config import Settings
from regard.errors import ConfigError, ModelError
from regard.regular_files import read_regular_file
from regard.schema import MEBIBYTE, JsonReader
from regard.settings_tree import to_tree
from regard.text.added import AddedTokens
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.id_mapping import NO_IMPORTED_ID, IdMapping
from regard.text.special import SPECIAL

if TYPE_CHECKING:
    import tokenizers

ID_MAPPING, TOKENIZER_JSON = "numbering.json", "tokenizer.json"
SENTENCEPIECE_MODELS = ("source.spm", "target.spm")
VOCABULARIES = ("vocab.json", "target_vocab.json")
SPECIAL_TOKENS = "special_tokens.json"
IMPORTED_TOKENIZER_FILES = (
    ID_MAPPING,
    TOKENIZER_JSON,
    *SENTENCEPIECE_MODELS,
    *VOCABULARIES,
    SPECIAL_TOKENS,
)
MAX_FILE_SIZE = 256 * MEBIBYTE
_SPACE = "▁"
_LANGUAGE_CODE = re.compile(">>.*?<<", re.DOTALL)  # target language before a text: >>fra<<
_UNK = "<unk>"
# Tokens for a line feed, and prefixes of tokens that begin a word.
_LINE_BREAKS = {"byte_bpe": "Ċ", "xlnet": "<eop>", "unigram_json": "<0x0A>"}
_WORD_PREFIXES = {"byte_bpe": "Ġ", "xlnet": _SPACE, "unigram_json": _SPACE}


_READER = JsonReader(ModelError, "Copy the whole folder again.", limit=MAX_FILE_SIZE)


@dataclass(frozen=True)
class _IdMappings(Settings):
    """The fields of `numbering.json`."""

    source: IdMapping
    target: IdMapping


def parse_vocabulary(content: bytes, name: Path | str) -> dict[str, int]:
    """Subwords and ids from a JSON file, which must contain the unknown token."""
    table = _READER.parse(content, name)
    for subword, token_id in table.items():
        if type(token_id) is not int or token_id < 0:
            raise _READER.content_error(name, f"{subword!r} has the id {str(token_id)[:40]}")
    if _UNK not in table:
        raise _READER.content_error(name, f"it has no {_UNK}")
    return table


class ImportedTokenizer(Tokenizer):
    """Base class: the tokenizer's files and its id mapping."""

    def __init__(
        self, files: dict[str, bytes], id_mapping: IdMapping, config: TokenizerConfig
    ) -> None:
        self.files = files
        self.id_mapping = id_mapping
        self.config = config
        self.model = b"".join([*files.values(), id_mapping.fingerprint.encode()])

    @property
    def vocab_size(self) -> int:
        """Number of ids, special tokens included."""
        return len(self.id_mapping.imported_ids)

    def ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The token string of each id; `<id>` if it has none in the imported vocabulary."""
        imported = (self.id_mapping.imported_ids[int(token)] for token in ids)
        names = [None if token == NO_IMPORTED_ID else self._token(token) for token in imported]
        return [
            f"<{token}>" if name is None else name for token, name in zip(ids, names, strict=True)
        ]

    def word_starts(self) -> list[bool]:
        """For each id, whether its token begins a word."""
        return [self._starts_word(token) for token in self.ids_to_tokens(range(self.vocab_size))]

    @property
    def line_break(self) -> int:
        """The id of the line break in plain text; EOS if the vocabulary has none."""
        return SPECIAL.eos

    def _token(self, imported_id: int) -> str | None:
        """The token string of an imported id."""
        raise NotImplementedError

    def _starts_word(self, token: str) -> bool:
        raise NotImplementedError


class MarianTokenizer(ImportedTokenizer):
    """SentencePiece with a separate table of ids, as in Marian models."""

    def __init__(
        self,
        side: tuple[str, str],
        files: dict[str, bytes],
        id_mapping: IdMapping,
        config: TokenizerConfig,
    ) -> None:
        special = [name for name in (SPECIAL_TOKENS,) if name in files]
        super().__init__({name: files[name] for name in (*side, *special)}, id_mapping, config)
        model, table = (files[name] for name in side)
        self._processor = _processor(model)
        # With a joint vocabulary, Marian decodes with the source model.
        self._decoder = (
            _processor(files[SENTENCEPIECE_MODELS[0]]) if config.joint else self._processor
        )
        self.table = parse_vocabulary(table, side[1])
        self.added = AddedTokens()
        if special:
            content = files[SPECIAL_TOKENS]
            self.added = AddedTokens.from_json(content, _READER, SPECIAL_TOKENS, id_mapping.size)
        self._ids_by_token = self.table | self.added.ids
        if max(self.table.values()) >= id_mapping.size:
            raise _READER.content_error(
                side[1], f"it has ids beyond the {id_mapping.size} of {ID_MAPPING}"
            )
        self._names = {token_id: subword for subword, token_id in self.table.items()}
        self._names |= {token_id: token.content for token_id, token in self.added.tokens.items()}
        special_ids = {self.id_mapping.pad, self.id_mapping.end, self.table[_UNK]}
        self._silent = special_ids if self.added.silent is None else self.added.silent

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text; a language code at its beginning is one token."""
        parts = [self.added.split(text) for text in texts]
        plain = [part for text in parts for part in text if isinstance(part, str)]
        codes = [code[0] if (code := _LANGUAGE_CODE.match(text)) else "" for text in plain]
        rest = [text[len(code) :] for text, code in zip(plain, codes, strict=True)]
        encoded = self._processor.encode(rest, out_type=str, num_threads=1)
        rows = ([code, *row] if code else row for code, row in zip(codes, encoded, strict=True))
        return [
            self.id_mapping.to_internal(
                token
                for part in text
                for token in ([part] if isinstance(part, int) else self._imported_ids(next(rows)))
            )
            for text in parts
        ]

    def _imported_ids(self, subwords: Sequence[str]) -> list[int]:
        """The imported ids of subwords."""
        unk = self.table[_UNK]
        return [self._ids_by_token.get(subword, unk) for subword in subwords]

    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids; special tokens are skipped."""
        return [self._decode(ids) for ids in sentences]

    def _decode(self, ids: Sequence[int]) -> str:
        visible = (token for token in self.id_mapping.to_imported(ids) if token not in self._silent)
        text: str = self._decoder.decode_pieces([self._decoded_token(token) for token in visible])
        return self.added.clean_up_text(text.replace(_SPACE, " ").strip())

    def _decoded_token(self, imported_id: int) -> str:
        """The token to decode; an id missing from the table is looked up in SentencePiece."""
        name = self._names.get(imported_id)
        if name is None and imported_id < self._decoder.vocab_size():
            name = self._decoder.id_to_piece(imported_id)
        return name or ""

    def _token(self, imported_id: int) -> str | None:
        return self._names.get(imported_id)

    def _starts_word(self, token: str) -> bool:
        return token.startswith(_SPACE)


class HuggingFaceTokenizer(ImportedTokenizer):
    """WordPiece, byte-level BPE or unigram, implemented by the package `tokenizers`."""

    def __init__(
        self, files: dict[str, bytes], id_mapping: IdMapping, config: TokenizerConfig
    ) -> None:
        super().__init__({TOKENIZER_JSON: files[TOKENIZER_JSON]}, id_mapping, config)

    @cached_property
    def library(self) -> tokenizers.Tokenizer:
        """The tokenizer of the package, loaded on first use: training needs only ids."""
        tokenizer = load_huggingface_tokenizer(self.files[TOKENIZER_JSON])
        largest, size = max(tokenizer.get_vocab().values(), default=0), self.id_mapping.size
        if largest >= size:
            raise ModelError(
                f"{TOKENIZER_JSON} has ids up to {largest}, but {ID_MAPPING} has the size {size}. "
                "Copy the whole folder again."
            )
        return tokenizer

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without BOS and EOS."""
        encodings = self.library.encode_batch(list(texts), add_special_tokens=False)
        return [self.id_mapping.to_internal(encoding.ids) for encoding in encodings]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Ids of each word; byte-level BPE includes the space before a word."""
        if self.config.kind == "byte_bpe":
            words = [*words[:1], *(f" {word}" for word in words[1:])]
        return super().encode_words(words)

    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids; special tokens are skipped."""
        return self.library.decode_batch([self.id_mapping.to_imported(ids) for ids in sentences])

    @property
    def line_break(self) -> int:
        """The id of a line feed, or of XLNet's end-of-paragraph token."""
        name = _LINE_BREAKS.get(self.config.kind)
        token = None if name is None else self.library.token_to_id(name)
        return super().line_break if token is None else self.id_mapping.to_internal([token])[0]

    def encode_lines(self, text: str) -> list[int]:
        """Ids of plain text; byte-level BPE encodes line breaks itself."""
        return self.encode(text) if self.config.kind == "byte_bpe" else super().encode_lines(text)

    def decode_lines(self, ids: Sequence[int]) -> str:
        """The plain text of ids, line breaks included."""
        return self.decode(ids) if self.config.kind == "byte_bpe" else super().decode_lines(ids)

    def _token(self, imported_id: int) -> str | None:
        return self.library.id_to_token(imported_id)

    def _starts_word(self, token: str) -> bool:
        if self.config.kind == "wordpiece":
            return not token.startswith("##")
        return token.startswith(_WORD_PREFIXES[self.config.kind])


@contextmanager
def panics_as_errors(where: Path | str) -> Iterator[None]:
    """Convert a panic of the package `tokenizers`, which is no `Exception`, to a ModelError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"The tokenizer of {where} is damaged ({error}). Copy it again.") from None


def load_huggingface_tokenizer(content: bytes) -> tokenizers.Tokenizer:
    """Load a tokenizer.json, with padding and truncation disabled."""
    try:
        import tokenizers
    except ImportError:
        raise ConfigError(
            "This model's tokenizer requires the package tokenizers, which is not installed. "
            "Install it: pip install 'regard[huggingface]'"
        ) from None
    try:
        with panics_as_errors(TOKENIZER_JSON):
            tokenizer = tokenizers.Tokenizer.from_str(content.decode())
    except ModelError:
        raise
    except Exception as error:  # the package raises no more specific class
        raise ModelError(
            f"{TOKENIZER_JSON} is damaged, or newer than the package tokenizers that is installed "
            f"({error}). Copy it again, or update the package."
        ) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def imported_tokenizer_files(source: Tokenizer, target: Tokenizer) -> dict[str, bytes]:
    """The contents of the files of two imported tokenizers, by file name."""
    sides = {"source": source, "target": target}
    files: dict[str, bytes] = {}
    mappings: dict[str, Any] = {}
    for side, tokenizer in sides.items():
        assert isinstance(tokenizer, ImportedTokenizer)
        files.update(tokenizer.files)
        mappings[side] = to_tree(tokenizer.id_mapping)
    return {**files, ID_MAPPING: (json.dumps(mappings, indent=2) + "\n").encode()}


def load_imported_tokenizers(folder: Path, config: TokenizerConfig) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides, from a folder with the files of `imported_tokenizer_files`."""
    names = [ID_MAPPING, TOKENIZER_JSON]
    if config.kind == "marian":
        names = [ID_MAPPING, *SENTENCEPIECE_MODELS, *VOCABULARIES[: 1 if config.joint else 2]]
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise ModelError(
            f"{folder} is incomplete: {missing[0]} is missing. Copy the whole folder again."
        )
    files = {name: read_regular_file(folder / name, MAX_FILE_SIZE) for name in names}
    if config.kind == "marian" and (folder / SPECIAL_TOKENS).exists():
        files[SPECIAL_TOKENS] = read_regular_file(folder / SPECIAL_TOKENS, MAX_FILE_SIZE)
    mappings = _READER.build(
        _IdMappings, _READER.parse(files[ID_MAPPING], folder / ID_MAPPING), folder / ID_MAPPING
    )
    try:
        return build_imported_tokenizers(files, mappings.source, mappings.target, config)
    except (RuntimeError, ValueError, KeyError) as error:
        raise ModelError(
            f"The tokenizer in {folder} is damaged ({error}). Copy the whole folder again."
        ) from None


def build_imported_tokenizers(
    files: dict[str, bytes], source: IdMapping, target: IdMapping, config: TokenizerConfig
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides from the contents of their files."""
    if config.kind == "marian":
        first, last = VOCABULARIES[0], VOCABULARIES[0 if config.joint else 1]
        return (
            MarianTokenizer((SENTENCEPIECE_MODELS[0], first), files, source, config),
            MarianTokenizer((SENTENCEPIECE_MODELS[1], last), files, target, config),
        )
    both = HuggingFaceTokenizer(files, source, config)
    return both, both


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """A SentencePiece processor for a model."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return processor
