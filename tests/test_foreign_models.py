"""Models of other programs and exported models are recognized."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.data.store import Store
from regard.errors import RegardError
from regard.foreign_models import describe_exported_model, describe_foreign_model
from regard.models.folder import ModelFolder, load_model
from regard.text.folder import load_folder_tokenizers
from toys import write_model_folder

MODELS: dict[str, tuple[dict[str, str], str]] = {
    "huggingface": (
        {"config.json": '{"model_type": "marian", "architectures": ["MarianMTModel"]}'},
        "is a HuggingFace model. Import it first: `regard import ",
    ),
    "old huggingface": ({"config.json": '{"architectures": ["Bert"]}'}, "is a HuggingFace model."),
    "peft": ({"adapter_config.json": "{}"}, "is a HuggingFace PEFT adapter."),
    "ctranslate2": (
        {"model.bin": "", "config.json": '{"add_source_eos": true}', "shared_vocabulary.json": ""},
        "is a CTranslate2 model without a tokenizer of regard",
    ),
    "argos": (
        {"metadata.json": "{}", "model/model.bin": "", "sentencepiece.model": ""},
        "is an unpacked package of Argos Translate.",
    ),
    "onnx": ({"encoder_model.onnx": "", "config.json": "{}"}, "is an ONNX model of another"),
    "marian": ({"model.npz": "", "vocab.spm": "", "decoder.yml": ""}, "is a Marian model."),
    "fairseq": ({"checkpoint_best.pt": "", "dict.en.txt": ""}, "pickled PyTorch checkpoints"),
    "prepared": ({"store.json": "{}"}, "is prepared data, not a model."),
}


def write_files(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_model_folder_of_another_program_is_recognized(name: str, tmp_path: Path) -> None:
    files, words = MODELS[name]
    folder = write_files(tmp_path / "model", files)
    with pytest.raises(RegardError) as caught:
        ModelFolder.read(folder)
    assert words in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("suffix", ["argosmodel", "onnx", "npz", "pt", "bin", "safetensors"])
def test_model_file_of_another_program_is_recognized(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{suffix}"
    path.touch()
    with pytest.raises(RegardError) as caught:
        ModelFolder.read(path)
    assert str(caught.value) == describe_foreign_model(path)


def test_tokenizer_of_another_program_is_recognized(tmp_path: Path) -> None:
    folder = write_files(tmp_path, MODELS["huggingface"][0])
    with pytest.raises(RegardError, match="is a HuggingFace model"):
        load_folder_tokenizers(folder)


def test_unknown_folder_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="is not a model folder: it has no"):
        ModelFolder.read(write_files(tmp_path / "text", {"notes.txt": ""}))
    with pytest.raises(RegardError, match="update regard"):
        ModelFolder.read(write_files(tmp_path / "new", {"config.json": '{"format": 99}'}))


def test_inner_folder_of_an_export_is_recognized(tmp_path: Path) -> None:
    inner = write_files(tmp_path / "ctranslate2", MODELS["ctranslate2"][0])
    write_files(tmp_path, {"config.json": json.dumps({"format": 1})})
    with pytest.raises(RegardError, match=f"Give {tmp_path}"):
        ModelFolder.read(inner)


@pytest.mark.parametrize("name", ["ctranslate2/model.bin", "onnx.json"])
def test_exported_model_is_recognized(name: str, tmp_path: Path, reversal_store: Store) -> None:
    folder = write_model_folder(tmp_path / "model", reversal_store)
    (folder / "model.safetensors").unlink()
    with pytest.raises(RegardError, match="is incomplete"):
        load_model(folder, torch.device("cpu"))
    write_files(folder, {name: ""})
    with pytest.raises(RegardError) as caught:
        load_model(folder, torch.device("cpu"))
    assert str(caught.value) == describe_exported_model(folder)
