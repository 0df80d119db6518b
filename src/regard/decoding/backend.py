"""The interface of inference backends: requests of token ids in, hypotheses out.

This module does not import PyTorch, which other backends do not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from regard.decoding.config import SearchConfig
from regard.decoding.token_constraints import TokenConstraint
from regard.errors import ConfigError
from regard.machine import refuse_out_of_memory
from regard.text.special import SPECIAL

if TYPE_CHECKING:
    import torch

DEFAULT_BATCH_SIZE = 64  # sentences
_TUNED_BEAM_SIZE = 8  # for which the default batch sizes were measured
IdPair = tuple[list[int], list[int]]  # source and target, without EOS
T = TypeVar("T")
R = TypeVar("R")


class Hypothesis(NamedTuple):
    """A finished output as token ids, without EOS."""

    tokens: list[int]
    log_probability: float  # summed over all tokens, EOS included
    score: float
    # Computed only if they are needed:
    token_log_probs: list[float] | None = None  # of each token and of EOS
    alignment: list[int] | None = None  # the source token that each token translates, by index
    warnings: tuple[str, ...] = ()  # for the user, such as "is repetitive"


def finished_hypothesis(
    tokens: list[int], log_probability: float, length_penalty: float, length: int | None = None
) -> Hypothesis:
    """A hypothesis from ids with EOS; `length` (default: their number) normalizes the score."""
    assert tokens[-1] == SPECIAL.eos
    score = length_normalized(log_probability, length or len(tokens), length_penalty)
    return Hypothesis(tokens[:-1], log_probability, score)


def length_normalized(log_probability: float, length: int, length_penalty: float) -> float:
    """`log p / length^alpha`, EOS included in the length; alpha = 1 is the mean log-prob."""
    return float(log_probability / length**length_penalty)


def sort_by_score(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses, best first."""
    return sorted(hypotheses, key=lambda hypothesis: hypothesis.score, reverse=True)


class ContextLengths(NamedTuple):
    """The lengths of the document context that a source and a target begin with."""

    source: int = 0
    target: int = 0


class Request(NamedTuple):
    """A source segment, and the forced prefix of its translation, both without EOS.

    Both may begin with document context, which is not part of the translation: hypotheses, their
    scores and their maximum lengths are those of the segment alone.
    """

    source: list[int]
    prefix: list[int]
    needs_alignment: bool = False  # whether hypotheses are aligned, where settings permit it
    constraints: tuple[TokenConstraint, ...] = ()  # what the translation must contain
    context: ContextLengths = ContextLengths()  # ids of source and prefix that are context
    # The ids that target context may have, if the request before is the segment before; else None.
    context_room: int | None = None

    @property
    def segment(self) -> list[int]:
        """The source without context."""
        return self.source[self.context.source :] if self.context.source else self.source

    @property
    def target_context(self) -> list[int]:
        """The context that the prefix begins with."""
        return self.prefix[: self.context.target]


class SearchResult(NamedTuple):
    """The hypotheses of a request, best first."""

    request: int  # its number, counted over all batches
    hypotheses: list[Hypothesis]


class BatchLimit(NamedTuple):
    """The maximum size of a batch."""

    size: int
    in_tokens: bool = False  # rather than in sentences


class Backend(Protocol):
    """Runs a model: in PyTorch, CTranslate2 or onnxruntime."""

    @property
    def max_length(self) -> int | None:
        """The maximum length of sources and targets, EOS included; None: unlimited."""
        ...

    @property
    def device(self) -> torch.device | None:
        """The device of a backend in PyTorch; others run on the CPU."""
        ...

    @property
    def window(self) -> int:
        """The number of sentences that are sorted by length before they are batched."""
        ...

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        """The batch size that is used unless the user chooses one."""
        ...

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        """`num_hypotheses` hypotheses per request, in any order.

        A backend may take several batches before it returns the results of the first.
        """
        ...

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """The log-prob of each target token and of EOS, by forced decoding.

        Raises a ConfigError if the backend does not support it.
        """
        ...


def search_requests(
    backend: Backend, requests: Sequence[Request], config: SearchConfig, batch_size: int | None
) -> Iterator[SearchResult]:
    """The results of requests in memory, in any order; `request` is the index of the request."""
    refuse_bad_batch_size(batch_size)
    limit = backend.batch_limit(config) if batch_size is None else BatchLimit(batch_size)
    order = [*batch_by_length(range(len(requests)), lambda n: request_length(requests[n]), limit)]
    numbers = [number for batch in order for number in batch]
    batches = ([requests[number] for number in batch] for batch in order)
    for number, hypotheses in backend.search(batches, config):
        yield SearchResult(numbers[number], hypotheses)


def request_length(request: Request) -> int:
    """The length of the source, EOS included."""
    return len(request.source) + 1


def map_by_length(
    items: Sequence[T],
    length: Callable[[T], int],
    batch_size: int | None,
    function: Callable[[list[T]], list[R]],
) -> list[R]:
    """Apply a function to batches of items of similar length; results in the order of the items."""
    refuse_bad_batch_size(batch_size)
    results: dict[int, R] = {}
    limit = BatchLimit(batch_size or DEFAULT_BATCH_SIZE)
    for numbers in batch_by_length(range(len(items)), lambda i: length(items[i]), limit):
        results.update(zip(numbers, function([items[i] for i in numbers]), strict=True))
    return [results[i] for i in range(len(items))]


def refuse_bad_batch_size(batch_size: int | None) -> None:
    """Raise a ConfigError unless `batch_size` is a positive integer or None."""
    if batch_size is None:
        return
    if type(batch_size) is not int or batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size!r}, but must be an integer of at least 1.")


def batch_by_length(
    items: Sequence[T], length: Callable[[T], int], limit: BatchLimit
) -> Iterator[list[T]]:
    """Batches of items of similar length, longest first."""
    batch: list[T] = []
    total = 0
    for item in sorted(items, key=length, reverse=True):
        added = length(item) if limit.in_tokens else 1
        if batch and total + added > limit.size:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += added
    if batch:
        yield batch


def reduce_for_beams(sentences: int, config: SearchConfig) -> int:
    """The batch size, reduced for large beams so that memory usage stays the same."""
    return max(1, sentences * _TUNED_BEAM_SIZE // max(_TUNED_BEAM_SIZE, config.beam_size))


def refuse_large_search(
    config: SearchConfig, sentences: int, vocab_size: int, device: torch.device | None
) -> None:
    """Raise an error if the logits and log-probs of a step do not fit in memory."""
    beams = max(config.beam_size, config.candidates)
    refuse_out_of_memory(
        2 * sentences * beams * vocab_size,
        f"A decoding step of {sentences:,} sentences with {beams:,} beams and a vocabulary of "
        f"{vocab_size:,}",
        "Use a smaller batch_size or beam_size.",
        device,
    )
