"""Contests: regard and its rivals in turn, round by round, and what the rounds come to.

Whatever slows the machine down for a while slows down all contestants of that round, so the ratios
of a round say more than its speeds; and a turn in which others wanted the cores is played again.
Nothing here knows what is measured: a round has done so much of something in so many seconds.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from pages import save

Tree = dict[str, Any]
_PRESSURE = Path("/proc/pressure/cpu")  # Linux
CALM = 0.15  # a crowd that does not matter much


class UnableError(Exception):
    """A contestant cannot take part; the message is the reason."""


@dataclass(frozen=True)
class Round:
    """What one contestant did in one round."""

    amount: int  # of the contest's unit, such as target tokens or sentences
    seconds: float
    memory: float  # the peak so far, GiB
    figures: Mapping[str, float] = field(default_factory=dict)  # what else is known, by name
    crowd: float | None = None  # share of the turn in which somebody waited for a core, if known

    @property
    def speed(self) -> float:
        """Units a second."""
        return self.amount / self.seconds

    @property
    def is_calm(self) -> bool:
        """Whether hardly anybody else wanted the cores, as far as is known."""
        return self.crowd is None or self.crowd <= CALM


@dataclass(frozen=True)
class Entry:
    """What became of a contestant: its rounds, or why there are none."""

    name: str
    rival: bool
    rounds: tuple[Round, ...] = ()
    problem: str | None = None

    @property
    def counted(self) -> list[Round]:
        """The calm rounds; all, if none was calm."""
        return [done for done in self.rounds if done.is_calm] or [*self.rounds]

    @property
    def speed(self) -> Spread:
        """Units a second over the rounds that count."""
        return Spread.of(done.speed for done in self.counted)

    @property
    def memory(self) -> float:
        """The highest peak, GiB."""
        return max(done.memory for done in self.rounds)


Column = Callable[[Entry], str]  # what a table says of a contestant that has done rounds


class Contestant(Protocol):
    """Somebody who can do a round."""

    name: str
    rival: bool

    def round(self) -> Round:
        """Do one; raises `UnableError`."""
        ...


@dataclass(frozen=True)
class Spread:
    """Several figures as their least, median and greatest."""

    low: float
    middle: float
    high: float

    @staticmethod
    def of(figures: Iterable[float]) -> Spread:
        """At least one figure."""
        found = list(figures)
        return Spread(min(found), statistics.median(found), max(found))


def in_turn(
    contestants: Sequence[Contestant],
    rounds: int,
    after: Callable[[Entry, Sequence[Entry]], None],
    *,
    tries: int = 1,
) -> list[Entry]:
    """All contestants do all rounds in turn; `after` gets who just played, and everybody.

    Each round begins with another contestant. One that fails stays out of the next rounds. Of up
    to so many tries, a turn in a crowd being tried again, the calmest counts.
    """
    entries = [Entry(contestant.name, contestant.rival) for contestant in contestants]
    for number in range(rounds):
        for place in range(len(contestants)):
            at = (place + number) % len(contestants)
            if entries[at].problem is None:
                entries[at] = _after_round(entries[at], contestants[at], tries)
                after(entries[at], entries)
    return entries


def _after_round(entry: Entry, contestant: Contestant, tries: int) -> Entry:
    try:
        done = _calmest(contestant, tries)
    except UnableError as reason:
        return dataclasses.replace(entry, problem=str(reason), rounds=())
    return dataclasses.replace(entry, rounds=(*entry.rounds, done))


def _calmest(contestant: Contestant, tries: int) -> Round:
    turns: list[Round] = []
    while len(turns) < tries and (not turns or not turns[-1].is_calm):
        turns.append(_watched(contestant))
    return min(turns, key=lambda turn: turn.crowd or 0.0)


def _watched(contestant: Contestant) -> Round:
    """A round, and how crowded the machine was meanwhile."""
    begin, waited = time.monotonic(), waiting()
    done = contestant.round()
    if waited is None:
        return done
    crowd = (waiting() or waited) - waited
    return dataclasses.replace(done, crowd=crowd / (time.monotonic() - begin))


def waiting() -> float | None:
    """Seconds since the start of the machine in which something waited for a core, if known."""
    if not _PRESSURE.is_file():
        return None
    some = _PRESSURE.read_text().splitlines()[0]  # some avg10=0.00 avg60=0.00 avg300=0.00 total=0
    return int(some.rsplit("=", 1)[1]) / 1e6


def news(entry: Entry, unit: str) -> str:
    """How the last round of a contestant went."""
    if entry.problem is not None:
        return f"{entry.name} could not be run: {entry.problem}"
    last = entry.rounds[-1]
    crowd = "" if last.crowd is None else f", crowd {last.crowd:.0%}"
    return f"round {len(entry.rounds)}, {entry.name}: {last.speed:,.0f} {unit}/s{crowd}"


def ratios(ours: Entry, other: Entry) -> Spread:
    """How many times as fast we were, round by round."""
    return Spread.of(mine.speed / its.speed for mine, its in _compared(ours, other))


def _compared(ours: Entry, other: Entry) -> list[tuple[Round, Round]]:
    """Rounds that were calm for both; if there are none, each that counts with each."""
    both = zip(ours.rounds, other.rounds, strict=False)  # the last round may not be over
    together = [(mine, its) for mine, its in both if mine.is_calm and its.is_calm]
    return together or [*product(ours.counted, other.counted)]


def best_rival(entries: Iterable[Entry]) -> Entry | None:
    """The rival with the highest median; None if none could run."""
    able = [entry for entry in entries if entry.rival and entry.rounds]
    return max(able, key=lambda entry: entry.speed.middle, default=None)


def verdict(entries: Sequence[Entry]) -> str:
    """One sentence: regard against the best of its rivals."""
    best = best_rival(entries)
    ours = next(entry for entry in entries if not entry.rival)
    if best is None or not ours.rounds:
        return "There is nothing to compare."
    return beside(ours, best, f"the best rival, {best.name},")


def beside(ours: Entry, other: Entry, called: str) -> str:
    """One sentence: how fast we are beside another, whatever it is called."""
    times = ratios(ours, other)
    return (
        f"Beside {called} {ours.name} is {times.middle:.2f} times as fast "
        f"(from {times.low:.2f} to {times.high:.2f}, {_count(_compared(ours, other), 'round')})."
    )


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def table(entries: Sequence[Entry], unit: str, columns: Mapping[str, Column]) -> str:
    """A line for each contestant, the fastest first, those who could not run last."""
    able = [entry for entry in entries if entry.rounds]
    ours = next((entry for entry in able if not entry.rival), None)
    head = ["", f"{unit}/s", "from, to", f"{ours.name if ours else 'regard'} is faster by"]
    head += ["from, to", "peak memory", *columns, "rounds", "crowd"]
    lines = [_line(head), "|---" * len(head) + "|"]
    for entry in sorted(able, key=lambda entry: -entry.speed.middle):
        more = [cell(entry) for cell in columns.values()]
        lines.append(_line([*_speeds(entry, ours), *more, *_rounds(entry)]))
    for entry in entries:
        if not entry.rounds:
            blank = [""] * (len(head) - 2)
            reason = f"could not be run: {entry.problem}" if entry.problem else "not yet"
            lines.append(_line([entry.name, reason, *blank]))
    return "\n".join(lines)


def _speeds(entry: Entry, ours: Entry | None) -> list[str]:
    speed = entry.speed
    name = entry.name if entry.rival else f"**{entry.name}**"
    cells = [name, f"{speed.middle:,.0f}", f"{speed.low:,.0f}, {speed.high:,.0f}"]
    if ours is None or entry is ours:
        cells += ["", ""]
    else:
        times = ratios(ours, entry)
        cells += [f"{times.middle:.2f}", f"{times.low:.2f}, {times.high:.2f}"]
    return [*cells, f"{entry.memory:.2f} GiB"]


def _rounds(entry: Entry) -> list[str]:
    crowds = [done.crowd for done in entry.counted if done.crowd is not None]
    return [str(len(entry.counted)), f"{max(crowds):.0%}" if crowds else ""]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def draw(
    path: Path,
    panels: Mapping[str, Sequence[Entry]],
    *,
    x: str,
    of: Callable[[Entry], Spread] = lambda entry: entry.speed,
) -> None:
    """Bars of medians with their spread, of speeds if not told otherwise; ours stand out.

    There is a panel for each name, the longest bar on top.
    """
    from matplotlib.figure import Figure

    tallest = max(len(entries) for entries in panels.values())
    figure = Figure(figsize=(5.5 * len(panels), 1.2 + 0.32 * tallest), layout="constrained")
    places = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (name, entries) in zip(places, panels.items(), strict=True):
        _bars(axes, [(entry, of(entry)) for entry in entries if entry.rounds])
        axes.set(title=name, xlabel=x)
    save(figure, path)


def _bars(axes: Any, bars: Sequence[tuple[Entry, Spread]]) -> None:
    bars = sorted(bars, key=lambda bar: bar[1].middle)
    names, spreads = [entry.name for entry, _ in bars], [spread for _, spread in bars]
    whiskers = [[s.middle - s.low for s in spreads], [s.high - s.middle for s in spreads]]
    colours = ["#9aa5b1" if entry.rival else "#d1495b" for entry, _ in bars]
    middles = [spread.middle for spread in spreads]
    axes.barh(names, middles, xerr=whiskers, color=colours, ecolor="#333333")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def keep(path: Path, about: Tree, contests: Mapping[str, Sequence[Entry]]) -> None:
    """Write all that is known, with the date; contests that were held before on this machine stay.

    What is told of single contests (`commands`, for one) are trees by their names.
    """
    old, before = kept(path) if path.is_file() else ({}, {})
    if old.get("machine") != about.get("machine"):
        old, before = {}, {}
    told = {name: _joined(old.get(name), new) for name, new in about.items()}
    results = {
        name: [dataclasses.asdict(entry) for entry in entries]
        for name, entries in {**before, **contests}.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    tree = {"date": time.strftime("%Y-%m-%d"), **told, "results": results}
    path.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")


def _joined(old: Any, new: Any) -> Any:
    return {**old, **new} if isinstance(old, dict) and isinstance(new, dict) else new


def kept(path: Path) -> tuple[Tree, dict[str, list[Entry]]]:
    """What `keep` wrote: all about the contests, and the contests."""
    tree: Tree = json.loads(path.read_text(encoding="utf-8"))
    results = tree.pop("results")
    return tree, {name: [_entry(e) for e in entries] for name, entries in results.items()}


def _entry(tree: Tree) -> Entry:
    rounds = tuple(Round(**done) for done in tree["rounds"])
    return Entry(tree["name"], tree["rival"], rounds, tree["problem"])
