"""Recognize models of other programs, for error messages that say how to use them.

Users pass models of HuggingFace, CTranslate2, ONNX, Argos Translate, Marian and others where a
model folder is expected. They are recognized by file names; only `config.json` is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import ModelError

_IMPORT = "Import it first: `regard import {path} --out NEW_FOLDER`, and use NEW_FOLDER."
_BY_SUFFIX = {
    ".argosmodel": "a package of Argos Translate. Argos Translate installs it; regard reads the "
    "model folder that it was exported from.",
    ".onnx": "an ONNX graph. Give the whole folder that `regard export --to onnx` wrote.",
    ".npz": "the weights of a Marian model. Convert them for HuggingFace (their "
    "`convert_marian_to_pytorch.py`), then use `regard import`.",
    ".safetensors": "a weights file. Give the folder that contains it.",
    ".gguf": "a model of llama.cpp, which regard does not read.",
    ".pt": "a pickled PyTorch checkpoint, which regard does not read. If it is a HuggingFace "
    "model, save it there with `save_pretrained`, then use `regard import`.",
}
_BY_SUFFIX |= dict.fromkeys((".pth", ".bin", ".ckpt"), _BY_SUFFIX[".pt"])


def describe_foreign_model(path: Path, config: Any = None) -> str | None:
    """What a model of another program is and how to use it; None if it is not recognized.

    `config` is the content of its config.json, if that was read.
    """
    description = (
        _BY_SUFFIX.get(path.suffix.lower()) if path.is_file() else _describe_folder(path, config)
    )
    return None if description is None else f"{path} is {description}"


def describe_exported_model(folder: Path) -> str | None:
    """An error message if a folder is an export of regard without PyTorch weights, else None."""
    for name, program in (("ctranslate2", "CTranslate2"), ("onnx.json", "ONNX")):
        if (folder / name).exists():
            return (
                f"{folder} was exported to {program}: it can translate, but has no weights for "
                "PyTorch. For anything else, use the model that it was exported from."
            )
    return None


def refuse_exported(folder: Path) -> None:
    """Raise an error if a folder is an export of regard without PyTorch weights."""
    if problem := describe_exported_model(folder):
        raise ModelError(problem)


def _describe_folder(folder: Path, config: Any) -> str | None:
    def has(*patterns: str) -> bool:
        return any(next(folder.glob(pattern), None) is not None for pattern in patterns)

    if has("adapter_config.json"):
        return (
            "a HuggingFace PEFT adapter. Merge it into its base model there "
            "(`merge_and_unload`), save that, then use `regard import`."
        )
    if has("model.bin") and has("*vocabulary.*"):
        if folder.name == "ctranslate2" and (folder.parent / "config.json").is_file():
            return f"the part of an export that CTranslate2 reads. Give {folder.parent}."
        return (
            "a CTranslate2 model without a tokenizer of regard, which cannot be used. Import "
            "the HuggingFace model that it was converted from, or use CTranslate2 itself."
        )
    if isinstance(config, Mapping) and ("model_type" in config or "architectures" in config):
        return f"a HuggingFace model. {_IMPORT.format(path=folder)}"
    if has("metadata.json") and has("model/model.bin"):
        return _BY_SUFFIX[".argosmodel"].replace("a package", "an unpacked package")
    if has("store.json"):
        return "prepared data, not a model. Give the folder that `regard train --out` wrote."
    if has("*.npz"):
        return _BY_SUFFIX[".npz"].replace("the weights of a", "a").replace("them", "it")
    if has("*.onnx", "onnx/*.onnx") and not has("onnx.json"):
        return (
            "an ONNX model of another program. regard runs only what `regard export --to onnx` "
            "wrote. Import the model that it was exported from."
        )
    if has("*.pt", "*.pth", "*.ckpt"):
        return "a folder of pickled PyTorch checkpoints, which regard does not read."
    return None
