"""What surrounds a command: streams, environment, disks, other commands, and signals."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from itertools import product

from hostile import judge
from hostile.cases import Case, one_command
from hostile.client import Ended
from hostile.scenes import Scene
from hostile.stage import Stage, tree

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


def stream_cases(scenes: list[Scene]) -> Iterator[Case]:
    """Each way in which a standard stream can be unusable."""
    for scene in scenes:
        for stdin, stdout, stderr in product(_INPUTS, _OUTPUTS, _OUTPUTS):
            bad = [stdin != "", stdout != "file:", stderr != "file:"]
            if not any(bad) or (all(bad) and stdout != stderr):
                continue
            streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            given = {name: what for name, what in streams.items() if what not in ("", "file:")}
            name = ",".join(f"{key}={what.replace('/', '|')}" for key, what in given.items())
            play = partial(_with_streams, scene, given)
            yield Case(f"streams/{scene.name}/{name}", f"{scene.name}/{sum(bad)}", play)


def _with_streams(
    scene: Scene, streams: dict[str, str], stage: Stage, draw: random.Random
) -> judge.Problems:
    wanted = stage.reference(scene).ended
    stage.set_up(scene)
    before = tree(stage.folder)
    (ended,) = stage.run(stage.call(scene, (), **streams))
    found = judge.of_files(before, tree(stage.folder), scene.outputs)
    statuses = _statuses(wanted, streams)
    if "stderr" in streams:  # nobody can read a sentence there
        ended = Ended(**{**vars(ended), "err": "regard: it cannot be read."})
    spoken = {**vars(ended), "out": ended.out if "stdout" not in streams else wanted.out}
    found += judge.of_command(Ended(**spoken), scene, statuses=statuses)
    if ended.status == 0 and scene.is_steady and not {"stdin", "stdout"} & streams.keys():
        found += judge.of_result(stage, scene, ended)
    return found


def _statuses(wanted: Ended, streams: dict[str, str]) -> tuple[int, ...]:
    """What a command may end with: output that nobody gets is no success."""
    broken = (_BROKEN_PIPE, -signal.SIGPIPE)
    if "stdin" in streams:
        return (0, 2, *broken)
    if "stdout" in streams and wanted.out:
        return broken if streams["stdout"] == "broken" else (2,)
    if "stdout" in streams:
        return (0, 2)
    return (0,)  # standard error is for notices: the work is done without it


def environment_cases(scenes: list[Scene]) -> Iterator[Case]:
    """Each strange environment."""
    for scene in scenes:
        for name, environment in _ENVIRONMENTS.items():
            play = one_command(scene, environment=environment)
            yield Case(f"streams/{scene.name}/{name}", f"environment/{name}", play)


def _fresh(scene: Scene) -> bool:
    """Whether a scene writes to a place of its own only."""
    return scene.outputs == ("new",)


def disk_cases(scenes: list[Scene]) -> Iterator[Case]:
    """Disks that are full, too small, read-only or out of files; and limits of a file's size."""
    for scene in scenes:
        if not scene.outputs:
            continue
        for number in range(6):
            play = partial(_with_file_limit, scene)
            yield Case(f"disks/{scene.name}/file size/{number}", f"{scene.name}/limit", play)
        if _fresh(scene):
            for number, what in product(range(4), ("small", "read-only", "few files")):
                play = partial(_on_small_disk, scene, what)
                yield Case(f"disks/{scene.name}/{what}/{number}", f"{scene.name}/{what}", play)


def _with_file_limit(scene: Scene, stage: Stage, draw: random.Random) -> judge.Problems:
    stage.reference(scene)
    stage.set_up(scene)
    before = tree(stage.folder)
    size = draw.choice([4096, 5000, 8192, 16_384, 30_000, 65_536, 100_000])
    (ended,) = stage.run(stage.call(scene, limits={"RLIMIT_FSIZE": size}))
    found = judge.of_command(ended, scene)
    found += judge.of_files(before, tree(stage.folder), scene.outputs)
    return found or _again(scene, stage, ended)


