"""Perplexity of a text under a language model.

A window of the model's context length slides over each document by `stride` tokens, and only the
new tokens of a window are scored: a smaller stride gives each token more context and takes longer.
Models with segment recurrence read all documents as one stream, segment by segment; permutation
models score from left to right. For masked models this is the pseudo-perplexity: each token is
masked in turn and predicted from all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch

from regard.data.batch import Batch
from regard.data.filters import Report, read_text_lines
from regard.data.ragged import Ragged
from regard.decoding.score import target_log_probs
from regard.errors import ConfigError, DataError, format_problems
from regard.models.base import Model
from regard.models.masked import Masked
from regard.models.memory import SegmentRecurrentModel
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

_BATCH_TOKENS = 8192


@dataclass(frozen=True)
class Perplexity:
    """Negative log-likelihood and size of a text; line breaks and EOS count as tokens."""

    nll: float  # of the whole text, in nats
    tokens: int
    words: int
    bytes: int
    window: int
    stride: int
    memory: int = 0  # tokens of memory before a segment
    pseudo: bool = False  # of a masked model

    @property
    def per_token(self) -> float:
        """The perplexity per token."""
        return math.exp(self.nll / self.tokens)

    @property
    def per_word(self) -> float:
        """The perplexity per word, comparable between tokenizers."""
        return math.exp(self.nll / self.words)

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte of UTF-8, comparable between tokenizers."""
        return self.nll / math.log(2) / self.bytes

    def row(self) -> dict[str, float]:
        """Return all metrics by name."""
        fields = asdict(self)
        del fields["nll"]
        per_word, bits = self.per_word, self.bits_per_byte
        return {"perplexity": self.per_token, "per_word": per_word, "bits_per_byte": bits, **fields}


def read_documents(path: Path) -> list[str]:
    """Read the documents of a text file, separated by blank lines."""
    report = Report()
    documents: list[list[str]] = [[]]
    for _, line in read_text_lines(path, report):
        if line:
            documents[-1].append(line)
        elif documents[-1]:
            documents.append([])
    if report.errors:
        raise DataError(format_problems(report.errors, f"{path} cannot be used"))
    texts = ["\n".join(lines) for lines in documents if lines]
    if not texts:
        raise DataError(f"{path} has no text. Check the path.")
    return texts


def perplexity(
    model: Model,
    tokenizer: Tokenizer,
    documents: Sequence[str],
    stride: int | None = None,
    memory: int | None = None,
) -> Perplexity:
    """Compute the perplexity of documents with sliding windows.

    stride: half a window by default; unsupported for models with memory.
    memory: tokens of memory, for models with segment recurrence; by default as in their config.
    """
    window = _window_size(model)
    words = sum(len(text.split()) for text in documents)
    size = sum(len(text.encode()) + 1 for text in documents)
    if model.config.has_memory:
        if stride is not None:
            raise ConfigError("--stride has no effect for models with memory. Leave it out.")
        recurrent = cast(SegmentRecurrentModel, model)
        memory_length = (
            recurrent.config.memory_length_for(training=False) if memory is None else memory
        )
        ids = [
            token for text in documents for token in (*tokenizer.encode_lines(text), SPECIAL.eos)
        ]
        segment = recurrent.config.max_positions
        nll = stream_nll(recurrent, ids, memory_length)
        return Perplexity(nll, len(ids), words, size, segment, segment, memory=memory_length)
    if memory is not None:
        raise ConfigError(f"Model kind {model.config.kind!r} has no memory. Leave out --memory.")
    stride = max(window // 2, 1) if stride is None else stride
    if not 1 <= stride <= window:
        raise ConfigError(f"--stride is {stride}, but must be from 1 to {window}, the window size.")
    token_ids = [tokenizer.encode_lines(text) for text in documents]
    if model.config.autoregressive:
        windows = _causal_windows(model, token_ids, window, stride)
    else:
        windows = _masked_windows(cast(Masked, model), token_ids, window - 2, stride)
    nll, tokens = 0.0, 0
    for batch in _batches(windows):
        with torch.inference_mode():
            predictions = model(batch.to(model.device))
            log_probs = target_log_probs(predictions)[predictions.targets != SPECIAL.pad]
        nll -= float(log_probs.double().sum())
        tokens += batch.target_tokens
    pseudo = not model.config.autoregressive
    return Perplexity(nll, tokens, words, size, window, stride, pseudo=pseudo)


def _window_size(model: Model) -> int:
    config = model.config
    if config.translates or config.context is None:
        raise ConfigError(
            f"Perplexity is not supported for model kind {config.kind!r}, which translates. "
            "Use `regard score`."
        )
    if config.predicts_labels:
        raise ConfigError(
            f"Perplexity is not supported for model kind {config.kind!r}, which predicts labels. "
            "Use `regard evaluate --tagged` or `--labelled`."
        )
    return config.context


@torch.inference_mode()
def stream_nll(model: SegmentRecurrentModel, ids: Sequence[int], memory_length: int) -> float:
    """Return the negative log-likelihood of a stream of documents, each followed by EOS."""
    nll, segment = 0.0, model.config.max_positions
    memory = model.empty_memory(1, model.embedding.table.weight, memory_length)
    for begin in range(0, len(ids), segment):
        previous = ids[begin - 1] if begin else None
        batch = model.left_to_right_batch(ids[begin : begin + segment], previous)
        predictions = model(batch.to(model.device), memory=memory)
        memory = predictions.memory
        nll -= float(target_log_probs(predictions).double().sum())
    return nll


Window = tuple[list[int], list[int]]  # input ids, and target ids: PAD is not scored


def _causal_windows(
    model: Model, texts: Sequence[list[int]], window: int, stride: int
) -> Iterator[Window]:
    for text in texts:
        ids = [*text, SPECIAL.eos]
        inputs = [model.config.decoder_start_id, *text]
        for begin, first, end in _sliding_windows(len(ids), window, stride):
            yield inputs[begin:end], [SPECIAL.pad] * (first - begin) + ids[first:end]


def _masked_windows(
    model: Masked, texts: Sequence[list[int]], window: int, stride: int
) -> Iterator[Window]:
    """Yield a window for each token, in which it is masked."""
    bos, mask = model.config.decoder_start_id, model.config.mask_id
    for ids in texts:
        for begin, first, end in _sliding_windows(len(ids), window, min(stride, window)):
            for position in range(first, end):
                inputs = [bos, *ids[begin:position], mask, *ids[position + 1 : end], SPECIAL.eos]
                targets = [SPECIAL.pad] * len(inputs)
                targets[position - begin + 1] = ids[position]
                yield inputs, targets


def _sliding_windows(length: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield the start of each window, the start of its new tokens, and its end."""
    scored = 0
    while scored < length:
        end = min(length, scored + stride if scored else window)
        yield max(0, end - window), scored, end
        scored = end


def _batches(windows: Iterator[Window]) -> Iterator[Batch]:
    """Group windows into batches of at least _BATCH_TOKENS input tokens."""
    pending: list[Window] = []
    for window in windows:
        pending.append(window)
        if sum(len(inputs) for inputs, _ in pending) >= _BATCH_TOKENS:
            yield _to_batch(pending)
            pending = []
    if pending:
        yield _to_batch(pending)


def _to_batch(windows: Sequence[Window]) -> Batch:
    source, target = (Ragged.of([window[side] for window in windows]) for side in (0, 1))
    padding = int((target.tokens == SPECIAL.pad).sum())
    return Batch(source, Ragged(target.tokens, source.lengths), padding)
