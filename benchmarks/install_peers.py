"""Installs the rivals that PyPI has, each into an environment of its own under build/peers.

    python benchmarks/install_peers.py
    python benchmarks/install_peers.py fairseq eole

One that cannot be installed is not passed over in silence: the reason stays beside it, and the
tables tell it.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from peers.toolkit import FAILED, Toolkit
from training import TOOLKITS


def main() -> None:
    """Install what was named, or all that is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(TOOLKITS))
    named = parser.parse_args().peers
    unknown = sorted(set(named) - set(TOOLKITS))
    if unknown:
        parser.error(f"there is no rival {unknown[0]!r}; they are {', '.join(TOOLKITS)}")
    for name in named or TOOLKITS:
        toolkit = TOOLKITS[name]
        if name in named or toolkit.absence() is not None:
            print(f"{toolkit.name}: {install(toolkit)}", flush=True)


def install(toolkit: Toolkit) -> str:
    """Make its environment anew; what came of it, in words."""
    shutil.rmtree(toolkit.home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", toolkit.home], check=True)
    pin = torch_pin(Path("constraints.txt"))
    constraints = toolkit.home / "constraints.txt"
    constraints.write_text(pin + "\n")
    wanted = [pin, *toolkit.install] if toolkit.needs_torch else toolkit.install
    for packages in wanted:
        pip = [str(toolkit.home / "bin" / "pip"), "install", "--quiet", "-c", str(constraints)]
        command = [*pip, *shlex.split(packages)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["pip gave no reason"]
            reason = f"pip could not install {packages}: {said[-1][:200]}"
            (toolkit.home / FAILED).write_text(reason + "\n", encoding="utf-8")
            return reason
    return f"version {toolkit.version()}"


def torch_pin(constraints: Path) -> str:
    """The PyTorch that we have, for everybody; rivals that ask for an older one get it too."""
    return next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))


if __name__ == "__main__":
    main()
