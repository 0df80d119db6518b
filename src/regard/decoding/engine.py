"""What runs the models: ids in, hypotheses out. The translator does not care how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import torch

from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError
from regard.memory import refuse_beyond
from regard.text.special import SPECIAL

SENTENCES = 64  # that are worked on at once, if nobody says how many
_USUAL_BEAMS = 8  # with which the batch sizes that we choose were measured
T = TypeVar("T")
R = TypeVar("R")


class Hypothesis(NamedTuple):
    """A finished sentence of ids, without its end mark."""

    tokens: list[int]
    log_probability: float  # summed over all tokens, the end mark included
    score: float


def finished(
    tokens: list[int], log_probability: float, length_penalty: float, counted: int | None = None
) -> Hypothesis:
    """A hypothesis from ids that end in the end mark; counted: its length, if that is another."""
    assert tokens[-1] == SPECIAL.end
    score = normalized(log_probability, counted or len(tokens), length_penalty)
    return Hypothesis(tokens[:-1], log_probability, score)


def normalized(log_probability: float, length: int, length_penalty: float) -> float:
    """`log p / length^alpha`, the end mark counted: alpha 0 favours short, 1 is the mean."""
    return float(log_probability / length**length_penalty)


def best_first(found: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Hypotheses from the best to the worst."""
    return sorted(found, key=lambda hypothesis: hypothesis.score, reverse=True)


class Job(NamedTuple):
    """A sentence to translate, and how its translation must begin; neither has an end mark."""

    source: list[int]
    begin: list[int]


class Found(NamedTuple):
    """What was found for a job, best first; jobs are counted as they come."""

    job: int
    hypotheses: list[Hypothesis]


class Engine(Protocol):
    """Something that can search."""

    max_length: int | None  # the longest sentence that it takes or writes; None: any

    def search(
        self, jobs: Iterable[Job], config: SearchConfig, batch_size: int | None
    ) -> Iterator[Found]:
        """`top_beams` hypotheses for each job, in any order; no batch size: the engine's own.

        Long jobs should come first. An engine may take jobs while it works on those before.
        """
        ...


def by_length(
    items: Sequence[T],
    length: Callable[[T], int],
    batch_size: int | None,
    of: Callable[[list[T]], list[R]],
) -> list[R]:
    """Apply `of` to batches of like length; the results come back in the order of the items."""
    results: dict[int, R] = {}
    for numbers in batches(range(len(items)), lambda i: length(items[i]), batch_size):
        results.update(zip(numbers, of([items[i] for i in numbers]), strict=True))
    return [results[i] for i in range(len(items))]


def over_pairs(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    device: torch.device,
    batch_size: int | None,
    of: Callable[[Batch], list[R]],
) -> list[R]:
    """The same over batches of pairs of ids, to which EOS is added."""

    def of_chunk(chunk: list[tuple[Sequence[int], Sequence[int]]]) -> list[R]:
        source, target = (with_ends(side) for side in zip(*chunk, strict=True))
        return of(Batch(source, target).to(device))

    return by_length(pairs, lambda pair: len(pair[0]) + len(pair[1]), batch_size, of_chunk)


def refuse_bad_batch_size(batch_size: int | None) -> None:
    """Raise an error unless it is a whole number of sentences, or None."""
    if batch_size is None:
        return
    if type(batch_size) is not int or batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size!r}, and must be an integer, at least 1.")


def batches(
    items: Sequence[T],
    length: Callable[[T], int],
    batch_size: int | None,
    *,
    of_tokens: bool = False,
) -> Iterator[list[T]]:
    """Items of like length together, the longest first: so many items or tokens in a batch."""
    refuse_bad_batch_size(batch_size)
    size = SENTENCES if batch_size is None else batch_size
    batch: list[T] = []
    total = 0
    for item in sorted(items, key=length, reverse=True):
        more = length(item) if of_tokens else 1
        if batch and total + more > size:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += more
    if batch:
        yield batch


def fewer_with_beams(sentences: int, config: SearchConfig) -> int:
    """A usual batch size; with many beams, as many sentences as take the same memory."""
    return max(1, sentences * _USUAL_BEAMS // max(_USUAL_BEAMS, config.beam_size))


def refuse_large_search(
    config: SearchConfig, sentences: int, vocabulary: int, device: torch.device
) -> None:
    """Say that the scores of a step cannot fit: logits and log-probabilities of each beam."""
    beams = max(config.beam_size, config.candidates)
    refuse_beyond(
        2 * sentences * beams * vocabulary,
        f"One step of {sentences:,} sentences with {beams:,} beams over a vocabulary of "
        f"{vocabulary:,}",
        "Use a smaller batch_size or beam_size.",
        device,
    )
