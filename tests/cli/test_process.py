"""The command as a process: signals, kills, full disks, closed pipes, and quick help."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import typer

from regard.cli import build_app
from regard.data.store import Store
from regard.models.folder import WEIGHTS, read_tensors
from regard.training.checkpoint import folders

SETTINGS = [
    "model.width=16",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.feedforward_width=24",
    "training.checkpoint_every=7",
    "training.log_every=3",
    "training.tensorboard=false",
]


COMMAND = typer.main.get_command(build_app())
VERBS = [*getattr(COMMAND, "commands", {})]


def words(store: Store, out: Path, steps: int) -> list[str]:
    assignments = [*SETTINGS, f"training.max_steps={steps}"]
    return [
        *[sys.executable, "-m", "regard", "train", "--device", "cpu"],
        *["--data", str(store.folder), "--out", str(out)],
        *[word for assignment in assignments for word in ("--set", assignment)],
    ]


def start(store: Store, out: Path, steps: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words(store, out, steps), stderr=subprocess.PIPE, text=True, env=environment
    )


def wait_for_a_checkpoint(out: Path) -> None:
    for _ in range(600):
        if folders(out):
            return
        time.sleep(0.1)
    pytest.fail("no checkpoint in a minute")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_leaves(
    number: int, status: int, tmp_path: Path, unvalidated_store: Store
) -> None:
    out = tmp_path / "run"
    with start(unvalidated_store, out, 100_000) as process:
        wait_for_a_checkpoint(out)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == status
    assert "The same command goes on from there" in said
    assert "Traceback" not in said


def test_kills_at_random_moments_change_nothing(tmp_path: Path, unvalidated_store: Store) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with start(unvalidated_store, whole, 60) as process:
        process.communicate(timeout=120)
    draw = random.Random()
    for _ in range(2):
        with start(unvalidated_store, parts, 60) as process:
            wait_for_a_checkpoint(parts)
            time.sleep(draw.random() * 0.5)
            process.kill()
            process.communicate()
    with start(unvalidated_store, parts, 60) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    expected, found = read_tensors(whole / WEIGHTS)[0], read_tensors(parts / WEIGHTS)[0]
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    assert not list(parts.rglob("*.partial"))


def test_help_is_quick_and_complete() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "regard", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {"prepare", "train", "translate", "distill", "shortlist"} <= {*VERBS}
    for verb in VERBS:
        assert verb in done.stdout
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not loaded & {"torch", "numpy", "sentencepiece", "matplotlib"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_help(verb: str) -> None:
    for parameter in getattr(COMMAND, "commands", {})[verb].params:
        assert getattr(parameter, "help", None), f"{verb} {parameter.name}"


def test_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regard", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("regard 0.")


def shell(rest: str) -> subprocess.CompletedProcess[str]:
    """What `regard` and the rest of a line come to in a shell."""
    line = f"{sys.executable} -m regard {rest}"
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False)


def test_a_closed_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "regard", "--help"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


def test_a_full_disk_is_said_so() -> None:
    done = shell("show settings > /dev/full")
    assert done.returncode == 2
    assert "disk is full" in done.stderr
    assert "Traceback" not in done.stderr
