"""The processes of trials, as the tuner sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from regard.tuning.channel import Channel, Message

WORKER = (sys.executable, "-m", "regard.tuning.worker")


class TrialProcess:
    """A running process of a trial; `fileno` is for `selectors`."""

    def __init__(
        self, job: Message, log: Path, environment: Mapping[str, str], worker: Sequence[str]
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*worker],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is for the tuner, which stops its processes
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._channel = Channel(self._output, self._process.stdin.fileno())
        self.send(job)

    def fileno(self) -> int:
        """The file descriptor that is readable when there are messages."""
        return self._output

    def send(self, message: Message) -> None:
        """Send a message, unless the process has ended."""
        with suppress(BrokenPipeError):
            self._channel.send(message)

    def receive(self) -> list[Message] | None:
        """Wait for messages; None when the process has ended."""
        return self._channel.receive()

    def stop(self) -> None:
        """Ask the process to save a checkpoint and end."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def close(self) -> int:
        """Close the pipes, at which the process ends, and return its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()
