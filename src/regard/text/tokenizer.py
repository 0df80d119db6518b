"""Text to subword ids and back, with SentencePiece.

By default text survives as it is: nothing is normalised, spaces are kept, and what no subword
covers is spelled in bytes. NFKC and lower-casing are options, done here and stored with the model
(SentencePiece's own case folding would also turn "ß" into "ss").
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import sentencepiece

from regard.errors import ConfigError, DataError, ModelError
from regard.regular import read_regular
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.foreign import LARGEST, foreign_files, foreign_tokenizers
from regard.text.special import SPECIAL

_MARKS = 4
_LONG = 2000  # characters
_SMALLEST = 256 + _MARKS + 1  # the bytes, the marks, and something
_NO_RULES = "identity"  # SentencePiece's name for it
_SPACE = "▁"  # what SentencePiece writes for a space, and before each text


def normalized(text: str, config: TokenizerConfig) -> str:
    """The text that the ids stand for."""
    if config.nfkc:
        text = unicodedata.normalize("NFKC", text)
    return text.lower() if config.lowercase else text


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model of our own."""

    def __init__(self, model: bytes, config: TokenizerConfig) -> None:
        changes_text = config.nfkc or config.lowercase
        self.model = _without_rules(model) if changes_text else model
        self.config = config
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(self.model)  # refuses an empty model, too
        # Tags lie between the marks and the bytes, which every model of ours has.
        others = range(_MARKS, self.vocab_size)
        self._tags = frozenset(takewhile(lambda i: not self._processor.is_byte(i), others))

    @property
    def vocab_size(self) -> int:
        """How many ids there are, marks included."""
        return int(self._processor.vocab_size())

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, without start or end; in half the time of one by one."""
        plain = [normalized(text, self.config) for text in texts]
        ids: list[list[int]] = self._processor.encode(plain, num_threads=1)  # an engine has them
        return ids

    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The texts of many ids; marks give no text."""
        if not sentences:
            return []
        plain = [list(map(int, ids)) for ids in sentences]
        texts: list[str] = self._processor.decode(plain, num_threads=1)
        return [self._spaced(text, ids) for text, ids in zip(texts, plain, strict=True)]

    def _spaced(self, text: str, ids: list[int]) -> str:
        """Where no subword covers a space, its mark is spelled in bytes, and comes back."""
        if _SPACE not in text:
            return text
        if self._processor.is_byte(ids[0]):
            text = text.removeprefix(_SPACE)
        return text.replace(_SPACE, " ")

    @property
    def line_break(self) -> int:
        """The id between two lines of a running text: the byte of a line feed."""
        return int(self._processor.piece_to_id("<0x0A>"))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id looks like, for pictures."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def scores(self) -> list[float]:
        """The log-probability of each piece, by which cuts are compared."""
        found: list[float] = self._processor.get_score(list(range(self.vocab_size)))
        return found

    def word_begins(self) -> list[bool]:
        """For each id, whether its piece begins with a space, and so a word."""
        return [self._processor.id_to_piece(i).startswith(_SPACE) for i in range(self.vocab_size)]

    def best_cuts(self, text: str, count: int) -> list[tuple[list[int], float]]:
        """Up to `count` ways to cut a text, best first, with their log-probabilities."""
        cuts: list[list[int]] = self._processor.nbest_encode(
            normalized(text, self.config), nbest_size=count
        )
        if self._tags:  # some of the n-best spell a tag, which the best cut never does
            counts = [sum(i in self._tags for i in cut) for cut in cuts]
            cuts = [cut for cut, count in zip(cuts, counts, strict=True) if count == counts[0]]
        return [(cut, sum(self._processor.get_score(cut))) for cut in cuts if cut]


def _without_rules(model: bytes) -> bytes:
    """The model without normalization rules, which exported files have and `normalized` replaces.

    Rules cannot do all that `normalized` does; see `exchange/normalizer.py`.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    try:
        found = ModelProto.FromString(model)
    except DecodeError:
        return model  # SentencePiece refuses it
    rules = found.normalizer_spec
    if not rules.precompiled_charsmap:
        return model
    rules.name, rules.precompiled_charsmap = _NO_RULES, b""
    plain: bytes = found.SerializeToString()
    return plain


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides, and how they were made."""

    source: Tokenizer
    target: Tokenizer
    config: TokenizerConfig

    def files(self) -> dict[str, bytes]:
        """What to store, by file name: a SentencePiece model if both sides share it, else two."""
        if self.config.is_foreign:
            return foreign_files(self.source, self.target)
        if self.config.joint:
            return {"tokenizer.model": self.source.model}
        return {"source.model": self.source.model, "target.model": self.target.model}

    @staticmethod
    def load(folder: Path, config: TokenizerConfig) -> Tokenizers:
        """Read the files from a folder."""
        if config.is_foreign:
            return Tokenizers(*foreign_tokenizers(folder, config), config)
        names = ["tokenizer.model"] if config.joint else ["source.model", "target.model"]
        loaded = [_load(folder / name, config) for name in names]
        return Tokenizers(loaded[0], loaded[-1], config)


