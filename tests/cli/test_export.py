"""`regard export`, and inference backends."""

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


def test_backend_and_throughput_are_printed(model: Path, regard: Command) -> None:
    result = regard("translate", model, "--device", "cpu", stdin=TEXT)
    first, *_, last = result.err.splitlines()
    assert first == "Backend: CTranslate2, float32."
    assert re.fullmatch(r"3 lines in \d+\.\d\d s \([\d,]+ lines/s\)\.", last)
    assert len(result.out.splitlines()) == 3


def test_backends_agree(model: Path, regard: Command) -> None:
    outputs = [
        regard("translate", model, "--backend", backend, "--beam-size", "1", stdin=TEXT).out
        for backend in ("auto", "torch", "ctranslate2")
    ]
    assert outputs[0] == outputs[1] == outputs[2] != ""


def test_sampling_uses_the_torch_backend(model: Path, regard: Command) -> None:
    result = regard("translate", model, "--sample", "--device", "cpu", stdin=TEXT)
    assert result.err.startswith("Backend: PyTorch on the CPU, float32.")


def test_exported_model_translates_like_the_original(
    model: Path, tmp_path: Path, regard: Command
) -> None:
    out = tmp_path / "out"
    result = regard("export", model, "--to", "ctranslate2", "--out", out, "--precision", "int8")
    assert result.status == 0, result.err
    assert f"regard translate {out}" in result.err
    alone = regard("translate", out, stdin=TEXT)
    assert alone.out == regard("translate", model, "--precision", "int8", stdin=TEXT).out
    assert "CTranslate2, int8" in alone.err
    text = tmp_path / "text"
    text.write_text("a b c\n")
    measured = regard("evaluate", out, "--source", text, "--reference", text)
    assert measured.status == 0, measured.err
    assert "CTranslate2, int8" in measured.err
    score = regard("score", out, "--source", text, "--target", text)
    assert "use the model that it was exported from" in score.err
    compared = regard("compare", out, "--source", text, "--reference", text)
    assert compared.err.startswith(f"regard: {out} was exported")
    again = regard("export", model, "--to", "ctranslate2", "--out", out)
    assert "exists already" in again.err


def test_argos_package(model: Path, tmp_path: Path, regard: Command) -> None:
    out = tmp_path / "any.argosmodel"
    result = regard("export", model, "--to", "argos", "--out", out)
    assert result.status == 0, result.err
    assert "install_from_path" in result.err
    assert zipfile.is_zipfile(out)


def test_onnx_folder_translates_like_the_original(
    model: Path, tmp_path: Path, regard: Command
) -> None:
    out = tmp_path / "out"
    result = regard("export", model, "--to", "onnx", "--out", out)
    assert result.status == 0, result.err
    translated = regard("translate", out, stdin=TEXT)
    assert translated.err.startswith("Backend: onnxruntime on the CPU.")
    assert translated.out == regard("translate", model, "--backend", "torch", stdin=TEXT).out
    for arguments in (["--backend", "ctranslate2"], ["--precision", "int8"]):
        assert "runs in onnxruntime" in regard("translate", out, *arguments, stdin=TEXT).err
    again = regard("export", out, "--to", "onnx", "--out", tmp_path / "again")
    assert "use the model that it was exported from" in again.err


def test_shortlist_is_exported(
    model: Path, reversal_store: Store, tmp_path: Path, regard: Command
) -> None:
    shortlisted = regard("shortlist", model, "--data", reversal_store.folder)
    assert shortlisted.status == 0, shortlisted.err
    out = tmp_path / "out"
    result = regard("export", model, "--to", "ctranslate2", "--out", out)
    assert "includes the shortlist" in result.err
    assert regard("translate", out, stdin=TEXT).status == 0
    assert list(out.rglob("vmap.txt"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--to", "moses"],
            "Unknown export format 'moses'. Use one of ctranslate2, argos, onnx, huggingface.",
        ),
        (["--to", "argos", "--precision", "int4"], "Precision 'int4' is not supported for argos"),
    ],
)
def test_user_errors(
    arguments: list[str], message: str, model: Path, tmp_path: Path, regard: Command
) -> None:
    result = regard("export", model, *arguments, "--out", tmp_path / "out")
    assert result.status == 2
    assert message in result.err
    assert not (tmp_path / "out").exists()


def test_unsupported_models_are_refused(
    reversal_store: Store, tmp_path: Path, regard: Command
) -> None:
    odd = write_model_folder(tmp_path / "odd", reversal_store, norm="batch", key_dim=5)
    for target in ("ctranslate2", "argos"):
        result = regard("export", odd, "--to", target, "--out", tmp_path / "out")
        assert result.status == 2
        assert "model.norm is batch" in result.err
        assert "model.key_dim is 5" in result.err
        assert not (tmp_path / "out").exists()
