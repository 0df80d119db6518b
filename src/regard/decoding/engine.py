"""What runs the models: ids in, hypotheses out. The translator does not care how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from regard.decoding.config import SearchConfig
from regard.decoding.hypothesis import Hypothesis
from regard.errors import ConfigError, DataError

SENTENCES = 64  # that are worked on at once, if nobody says how many
T = TypeVar("T")
R = TypeVar("R")


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


def refuse_one_text(texts: Sequence[object]) -> None:
    """A string would be taken for a list of letters, and bytes for a list of numbers."""
    if isinstance(texts, str | bytes):
        raise ConfigError('A list of texts is needed, not one text: write ["..."].')
    if not isinstance(texts, Iterable):
        raise ConfigError(f"A list of texts is needed, not {type(texts).__name__}.")


def checked_texts(texts: Sequence[str], what: str = "Text") -> list[str]:
    """The texts as a list; refused, by their number, where one is no text that can be encoded."""
    refuse_one_text(texts)
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ConfigError(
                f"{what} {number} is of type {type(text).__name__}, not str. Decode it."
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{what} {number} has half a surrogate pair, which is no character."
            ) from None
    return texts


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


def refuse_bad_batch_size(batch_size: int | None) -> None:
    """Raise an error unless it is a whole number of sentences, or None."""
    if batch_size is None:
        return
    if type(batch_size) is not int or batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size!r}, and must be an integer, at least 1.")


def batches(
    items: Sequence[T], length: Callable[[T], int], batch_size: int | None
) -> Iterator[list[T]]:
    """Items of like length together, the longest first."""
    refuse_bad_batch_size(batch_size)
    size = SENTENCES if batch_size is None else batch_size
    ordered = sorted(items, key=length, reverse=True)
    for begin in range(0, len(ordered), size):
        yield ordered[begin : begin + size]


def batches_of_tokens(
    items: Sequence[T], length: Callable[[T], int], tokens: int
) -> Iterator[list[T]]:
    """The same, by tokens: each batch is about as much work."""
    batch: list[T] = []
    total = 0
    for item in sorted(items, key=length, reverse=True):
        if batch and total + length(item) > tokens:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += length(item)
    if batch:
        yield batch
