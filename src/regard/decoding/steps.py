"""One step after another, for any search: when to look, who leaves, what is recorded.

A search is an object whose tensors change in place: `advance` is one step of it. On a CPU each
step is looked at, and sentences that are done leave. On a GPU a step is recorded and replayed, so
that nothing waits for Python, and only every few steps somebody looks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.data.shapes import Side
from regard.decoding.rules import Rules
from regard.models.protocol import Autoregressive, S
from regard.recording import Recording

R = TypeVar("R")
_FIRST_ROOM = 16  # tokens; more is made when it is needed
_MOST_STARTS = 64  # recordings; each keeps its state


@dataclass
class Search(Generic[R]):
    """A search for translations of B sentences; a greedy one has a single beam."""

    model: Autoregressive[Any]
    state: Any
    rules: Rules
    length_penalty: float
    place: Tensor  # (1,) where the next tokens will stand
    last: Tensor  # (B, W) the last tokens
    log_probs: Tensor  # (B,) or (B, W) of what was written
    tokens: Tensor  # (T, B) or (T, B, W) what was written at each place
    going: Tensor  # (B,) whether more can be found

    @property
    def kind(self) -> Hashable:
        """What steps depend on, shapes apart: searches of one kind have the same steps."""
        raise NotImplementedError

    def advance(self, *, forces: bool) -> None:
        """One step; `forces`: the rules may force something."""
        raise NotImplementedError

    def select(self, sentences: Tensor) -> Self:
        """Some sentences alone."""
        return replace(
            self,
            state=self.state.select(sentences),
            rules=self.rules.select(sentences),
            place=self.place.clone(),
            last=self.last[sentences],
            log_probs=self.log_probs[sentences],
            tokens=self.tokens[:, sentences],
            going=self.going[sentences],
        )

    def results(self, sentences: Sequence[int]) -> list[R]:
        """What was found for some sentences."""
        raise NotImplementedError


def run(search: Search[R], runner: EagerRunner) -> list[R]:
    """All steps of a search; what was found, for each sentence."""
    alive = list(range(len(search.going)))
    found: dict[int, R] = {}
    limit = search.rules.greatest_limit
    for first in range(0, limit, runner.stride):
        search = runner.forward(search, range(first, min(first + runner.stride, limit)))
        going = search.going.tolist()
        if not any(going):
            break
        rows = runner.staying(going)
        if rows is not None:
            left = sorted(set(range(len(going))).difference(rows))
            found.update(zip((alive[row] for row in left), search.results(left), strict=True))
            search = search.select(torch.tensor(rows, device=search.going.device))
            alive = [alive[row] for row in rows]
    found.update(zip(alive, search.results(range(len(alive))), strict=True))
    return [found[sentence] for sentence in range(len(found))]


class EagerRunner:
    """Step by step; once a tenth of the sentences is done, they leave."""

    stride = 1  # steps between two looks

    def room(self, limit: int) -> int:
        """Room to make where so many tokens may be written: just enough."""
        return limit

    def start(self, model: Autoregressive[S], source: Ragged, *, beams: int, room: int) -> S:
        """What `model.start` gives; most translations end long before their limit."""
        return model.start(source, beams=beams, room=min(room, _FIRST_ROOM))

    def begin(
        self, model: Autoregressive[Any], source: Ragged, rules: Rules, *, beams: int = 1
    ) -> dict[str, Any]:
        """Fields of a search that has written nothing yet."""
        room = self.room(rules.greatest_limit)
        last = model.first_tokens(len(source.lengths), beams)
        return {
            "model": model,
            "state": self.start(model, source, beams=beams, room=room),
            "rules": rules,
            "place": last.new_zeros(1),
            "last": last,
            "tokens": last.new_zeros(room, *last.shape),
            "going": torch.ones(len(last), dtype=torch.bool, device=last.device),
        }

    def forward(self, search: Search[R], steps: range) -> Search[R]:
        """Do some steps; the search that goes on from there, with the same sentences."""
        for step in steps:
            search.state.reach(step + 1, exact=True)
            search.advance(forces=search.rules.may_force(step))
        return search

    def staying(self, going: list[bool]) -> list[int] | None:
        """The sentences that stay; None: all do.

        Those that are done leave if that saves a tenth; the last take their places.
        """
        rows = [row for row, goes in enumerate(going) if goes]
        if len(rows) > 0.9 * len(going):
            return None
        last = reversed(rows)
        return [row if going[row] else next(last) for row in range(len(rows))]


@dataclass(frozen=True)
class Slot:
    """A search that lends its tensors to all searches of its kind, and recordings of its steps."""

    search: Search[Any]
    recordings: dict[tuple[int, bool], Recording[None]]  # by reach, and whether rules may force


class CudaGraphRunner(EagerRunner):
    """By recordings, one for each kind and shape of search and each doubling of its reach.

    Sentences leave by halves, so that there are few shapes.
    """

    stride = 16

    def __init__(self) -> None:
        self._starts: dict[Hashable, tuple[Ragged, Recording[Any]]] = {}
        self._slots: dict[Hashable, Slot] = {}
        self._last: Slot | None = None
        self._pool = torch.cuda.graph_pool_handle()

    def room(self, limit: int) -> int:
        """As far as the last step reaches."""
        return _doubling(limit)

    def start(self, model: Autoregressive[S], source: Ragged, *, beams: int, room: int) -> S:
        """What `model.start` gives; the sources are filled up with sentences that nobody wants."""
        if not model.start_can_be_recorded:
            return model.start(source, beams=beams, room=room)
        lengths = source.lengths
        unit = max(16, len(lengths) * lengths.longest // 8)
        side = Side.around(lengths, unit, lengths.longest)
        filled = side.filled(source, len(lengths) + 1 + -(-unit // side.longest))
        key = side, len(lengths), beams, room
        if key not in self._starts:
            if len(self._starts) == _MOST_STARTS:
                return model.start(source, beams=beams, room=room)
            there = side.laid_out(filled.tokens.clone(), filled.lengths.lengths.clone())

            def begun() -> S:
                fresh = side.laid_out(there.tokens, there.lengths.lengths)  # it keeps what it knows
                return model.start(fresh, beams=beams, room=room).select(slice(0, len(lengths)))

            self._starts[key] = there, Recording(begun, self._pool)
        there, recording = self._starts[key]
        there.tokens.copy_(filled.tokens)
        there.lengths.lengths.copy_(filled.lengths.lengths)
        return recording()

    def forward(self, search: Search[R], steps: range) -> Search[R]:
        """Do some steps."""
        slot = self._slot(search)
        for step in steps:
            forces = search.rules.may_force(step)
            self._recording(slot, _doubling(step + 1), forces=forces)()
        return slot.search

    def staying(self, going: list[bool]) -> list[int] | None:
        """Half of the sentences, if more than half are done."""
        rows = sorted(range(len(going)), key=lambda row: not going[row])
        half = len(rows) // 2
        return rows[:half] if half and not going[rows[half]] else None

    def _slot(self, search: Search[Any]) -> Slot:
        """The slot of such searches, in the state of this one."""
        if self._last is not None and self._last.search is search:
            return self._last
        own = list(tensors_of(search))
        key = search.kind, *((part.shape, part.dtype) for part in own)
        slot = self._last = self._slots.setdefault(key, Slot(search, {}))
        for there, here in zip(tensors_of(slot.search), own, strict=True):
            if there is not here:
                there.copy_(here)
        slot.search.rules = slot.search.rules.with_limits_of(search.rules)
        return slot

    def _recording(self, slot: Slot, reach: int, *, forces: bool) -> Recording[None]:
        def step() -> None:
            slot.search.state.reach(reach, exact=False)
            slot.search.advance(forces=forces)

        return slot.recordings.setdefault((reach, forces), Recording(step, self._pool))


def _doubling(places: int) -> int:
    """The next of 16, 32, 64 and so on."""
    return max(16, 1 << (places - 1).bit_length())


def tensors_of(thing: Any) -> Iterator[Tensor]:
    """All tensors in data classes, lists and tuples, in order."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from tensors_of(part)
    elif dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from tensors_of(getattr(thing, field.name))
