"""Conversion to and from folders of HuggingFace `transformers` with safetensors weights.

Each kind of model has a module that implements `Converter`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from regard.errors import ConfigError, ModelError
from regard.exchange.huggingface import bert, gpt2, label_heads, marian, xlnet
from regard.exchange.huggingface.folder import CONFIG, HuggingFaceFolder
from regard.exchange.huggingface.weights import (
    ExportedModel,
    HuggingFaceTensors,
    TensorMismatchError,
    Weights,
)
from regard.exchange.requirements import raise_problems
from regard.files import atomic_file, atomic_folder, write_json
from regard.models.base import Model
from regard.models.folder import WEIGHTS, ModelFolder, load_weights, named_weights, write_tensors
from regard.models.transformer import TransformerConfig
from regard.text.imported import panics_as_errors


class Converter(Protocol):
    """A module that converts one kind of model."""

    def import_problems(self, folder: HuggingFaceFolder) -> Iterator[str]:
        """Yield every reason why a HuggingFace folder cannot be imported."""

    def import_model(
        self, folder: HuggingFaceFolder, tensors: HuggingFaceTensors
    ) -> tuple[ModelFolder, Weights]:
        """Return the description and weights of the model in a folder without problems."""

    def export_problems(self, folder: ModelFolder, model: Model | None) -> Iterator[str]:
        """Yield every reason why a model cannot be exported; model: None before training."""

    def export_model(self, folder: ModelFolder, internal: Weights) -> ExportedModel:
        """Return HuggingFace's settings by file, weights, and tokenizer files."""


CONVERTERS: dict[str, Converter] = {  # by model_type
    "marian": marian,
    "pegasus": marian,
    "gpt2": gpt2,
    "xlnet": xlnet,
    **dict.fromkeys(bert.FAMILIES, bert),
}
_LABELLED = ("tagger", "classifier")


def huggingface_model_type(folder: ModelFolder) -> str | None:
    """Return the HuggingFace model_type to which a model is exported; None: unsupported."""
    kind = folder.config.kind
    if kind in ("masked", *_LABELLED):
        return bert.family_for(folder).name
    if isinstance(folder.config, TransformerConfig):
        return "pegasus" if folder.config.norm_order == "pre" else "marian"
    return {"causal": "gpt2", "permuted": "xlnet"}.get(kind)


def export_problems_after_training(folder: ModelFolder) -> list[str]:
    """Return the reasons why a model could not be exported after training."""
    name = huggingface_model_type(folder)
    return [] if name is None else list(_exporter(folder, name).export_problems(folder, None))


def _exporter(folder: ModelFolder, name: str) -> Converter:
    return label_heads if folder.config.kind in _LABELLED else CONVERTERS[name]


def import_folder(path: Path, out: Path) -> ModelFolder:
    """Convert a HuggingFace folder to a model folder; raise one error with all problems."""
    folder = HuggingFaceFolder(path)
    name = folder.config.get("model_type")
    if name is None and "format" in folder.config:
        raise ModelError(f"{path} is a model folder of regard already. Use it without import.")
    if not isinstance(name, str) or name not in CONVERTERS:
        raise ModelError(
            f"{path} has model_type {str(name)[:40]}, which is not supported. "
            f"Supported: {', '.join(CONVERTERS)}."
        )
    converter = label_heads if label_heads.has_label_head(folder) else CONVERTERS[name]
    with panics_as_errors(path):
        raise_problems(converter.import_problems(folder), f"{path} cannot be imported")
    tensors = HuggingFaceTensors(folder.tensors())
    try:
        with panics_as_errors(path):
            description, weights = converter.import_model(folder, tensors)
    except (KeyError, TensorMismatchError) as error:
        problem = f"lack {error}" if isinstance(error, KeyError) else str(error)
        raise ModelError(
            f"The weights of {path} {problem}, so they do not match its config.json. "
            "Copy the whole folder again."
        ) from None
    except ConfigError as error:
        raise ModelError(f"{path / CONFIG} cannot be imported. {error}") from None
    tensors.refuse_unused(path)
    model = description.model()
    load_weights(model, weights, path)
    with atomic_folder(out) as temporary:
        write_tensors(temporary / WEIGHTS, named_weights(model), description.weights_metadata())
        description.write(temporary)
    return description


def export_folder(folder: ModelFolder, model: Model, out: Path) -> str:
    """Write a folder for HuggingFace's `from_pretrained`; return the name of the model class."""
    from safetensors.torch import save_file

    name = huggingface_model_type(folder)
    if name is None:
        raise ModelError(
            f"Export to HuggingFace is not supported for model kind {folder.config.kind!r}. "
            "Supported: transformer, causal, masked, permuted, tagger, classifier."
        )
    converter = _exporter(folder, name)
    problems = converter.export_problems(folder, model)
    raise_problems(problems, f"This model cannot be exported as HuggingFace's {name}")
    internal = {name: weight.float().cpu() for name, weight in named_weights(model).items()}
    settings, weights, files = converter.export_model(folder, internal)
    with atomic_folder(out) as temporary:
        for file, content in files.items():
            (temporary / file).write_bytes(content)
        for file, table in settings.items():
            write_json(temporary / file, table)
        contiguous = {name: weight.contiguous() for name, weight in weights.items()}
        metadata = {"format": "pt"}  # required by transformers
        with atomic_file(temporary / WEIGHTS) as weights_file:
            save_file(contiguous, weights_file, metadata=metadata)
    architecture: str = settings["config.json"]["architectures"][0]
    return architecture
