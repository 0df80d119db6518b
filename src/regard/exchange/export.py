"""A trained model for another program: one entry to all exporters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.data.shortlist import SHORTLIST, Shortlist
from regard.errors import ConfigError
from regard.exchange import argos, ctranslate2, huggingface, onnx
from regard.exchange.normalizer import note_on_rules
from regard.models.base import Model
from regard.models.folder import ModelFolder, load_model
from regard.recognize import refuse_exported


@dataclass(frozen=True)
class Trained:
    """What is exported."""

    path: Path
    folder: ModelFolder
    model: Model

    @property
    def shortlist(self) -> Shortlist | None:
        """The shortlist of the model, if it has one."""
        found = (self.path / SHORTLIST).is_file()
        return Shortlist.read(self.path, self.folder.tokenizers) if found else None


@dataclass(frozen=True)
class Target:
    """A program to export to."""

    precisions: tuple[str, ...]  # the first is the default
    write: Callable[[Trained, Path, Any], str]  # and say what to do with it


def export_model(path: Path, to: str, out: Path, precision: str | None = None) -> str:
    """Export a model folder; what to do with the result, in a sentence."""
    target, chosen = checked_target(to, precision)
    refuse_exported(path)
    trained = Trained(path, *load_model(path, torch.device("cpu")))
    note = note_on_rules(trained.folder.tokenizers.config)  # where programs tokenize otherwise
    return target.write(trained, out, chosen) + (f"\n{note}" if note else "")


def checked_target(to: str, precision: str | None) -> tuple[Target, str]:
    """The target of that name, and the precision of its weights."""
    if to not in TARGETS:
        raise ConfigError(f"There is no {to!r} to export to. Use {', '.join(TARGETS)}.")
    target = TARGETS[to]
    chosen = precision or target.precisions[0]
    if chosen not in target.precisions:
        known = ", ".join(target.precisions)
        raise ConfigError(f"{to} has no precision {chosen!r}. Use one of {known}.")
    return target, chosen


def _ctranslate2(trained: Trained, out: Path, precision: Any) -> str:
    listed = trained.shortlist
    ctranslate2.export(trained.folder, trained.model, out, precision=precision, shortlist=listed)
    return (
        f"Written: {out}. Try: regard translate {out} < your.txt\n"
        f"CTranslate2 itself reads {out / ctranslate2.ENGINE}."
        + (" The shortlist went along; there it is asked for with use_vmap." if listed else "")
    )


def _argos(trained: Trained, out: Path, precision: Any) -> str:
    argos.export(trained.folder, trained.model, out, precision=precision)
    return (
        f"Written: {out}. Argos Translate and LibreTranslate have it after this line of Python:\n"
        f"  import argostranslate.package as p; p.install_from_path({str(out)!r})"
    )


def _onnx(trained: Trained, out: Path, precision: Any) -> str:
    onnx.write_onnx(trained.folder, trained.model, out)
    return f"Written: {out}. Try: regard translate {out} < your.txt"


def _huggingface(trained: Trained, out: Path, precision: Any) -> str:
    kind = huggingface.export_folder(trained.folder, trained.model, out)
    return f"Written: {out}. In Python: transformers.{kind}.from_pretrained({str(out)!r})"


TARGETS = {
    "ctranslate2": Target(("float32", "int8", "int16", "float16", "bfloat16"), _ctranslate2),
    "argos": Target(("int8", "float32", "int16", "float16", "bfloat16"), _argos),
    "onnx": Target(("float32",), _onnx),
    "huggingface": Target(("float32",), _huggingface),
}
