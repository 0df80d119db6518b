"""Kernels compiled for a GPU that is not here: the interpreter takes what the compiler refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def assert_compiles(program: str, cache: Path) -> None:
    """Run a program that compiles kernels, in a process whose Triton does not interpret them."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache)}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
