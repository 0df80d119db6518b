"""Runners execute the steps of a search: eagerly, or by replaying CUDA graphs.

A search is an object whose tensors are updated in place; `advance` is one step of it. Eagerly, the
runner checks for finished sentences after every step. On a GPU, a step is captured as a CUDA graph
and replayed without overhead in Python, and the check is made only every few steps, because it
synchronizes host and GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from regard.cuda_graphs import CapturedStep
from regard.data.ragged import Ragged
from regard.data.shapes import SideShape
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.penalties import Penalties
from regard.models.protocol import Autoregressive, S

R = TypeVar("R")
_INITIAL_CAPACITY = 16  # tokens; the KV cache grows as needed
_MAX_CAPTURED_STARTS = 64  # each keeps its decoder state


@dataclass
class Search(Generic[R]):
    """The state of a search over B sentences with W beams each; greedy search has W = 1."""

    model: Autoregressive[Any]
    state: Any  # of the decoder: encoder output, KV cache, beam history
    constraints: DecodingConstraints
    length_penalty: float
    position: Tensor  # (1,) of the next tokens
    last_tokens: Tensor  # (B, W)
    log_probs: Tensor  # (B,) or (B, W) of the prefixes
    tokens: Tensor  # (T, B) or (T, B, W) chosen at each position
    active: Tensor  # (B,) False: the sentence is done
    penalties: Penalties | None = field(default=None, kw_only=True)

    @property
    def graph_key(self) -> Hashable:
        """Everything but tensor shapes that a step depends on; equal keys can share a graph."""
        raise NotImplementedError

    def advance(self, *, may_force: bool) -> None:
        """Run one step; `may_force`: whether the constraints could force a token."""
        raise NotImplementedError

    def select(self, sentences: Tensor) -> Self:
        """The search over these sentences only."""
        return replace(
            self,
            state=self.state.select(sentences),
            constraints=self.constraints.select(sentences),
            position=self.position.clone(),
            last_tokens=self.last_tokens[sentences],
            log_probs=self.log_probs[sentences],
            tokens=self.tokens[:, sentences],
            active=self.active[sentences],
            penalties=self.penalties and self.penalties.select(sentences),
        )

    def results(self, sentences: Sequence[int]) -> list[R]:
        """The results for these sentences."""
        raise NotImplementedError


def run_search(search: Search[R], runner: EagerRunner) -> list[R]:
    """Run a search to its end and return the result for each sentence."""
    sentences = list(range(len(search.active)))  # those still in the search
    results: dict[int, R] = {}
    limit = search.constraints.largest_limit
    for first in range(0, limit, runner.steps_between_checks):
        last = min(first + runner.steps_between_checks, limit)
        search = runner.run_steps(search, range(first, last))
        active = search.active.tolist()
        if not any(active):
            break
        rows = runner.rows_to_keep(active)
        if rows is not None:
            dropped = sorted(set(range(len(active))).difference(rows))
            numbers = (sentences[row] for row in dropped)
            results.update(zip(numbers, search.results(dropped), strict=True))
            search = search.select(torch.tensor(rows, device=search.active.device))
            sentences = [sentences[row] for row in rows]
    results.update(zip(sentences, search.results(range(len(sentences))), strict=True))
    return [results[sentence] for sentence in range(len(results))]


class EagerRunner:
    """Runs steps eagerly; drops finished sentences once they are a tenth of the batch."""

    steps_between_checks = 1

    def capacity(self, limit: int) -> int:
        """The capacity, in tokens, for outputs of up to `limit` tokens."""
        return limit

    def start(self, model: Autoregressive[S], source: Ragged, *, beams: int, capacity: int) -> S:
        """The initial decoder state; small at first, as most outputs end long before the limit."""
        return model.start(source, beams=beams, capacity=min(capacity, _INITIAL_CAPACITY))

    def initial_fields(
        self,
        model: Autoregressive[Any],
        source: Ragged,
        constraints: DecodingConstraints,
        *,
        beams: int = 1,
    ) -> dict[str, Any]:
        """The fields of a `Search` at position 0."""
        capacity = self.capacity(constraints.largest_limit)
        last_tokens = model.first_tokens(len(source.lengths), beams)
        return {
            "model": model,
            "state": self.start(model, source, beams=beams, capacity=capacity),
            "constraints": constraints,
            "position": last_tokens.new_zeros(1),
            "last_tokens": last_tokens,
            "tokens": last_tokens.new_zeros(capacity, *last_tokens.shape),
            "active": torch.ones(len(last_tokens), dtype=torch.bool, device=last_tokens.device),
        }

    def run_steps(self, search: Search[R], steps: range) -> Search[R]:
        """Run these steps and return the search to continue with, over the same sentences."""
        for step in steps:
            search.state.reserve(step + 1, exact=True)
            search.advance(may_force=search.constraints.may_force(step))
        return search

    def rows_to_keep(self, active: list[bool]) -> list[int] | None:
        """The rows that stay in the batch, or None to keep all.

        Finished rows are dropped if they are at least a tenth; the last rows move to their indices.
        """
        rows = [row for row, is_active in enumerate(active) if is_active]
        if len(rows) > 0.9 * len(active):
            return None
        last = reversed(rows)
        return [row if active[row] else next(last) for row in range(len(rows))]


@dataclass(frozen=True)
class CapturedSearch:
    """A search whose tensors are the static inputs of CUDA graphs of its steps."""

    search: Search[Any]
    graphs: dict[tuple[int, bool], CapturedStep[None]]  # by (attended length, may_force)


class CudaGraphRunner(EagerRunner):
    """Replays CUDA graphs: one per search, shape and attended length, which grows by doubling.

    The batch shrinks by halves, so that there are few shapes.
    """

    steps_between_checks = 16

    def __init__(self) -> None:
        self._starts: dict[Hashable, tuple[Ragged, CapturedStep[Any]]] = {}
        self._searches: dict[Hashable, CapturedSearch] = {}
        self._last: CapturedSearch | None = None
        self._pool = torch.cuda.graph_pool_handle()

    def capacity(self, limit: int) -> int:
        """The attended length of the last step."""
        return _next_bucket(limit)

    def start(self, model: Autoregressive[S], source: Ragged, *, beams: int, capacity: int) -> S:
        """The initial decoder state, captured where possible; sources are padded with fillers."""
        if not model.start_capturable:
            return model.start(source, beams=beams, capacity=capacity)
        lengths = source.lengths
        unit = max(16, len(lengths) * lengths.longest // 8)
        side = SideShape.bucket(lengths, unit, lengths.longest)
        filled = side.filled(source, len(lengths) + 1 + -(-unit // side.longest))
        key = side, len(lengths), beams, capacity
        if key not in self._starts:
            if len(self._starts) == _MAX_CAPTURED_STARTS:
                return model.start(source, beams=beams, capacity=capacity)
            inputs = side.to_ragged(filled.tokens.clone(), filled.lengths.lengths.clone())

            def start() -> S:
                # A new object, whose cached properties are computed inside the graph.
                fresh = side.to_ragged(inputs.tokens, inputs.lengths.lengths)
                state = model.start(fresh, beams=beams, capacity=capacity)
                return state.select(slice(0, len(lengths)))

            self._starts[key] = inputs, CapturedStep(start, self._pool)
        inputs, captured = self._starts[key]
        inputs.tokens.copy_(filled.tokens)
        inputs.lengths.lengths.copy_(filled.lengths.lengths)
        return captured()

    def run_steps(self, search: Search[R], steps: range) -> Search[R]:
        """Replay the CUDA graphs of these steps."""
        captured = self._captured_search(search)
        for step in steps:
            may_force = search.constraints.may_force(step)
            self._get_graph(captured, _next_bucket(step + 1), may_force=may_force)()
        return captured.search

    def rows_to_keep(self, active: list[bool]) -> list[int] | None:
        """Half of the rows, if at least half are done."""
        rows = sorted(range(len(active)), key=lambda row: not active[row])
        half = len(rows) // 2
        return rows[:half] if half and not active[rows[half]] else None

    def _captured_search(self, search: Search[Any]) -> CapturedSearch:
        """The captured search with the same key and shapes, holding a copy of this state."""
        if self._last is not None and self._last.search is search:
            return self._last
        tensors = list(nested_tensors(search))
        key = search.graph_key, *((tensor.shape, tensor.dtype) for tensor in tensors)
        captured = self._last = self._searches.setdefault(key, CapturedSearch(search, {}))
        for static, tensor in zip(nested_tensors(captured.search), tensors, strict=True):
            if static is not tensor:
                static.copy_(tensor)
        constraints = captured.search.constraints.with_limits_of(search.constraints)
        captured.search.constraints = constraints
        return captured

    def _get_graph(
        self, captured: CapturedSearch, attended: int, *, may_force: bool
    ) -> CapturedStep[None]:
        def step() -> None:
            captured.search.state.reserve(attended, exact=False)
            captured.search.advance(may_force=may_force)

        return captured.graphs.setdefault((attended, may_force), CapturedStep(step, self._pool))


def _next_bucket(length: int) -> int:
    """The smallest of 16, 32, 64, ... that is at least `length`."""
    return max(16, 1 << (length - 1).bit_length())


def nested_tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested dataclasses, lists and tuples, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from nested_tensors(part)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from nested_tensors(getattr(value, field.name))
