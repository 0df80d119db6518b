"""Speed comparisons: regard and its peers are measured in interleaved rounds.

Load on the machine slows down all systems of a round alike, so the ratios within a round are more
reliable than the speeds; a measurement under CPU pressure is repeated. This module is independent
of what is measured: a round processes an amount of some unit in some number of seconds.
"""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from pages import save_svg

Tree = dict[str, Any]
_PRESSURE = Path("/proc/pressure/cpu")  # Linux
MAX_PRESSURE = 0.15  # up to this CPU pressure, a round is valid
# Names in the result files of earlier versions, and the current ones.
_RENAMED = {"--questions": "--scenarios", "loop": "batch", "made-up": "synthetic"}


class UnavailableError(Exception):
    """A system cannot be run; the message is the reason."""


@dataclass(frozen=True)
class Round:
    """One measurement of one system."""

    amount: int  # of the unit, such as target tokens or sentences
    seconds: float
    memory: float  # peak so far, GiB
    metrics: Mapping[str, float] = field(default_factory=dict)
    cpu_pressure: float | None = None  # fraction of the time in which a process waited for a core

    @property
    def speed(self) -> float:
        """Units per second."""
        return self.amount / self.seconds

    @property
    def is_valid(self) -> bool:
        """Whether CPU pressure was low, or is unknown."""
        return self.cpu_pressure is None or self.cpu_pressure <= MAX_PRESSURE


@dataclass(frozen=True)
class SystemResult:
    """All rounds of a system, or the reason why there are none."""

    name: str
    is_peer: bool
    rounds: tuple[Round, ...] = ()
    problem: str | None = None

    @property
    def valid_rounds(self) -> list[Round]:
        """The rounds with low CPU pressure; all rounds if there are none."""
        return [round_ for round_ in self.rounds if round_.is_valid] or [*self.rounds]

    @property
    def speed(self) -> Spread:
        """Units per second over the valid rounds."""
        return Spread.of(round_.speed for round_ in self.valid_rounds)

    @property
    def memory(self) -> float:
        """The highest peak, GiB."""
        return max(round_.memory for round_ in self.rounds)


Column = Callable[[SystemResult], str]  # a table cell of a system that has rounds


class System(Protocol):
    """A system that can be measured."""

    name: str
    is_peer: bool

    def round(self) -> Round:
        """Measure one round; raises `UnavailableError`."""
        ...


@dataclass(frozen=True)
class Spread:
    """Minimum, median and maximum of several values."""

    low: float
    median: float
    high: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread:
        """The spread of at least one value."""
        values = list(values)
        return Spread(min(values), statistics.median(values), max(values))


def run_interleaved(
    systems: Sequence[System],
    rounds: int,
    on_round: Callable[[SystemResult, Sequence[SystemResult]], None],
    *,
    attempts: int = 1,
) -> list[SystemResult]:
    """Measure all rounds of all systems, interleaved; `on_round` gets the last result and all.

    Each round starts with another system. A system that fails is skipped in later rounds. A
    measurement under CPU pressure is repeated up to `attempts` times; the one with the lowest
    pressure counts.
    """
    results = [SystemResult(system.name, system.is_peer) for system in systems]
    for number in range(rounds):
        for offset in range(len(systems)):
            index = (offset + number) % len(systems)
            if results[index].problem is None:
                results[index] = _add_round(results[index], systems[index], attempts)
                on_round(results[index], results)
    return results


def _add_round(result: SystemResult, system: System, attempts: int) -> SystemResult:
    try:
        round_ = _measure_undisturbed(system, attempts)
    except UnavailableError as reason:
        return dataclasses.replace(result, problem=str(reason), rounds=())
    return dataclasses.replace(result, rounds=(*result.rounds, round_))


def _measure_undisturbed(system: System, attempts: int) -> Round:
    rounds: list[Round] = []
    while len(rounds) < attempts and (not rounds or not rounds[-1].is_valid):
        rounds.append(_measure_with_pressure(system))
    return min(rounds, key=lambda round_: round_.cpu_pressure or 0.0)


def _measure_with_pressure(system: System) -> Round:
    """One round, with the CPU pressure during it."""
    begin, stalled = time.monotonic(), stall_seconds()
    round_ = system.round()
    if stalled is None:
        return round_
    waited = (stall_seconds() or stalled) - stalled
    return dataclasses.replace(round_, cpu_pressure=waited / (time.monotonic() - begin))


