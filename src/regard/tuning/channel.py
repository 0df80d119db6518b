"""Messages between the tuner and the processes of its trials: JSON objects, one per line.

The tuner writes to the standard input of a process and reads its standard output.

    tuner -> process    {"settings": {...}, "device": "cpu", ...}   first, the run to train
    process -> tuner    {"event": "start", "step": 0, "max_steps": 2000}
    process -> tuner    {"event": "step", "step": 20}
    process -> tuner    {"event": "validation", "step": 300, "value": 31.2}
    tuner -> process    {"stop": true}                              an answer to each validation
    process -> tuner    {"event": "end", "state": "finished", "reason": null}
"""

from __future__ import annotations

import os
from typing import Any, Literal

from regard.errors import RunError
from regard.json_text import dumps
from regard.schema import JsonReader

Message = dict[str, Any]
# How the process of a trial ends: "refused" means invalid settings, "error" an environment in which
# no trial can be trained, such as a full disk.
EndState = Literal["finished", "stopped", "failed", "refused", "error"]
_READ = 65536
_READER = JsonReader(RunError, "Run the same command again.")


class Channel:
    """Sends and receives messages over two file descriptors."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._buffer = b""

    def send(self, message: Message) -> None:
        """Write a message; raises a `BrokenPipeError` if the other process has ended."""
        line = f"{dumps(message)}\n".encode("utf-8", "replace")
        while line:
            line = line[os.write(self._writing, line) :]

    def receive(self) -> list[Message] | None:
        """Wait for messages; None at the end, when the other process has ended."""
        while (data := os.read(self._reading, _READ)) or self._buffer:
            if not data:
                return None  # an incomplete message of a killed process
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            if lines:
                return [_READER.parse(line, "a message") for line in lines]
        return None
