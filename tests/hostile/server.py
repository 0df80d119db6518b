"""A process that has imported all modules and forks a child for each command line.

Starting Python and importing torch takes seconds; a fork takes milliseconds. A child behaves
like a new process of `python -m regard`: it has its own session, folder, standard streams, limits
and arguments, and exits through the interpreter, so that status and output are the same.

Each request is a line of JSON with jobs that run concurrently; the answer is a line of outcomes.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import struct
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn, TextIO

Job = dict[str, Any]
NOBODY = 65534  # user id without files
# linux/prctl.h and linux/capability.h
_KEEP_CAPABILITIES, _CAPABILITIES_VERSION, _READ_ANYTHING = 8, 0x20080522, 1 << 2
_FORBIDDEN = ("kernel", "__main__")  # needs a GPU compiler; would run the command
_LIBRARIES = ("sacrebleu", "ctranslate2", "tokenizers", "matplotlib.pyplot", "safetensors.torch")


def import_modules() -> None:
    """Import all modules that commands import, with one thread."""
    import torch

    import regard
    import regard.cli

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if not any(word in module.name for word in _FORBIDDEN):
            importlib.import_module(module.name)
    for name in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)


def serve(requests: TextIO, answers: TextIO) -> Job | None:
    """Answer requests until there are no more; in a forked child, return its job."""
    for line in requests:
        jobs: list[Job] = json.loads(line)
        running: dict[int, Job] = {}
        outcomes: dict[int, Job] = {}
        for number, job in enumerate(jobs):
            time.sleep(job["delay"])
            pid = os.fork()
            if pid == 0:
                return job
            running[pid] = {**job, "number": number, "began": time.monotonic()}
        while running:
            for pid in list(running):
                outcome = _poll(pid, running[pid])
                if outcome is not None:
                    outcomes[running.pop(pid)["number"]] = outcome
            time.sleep(0.003)
        print(
            json.dumps([outcomes[number] for number in range(len(jobs))]), file=answers, flush=True
        )
    return None


def _poll(pid: int, job: Job) -> Job | None:
    """The outcome of a child, or None while it runs; sends signals and enforces the timeout."""
    pid_ended, status, used = os.wait4(pid, os.WNOHANG)
    seconds = time.monotonic() - job["began"]
    if pid_ended:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what it has started
        return {
            "status": os.waitstatus_to_exitcode(status),
            "seconds": seconds,
            "cpu": used.ru_utime + used.ru_stime,
            "memory": used.ru_maxrss * 1024,
            "late": job.get("late", False),
        }
    for number, after in job["signals"]:
        if seconds >= after and number not in job.setdefault("sent", []):
            job["sent"].append(number)
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    if seconds >= job["timeout"]:
        job["late"] = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    return None


def set_up_child(job: Job) -> None:
    """Set up this process as if it had been started with the arguments of the job."""
    os.setsid()
    os.chdir(job["folder"])
    os.umask(0o022)
    # Not inherited from the parent.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, value in job["environment"].items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    for descriptor, what in enumerate((job["stdin"], job["stdout"], job["stderr"])):
        _open(descriptor, what)
    os.closerange(3, 1024)
    assert os.getuid() != 0, "hostile commands never run with privileges"
    for limit, value in job["limits"].items():
        resource.setrlimit(getattr(resource, limit), (value, value))
    if job["vanish"]:
        os.rmdir(job["folder"])
    for name, descriptor, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = _text(descriptor, mode)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = ["regard", *job["arguments"]]
    gc.enable()


def _open(descriptor: int, what: str) -> None:
    """Make a standard stream a file, nothing, a full disk, or a pipe without another end."""
    kind, _, path = what.partition(":")
    if kind == "closed":
        os.close(descriptor)
        return
    if kind == "broken":
        ends = os.pipe()
        kept_end = ends[0] if descriptor == 0 else ends[1]
        os.dup2(kept_end, descriptor)
        os.close(ends[0])
        os.close(ends[1])
        return
    writes = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    flags = os.O_RDONLY if descriptor == 0 or kind == "readonly" else writes
    if kind == "writeonly":
        flags = os.O_WRONLY
    file = os.open(path, flags, 0o644)
    os.dup2(file, descriptor)
    os.close(file)


def _text(descriptor: int, mode: str) -> Any:
    """A text stream as Python opens it at startup; None if the descriptor is closed."""
    try:
        os.fstat(descriptor)
    except OSError:
        return None
    errors = "backslashreplace" if descriptor == 2 else "strict"
    try:
        return open(descriptor, mode, encoding="utf-8", errors=errors, closefd=False)
    except OSError:  # a folder
        return None


def drop_privileges() -> None:
    """Change to an unprivileged user, since cases try to overwrite system paths.

    The capability to read all files is kept, since Python may be installed in root's home.
    """
    if os.getuid() != 0:
        return
    system = ctypes.CDLL(None, use_errno=True)
    assert system.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0) == 0
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    header = struct.pack("Ii", _CAPABILITIES_VERSION, 0)
    sets = struct.pack("6I", _READ_ANYTHING, _READ_ANYTHING, 0, 0, 0, 0)
    assert system.capset(header, sets) == 0
    assert system.prctl(_KEEP_CAPABILITIES, 0, 0, 0, 0) == 0


def main() -> None:
    """Serve requests; in a child, run the command."""
    drop_privileges()
    requests = os.fdopen(os.dup(0), "r")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    import_modules()
    gc.collect()
    gc.disable()
    gc.freeze()
    print(json.dumps({"memory": _address_space()}), file=answers, flush=True)
    job = serve(requests, answers)
    if job is None:
        return
    set_up_child(job)
    _command()


def _command() -> NoReturn:
    from regard.cli import main

    main()
    sys.exit(0)


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    main()
