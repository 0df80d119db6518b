"""Checks of an outcome: success, or one message with status 2; inputs are unchanged."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Collection

from hostile.client import CPU_SECONDS, Outcome
from hostile.sandbox import Sandbox, Tree, below
from hostile.scenarios import Scenario

Problems = list[str]
_REFUSED = 2
_DIVERGED = 1  # training may diverge, with a message
_SIGNALLED: dict[int, str] = {
    signal.SIGKILL: "killed",
    signal.SIGXCPU: f"more than {CPU_SECONDS} s of CPU time",
}


def check_command(
    outcome: Outcome, scenario: Scenario, *, statuses: Collection[int] = (0, _REFUSED)
) -> Problems:
    """Problems with the exit status and output of a command."""
    if outcome.late:
        return [f"no end in {outcome.seconds:.0f} s (CPU {outcome.cpu:.1f} s)"]
    diverged = outcome.status == _DIVERGED and _is_message(outcome.err)
    if outcome.status < 0 and outcome.status not in statuses:
        return [_SIGNALLED.get(-outcome.status, f"ended by {signal.Signals(-outcome.status).name}")]
    problems = []
    if "Traceback" in outcome.err:
        problems.append(f"traceback: {_last_line(outcome.err)}")
    elif "Exception ignored" in outcome.err:
        problems.append(f"ignored exception: {_last_line(outcome.err)}")
    elif outcome.status not in statuses and not diverged:
        problems.append(f"status {outcome.status}: {_last_line(outcome.err)}")
    elif outcome.status == _REFUSED and not _is_message(outcome.err):
        problems.append(f"no message: {_last_line(outcome.err)}")
    if outcome.status == 0 and scenario.format and not _is_json(outcome.out, scenario.format):
        problems.append("standard output is not valid JSON")
    return problems


def check_files(before: Tree, after: Tree, outputs: tuple[str, ...]) -> Problems:
    """Modified inputs, and unexpected files."""
    problems = [
        f"input {'changed' if name in after else 'deleted'}: {name}"
        for name, what in before.items()
        if after.get(name) != what and not below(name, outputs)
    ]
    for name in after.keys() - before.keys():
        parents = any(path.startswith(name + "/") for path in outputs)
        if is_temporary(name) or (not below(name, outputs) and not parents):
            problems.append(f"left behind: {name}")
    return problems


def is_temporary(name: str) -> bool:
    """Whether a file is temporary; only killed commands may leave one."""
    return re.search(r"\.(partial|tmp|old)\b|(^|/)\.regard-", name) is not None


def check_result(
    sandbox: Sandbox, scenario: Scenario, outcome: Outcome, before: Tree | None = None
) -> Problems:
    """Problems if a successful command has another result than the unmodified one."""
    if outcome.status != 0:
        return []
    expected = sandbox.reference(scenario)
    if outcome.out != expected.outcome.out:
        return ["wrong result without an error: other standard output"]
    written = sandbox.written(scenario)
    other = {name for name, _ in written.items() ^ expected.outputs.items()}
    other -= {name for name, what in (before or {}).items() if written.get(name) == what}
    if other:
        return [f"wrong result without an error: {', '.join(sorted(other)[:3])}"]
    return []


def _is_message(err: str) -> bool:
    """Whether standard error ends with a readable message."""
    if "─ Error ─" in err:  # typer's errors about arguments
        return True
    start = err.rfind("regard: ")
    message = err[start + len("regard: ") :].strip() if start >= 0 else ""
    raw = re.search(r"\[Errno|<class |Exception\(|object at 0x", message)
    return len(message.split()) >= 3 and not raw


def _is_json(out: bytes, format: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        text = out.decode("utf-8")
        for part in text.split("\n")[:-1] if format == "jsonl" else [text]:
            json.loads(part, parse_constant=refuse)
    except ValueError:
        return False
    return True


def _last_line(err: str) -> str:
    lines = [line for line in err.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no output"
