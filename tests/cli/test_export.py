"""Models that leave the house, and engines by name."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from cli.commands import Command, regard
from regard.data.store import Store
from toys import write_model_folder

__all__ = ["regard"]  # a fixture

TEXT = "a b c\n\nd e. F g\n"


@pytest.fixture
def model(tmp_path: Path, reversal_store: Store) -> Path:
    return write_model_folder(tmp_path / "model", reversal_store)


def test_the_command_says_its_engine_and_its_speed(model: Path, regard: Command) -> None:
    done = regard("translate", model, "--device", "cpu", stdin=TEXT)
    first, *_, last = done.err.splitlines()
    assert first == "Engine: CTranslate2, float32."
    assert re.fullmatch(r"3 lines in \d+\.\d\d s, [\d,]+ a second\.", last)
    assert len(done.out.splitlines()) == 3


def test_engines_agree(model: Path, regard: Command) -> None:
    outputs = [
        regard("translate", model, "--backend", engine, "--beam-size", "1", stdin=TEXT).out
        for engine in ("auto", "torch", "ctranslate2")
    ]
    assert outputs[0] == outputs[1] == outputs[2] != ""


def test_sampling_is_pytorchs(model: Path, regard: Command) -> None:
    done = regard("translate", model, "--sample", "--device", "cpu", stdin=TEXT)
    assert done.err.startswith("Engine: PyTorch on the CPU, float32.")


def test_an_exported_model_translates_as_the_model_does(
    model: Path, tmp_path: Path, regard: Command
) -> None:
    out = tmp_path / "out"
    done = regard("export", model, "--to", "ctranslate2", "--out", out, "--precision", "int8")
    assert done.status == 0, done.err
    assert f"regard translate {out}" in done.err
    alone = regard("translate", out, stdin=TEXT)
    assert alone.out == regard("translate", model, "--precision", "int8", stdin=TEXT).out
    assert "CTranslate2, int8" in alone.err
    text = tmp_path / "text"
    text.write_text("a b c\n")
    measured = regard("evaluate", out, "--source", text, "--reference", text)
    assert measured.status == 0, measured.err
    assert "CTranslate2, int8" in measured.err
    score = regard("score", out, "--source", text, "--target", text)
    assert "use the model that it was made from" in score.err
    compared = regard("compare", out, "--source", text, "--reference", text)
    assert compared.err.startswith(f"regard: {out} was exported")
    again = regard("export", model, "--to", "ctranslate2", "--out", out)
    assert "left as it is" in again.err


def test_a_package_for_argos(model: Path, tmp_path: Path, regard: Command) -> None:
    out = tmp_path / "any.argosmodel"
    done = regard("export", model, "--to", "argos", "--out", out)
    assert done.status == 0, done.err
    assert "install_from_path" in done.err
    assert zipfile.is_zipfile(out)


def test_a_folder_for_onnx_translates_as_the_model_does(
    model: Path, tmp_path: Path, regard: Command
) -> None:
    out = tmp_path / "out"
    done = regard("export", model, "--to", "onnx", "--out", out)
    assert done.status == 0, done.err
    found = regard("translate", out, stdin=TEXT)
    assert found.err.startswith("Engine: onnxruntime on the CPU.")
    assert found.out == regard("translate", model, "--backend", "torch", stdin=TEXT).out
    for words in (["--backend", "ctranslate2"], ["--precision", "int8"]):
        assert "runs in onnxruntime" in regard("translate", out, *words, stdin=TEXT).err
    again = regard("export", out, "--to", "onnx", "--out", tmp_path / "again")
    assert "use the model that it was made from" in again.err


def test_a_shortlist_goes_along(
    model: Path, reversal_store: Store, tmp_path: Path, regard: Command
) -> None:
    made = regard("shortlist", model, "--data", reversal_store.folder)
    assert made.status == 0, made.err
    out = tmp_path / "out"
    done = regard("export", model, "--to", "ctranslate2", "--out", out)
    assert "shortlist went along" in done.err
    assert regard("translate", out, stdin=TEXT).status == 0
    assert list(out.rglob("vmap.txt"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--to", "moses"],
            "There is no 'moses' to export to. Use ctranslate2, argos, onnx, huggingface.",
        ),
        (["--to", "argos", "--precision", "int4"], "argos has no precision 'int4'"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(
    words: list[str], said: str, model: Path, tmp_path: Path, regard: Command
) -> None:
    done = regard("export", model, *words, "--out", tmp_path / "out")
    assert done.status == 2
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_exported_is_named(
    reversal_store: Store, tmp_path: Path, regard: Command
) -> None:
    odd = write_model_folder(tmp_path / "odd", reversal_store, norm="batch", key_width=5)
    for target in ("ctranslate2", "argos"):
        done = regard("export", odd, "--to", target, "--out", tmp_path / "out")
        assert done.status == 2
        assert "model.norm is batch" in done.err
        assert "model.key_width is 5" in done.err
        assert not (tmp_path / "out").exists()
