"""Runs the server in a process: the socket, signals, and timeouts of connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.decoding.runtime import Runtime
from regard.errors import ConfigError
from regard.serving.app import make_app
from regard.serving.config import LimitConfig, ServerConfig
from regard.serving.keys import Keys
from regard.serving.metrics import Metrics
from regard.serving.registry import Registry
from regard.serving.service import Service

_BACKLOG = 2048
_MAX_HEADERS = 32 * 1024  # bytes
# Seconds for which a thread of a batcher may keep the event loop waiting for the interpreter lock.
_SWITCH_INTERVAL = 0.0005
_log = logging.getLogger("regard.serving")


class TimedProtocol(H11Protocol):
    """HTTP connections that are closed if a request does not arrive in time."""

    receive_timeout = 30.0  # seconds
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time for the headers of the first request."""
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Read data; between requests, the time for the next one starts with its first byte."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()  # the gate limits the time for the body
        elif self._timer is None and not self.transport.is_closing():
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.receive_timeout, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


class Server(uvicorn.Server):
    """A server that reloads models on SIGHUP, and drains on SIGTERM."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._reloads: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals; uvicorn would raise them again at the end, before anything is removed."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting connections, and finish the requests in progress."""
        self._service.is_draining = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests and documents in progress."""
        limits = self._service.limits
        await super().shutdown(sockets)
        await self._service.documents.wait(limits.drain)

    def reload(self) -> None:
        """Reload the models and keys that have changed, in the background."""

        async def run() -> None:
            if self._service.keys is not None:
                try:
                    self._service.keys.read()
                except ConfigError as error:
                    _log.error("cannot read the keys again: %s", error)
            names = await asyncio.to_thread(self._service.registry.reload)
            _log.info("reloaded %s", ", ".join(names) or "nothing: no model folder has changed")

        task = asyncio.get_running_loop().create_task(run())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)


def bind(config: ServerConfig) -> socket.socket:
    """A socket that listens on the address."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # asyncio disables Nagle's algorithm, which delays answers, only if the protocol is given.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot listen on {config.host}, port {config.port}: {error.strerror or error}. Use "
            "another --port or --host."
        ) from None
    listener.set_inheritable(True)
    return listener


@contextlib.contextmanager
def state_folder(config: ServerConfig) -> Iterator[Path]:
    """The folder for glossaries and documents."""
    if config.state is not None:
        config.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield config.state
        return
    with tempfile.TemporaryDirectory(prefix="regard-serve-") as folder:
        yield Path(folder)


def run_process(
    paths: dict[str, Path],
    runtime: Runtime,
    config: ServerConfig,
    limits: LimitConfig,
    listener: socket.socket,
    state: Path,
) -> None:
    """Load the models and answer requests until a signal ends the process."""
    raise_file_limit()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    metrics = Metrics()
    keys = None if config.keys is None else Keys(config.keys)
    registry = Registry(paths, runtime, limits, metrics.observe_batch)
    registry.load()
    service = Service(config, limits, registry, metrics, keys, state)
    for model in registry.models.values():
        _log.info("%s: %s", model.name, describe(model))
    host, port = listener.getsockname()[:2]
    address = f"[{host}]" if ":" in host else host
    _log.info("listening on http://%s:%s", address, port)
    TimedProtocol.receive_timeout = limits.receive_timeout
    server = Server(
        uvicorn.Config(
            make_app(service),
            http=TimedProtocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=limits.keep_alive,
            timeout_graceful_shutdown=max(1, math.ceil(limits.drain)),
            h11_max_incomplete_event_size=_MAX_HEADERS,
        ),
        service,
    )
    try:
        server.run(sockets=[listener])
    finally:
        registry.close()


def describe(model: Any) -> str:
    """A model for the log: its directions or task, and the backend."""
    listed = ", ".join(map(str, model.directions)) or model.task.replace("_", " ")
    return f"{listed}. {model.pipeline.backend_notice}" if model.translates else listed


def raise_file_limit() -> None:
    """Allow as many connections as the system permits this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