def _on_small_disk(scene: Scene, what: str, stage: Stage, draw: random.Random) -> judge.Problems:
    stage.reference(scene)
    stage.set_up(scene)
    size = draw.choice([1, 4, 8, 16, 32, 64, 128, 256]) * 4096
    options = {
        "small": f"size={size}",
        "read-only": "size=1m,ro",
        "few files": f"size=8m,nr_inodes={draw.randint(1, 12)}",
    }[what]
    place = stage.mount("new", options)
    if place is None:
        return []
    before = tree(stage.folder)
    (ended,) = stage.run(stage.call(scene))
    found = judge.of_command(ended, scene)
    found += judge.of_files(before, tree(stage.folder), scene.outputs)
    more = ["mount", "-o", "remount,rw,size=64m,nr_inodes=0", str(place)]
    subprocess.run(more, check=True)
    return found or _again(scene, stage, ended)


def _again(scene: Scene, stage: Stage, ended: Ended) -> judge.Problems:
    """After a failure, or a kill, the same command without the cause succeeds."""
    if ended.status == 0:
        return judge.of_result(stage, scene, ended) if scene.is_steady else []
    (second,) = stage.run(stage.call(scene))
    return _second(scene, stage, second)


def _second(scene: Scene, stage: Stage, ended: Ended) -> judge.Problems:
    """A second attempt succeeds, or says what to do, and that helps."""
    found = judge.of_command(ended, scene)
    if ended.status == 2 and "--overwrite" in ended.err:
        (ended,) = stage.run(stage.call(scene, (*scene.words, "--overwrite")))
        found = judge.of_command(ended, scene)
    is_whole = bool(scene.outputs) and stage.written(scene) == stage.reference(scene).outputs
    if ended.status == 2 and is_whole:
        return found  # the kill came after the work was done
    if ended.status == 2:
        found.append(f"no way out: {ended.err.strip()[:300]}")
    if not found and scene.is_steady:
        found += judge.of_result(stage, scene, ended)
    left = filter(judge.is_temporary, tree(stage.folder))
    return found + [f"left behind: {name}" for name in left]


def concurrent_cases(scenes: list[Scene]) -> Iterator[Case]:
    """The same command, two or three times at once, with one output."""
    for scene in scenes:
        if scene.outputs:
            for number in range(6):
                play = partial(_at_once, scene)
                yield Case(f"concurrent/{scene.name}/{number}", scene.name, play)


def _at_once(scene: Scene, stage: Stage, draw: random.Random) -> judge.Problems:
    wanted = stage.reference(scene)
    stage.set_up(scene)
    before = tree(stage.folder)
    longest = wanted.ended.seconds / 2
    delays = [
        0.0,
        *(draw.choice([0, 0, draw.uniform(0, longest)]) for _ in range(draw.choice([1, 2]))),
    ]
    everyone = stage.run(*[stage.call(scene, delay=delay, timeout=90.0) for delay in delays])
    found: judge.Problems = []
    for ended in everyone:
        found += judge.of_command(ended, scene)
    found += judge.of_files(before, tree(stage.folder), scene.outputs)
    best = [ended for ended in everyone if ended.status == 0]
    if not best:
        found.append("nobody succeeded")
    elif not found and scene.is_steady:
        found += judge.of_result(stage, scene, best[0])
    return found


def signal_cases(scenes: list[Scene]) -> Iterator[Case]:
    """Signals at random moments, kill -9 among them, and the same command again."""
    for scene in scenes:
        if not scene.outputs:
            continue
        for number in range(12):
            for kind in (
                signal.SIGKILL,
                signal.SIGTERM,
                signal.SIGINT,
                signal.SIGHUP,
            ):
                name = f"kills/{scene.name}/{kind.name}/{number}"
                stratum = scene.name + ("" if kind == signal.SIGKILL else "/signals")
                yield Case(name, stratum, partial(_killed, scene, kind))


def _killed(
    scene: Scene, kind: signal.Signals, stage: Stage, draw: random.Random
) -> judge.Problems:
    seconds = stage.reference(scene).ended.seconds
    stage.set_up(scene)
    before = tree(stage.folder)
    instant = draw.uniform(0.02, seconds * 0.9)
    (ended,) = stage.run(stage.call(scene, signals=((kind, instant),)))
    found = []
    if kind != signal.SIGKILL:
        statuses = (0, -kind, 128 + kind)
        quiet = Ended(**{**vars(ended), "err": ended.err.replace("Exception ignored", "")})
        found += judge.of_command(quiet, scene, statuses=statuses)
    after = {n: w for n, w in tree(stage.folder).items() if not judge.is_temporary(n)}
    found += judge.of_files(before, after, scene.outputs)
    return found or _again(scene, stage, ended)