def _load(path: Path, config: TokenizerConfig) -> Tokenizer:
    if not path.exists():
        raise ModelError(
            f"{path.parent} is incomplete: {path.name} is missing. Copy the whole folder again."
        )
    content = read_regular(path, LARGEST)
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
) -> Tokenizers:
    """Learn subwords from the lines of both sides; each callable starts its lines anew.

    Each tag becomes one subword of the source's, whether or not the lines have it.
    """
    if config.is_foreign:
        raise ConfigError(
            f"A {config.kind} tokenizer comes with an imported model and is not learned. Use "
            "--tokenizer-from that model, or --tokenizer unigram, bpe, char or word."
        )
    words = sorted({_SPACE + normalized(tag, config) for tag in tags})
    if config.joint:
        both = chain.from_iterable(side() for side in (source, target))
        found = [_train(both, config, words)]
    else:
        found = [_train(source(), config, words), _train(target(), config, [])]
    minima = [size for size in found if isinstance(size, int)]
    if minima:
        raise ConfigError(
            f"A vocabulary of {config.vocab_size} is too small for this text: its characters, the "
            f"256 bytes and the marks need at least {max(minima)}. Use --vocab-size {max(minima)} "
            "or more."
        )
    tokenizers = [tokenizer for tokenizer in found if isinstance(tokenizer, Tokenizer)]
    return Tokenizers(tokenizers[0], tokenizers[-1], config)


def _train(lines: Iterable[str], config: TokenizerConfig, tags: Sequence[str]) -> Tokenizer | int:
    """A tokenizer; or the smallest vocabulary that this text allows, if that is larger."""
    model = io.BytesIO()
    failures: list[BaseException] = []

    def text() -> Iterator[str]:
        try:
            for line in lines:
                yield from _pieces(normalized(line, config))
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            failures.append(error)  # SentencePiece makes a RuntimeError of it
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=text(),
            model_writer=model,
            **_options(config, tags),
        )
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        sizes = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        if sizes:
            return int(sizes[1])
        raise DataError(
            f"SentencePiece could not learn subwords from this text: {error}. "
            "Give more text, or try another --tokenizer."
        ) from error
    if config.vocab_size < _SMALLEST + len(tags):
        return _SMALLEST + len(tags)
    return SentencePieceTokenizer(model.getvalue(), config)


def _pieces(line: str) -> Iterable[str]:
    """A line, or the parts of a very long one, each once: one that repeats itself takes hours."""
    found = []
    while len(line) > _LONG:
        end = line.rfind(" ", 1, _LONG)
        end = _LONG if end < 0 else end
        found.append(line[:end])
        line = line[end:].removeprefix(" ")
    return dict.fromkeys([*found, line])


def _options(config: TokenizerConfig, tags: Sequence[str]) -> dict[str, Any]:
    return {
        "vocab_size": max(config.vocab_size, _SMALLEST + len(tags)),
        "model_type": config.kind,
        "character_coverage": config.character_coverage,
        "hard_vocab_limit": False,  # a size that the text does not fill is clipped, not refused
        "byte_fallback": True,
        "normalization_rule_name": _NO_RULES,
        "remove_extra_whitespaces": False,
        "pad_id": SPECIAL.pad,
        "unk_id": SPECIAL.unknown,
        "bos_id": SPECIAL.start,
        "eos_id": SPECIAL.end,
        # With the space before it, a tag is found at the beginning of a word only.
        "user_defined_symbols": tags,
        "input_sentence_size": 4_000_000,  # a sample of a larger corpus is enough
        "shuffle_input_sentence": True,
        "max_sentence_length": 2**30,  # the doctor has left out what is too long
        "num_threads": 2,  # fixed: the sums, and so the subwords, depend on it
        "minloglevel": 2,
    }
