"""Whether a command ended as it must: success, or one sentence with status 2; inputs kept."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Collection

from hostile.client import CPU_SECONDS, Ended
from hostile.scenes import Scene
from hostile.stage import Stage, Tree, below

Problems = list[str]
_REFUSED = 2
_DIVERGED = 1  # which training may, and says
_SIGNALLED: dict[int, str] = {
    signal.SIGKILL: "killed",
    signal.SIGXCPU: f"more than {CPU_SECONDS} s of CPU time",
}


def of_command(
    ended: Ended, scene: Scene, *, statuses: Collection[int] = (0, _REFUSED)
) -> Problems:
    """What is wrong with how one command ended."""
    if ended.late:
        return [f"no end in {ended.seconds:.0f} s (CPU {ended.cpu:.1f} s)"]
    diverged = ended.status == _DIVERGED and _is_sentence(ended.err)
    if ended.status < 0 and ended.status not in statuses:
        return [_SIGNALLED.get(-ended.status, f"ended by {signal.Signals(-ended.status).name}")]
    found = []
    if "Traceback" in ended.err:
        found.append(f"traceback: {_last_line(ended.err)}")
    elif "Exception ignored" in ended.err:
        found.append(f"ignored exception: {_last_line(ended.err)}")
    elif ended.status not in statuses and not diverged:
        found.append(f"status {ended.status}: {_last_line(ended.err)}")
    elif ended.status == _REFUSED and not _is_sentence(ended.err):
        found.append(f"no sentence: {_last_line(ended.err)}")
    if ended.status == 0 and scene.format and not _is_json(ended.out, scene.format):
        found.append("standard output is not valid JSON")
    return found


def of_files(before: Tree, after: Tree, outputs: tuple[str, ...]) -> Problems:
    """Inputs that are not as they were, and files that nobody asked for."""
    found = [
        f"input {'changed' if name in after else 'deleted'}: {name}"
        for name, what in before.items()
        if after.get(name) != what and not below(name, outputs)
    ]
    for name in after.keys() - before.keys():
        parents = any(place.startswith(name + "/") for place in outputs)
        if is_temporary(name) or (not below(name, outputs) and not parents):
            found.append(f"left behind: {name}")
    return found


def is_temporary(name: str) -> bool:
    """Whether only a command that was killed may leave such a file."""
    return re.search(r"\.(partial|tmp|old)\b|(^|/)\.regard-", name) is not None


def of_result(stage: Stage, scene: Scene, ended: Ended, before: Tree | None = None) -> Problems:
    """Whether a success has the result of the unchanged command, where it wrote anything."""
    if ended.status != 0:
        return []
    wanted = stage.reference(scene)
    if ended.out != wanted.ended.out:
        return ["wrong result without a word: other standard output"]
    written = stage.written(scene)
    other = {name for name, _ in written.items() ^ wanted.outputs.items()}
    other -= {name for name, what in (before or {}).items() if written.get(name) == what}
    if other:
        return [f"wrong result without a word: {', '.join(sorted(other)[:3])}"]
    return []


def _is_sentence(err: str) -> bool:
    """Whether the last thing said is a message for a person."""
    if "─ Error ─" in err:  # of typer, about the words of the command line
        return True
    place = err.rfind("regard: ")
    message = err[place + len("regard: ") :].strip() if place >= 0 else ""
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
    return lines[-1][:160] if lines else "nothing was said"