def stall_seconds() -> float | None:
    """Seconds since boot in which some process waited for a core; None if unknown."""
    if not _PRESSURE.is_file():
        return None
    some = _PRESSURE.read_text().splitlines()[0]  # some avg10=0.00 avg60=0.00 avg300=0.00 total=0
    return int(some.rsplit("=", 1)[1]) / 1e6


def progress_line(result: SystemResult, unit: str) -> str:
    """A line about the last round of a system."""
    if result.problem is not None:
        return f"{result.name} could not be run: {result.problem}"
    last = result.rounds[-1]
    pressure = "" if last.cpu_pressure is None else f", CPU pressure {last.cpu_pressure:.0%}"
    return f"round {len(result.rounds)}, {result.name}: {last.speed:,.0f} {unit}/s{pressure}"


def speedups(ours: SystemResult, other: SystemResult) -> Spread:
    """The ratio of our speed to the other's, round by round."""
    return Spread.of(mine.speed / theirs.speed for mine, theirs in _paired_rounds(ours, other))


def _paired_rounds(ours: SystemResult, other: SystemResult) -> list[tuple[Round, Round]]:
    """Rounds that are valid for both; if there are none, all pairs of valid rounds."""
    same_round = zip(ours.rounds, other.rounds, strict=False)  # the last round may be unfinished
    pairs = [(mine, theirs) for mine, theirs in same_round if mine.is_valid and theirs.is_valid]
    return pairs or [*product(ours.valid_rounds, other.valid_rounds)]


def fastest_peer(results: Iterable[SystemResult]) -> SystemResult | None:
    """The peer with the highest median speed; None if no peer could be run."""
    peers = [result for result in results if result.is_peer and result.rounds]
    return max(peers, key=lambda result: result.speed.median, default=None)


def summary(results: Sequence[SystemResult]) -> str:
    """A sentence that compares regard with the fastest peer."""
    fastest = fastest_peer(results)
    ours = next(result for result in results if not result.is_peer)
    if fastest is None or not ours.rounds:
        return "There is nothing to compare."
    return speedup_sentence(ours, fastest, "the fastest peer, ")


def speedup_sentence(ours: SystemResult, other: SystemResult, description: str = "") -> str:
    """A sentence that gives our speed relative to another system's."""
    ratio, count = speedups(ours, other), len(_paired_rounds(ours, other))
    return (
        f"{_in_sentence(ours.name)} is {ratio.median:.2f} times as fast as "
        f"{description}{_in_sentence(other.name)} "
        f"({ratio.low:.2f} to {ratio.high:.2f} in {count} round{'' if count == 1 else 's'})."
    )


def _in_sentence(name: str) -> str:
    """`regard, torch` as `regard (torch)`."""
    system, _, variant = name.partition(", ")
    return f"{system} ({variant})" if variant else system


def table(results: Sequence[SystemResult], unit: str, columns: Mapping[str, Column]) -> str:
    """A row for each system, the fastest first; systems without rounds last."""
    measured = [result for result in results if result.rounds]
    ours = next((result for result in measured if not result.is_peer), None)
    head = ["", f"{unit}/s", "range", f"speedup of {_in_sentence(ours.name if ours else 'regard')}"]
    head += ["range", "peak memory", *columns, "rounds", "CPU pressure"]
    lines = [_row(head), "|---" * len(head) + "|"]
    for result in sorted(measured, key=lambda result: -result.speed.median):
        more = [cell(result) for cell in columns.values()]
        lines.append(_row([*_speed_cells(result, ours), *more, *_round_cells(result)]))
    for result in results:
        if not result.rounds:
            blank = [""] * (len(head) - 2)
            reason = f"could not be run: {result.problem}" if result.problem else "not measured yet"
            lines.append(_row([result.name, reason, *blank]))
    return "\n".join(lines)


