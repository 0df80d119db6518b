"""Models of other programs, and exports of ours, are called by their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.data.store import Store
from regard.errors import RegardError
from regard.models.folder import ModelFolder, load_model
from regard.recognize import exported_model, foreign_model
from regard.text.folder import tokenizers_in
from toys import write_model_folder

MODELS: dict[str, tuple[dict[str, str], str]] = {
    "huggingface": (
        {"config.json": '{"model_type": "marian", "architectures": ["MarianMTModel"]}'},
        "is a HuggingFace model. Import it first: `regard import ",
    ),
    "old huggingface": ({"config.json": '{"architectures": ["Bert"]}'}, "is a HuggingFace model."),
    "peft": ({"adapter_config.json": "{}"}, "is an adapter of HuggingFace's PEFT."),
    "ctranslate2": (
        {"model.bin": "", "config.json": '{"add_source_eos": true}', "shared_vocabulary.json": ""},
        "is a model of CTranslate2 without a tokenizer of ours",
    ),
    "argos": (
        {"metadata.json": "{}", "model/model.bin": "", "sentencepiece.model": ""},
        "is an unpacked package of Argos Translate.",
    ),
    "onnx": ({"encoder_model.onnx": "", "config.json": "{}"}, "is an ONNX model of another"),
    "marian": ({"model.npz": "", "vocab.spm": "", "decoder.yml": ""}, "is a Marian model."),
    "fairseq": ({"checkpoint_best.pt": "", "dict.en.txt": ""}, "pickled checkpoints of PyTorch"),
    "prepared": ({"store.json": "{}"}, "is prepared data, not a model."),
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_another_program_is_called_by_its_name(name: str, tmp_path: Path) -> None:
    files, words = MODELS[name]
    folder = written(tmp_path / "model", files)
    with pytest.raises(RegardError) as caught:
        ModelFolder.read(folder)
    assert words in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("ending", ["argosmodel", "onnx", "npz", "pt", "bin", "safetensors"])
def test_a_file_of_another_program_is_called_by_its_name(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{ending}"
    path.touch()
    with pytest.raises(RegardError) as caught:
        ModelFolder.read(path)
    assert str(caught.value) == foreign_model(path)


def test_a_tokenizer_of_another_program(tmp_path: Path) -> None:
    folder = written(tmp_path, MODELS["huggingface"][0])
    with pytest.raises(RegardError, match="is a HuggingFace model"):
        tokenizers_in(folder)


def test_what_is_unknown_is_said_to_be_no_model(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="is not a model folder: it has no"):
        ModelFolder.read(written(tmp_path / "text", {"notes.txt": ""}))
    with pytest.raises(RegardError, match="update regard"):
        ModelFolder.read(written(tmp_path / "new", {"config.json": '{"format": 99}'}))


def test_the_inner_folder_of_an_export(tmp_path: Path) -> None:
    inner = written(tmp_path / "ctranslate2", MODELS["ctranslate2"][0])
    written(tmp_path, {"config.json": json.dumps({"format": 1})})
    with pytest.raises(RegardError, match=f"Give {tmp_path}"):
        ModelFolder.read(inner)


@pytest.mark.parametrize("name", ["ctranslate2/model.bin", "onnx.json"])
def test_an_export_has_no_weights_and_is_not_incomplete(
    name: str, tmp_path: Path, reversal_store: Store
) -> None:
    folder = write_model_folder(tmp_path / "model", reversal_store)
    (folder / "model.safetensors").unlink()
    with pytest.raises(RegardError, match="is incomplete"):
        load_model(folder, torch.device("cpu"))
    written(folder, {name: ""})
    with pytest.raises(RegardError) as caught:
        load_model(folder, torch.device("cpu"))
    assert str(caught.value) == exported_model(folder)
