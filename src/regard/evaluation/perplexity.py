"""How well a language model foretells a text.

A model sees so many tokens at once. A window of that many slides over each document; by `stride`
tokens each time, and only those that are new in it count: a smaller stride gives each token more to
go by, and takes longer. A model with a memory reads all documents as one stream, segment after
segment; one of words in any order is asked from left to right. A masked model is asked for each
token in turn, the others being seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch

from regard.data.batch import Batch
from regard.data.doctor import Report, repaired_lines
from regard.data.ragged import Ragged
from regard.decoding.score import gains_of
from regard.errors import ConfigError, DataError, one_message
from regard.models.base import Model
from regard.models.masked import Masked
from regard.models.memory import RememberingModel
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

_BATCH_TOKENS = 8192


@dataclass(frozen=True)
class Perplexity:
    """What a text costs a model; line breaks and the ends of documents are tokens, too."""

    nll: float  # negative log-likelihood of the whole text, in nats
    tokens: int
    words: int
    bytes: int
    window: int
    stride: int
    memory: int = 0  # tokens that were remembered before a window
    pseudo: bool = False  # what comes after a token was visible, too

    @property
    def per_token(self) -> float:
        """The perplexity of a token."""
        return math.exp(self.nll / self.tokens)

    @property
    def per_word(self) -> float:
        """The perplexity of a word: comparable between tokenizers."""
        return math.exp(self.nll / self.words)

    @property
    def bits_per_byte(self) -> float:
        """How far the model could compress the text."""
        return self.nll / math.log(2) / self.bytes

    def row(self) -> dict[str, float]:
        """All figures by name."""
        more = asdict(self)
        del more["nll"]
        per_word, bits = self.per_word, self.bits_per_byte
        return {"perplexity": self.per_token, "per_word": per_word, "bits_per_byte": bits, **more}


def documents_of(path: Path) -> list[str]:
    """The documents of a text file, which blank lines end."""
    report = Report()
    documents: list[list[str]] = [[]]
    for _, line in repaired_lines(path, report):
        if line:
            documents[-1].append(line)
        elif documents[-1]:
            documents.append([])
    if report.errors:
        raise DataError(one_message(report.errors, f"{path} cannot be used"))
    found = ["\n".join(lines) for lines in documents if lines]
    if not found:
        raise DataError(f"{path} has no text. Check the path.")
    return found


def perplexity(
    model: Model,
    tokenizer: Tokenizer,
    documents: Sequence[str],
    stride: int | None = None,
    memory: int | None = None,
) -> Perplexity:
    """Of documents, by windows that overlap; no stride: half a window.

    A model that remembers needs no stride; memory: as many tokens as it shall remember.
    """
    window = _window(model)
    words = sum(len(text.split()) for text in documents)
    size = sum(len(text.encode()) + 1 for text in documents)
    if model.config.has_memory:
        if stride is not None:
            raise ConfigError("A model with a memory reads each token once. Leave out --stride.")
        streams = cast(RememberingModel, model)
        room = streams.config.room(training=False) if memory is None else memory
        ids = [
            token for text in documents for token in (*tokenizer.encode_lines(text), SPECIAL.end)
        ]
        segment = streams.config.max_positions
        nll = stream_nll(streams, ids, room)
        return Perplexity(nll, len(ids), words, size, segment, segment, memory=room)
    if memory is not None:
        raise ConfigError(f"Model kind {model.config.kind!r} has no memory. Leave out --memory.")
    stride = max(window // 2, 1) if stride is None else stride
    if not 1 <= stride <= window:
        raise ConfigError(f"The stride is {stride}, and must be 1 to {window}, the window's size.")
    texts = [tokenizer.encode_lines(text) for text in documents]
    if model.config.autoregressive:
        windows = _causal_windows(model, texts, window, stride)
    else:
        windows = _masked_windows(cast(Masked, model), texts, window - 2, stride)
    nll, tokens = 0.0, 0
    for batch in _batches(windows):
        with torch.inference_mode():
            predictions = model(batch.to(model.device))
            gains = gains_of(predictions)[predictions.targets != SPECIAL.pad]
        nll -= float(gains.double().sum())
        tokens += batch.target_tokens
    pseudo = not model.config.autoregressive
    return Perplexity(nll, tokens, words, size, window, stride, pseudo=pseudo)


def _window(model: Model) -> int:
    config = model.config
    if config.translates or config.context is None:
        raise ConfigError(
            f"Model kind {config.kind!r} translates, and has no perplexity of a text alone. "
            "Use `regard score`."
        )
    if config.gives_labels:
        raise ConfigError(
            f"Model kind {config.kind!r} gives labels, and has no perplexity of a text. "
            "Use `regard evaluate --tagged` or `--labelled`."
        )
    return config.context


@torch.inference_mode()
def stream_nll(model: RememberingModel, ids: Sequence[int], room: int) -> float:
    """The negative log-likelihood of one stream of documents, each with its end mark."""
    nll, segment = 0.0, model.config.max_positions
    memory = model.empty_memory(1, model.embedding.table.weight, room)
    for begin in range(0, len(ids), segment):
        batch = model.in_order(ids[begin : begin + segment], ids[begin - 1] if begin else None)
        found = model(batch.to(model.device), memory=memory)
        memory = found.memory
        nll -= float(gains_of(found).double().sum())
    return nll


Window = tuple[list[int], list[int]]  # what is read, and what should be written: pad does not count


def _causal_windows(
    model: Model, texts: Sequence[list[int]], window: int, stride: int
) -> Iterator[Window]:
    for text in texts:
        ids = [*text, SPECIAL.end]
        read = [model.config.start_mark, *text]
        for begin, first, end in _slid(len(ids), window, stride):
            yield read[begin:end], [SPECIAL.pad] * (first - begin) + ids[first:end]


def _masked_windows(
    model: Masked, texts: Sequence[list[int]], window: int, stride: int
) -> Iterator[Window]:
    """Each token is hidden in a window of its own."""
    start, mask = model.config.start_mark, model.config.mask_id
    for ids in texts:
        for begin, first, end in _slid(len(ids), window, min(stride, window)):
            for place in range(first, end):
                read = [start, *ids[begin:place], mask, *ids[place + 1 : end], SPECIAL.end]
                targets = [SPECIAL.pad] * len(read)
                targets[place - begin + 1] = ids[place]
                yield read, targets


def _slid(length: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Where windows begin, where what is new in them does, and where they end."""
    done = 0
    while done < length:
        end = min(length, done + stride if done else window)
        yield max(0, end - window), done, end
        done = end


def _batches(windows: Iterator[Window]) -> Iterator[Batch]:
    """Windows, many at a time."""
    waiting: list[Window] = []
    for window in windows:
        waiting.append(window)
        if sum(len(read) for read, _ in waiting) >= _BATCH_TOKENS:
            yield _batch(waiting)
            waiting = []
    if waiting:
        yield _batch(waiting)


def _batch(windows: Sequence[Window]) -> Batch:
    source, target = (Ragged.of([window[side] for window in windows]) for side in (0, 1))
    filler = int((target.tokens == SPECIAL.pad).sum())
    return Batch(source, Ragged(target.tokens, source.lengths), filler)
