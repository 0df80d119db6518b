"""Outputs: inputs and existing files are not overwritten, and no partial files are left."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.commands import Command, Outcome, regard
from regard.cli.results import OutputOptions
from regard.data.store import Store
from regard.files import atomic_file, locked_output
from toys import altered, run, small_run, write_model_folder

__all__ = ["regard"]  # a fixture

LETTERS = "abcdefghijklmnopqrstuvwxyz" * 6
LINES = "".join(
    f"{' '.join(LETTERS[begin : begin + 3 + begin % 4])}\n" for begin in range(len(LETTERS) - 6)
)


@dataclass(frozen=True)
class World:
    """What commands read."""

    folder: Path

    def __getattr__(self, name: str) -> Path:
        return self.folder / name

    def contents(self) -> dict[Path, bytes]:
        """Every file, by its path."""
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def original_world(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    shutil.copytree(reversal_store.folder, world.data)
    write_model_folder(world.model, reversal_store)
    store = Store(world.data)
    run(small_run(world.run, store, max_steps=4, checkpoint_every=2), store)
    tuned = small_run(world.adapter, store, max_steps=2, checkpoint_every=2)
    lora = {"init_from": str(world.run), "training": {"lora": {"rank": 2}}}
    run(altered(tuned, **lora), store)
    world.source.write_text(LINES)
    world.target.write_text("".join(f"{line[::-1]}\n" for line in LINES.splitlines()))
    world.tags.write_text("".join(f"{letter}\t{letter in 'aeiou'}\n" for letter in LETTERS))
    world.gold.write_text("0-0\n" * LINES.count("\n"))
    world.recipe.write_text('out = "x"\n[data]\nfolder = "y"\n[training]\nmax_steps = 50\n')
    return world


@pytest.fixture
def world(original_world: World, tmp_path: Path) -> World:
    """A copy, which commands may harm."""
    shutil.copytree(original_world.folder, tmp_path / "world")
    return World(tmp_path / "world")


Words = Callable[[World], list[str | Path]]
GREEDY = ["--backend", "torch", "--beam-size", "1"]
TEXTS: Words = lambda w: ["--source", w.source, "--target", w.target]  # noqa: E731
TEST: Words = lambda w: ["--source", w.source, "--reference", w.target, *GREEDY]  # noqa: E731
SMALL = ["--vocab-size", "300"]
# Each ends with the option that names the output.
COMMANDS: dict[str, tuple[Words, str]] = {
    "prepare": (lambda w: ["prepare", *TEXTS(w), *SMALL, "--out"], "folder"),
    "prepare text": (lambda w: ["prepare", "--text", w.source, *SMALL, "--out"], "folder"),
    "prepare tags": (lambda w: ["prepare", "--tagged", w.tags, *SMALL, "--out"], "folder"),
    "export ctranslate2": (lambda w: ["export", w.model, "--to", "ctranslate2", "--out"], "folder"),
    "export argos": (lambda w: ["export", w.model, "--to", "argos", "--out"], "file"),
    "export huggingface": (lambda w: ["export", w.model, "--to", "huggingface", "--out"], "folder"),
    "average": (lambda w: ["average", w.run, "--last", "2", "--out"], "folder"),
    "merge": (lambda w: ["merge", w.adapter, "--out"], "folder"),
    "embed": (lambda w: ["embed", w.model, "--out"], "file"),
    "evaluate output": (lambda w: ["evaluate", w.model, *TEST(w), "--out"], "file"),
    "evaluate picture": (lambda w: ["evaluate", w.model, *TEST(w), "--picture"], "file"),
    "compare": (lambda w: ["compare", "--lengths", "4", "--rounds", "1", "--picture"], "file"),
    "align": (lambda w: ["align", *TEXTS(w), "--gold", w.gold, "--picture"], "file"),
    "show positions": (lambda w: ["show", "positions", "--picture"], "file"),
    "show schedule": (lambda w: ["show", "schedule", w.recipe, "--picture"], "file"),
    "show attention": (lambda w: ["show", "attention", w.model, "a b", "--picture"], "file"),
}
FILES = [name for name, (_, kind) in COMMANDS.items() if kind == "file"]
FOLDERS = [name for name, (_, kind) in COMMANDS.items() if kind == "folder"]


WRITERS = [name for name in COMMANDS if name not in ("compare", "show schedule", "show attention")]


def command(name: str, world: World) -> tuple[list[str | Path], Path]:
    """Its words, and an output of the right name that does not exist."""
    ending = {"embed": ".npy", "export argos": ".argosmodel"}.get(name, "")
    return COMMANDS[name][0](world), world.folder.parent / f"out{ending}"


def assert_refused(outcome: Outcome, *arguments: str) -> None:
    assert outcome.status == 2, outcome.err
    assert "Traceback" not in outcome.err
    for word in arguments:
        assert word in outcome.err


@pytest.mark.parametrize("name", COMMANDS)
def test_existing_output_is_replaced_with_overwrite_only(
    name: str, world: World, regard: Command
) -> None:
    before = world.contents()
    arguments, out = command(name, world)
    assert regard(*arguments, out, stdin=LINES).status == 0
    assert {path.name for path in out.parent.iterdir()} == {"world", out.name}
    first = out.stat().st_ino
    assert_refused(regard(*arguments, out, stdin=LINES), f"{out} exists", "--overwrite")
    assert out.stat().st_ino == first
    again = regard(*arguments, out, "--overwrite", stdin=LINES)
    assert again.status == 0, again.err
    assert out.stat().st_ino != first
    assert {path.name for path in out.parent.iterdir()} == {"world", out.name}
    assert world.contents() == before


@pytest.mark.parametrize("name", COMMANDS)
def test_inputs_are_not_overwritten(name: str, world: World, regard: Command) -> None:
    arguments, out = command(name, world)
    inputs = [word for word in arguments if isinstance(word, Path)]
    link = world.folder.parent / f"link{out.suffix}"
    hard = world.folder.parent / f"hard{out.suffix}"
    before = world.contents()
    for path in inputs:
        places = [path / f"new{out.suffix}"] if path.is_dir() else [path]
        if path.is_file():
            link.symlink_to(path)
            os.link(path, hard)
            places += [link, hard]
        if name not in ("embed", "export argos"):
            places.append(world.folder / ".." / "world" / path.name)
        for place in places:
            result = regard(*arguments, place, "--overwrite", stdin=LINES)
            assert_refused(result, f"{place}", "which is an input of this command")
            assert world.contents() == before
        link.unlink(missing_ok=True)
        hard.unlink(missing_ok=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_second_process_with_the_same_output_is_refused(
    name: str, original_world: World, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, out = command(name, original_world)
    with locked_output(out):
        monkeypatch.setattr(os, "getpid", lambda: 1)  # as in another process
        assert_refused(regard(*arguments, out, stdin=LINES), f"{out} is in use by another process")
    assert not out.exists()


@pytest.mark.parametrize("name", FOLDERS)
def test_foreign_folders_are_not_replaced(name: str, world: World, regard: Command) -> None:
    arguments, out = command(name, world)
    shutil.copytree(world.model, out)
    (out / "letter.txt").write_text("dear")
    assert_refused(regard(*arguments, out, "--overwrite"), "letter.txt", "does not replace it")
    assert (out / "letter.txt").read_text() == "dear"
    shutil.rmtree(out)
    shutil.copytree(world.run, out)
    assert_refused(regard(*arguments, out, "--overwrite"), "does not replace it")
    assert (out / "checkpoints").is_dir()


@pytest.mark.parametrize("name", WRITERS)
def test_file_size_limit_is_reported(
    name: str, original_world: World, tmp_path: Path, regard: Command
) -> None:
    arguments, out = command(name, original_world)
    out = tmp_path / out.name
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        result = regard(*arguments, out, stdin=LINES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    place = tempfile.gettempdir() if name == "export argos" else out  # where that begins
    assert_refused(result, f"{place}")
    assert "larger than the system permits" in result.err or "limit on files" in result.err
    assert list(tmp_path.iterdir()) == []
    if name.startswith("evaluate"):
        assert "BLEU" in result.out


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for a lock and little else."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("name", WRITERS)
def test_full_disk_is_reported(
    name: str, original_world: World, full_disk: Path, regard: Command
) -> None:
    arguments, out = command(name, original_world)
    result = regard(*arguments, full_disk / out.name, stdin=LINES)
    assert_refused(result, f"{full_disk / out.name}: ", "disk is full")
    assert list(full_disk.iterdir()) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_impossible_output_is_reported_first(
    name: str, original_world: World, regard: Command
) -> None:
    arguments, out = command(name, original_world)
    result = regard(*arguments, original_world.source / "below" / out.name, stdin=LINES)
    assert_refused(result, "in the way")
    assert result.out == ""
    assert "Backend" not in result.err  # printed once a model is loaded


# Outputs that lie in a folder that is read.


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (lambda w: ["shortlist", w.model, "--data", w.data], "model/shortlist.json"),
        (lambda w: ["align", "--data", w.data], "data/train.fertilities"),
    ],
)
def test_files_written_into_input_folders(
    arguments: Words, file: str, world: World, regard: Command
) -> None:
    path = world.folder / file
    assert regard(*arguments(world)).status == 0
    path.write_text("mine")
    assert_refused(regard(*arguments(world)), f"{path} exists", "Use --overwrite")
    assert path.read_text() == "mine"
    assert regard(*arguments(world), "--overwrite").status == 0
    assert path.read_bytes() != b"mine"
    names = {entry.name for entry in path.parent.iterdir()}
    assert not any(name.startswith(".regard") for name in names)


# evaluate.


@pytest.mark.parametrize("place", ["/proc/nowhere/x", "/dev/fd/987", "LINK", "NODE"])
def test_unwritable_stream_is_reported_first(
    place: str, world: World, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.folder / "LINK").symlink_to("/proc/nowhere/x")
    os.mkfifo(world.folder / "NODE")
    if place == "NODE":  # root may write to anything
        monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    for option in ("--out", "--picture"):
        result = regard("evaluate", world.model, *TEST(world), option, world.folder / place)
        assert result.status == 2
        assert not result.out, "it has translated"
        assert result.err.count("\n") == 1, result.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_no_temporary_files(
    number: signal.Signals, tmp_path: Path, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(number)

    def interrupted(_: object, output: OutputOptions, *__: object, **___: object) -> None:
        assert output.picture is not None
        with atomic_file(output.picture) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), number)

    monkeypatch.setattr("regard.cli.show.draw_map", interrupted)
    result = regard("show", "mask", "--picture", tmp_path / "mask.png")
    assert result.status == 128 + number
    assert result.err == f"regard: Stopped by {number.name} before the command finished.\n"
    assert not [*tmp_path.iterdir()]
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("arguments", [["show", "mask"], ["show", "positions"], ["show", "scores"]])
def test_overwrite_needs_an_output(arguments: list[str], regard: Command) -> None:
    result = regard(*arguments, "--overwrite")
    assert result.status == 2
    assert result.err == "regard: --overwrite: no effect without --picture. Leave it out.\n"


def test_equal_output_paths_are_refused(world: World, regard: Command) -> None:
    arguments, out = command("evaluate output", world)
    assert_refused(regard(*arguments, out, "--picture", out), "--out", "--picture", "both")


def test_standard_output_may_be_an_output(world: World, regard: Command) -> None:
    arguments, _ = command("evaluate output", world)
    result = regard(*arguments, "/dev/null")
    assert result.status == 0
    assert Path("/dev/null").is_char_device()


def test_metrics_are_printed_if_the_file_cannot_be_written(world: World, regard: Command) -> None:
    arguments, _ = command("evaluate output", world)
    result = regard(*arguments, "/dev/full")
    assert_refused(result, "/dev/full: the disk is full")
    assert "BLEU" in result.out


# What an incomplete folder is good for.


@pytest.mark.parametrize(
    "remaining",
    [["store.json"], ["train.source.ids"], ["train.target.offsets", "train.source.ids"]],
)
def test_incomplete_prepared_folder_is_replaced(
    remaining: list[str], world: World, regard: Command
) -> None:
    arguments, out = command("prepare", world)
    assert regard(*arguments, out).status == 0
    for path in out.iterdir():
        if path.name not in remaining:
            path.unlink()
    assert_refused(regard(*arguments, out), "--overwrite")
    assert regard(*arguments, out, "--overwrite").status == 0
    assert (out / "store.json").is_file()
    assert len(Store(out).part("train")) > 0


@pytest.mark.parametrize("place", ["/", "/dev/null", "/dev/stdout", "/proc/new", "x" * 300])
@pytest.mark.parametrize("name", ["prepare", "export ctranslate2", "average"])
def test_path_that_is_not_a_folder_is_refused(
    name: str, place: str, original_world: World, regard: Command
) -> None:
    assert_refused(regard(*command(name, original_world)[0], place, "--overwrite"), place)


def test_current_folder_is_not_replaced(
    world: World, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, out = command("export ctranslate2", world)
    out.mkdir()
    monkeypatch.chdir(out)
    for place in (".", "", "../out"):
        assert_refused(
            regard(*arguments, place, "--overwrite"), "is or contains the current folder"
        )


def test_an_empty_folder_is_filled(world: World, regard: Command) -> None:
    arguments, out = command("prepare", world)
    out.mkdir()
    assert regard(*arguments, out).status == 0


# distill.


def test_foreign_chunks_are_not_deleted(world: World, regard: Command) -> None:
    out = world.folder.parent / "distilled"
    arguments = ["distill", world.model, "--data", world.data, "--out", out, "--beam-size", "1"]
    portions = out.with_name("distilled.portions")
    portions.mkdir()
    (portions / "letter").write_text("dear")
    assert_refused(regard(*arguments), f"{portions}", "letter")
    assert (portions / "letter").read_text() == "dear"
    (portions / "letter").unlink()
    (portions / "1-of-1").mkdir()
    (portions / "1-of-1" / "000000.txt").write_text("dear\n")
    assert_refused(regard(*arguments), f"{portions}", "1-of-1")
    assert (portions / "1-of-1" / "000000.txt").read_text() == "dear\n"
    (portions / "1-of-1" / "000000.txt").unlink()
    assert regard(*arguments).status == 0
    assert not portions.exists()
    portions.mkdir()
    (portions / "letter").write_text("dear")
    assert "finished" in regard(*arguments).err
    assert (portions / "letter").read_text() == "dear"


def test_other_result_is_replaced_with_overwrite(world: World, regard: Command) -> None:
    out = world.folder.parent / "distilled"
    arguments = ["distill", world.model, "--data", world.data, "--out", out, "--beam-size"]
    assert regard(*arguments, "1").status == 0
    assert_refused(regard(*arguments, "2"), "beam_size", "--overwrite")
    assert regard(*arguments, "2", "--overwrite").status == 0
    assert Store(out).description["distilled"]["search"]["beam_size"] == 2
    assert_refused(
        regard(*arguments[:5], world.data, "--overwrite"), "which is an input of this command"
    )