def _speed_cells(result: SystemResult, ours: SystemResult | None) -> list[str]:
    speed = result.speed
    name = result.name if result.is_peer else f"**{result.name}**"
    cells = [name, f"{speed.median:,.0f}", f"{speed.low:,.0f}, {speed.high:,.0f}"]
    if ours is None or result is ours:
        cells += ["", ""]
    else:
        ratio = speedups(ours, result)
        cells += [f"{ratio.median:.2f}", f"{ratio.low:.2f}, {ratio.high:.2f}"]
    return [*cells, f"{result.memory:.2f} GiB"]


def _round_cells(result: SystemResult) -> list[str]:
    rounds = result.valid_rounds
    pressures = [round_.cpu_pressure for round_ in rounds if round_.cpu_pressure is not None]
    return [str(len(rounds)), f"{max(pressures):.0%}" if pressures else ""]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def draw(
    path: Path,
    panels: Mapping[str, Sequence[SystemResult]],
    *,
    x: str,
    of: Callable[[SystemResult], Spread] = lambda result: result.speed,
) -> None:
    """Draw medians as bars with their range, speeds by default; regard is highlighted.

    There is a panel for each name, with the longest bar on top.
    """
    from matplotlib.figure import Figure

    most = max(len(results) for results in panels.values())
    figure = Figure(figsize=(5.5 * len(panels), 1.2 + 0.32 * most), layout="constrained")
    subplots = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (name, results) in zip(subplots, panels.items(), strict=True):
        _draw_bars(axes, [(result, of(result)) for result in results if result.rounds])
        axes.set(title=name, xlabel=x)
    save_svg(figure, path)


def _draw_bars(axes: Any, bars: Sequence[tuple[SystemResult, Spread]]) -> None:
    bars = sorted(bars, key=lambda bar: bar[1].median)
    names, spreads = [result.name for result, _ in bars], [spread for _, spread in bars]
    whiskers = [[s.median - s.low for s in spreads], [s.high - s.median for s in spreads]]
    colors = ["#9aa5b1" if result.is_peer else "#d1495b" for result, _ in bars]
    medians = [spread.median for spread in spreads]
    axes.barh(names, medians, xerr=whiskers, color=colors, ecolor="#333333")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def write_results(
    path: Path, about: Tree, comparisons: Mapping[str, Sequence[SystemResult]]
) -> None:
    """Write comparisons with the date; earlier ones from the same machine are kept.

    Values of `about` that are trees, such as `commands`, have an entry for each comparison.
    """
    old_about, old = read_results(path) if path.is_file() else ({}, {})
    if old_about.get("machine") != about.get("machine"):
        old_about, old = {}, {}
    merged = {name: _merge(old_about.get(name), value) for name, value in about.items()}
    results = {
        name: [_to_tree(result) for result in results]
        for name, results in {**old, **comparisons}.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    tree = {"date": time.strftime("%Y-%m-%d"), **merged, "results": results}
    path.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")


def _merge(old: Any, new: Any) -> Any:
    return {**old, **new} if isinstance(old, dict) and isinstance(new, dict) else new


def read_results(path: Path) -> tuple[Tree, dict[str, list[SystemResult]]]:
    """What `write_results` wrote: the description, and the comparisons by name."""
    about: Tree = json.loads(path.read_text(encoding="utf-8"))
    results = about.pop("results")
    if "commands" in about:
        commands: Tree = about["commands"]
        about["commands"] = {_current(name): _current(text) for name, text in commands.items()}
    return about, {_current(name): [_to_result(tree) for tree in results[name]] for name in results}


def _current(text: str) -> str:
    """Replace names of earlier versions."""
    return re.sub(r"--questions|\bloop\b|\bmade-up\b", lambda match: _RENAMED[match[0]], text)


def _to_tree(result: SystemResult) -> Tree:
    """A result under the field names of the file."""
    rounds = [
        {
            "amount": round_.amount,
            "seconds": round_.seconds,
            "memory": round_.memory,
            "figures": dict(round_.metrics),
            "crowd": round_.cpu_pressure,
        }
        for round_ in result.rounds
    ]
    names = {"name": result.name, "rival": result.is_peer}
    return {**names, "rounds": rounds, "problem": result.problem}


def _to_result(tree: Tree) -> SystemResult:
    rounds = tuple(
        Round(r["amount"], r["seconds"], r["memory"], r["figures"], r["crowd"])
        for r in tree["rounds"]
    )
    return SystemResult(tree["name"], tree["rival"], rounds, tree["problem"])
