"""Compile Triton kernels without a GPU: the interpreter accepts code that the compiler refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def assert_compiles(program: str, cache: Path) -> None:
    """Run a program that compiles kernels, in a process without Triton's interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
