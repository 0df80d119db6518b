"""To and from folders of HuggingFace's `transformers`, whose weights are safetensors.

Each kind of model is a file that says what stands in the way, reads, and writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from regard.errors import ConfigError, ModelError
from regard.exchange.huggingface import bert, gpt2, labels, marian, xlnet
from regard.exchange.huggingface.folder import CONFIG, ForeignFolder
from regard.exchange.huggingface.weights import (
    ForeignTensors,
    UnfitTensorError,
    Weights,
    Written,
)
from regard.exchange.requirements import refuse
from regard.files import whole_file, whole_folder, write_json
from regard.models.base import Model
from regard.models.folder import WEIGHTS, ModelFolder, put_weights, weights_of, write_tensors
from regard.models.transformer import TransformerConfig
from regard.text.foreign import refusing_panics


class Kind(Protocol):
    """A module for a kind of model that both sides have."""

    def obstacles_to_import(self, folder: ForeignFolder) -> Iterator[str]:
        """Every reason why a folder of theirs cannot be a model of ours."""

    def read(self, folder: ForeignFolder, tensors: ForeignTensors) -> tuple[ModelFolder, Weights]:
        """The description of a model of ours, and its weights, from a folder without obstacles."""

    def obstacles_to_export(self, folder: ModelFolder, model: Model | None) -> Iterator[str]:
        """Every reason why a model of ours cannot be one of theirs; None: it is not trained yet."""

    def written(self, folder: ModelFolder, ours: Weights) -> Written:
        """Their settings by file, their weights, and the files of the tokenizer."""


KINDS: dict[str, Kind] = {  # by their model_type
    "marian": marian,
    "pegasus": marian,
    "gpt2": gpt2,
    "xlnet": xlnet,
    **dict.fromkeys(bert.FAMILIES, bert),
}
_LABELLED = ("tagger", "classifier")


def counterpart(folder: ModelFolder) -> str | None:
    """Their kind of model that a model of ours would be; None: there is none."""
    kind = folder.config.kind
    if kind in ("masked", *_LABELLED):
        return bert.family_for(folder).name
    if isinstance(folder.config, TransformerConfig):
        return "pegasus" if folder.config.norm_order == "pre" else "marian"
    return {"causal": "gpt2", "permuted": "xlnet"}.get(kind)


def obstacles_after_training(folder: ModelFolder) -> list[str]:
    """Why a model, once it is trained, could not be the one of theirs that it resembles."""
    name = counterpart(folder)
    return [] if name is None else list(_exporter(folder, name).obstacles_to_export(folder, None))


def _exporter(folder: ModelFolder, name: str) -> Kind:
    return labels if folder.config.kind in _LABELLED else KINDS[name]


def import_folder(path: Path, out: Path) -> ModelFolder:
    """Write a model folder from one of HuggingFace's, or say all that stands in the way."""
    folder = ForeignFolder(path)
    name = folder.config.get("model_type")
    if name is None and "format" in folder.config:
        raise ModelError(f"{path} is a model folder of regard's own already. Use it as it is.")
    if not isinstance(name, str) or name not in KINDS:
        raise ModelError(
            f"{path} is a model of type {str(name)[:40]}, which regard cannot read. "
            f"It reads {', '.join(KINDS)}."
        )
    kind = labels if labels.gives_labels(folder) else KINDS[name]
    with refusing_panics(path):
        refuse(kind.obstacles_to_import(folder), f"{path} cannot be imported")
    tensors = ForeignTensors(folder.tensors())
    try:
        with refusing_panics(path):
            description, weights = kind.read(folder, tensors)
    except (KeyError, UnfitTensorError) as error:
        what = f"lack {error}" if isinstance(error, KeyError) else str(error)
        raise ModelError(
            f"The weights of {path} {what}, so they do not belong to its config.json. "
            "Copy the whole folder again."
        ) from None
    except ConfigError as error:
        raise ModelError(f"{path / CONFIG} cannot be imported. {error}") from None
    tensors.refuse_rest(path)
    model = description.model()
    put_weights(model, weights, path)
    with whole_folder(out) as temporary:
        write_tensors(temporary / WEIGHTS, weights_of(model), description.weights_note())
        description.write(temporary)
    return description


def export_folder(folder: ModelFolder, model: Model, out: Path) -> str:
    """Write a folder for HuggingFace's `from_pretrained`; the name of the class to load it with."""
    from safetensors.torch import save_file

    name = counterpart(folder)
    if name is None:
        raise ModelError(
            f"HuggingFace has no counterpart to a model of kind {folder.config.kind}. "
            "What can be exported: transformer, causal, masked, permuted, tagger, classifier."
        )
    kind = _exporter(folder, name)
    obstacles = kind.obstacles_to_export(folder, model)
    refuse(obstacles, f"HuggingFace's {name} cannot express this model")
    ours = {name: weight.float().cpu() for name, weight in weights_of(model).items()}
    settings, weights, files = kind.written(folder, ours)
    with whole_folder(out) as temporary:
        for file, content in files.items():
            (temporary / file).write_bytes(content)
        for file, table in settings.items():
            write_json(temporary / file, table)
        plain = {name: weight.contiguous() for name, weight in weights.items()}
        note = {"format": "pt"}  # which their loader asks for
        with whole_file(temporary / WEIGHTS) as place:
            save_file(plain, place, metadata=note)
    architecture: str = settings["config.json"]["architectures"][0]
    return architecture
