"""Server processes on one port: the first starts the others, and passes signals on."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from regard.decoding.runtime import Runtime
from regard.errors import RunError
from regard.serving.config import LimitConfig, ServerConfig
from regard.serving.logs import set_up_log
from regard.serving.server import bind, run_process, state_folder

_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_SHORT = 10.0  # seconds; a process that ends earlier is not started again
_POLL = 0.2
_log = logging.getLogger("regard.serving")


def run_server(
    paths: dict[str, Path], runtime: Runtime, config: ServerConfig, limits: LimitConfig
) -> None:
    """Serve models until a signal ends the server."""
    set_up_log(config.log_format)
    with ExitStack() as stack:
        state = stack.enter_context(state_folder(config))
        listener = bind(config)
        stack.callback(listener.close)
        if config.workers == 1:
            run_process(paths, runtime, config, limits, listener, state)
            return
        os.environ[_MULTIPROCESS] = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="regard-metrics-")
        )
        arguments = (paths, runtime, config, limits, listener, state)
        Supervisor(arguments, config.workers).run()


class Supervisor:
    """Starts server processes, and replaces those that end unexpectedly."""

    def __init__(self, arguments: tuple[object, ...], count: int) -> None:
        self._arguments, self._count = arguments, count
        # Modules are imported once, by a process that the others are forked from.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._cores = sorted(os.sched_getaffinity(0))
        self._running: dict[int, tuple[BaseProcess, float]] = {}  # by number, with start times
        self._stopping = threading.Event()

    def run(self) -> None:
        """Run all processes until a signal ends them."""
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, self._pass_on)
        for number in range(self._count):
            self._start(number)
        while not self._stopping.is_set():
            time.sleep(_POLL)
            for number, (process, start) in [*self._running.items()]:
                if process.is_alive() or self._stopping.is_set():
                    continue
                if time.monotonic() - start < _SHORT:
                    self._stop(signal.SIGTERM)
                    raise RunError(
                        f"Server process {number + 1} ended at its start (status "
                        f"{process.exitcode}). Its message is above."
                    )
                _log.error("process %s ended with status %s", number + 1, process.exitcode)
                self._start(number)
        for process, _ in self._running.values():
            process.join()

    def _start(self, number: int) -> None:
        process = self._context.Process(
            target=_run_child, args=(self._part_of_cores(number), *self._arguments)
        )
        process.start()
        self._running[number] = process, time.monotonic()

    def _part_of_cores(self, number: int) -> Sequence[int]:
        """The cores of a process; all, if there are more processes than cores."""
        return self._cores[number :: self._count] or self._cores

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self._stopping.set()
        self._stop(number)

    def _stop(self, number: int) -> None:
        """Send a signal to all processes."""
        for process, _ in self._running.values():
            if process.pid is not None and process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, number)


def _run_child(
    cores: Sequence[int],
    paths: dict[str, Path],
    runtime: Runtime,
    config: ServerConfig,
    limits: LimitConfig,
    listener: socket.socket,
    state: Path,
) -> None:
    """Run one process on its part of the cores."""
    os.sched_setaffinity(0, cores)
    set_up_log(config.log_format)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    run_process(paths, runtime, config, limits, listener, state)


def _exit_with_parent() -> None:
    """Drain if the first process is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
