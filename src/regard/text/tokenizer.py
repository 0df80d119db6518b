"""SentencePiece tokenizers: training, encoding, decoding.

Encoding is lossless by default: no normalization, whitespace is kept, and characters outside the
vocabulary use byte fallback. NFKC and lowercasing are options; they are implemented here and
stored with the model (SentencePiece's own case folding would also map "ß" to "ss").
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import sentencepiece

from regard.errors import ConfigError, DataError, ModelError
from regard.regular_files import read_regular_file
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.imported import MAX_FILE_SIZE, imported_tokenizer_files, load_imported_tokenizers
from regard.text.reversed import ReversedTokenizer
from regard.text.special import SPECIAL

_SPECIAL_TOKENS = 4
_MAX_TRAINING_LENGTH = 2000  # characters
_MIN_VOCAB_SIZE = 256 + _SPECIAL_TOKENS + 1  # bytes, special tokens and one subword
_NO_NORMALIZATION = "identity"  # in SentencePiece
_SPACE = "▁"  # SentencePiece's symbol for a space, also added before each text


def normalize_text(text: str, config: TokenizerConfig) -> str:
    """The text after the normalization that the settings enable."""
    if config.nfkc:
        text = unicodedata.normalize("NFKC", text)
    return text.lower() if config.lowercase else text


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model trained by `train_tokenizers`."""

    def __init__(self, model: bytes, config: TokenizerConfig) -> None:
        changes_text = config.nfkc or config.lowercase
        self.model = _without_normalization(model) if changes_text else model
        self.config = config
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(self.model)  # also rejects an empty model
        # Source tags have the ids between the special tokens and the byte tokens.
        others = range(_SPECIAL_TOKENS, self.vocab_size)
        self._tags = frozenset(takewhile(lambda i: not self._processor.is_byte(i), others))

    @property
    def vocab_size(self) -> int:
        """Number of ids, special tokens included."""
        return int(self._processor.vocab_size())

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without BOS and EOS; twice as fast as one call per text."""
        normalized = [normalize_text(text, self.config) for text in texts]
        ids: list[list[int]] = self._processor.encode(normalized, num_threads=1)
        return ids

    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids; special tokens are skipped."""
        if not sentences:
            return []
        plain = [list(map(int, ids)) for ids in sentences]
        texts: list[str] = self._processor.decode(plain, num_threads=1)
        return [self._restore_spaces(text, ids) for text, ids in zip(texts, plain, strict=True)]

    def _restore_spaces(self, text: str, ids: list[int]) -> str:
        """Replace "▁" by a space where it was encoded as bytes for lack of a subword."""
        if _SPACE not in text:
            return text
        if self._processor.is_byte(ids[0]):
            text = text.removeprefix(_SPACE)
        return text.replace(_SPACE, " ")

    @property
    def line_break(self) -> int:
        """The id of the line break in plain text: the byte token of a line feed."""
        return int(self._processor.piece_to_id("<0x0A>"))

    def ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The token string of each id."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def scores(self) -> list[float]:
        """The unigram log-probability of each subword."""
        scores: list[float] = self._processor.get_score(list(range(self.vocab_size)))
        return scores

    def word_starts(self) -> list[bool]:
        """For each id, whether its subword begins with a space and thus begins a word."""
        return [self._processor.id_to_piece(i).startswith(_SPACE) for i in range(self.vocab_size)]

    def nbest_encode(self, text: str, count: int) -> list[tuple[list[int], float]]:
        """Up to `count` segmentations of a text, best first, with their log-probabilities."""
        nbest: list[list[int]] = self._processor.nbest_encode(
            normalize_text(text, self.config), nbest_size=count
        )
        if self._tags:  # drop segmentations that split a tag, as the best one never does
            tags = [sum(token in self._tags for token in ids) for ids in nbest]
            nbest = [
                ids for ids, tag_count in zip(nbest, tags, strict=True) if tag_count == tags[0]
            ]
        return [(ids, sum(self._processor.get_score(ids))) for ids in nbest if ids]


def _without_normalization(model: bytes) -> bytes:
    """The model without normalization rules, which exported files have.

    `normalize_text` replaces them: rules cannot express all of it (see `exchange/normalizer.py`).
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    try:
        proto = ModelProto.FromString(model)
    except DecodeError:
        return model  # SentencePiece rejects it later
    rules = proto.normalizer_spec
    if not rules.precompiled_charsmap:
        return model
    rules.name, rules.precompiled_charsmap = _NO_NORMALIZATION, b""
    serialized: bytes = proto.SerializeToString()
    return serialized


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target, and their settings."""

    source: Tokenizer
    target: Tokenizer
    config: TokenizerConfig

    @staticmethod
    def of(source: Tokenizer, target: Tokenizer, config: TokenizerConfig) -> Tokenizers:
        """Tokenizers with these settings, which may reverse the target."""
        if config.reverse_target:
            target = ReversedTokenizer(target)
        return Tokenizers(source, target, config)

    def with_reversed_target(self) -> Tokenizers:
        """These tokenizers for a right-to-left model."""
        config = replace(self.config, reverse_target=True)
        source, target = copy(self.source), copy(self.target.in_text_order)
        source.config = target.config = config
        return Tokenizers.of(source, target, config)

    def files(self) -> dict[str, bytes]:
        """The contents of the files to store, by name: one SentencePiece model if joint, or two."""
        if self.config.is_imported:
            return imported_tokenizer_files(self.source, self.target.in_text_order)
        if self.config.joint:
            return {"tokenizer.model": self.source.model}
        return {"source.model": self.source.model, "target.model": self.target.model}

    @staticmethod
    def load(folder: Path, config: TokenizerConfig) -> Tokenizers:
        """Load the tokenizers from the files of a folder."""
        if config.is_imported:
            return Tokenizers.of(*load_imported_tokenizers(folder, config), config)
        names = ["tokenizer.model"] if config.joint else ["source.model", "target.model"]
        loaded = [_load_sentencepiece(folder / name, config) for name in names]
        return Tokenizers.of(loaded[0], loaded[-1], config)


