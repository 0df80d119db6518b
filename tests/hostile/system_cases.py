"""System failures: streams, environment, disks, concurrent commands, and signals."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from itertools import product

from hostile import checks
from hostile.cases import Case, command_runner
from hostile.client import Outcome
from hostile.sandbox import Sandbox, tree
from hostile.scenarios import Scenario

_BROKEN_PIPE = 141
_OUTPUTS = ("file:", "closed", "file:/dev/full", "broken", "readonly:/dev/null")
_INPUTS = ("", "closed", "broken", "writeonly:/dev/null")
_ENVIRONMENTS: dict[str, dict[str, str | None]] = {
    "C": {"LANG": "C", "LC_ALL": "C"},
    "latin-1": {"LC_ALL": "de_DE.ISO-8859-1", "PYTHONIOENCODING": "latin-1"},
    "no home": {"HOME": None},
    "home nowhere": {"HOME": "/nowhere", "XDG_CACHE_HOME": "/nowhere"},
    "no temporary folder": {"TMPDIR": "/nowhere", "TEMP": "/nowhere"},
    "temporary file": {"TMPDIR": "/dev/null"},
    "one column": {"COLUMNS": "1", "LINES": "1"},
    "no columns": {"COLUMNS": "0"},
    "negative columns": {"COLUMNS": "-5"},
    "columns of text": {"COLUMNS": "x"},
    "dumb terminal": {"TERM": "dumb"},
    "colours": {"FORCE_COLOR": "1", "TERM": "xterm-256color"},
    "no path": {"PATH": ""},
    "no threads": {"OMP_NUM_THREADS": "0", "MKL_NUM_THREADS": "x"},
    "no GPU": {"CUDA_VISIBLE_DEVICES": "99,x"},
    "not UTF-8": {"LANG": "caf\udce9", "USER": "\udce9"},
}


def stream_cases(scenarios: list[Scenario]) -> Iterator[Case]:
    """Each combination of unusable standard streams."""
    for scenario in scenarios:
        for stdin, stdout, stderr in product(_INPUTS, _OUTPUTS, _OUTPUTS):
            bad = [stdin != "", stdout != "file:", stderr != "file:"]
            if not any(bad) or (all(bad) and stdout != stderr):
                continue
            streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            unusable = {name: what for name, what in streams.items() if what not in ("", "file:")}
            name = ",".join(f"{key}={what.replace('/', '|')}" for key, what in unusable.items())
            run = partial(_with_streams, scenario, unusable)
            yield Case(f"streams/{scenario.name}/{name}", f"{scenario.name}/{sum(bad)}", run)


def _with_streams(
    scenario: Scenario, streams: dict[str, str], sandbox: Sandbox, draw: random.Random
) -> checks.Problems:
    expected = sandbox.reference(scenario).outcome
    sandbox.set_up(scenario)
    before = tree(sandbox.folder)
    (outcome,) = sandbox.run(sandbox.call(scenario, (), **streams))
    problems = checks.check_files(before, tree(sandbox.folder), scenario.outputs)
    statuses = _statuses(expected, streams)
    if "stderr" in streams:  # the message is lost
        outcome = Outcome(**{**vars(outcome), "err": "regard: message not readable."})
    checked = {**vars(outcome), "out": outcome.out if "stdout" not in streams else expected.out}
    problems += checks.check_command(Outcome(**checked), scenario, statuses=statuses)
    if (
        outcome.status == 0
        and scenario.is_deterministic
        and not {"stdin", "stdout"} & streams.keys()
    ):
        problems += checks.check_result(sandbox, scenario, outcome)
    return problems


def _statuses(expected: Outcome, streams: dict[str, str]) -> tuple[int, ...]:
    """The allowed exit statuses; lost output is a failure."""
    broken = (_BROKEN_PIPE, -signal.SIGPIPE)
    if "stdin" in streams:
        return (0, 2, *broken)
    if "stdout" in streams and expected.out:
        return broken if streams["stdout"] == "broken" else (2,)
    if "stdout" in streams:
        return (0, 2)
    return (0,)  # commands succeed without standard error


def environment_cases(scenarios: list[Scenario]) -> Iterator[Case]:
    """Each unusual environment."""
    for scenario in scenarios:
        for name, environment in _ENVIRONMENTS.items():
            run = command_runner(scenario, environment=environment)
            yield Case(f"streams/{scenario.name}/{name}", f"environment/{name}", run)


def _writes_new_folder(scenario: Scenario) -> bool:
    """Whether a scenario only writes to a new folder."""
    return scenario.outputs == ("new",)


def disk_cases(scenarios: list[Scenario]) -> Iterator[Case]:
    """Disks that are too small, read-only or out of inodes; and file size limits."""
    for scenario in scenarios:
        if not scenario.outputs:
            continue
        for number in range(6):
            run = partial(_with_file_limit, scenario)
            yield Case(f"disks/{scenario.name}/file size/{number}", f"{scenario.name}/limit", run)
        if _writes_new_folder(scenario):
            for number, what in product(range(4), ("small", "read-only", "few files")):
                run = partial(_on_small_disk, scenario, what)
                yield Case(f"disks/{scenario.name}/{what}/{number}", f"{scenario.name}/{what}", run)


def _with_file_limit(scenario: Scenario, sandbox: Sandbox, draw: random.Random) -> checks.Problems:
    sandbox.reference(scenario)
    sandbox.set_up(scenario)
    before = tree(sandbox.folder)
    size = draw.choice([4096, 5000, 8192, 16_384, 30_000, 65_536, 100_000])
    (outcome,) = sandbox.run(sandbox.call(scenario, limits={"RLIMIT_FSIZE": size}))
    problems = checks.check_command(outcome, scenario)
    problems += checks.check_files(before, tree(sandbox.folder), scenario.outputs)
    return problems or _retry(scenario, sandbox, outcome)


def _on_small_disk(
    scenario: Scenario, what: str, sandbox: Sandbox, draw: random.Random
) -> checks.Problems:
    sandbox.reference(scenario)
    sandbox.set_up(scenario)
    size = draw.choice([1, 4, 8, 16, 32, 64, 128, 256]) * 4096
    options = {
        "small": f"size={size}",
        "read-only": "size=1m,ro",
        "few files": f"size=8m,nr_inodes={draw.randint(1, 12)}",
    }[what]
    mounted = sandbox.mount("new", options)
    if mounted is None:
        return []
    before = tree(sandbox.folder)
    (outcome,) = sandbox.run(sandbox.call(scenario))
    problems = checks.check_command(outcome, scenario)
    problems += checks.check_files(before, tree(sandbox.folder), scenario.outputs)
    more = ["mount", "-o", "remount,rw,size=64m,nr_inodes=0", str(mounted)]
    subprocess.run(more, check=True)
    return problems or _retry(scenario, sandbox, outcome)


def _retry(scenario: Scenario, sandbox: Sandbox, outcome: Outcome) -> checks.Problems:
    """After a failure or kill, the same command succeeds without the cause."""
    if outcome.status == 0:
        return checks.check_result(sandbox, scenario, outcome) if scenario.is_deterministic else []
    (second,) = sandbox.run(sandbox.call(scenario))
    return _check_retry(scenario, sandbox, second)


def _check_retry(scenario: Scenario, sandbox: Sandbox, outcome: Outcome) -> checks.Problems:
    """A second attempt succeeds, directly or with --overwrite if the message asks for it."""
    problems = checks.check_command(outcome, scenario)
    if outcome.status == 2 and "--overwrite" in outcome.err:
        (outcome,) = sandbox.run(sandbox.call(scenario, (*scenario.arguments, "--overwrite")))
        problems = checks.check_command(outcome, scenario)
    is_complete = (
        bool(scenario.outputs) and sandbox.written(scenario) == sandbox.reference(scenario).outputs
    )
    if outcome.status == 2 and is_complete:
        return problems  # the kill came after the work was done
    if outcome.status == 2:
        problems.append(f"retry failed: {outcome.err.strip()[:300]}")
    if not problems and scenario.is_deterministic:
        problems += checks.check_result(sandbox, scenario, outcome)
    left = filter(checks.is_temporary, tree(sandbox.folder))
    return problems + [f"left behind: {name}" for name in left]


def concurrent_cases(scenarios: list[Scenario]) -> Iterator[Case]:
    """The same command, two or three times concurrently, with the same output."""
    for scenario in scenarios:
        if scenario.outputs:
            for number in range(6):
                run = partial(_run_concurrently, scenario)
                yield Case(f"concurrent/{scenario.name}/{number}", scenario.name, run)


def _run_concurrently(scenario: Scenario, sandbox: Sandbox, draw: random.Random) -> checks.Problems:
    expected = sandbox.reference(scenario)
    sandbox.set_up(scenario)
    before = tree(sandbox.folder)
    longest = expected.outcome.seconds / 2
    delays = [
        0.0,
        *(draw.choice([0, 0, draw.uniform(0, longest)]) for _ in range(draw.choice([1, 2]))),
    ]
    outcomes = sandbox.run(*[sandbox.call(scenario, delay=delay, timeout=90.0) for delay in delays])
    problems: checks.Problems = []
    for outcome in outcomes:
        problems += checks.check_command(outcome, scenario)
    problems += checks.check_files(before, tree(sandbox.folder), scenario.outputs)
    best = [outcome for outcome in outcomes if outcome.status == 0]
    if not best:
        problems.append("no process succeeded")
    elif not problems and scenario.is_deterministic:
        problems += checks.check_result(sandbox, scenario, best[0])
    return problems


def signal_cases(scenarios: list[Scenario]) -> Iterator[Case]:
    """Signals at random times, including SIGKILL, and the same command again."""
    for scenario in scenarios:
        if not scenario.outputs:
            continue
        for number in range(12):
            for kind in (
                signal.SIGKILL,
                signal.SIGTERM,
                signal.SIGINT,
                signal.SIGHUP,
            ):
                name = f"kills/{scenario.name}/{kind.name}/{number}"
                stratum = scenario.name + ("" if kind == signal.SIGKILL else "/signals")
                yield Case(name, stratum, partial(_killed, scenario, kind))


def _killed(
    scenario: Scenario, kind: signal.Signals, sandbox: Sandbox, draw: random.Random
) -> checks.Problems:
    seconds = sandbox.reference(scenario).outcome.seconds
    sandbox.set_up(scenario)
    before = tree(sandbox.folder)
    instant = draw.uniform(0.02, seconds * 0.9)
    (outcome,) = sandbox.run(sandbox.call(scenario, signals=((kind, instant),)))
    problems = []
    if kind != signal.SIGKILL:
        statuses = (0, -kind, 128 + kind)
        quiet = Outcome(**{**vars(outcome), "err": outcome.err.replace("Exception ignored", "")})
        problems += checks.check_command(quiet, scenario, statuses=statuses)
    after = {n: w for n, w in tree(sandbox.folder).items() if not checks.is_temporary(n)}
    problems += checks.check_files(before, after, scenario.outputs)
    return problems or _retry(scenario, sandbox, outcome)
