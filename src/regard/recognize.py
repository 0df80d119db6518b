"""What a folder or file is that is no model of ours, and what to do with it.

Users give models of HuggingFace, CTranslate2, ONNX, Argos Translate, Marian and others where a
model folder is expected. Names of files tell these apart; nothing but `config.json` is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import ModelError

_IMPORT = "Import it first: `regard import {path} --out NEW_FOLDER`, and use NEW_FOLDER."
_OF_FILES = {
    ".argosmodel": "a package of Argos Translate. Argos Translate installs it; regard reads the "
    "model folder that it was exported from.",
    ".onnx": "an ONNX graph. Give the whole folder that `regard export --to onnx` wrote.",
    ".npz": "the weights of a Marian model. Convert them for HuggingFace (their "
    "`convert_marian_to_pytorch.py`), then use `regard import`.",
    ".safetensors": "a file of weights. Give the folder that it lies in.",
    ".gguf": "a model of llama.cpp, which regard does not read.",
    ".pt": "a pickled checkpoint of PyTorch, which regard does not read. If it is a HuggingFace "
    "model, save it there with `save_pretrained`, then use `regard import`.",
}
_OF_FILES |= dict.fromkeys((".pth", ".bin", ".ckpt"), _OF_FILES[".pt"])


def foreign_model(path: Path, config: Any = None) -> str | None:
    """A sentence about a model of another program; `config` is its config.json, if that was read.

    None: it is nothing that is known.
    """
    what = _OF_FILES.get(path.suffix.lower()) if path.is_file() else _of_folder(path, config)
    return None if what is None else f"{path} is {what}"


def exported_model(folder: Path) -> str | None:
    """A sentence about a folder of ours that was exported, and has no weights for PyTorch."""
    for name, program in (("ctranslate2", "CTranslate2"), ("onnx.json", "ONNX")):
        if (folder / name).exists():
            return (
                f"{folder} was exported to {program}: it can translate, but has no weights for "
                "PyTorch. For anything else, use the model that it was made from."
            )
    return None


def refuse_exported(folder: Path) -> None:
    """Raise an error if a folder of ours was exported, and has no weights for PyTorch."""
    if problem := exported_model(folder):
        raise ModelError(problem)


def _of_folder(folder: Path, config: Any) -> str | None:
    def has(*patterns: str) -> bool:
        return any(next(folder.glob(pattern), None) is not None for pattern in patterns)

    if has("adapter_config.json"):
        return (
            "an adapter of HuggingFace's PEFT. Merge it into its model there "
            "(`merge_and_unload`), save that, then use `regard import`."
        )
    if has("model.bin") and has("*vocabulary.*"):
        if folder.name == "ctranslate2" and (folder.parent / "config.json").is_file():
            return f"the part of an export that CTranslate2 reads. Give {folder.parent}."
        return (
            "a model of CTranslate2 without a tokenizer of ours, which regard cannot use. Import "
            "the HuggingFace model that it was converted from, or use CTranslate2 itself."
        )
    if isinstance(config, Mapping) and ("model_type" in config or "architectures" in config):
        return f"a HuggingFace model. {_IMPORT.format(path=folder)}"
    if has("metadata.json") and has("model/model.bin"):
        return _OF_FILES[".argosmodel"].replace("a package", "an unpacked package")
    if has("store.json"):
        return "prepared data, not a model. Give the folder that `regard train --out` wrote."
    if has("*.npz"):
        return _OF_FILES[".npz"].replace("the weights of a", "a").replace("them", "it")
    if has("*.onnx", "onnx/*.onnx") and not has("onnx.json"):
        return (
            "an ONNX model of another program. regard runs only what `regard export --to onnx` "
            "wrote. Import the model that it was made from."
        )
    if has("*.pt", "*.pth", "*.ckpt"):
        return "a folder of pickled checkpoints of PyTorch, which regard does not read."
    return None
