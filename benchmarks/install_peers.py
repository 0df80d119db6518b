"""Installs the toolkits that are on PyPI, each into its own environment under build/peers.

    python benchmarks/install_peers.py
    python benchmarks/install_peers.py fairseq eole

If an installation fails, the reason is stored in the environment and shown in the tables.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from peers.toolkit import FAILURE_FILE, Toolkit
from training import TOOLKITS


def main() -> None:
    """Install the named toolkits, or all that are not installed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(TOOLKITS))
    names = parser.parse_args().peers
    unknown = sorted(set(names) - set(TOOLKITS))
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; the peers are {', '.join(TOOLKITS)}")
    for name in names or TOOLKITS:
        toolkit = TOOLKITS[name]
        if name in names or toolkit.problem() is not None:
            print(f"{toolkit.name}: {install(toolkit)}", flush=True)


def install(toolkit: Toolkit) -> str:
    """Install a toolkit into a new environment; returns its version, or why that failed."""
    shutil.rmtree(toolkit.home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", toolkit.home], check=True)
    pin = torch_pin(Path("constraints.txt"))
    constraints = toolkit.home / "constraints.txt"
    constraints.write_text(pin + "\n")
    installs = [pin, *toolkit.install] if toolkit.needs_torch else toolkit.install
    for packages in installs:
        pip = [str(toolkit.home / "bin" / "pip"), "install", "--quiet", "-c", str(constraints)]
        command = [*pip, *shlex.split(packages)]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            messages = process.stderr.strip().splitlines() or ["pip gave no reason"]
            reason = f"pip could not install {packages}: {messages[-1][:200]}"
            (toolkit.home / FAILURE_FILE).write_text(reason + "\n", encoding="utf-8")
            return reason
    return f"version {toolkit.version()}"


def torch_pin(constraints: Path) -> str:
    """The version of PyTorch for all peers, including those that require an older one."""
    return next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))


if __name__ == "__main__":
    main()
