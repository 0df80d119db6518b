"""Progress where no bar can be drawn: a line on standard error every half minute."""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import timedelta

_ERROR = 2  # the file descriptor


class Heartbeat:
    """Reports progress from a thread of its own, so that no long work is silent.

    `status` is what the lines say; `seconds` lie between them.
    """

    def __init__(self, seconds: float = 30.0) -> None:
        self.status = ""
        self.seconds = seconds
        self._ended = threading.Event()

    def __enter__(self) -> Heartbeat:
        self.status, self._ended = "", threading.Event()
        if not sys.stderr.isatty():
            threading.Thread(target=self._beat, args=[self._ended], daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No more lines: the command has ended, or another process of the same run writes them."""
        self._ended.set()

    def _beat(self, ended: threading.Event) -> None:
        begun = time.monotonic()
        while not ended.wait(self.seconds):
            elapsed = timedelta(seconds=round(time.monotonic() - begun))
            line = f"{self.status or 'working'}  ({elapsed} elapsed)\n"
            try:
                # Not through sys.stderr: a process forked while its lock is held would hang.
                os.write(_ERROR, line.encode("utf-8", "backslashreplace"))
            except OSError:
                return


heartbeat = Heartbeat()