def _load_sentencepiece(path: Path, config: TokenizerConfig) -> Tokenizer:
    if not path.exists():
        raise ModelError(
            f"{path.parent} is incomplete: {path.name} is missing. Copy the whole folder again."
        )
    content = read_regular_file(path, MAX_FILE_SIZE)
    try:
        return SentencePieceTokenizer(content, config)
    except RuntimeError:
        raise ModelError(
            f"{path} is damaged: it is not a SentencePiece model. Copy the whole folder again."
        ) from None


def train_tokenizers(
    source: Callable[[], Iterable[str]],
    target: Callable[[], Iterable[str]],
    config: TokenizerConfig,
    tags: Iterable[str] = (),
    *,
    marks: Sequence[str] = (),
    weighted: bool = False,
) -> Tokenizers:
    """Train tokenizers on the lines of both sides; each callable returns a new iterator.

    Each tag becomes a subword of the source vocabulary, even if it does not occur in the lines, and
    each of the `marks`, which may also occur inside of a word.
    `weighted` lines end with a tab and an integer, how often they count; duplicates are ignored.
    """
    if config.is_imported:
        raise ConfigError(
            f"A {config.kind} tokenizer belongs to an imported model and cannot be trained. Use "
            "--tokenizer-from MODEL, or --tokenizer unigram, bpe, char or word."
        )
    tag_subwords = sorted({_SPACE + normalize_text(tag, config) for tag in tags})
    tag_subwords += marks
    if config.joint:
        both = chain.from_iterable(side() for side in (source, target))
        results = [_train(both, config, tag_subwords, weighted)]
    else:
        results = [
            _train(source(), config, tag_subwords, weighted),
            _train(target(), config, [], weighted),
        ]
    minima = [size for size in results if isinstance(size, int)]
    if minima:
        raise ConfigError(
            f"A vocabulary of {config.vocab_size} is too small for this text: its characters, 256 "
            f"byte tokens and the special tokens need at least {max(minima)}. Use --vocab-size "
            f"{max(minima)} or more."
        )
    tokenizers = [result for result in results if isinstance(result, Tokenizer)]
    return Tokenizers.of(tokenizers[0], tokenizers[-1], config)


def _train(
    lines: Iterable[str], config: TokenizerConfig, tags: Sequence[str], weighted: bool
) -> Tokenizer | int:
    """A tokenizer, or the minimum vocabulary size if `vocab_size` is too small for the text."""
    model = io.BytesIO()
    failures: list[BaseException] = []

    def text() -> Iterator[str]:
        try:
            if weighted:
                yield from _weighted_lines(lines, config)
            else:
                for line in lines:
                    yield from _split_long_line(normalize_text(line, config))
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            failures.append(error)  # SentencePiece replaces it by a RuntimeError
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=text(),
            model_writer=model,
            **_trainer_options(config, tags, weighted),
        )
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        sizes = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        if sizes:
            return int(sizes[1])
        raise DataError(
            f"SentencePiece could not train a tokenizer on this text: {error}. "
            "Use more text, or try another --tokenizer."
        ) from error
    if config.vocab_size < _MIN_VOCAB_SIZE + len(tags):
        return _MIN_VOCAB_SIZE + len(tags)
    return SentencePieceTokenizer(model.getvalue(), config)


def _weighted_lines(lines: Iterable[str], config: TokenizerConfig) -> Iterator[str]:
    """Distinct lines in SentencePiece's format "tsv", which are short enough for training."""
    seen: set[int] = set()
    for line in lines:
        text, _, weight = line.rpartition("\t")
        for segment in _split_long_line(normalize_text(text.replace("\t", " "), config)):
            key = hash(segment)
            if key not in seen:
                seen.add(key)
                yield f"{segment}\t{weight}"


def _split_long_line(line: str) -> Iterable[str]:
    """The segments of a line, without duplicates: training on repetitive lines takes hours."""
    segments = []
    while len(line) > _MAX_TRAINING_LENGTH:
        end = line.rfind(" ", 1, _MAX_TRAINING_LENGTH)
        end = _MAX_TRAINING_LENGTH if end < 0 else end
        segments.append(line[:end])
        line = line[end:].removeprefix(" ")
    return dict.fromkeys([*segments, line])


def _trainer_options(
    config: TokenizerConfig, tags: Sequence[str], weighted: bool
) -> dict[str, Any]:
    return {
        **({"input_format": "tsv"} if weighted else {}),
        "vocab_size": max(config.vocab_size, _MIN_VOCAB_SIZE + len(tags)),
        "model_type": config.kind,
        "character_coverage": config.character_coverage,
        "hard_vocab_limit": False,  # reduce the size if the text has too few subwords
        "byte_fallback": True,
        "normalization_rule_name": _NO_NORMALIZATION,
        "remove_extra_whitespaces": False,
        "pad_id": SPECIAL.pad,
        "unk_id": SPECIAL.unk,
        "bos_id": SPECIAL.bos,
        "eos_id": SPECIAL.eos,
        # With the space before it, a tag matches only at the beginning of a word.
        "user_defined_symbols": tags,
        "input_sentence_size": 4_000_000,  # larger corpora are sampled
        "shuffle_input_sentence": True,
        "max_sentence_length": 2**30,  # the filters have removed lines that are too long
        "num_threads": 2,  # fixed: sums, and thus the subwords, depend on it
        "minloglevel": 2,
    }
