"""The command as a process: signals, kills, full disks, closed pipes, startup time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from regard.cli import build_app
from regard.data.store import Store
from regard.models.folder import WEIGHTS, read_tensors
from regard.training.checkpoint import checkpoint_folders
from toys import write_model_folder

SETTINGS = [
    "model.d_model=16",
    "model.num_heads=2",
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "model.ffn_dim=24",
    "training.checkpoint_every=7",
    "training.log_every=3",
    "training.tensorboard=false",
]


COMMAND = typer.main.get_command(build_app())
COMMANDS = [*getattr(COMMAND, "commands", {})]


def arguments(store: Store, out: Path, steps: int) -> list[str]:
    assignments = [*SETTINGS, f"training.max_steps={steps}"]
    return [
        *[sys.executable, "-m", "regard", "train", "--device", "cpu"],
        *["--data", str(store.folder), "--out", str(out)],
        *[word for assignment in assignments for word in ("--set", assignment)],
    ]


def start(store: Store, out: Path, steps: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        arguments(store, out, steps), stderr=subprocess.PIPE, text=True, env=environment
    )


def wait_for_a_checkpoint(out: Path) -> None:
    for _ in range(600):
        if checkpoint_folders(out):
            return
        time.sleep(0.1)
    pytest.fail("no checkpoint in a minute")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_saves_and_exits(
    number: int, status: int, tmp_path: Path, unvalidated_store: Store
) -> None:
    out = tmp_path / "run"
    with start(unvalidated_store, out, 100_000) as process:
        wait_for_a_checkpoint(out)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == status
    assert "Run the same command again to resume" in stderr
    assert "Traceback" not in stderr


def test_random_kills_do_not_change_the_result(tmp_path: Path, unvalidated_store: Store) -> None:
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
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    expected, actual = read_tensors(whole / WEIGHTS)[0], read_tensors(parts / WEIGHTS)[0]
    assert all(torch.equal(tensor, actual[name]) for name, tensor in expected.items())
    assert not list(parts.rglob("*.partial"))


def test_help_is_fast_and_complete() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "regard", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {"prepare", "train", "translate", "distill", "shortlist"} <= {*COMMANDS}
    for name in COMMANDS:
        assert name in result.stdout
    loaded = {line.rsplit("|", 1)[-1].strip() for line in result.stderr.splitlines()}
    assert not loaded & {"torch", "numpy", "sentencepiece", "matplotlib"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name: str) -> None:
    for parameter in getattr(COMMAND, "commands", {})[name].params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_version() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "regard", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("regard 0.")


def shell(rest: str) -> subprocess.CompletedProcess[str]:
    """What `regard` and the rest of a line come to in a shell."""
    line = f"{sys.executable} -m regard {rest}"
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False)


def test_closed_pipe_is_not_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "regard", "--help"]
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert result.returncode == 141
    assert result.stderr == ""


def test_full_disk_is_reported() -> None:
    result = shell("show settings > /dev/full")
    assert result.returncode == 2
    assert "disk is full" in result.stderr
    assert "Traceback" not in result.stderr


def test_lines_in_a_pipe_are_answered_at_once(tmp_path: Path, reversal_store: Store) -> None:
    """And a signal ends the command while it waits for input."""
    model = write_model_folder(tmp_path / "model", reversal_store)
    command = [sys.executable, "-m", "regard", "translate", str(model), "--buffer-size", "1"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in ("a b c", "", "d"):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answer = process.stdout.readline()  # waits forever if the output is buffered
            assert answer.endswith("\n")
            assert bool(answer.strip()) == bool(line)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped by Ctrl-C" in errors
    assert "Fatal" not in errors


def test_help_without_subcommands_lists_the_same_summaries() -> None:
    """`regard --help` imports no subcommand, so it has the first lines of their help itself."""
    stubs = getattr(typer.main.get_command(build_app(used=())), "commands", {})
    assert [*stubs] == COMMANDS
    for name, command in getattr(COMMAND, "commands", {}).items():
        assert stubs[name].help == command.help.split("\n\n")[0].replace("\n", " ")
        assert stubs[name].hidden == command.hidden
