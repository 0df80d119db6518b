"""regard export: a trained model for another engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Model, Overwrite
from regard.cli.outputs import claim
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.shortlist import Shortlist
    from regard.models import base
    from regard.models.folder import ModelFolder


def export(
    context: typer.Context,
    model: Model,
    to: Annotated[
        str, typer.Option(help="ctranslate2, argos, onnx or huggingface.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option(help="Where it goes: a folder, or an .argosmodel.", show_default=False)
    ],
    precision: Annotated[
        str | None,
        typer.Option(
            help="Of the weights: float32, int8, int16, float16 or bfloat16; unset: float32, and "
            "int8 for argos.",
            show_default=False,
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a model for another engine: CTranslate2, Argos, ONNX, or HuggingFace's transformers.

    What `regard shortlist` made goes along to CTranslate2. HuggingFace's take Transformers, and
    models of kind causal (GPT-2), masked, tagger, classifier (BERT, RoBERTa) and permuted (XLNet).
    """
    if to not in TARGETS:
        raise ConfigError(f"There is no {to!r} to export to. Use {', '.join(TARGETS)}.")
    target = TARGETS[to]
    chosen = precision or target.precisions[0]
    if chosen not in target.precisions:
        known = ", ".join(target.precisions)
        raise ConfigError(f"{to} has no precision {chosen!r}. Use one of {known}.")

    import torch

    from regard.cli.screen import say
    from regard.models.folder import load_model
    from regard.recognize import refuse_exported

    folder = to != "argos"
    claim(context, {"--out": out}, inputs=[model], overwrite=overwrite, folder=folder)
    refuse_exported(model)
    say(target.write(Trained(model, *load_model(model, torch.device("cpu"))), out, chosen))


@dataclass(frozen=True)
class Trained:
    """What is exported."""

    path: Path
    folder: ModelFolder
    model: base.Model

    @property
    def shortlist(self) -> Shortlist | None:
        """What was made for it, if anything was."""
        from regard.data.shortlist import SHORTLIST, Shortlist

        found = (self.path / SHORTLIST).is_file()
        return Shortlist.read(self.path, self.folder.tokenizers) if found else None


@dataclass(frozen=True)
class Target:
    """Something to export to."""

    precisions: tuple[str, ...]  # the first is taken if nothing is said
    write: Callable[[Trained, Path, Any], str]  # and tell what to do with it


def _ctranslate2(trained: Trained, out: Path, precision: Any) -> str:
    from regard.exchange.ctranslate2 import ENGINE, export

    listed = trained.shortlist
    export(trained.folder, trained.model, out, precision=precision, shortlist=listed)
    return (
        f"Written: {out}. Try: regard translate {out} < your.txt\n"
        f"CTranslate2 itself reads {out / ENGINE}.{_note(trained)}"
        + (" The shortlist went along; there it is asked for with use_vmap." if listed else "")
    )


def _argos(trained: Trained, out: Path, precision: Any) -> str:
    from regard.exchange.argos import export

    export(trained.folder, trained.model, out, precision=precision)
    return (
        f"Written: {out}. Argos Translate and LibreTranslate have it after this line of Python:\n"
        f"  import argostranslate.package as p; p.install_from_path({str(out)!r})"
        f"{_note(trained)}"
    )


def _onnx(trained: Trained, out: Path, precision: Any) -> str:
    from regard.exchange.onnx import write_onnx

    write_onnx(trained.folder, trained.model, out)
    return f"Written: {out}. Try: regard translate {out} < your.txt{_note(trained)}"


def _huggingface(trained: Trained, out: Path, precision: Any) -> str:
    from regard.exchange.huggingface import export_folder

    kind = export_folder(trained.folder, trained.model, out)
    call = f"transformers.{kind}.from_pretrained({str(out)!r})"
    return f"Written: {out}. In Python: {call}{_note(trained)}"


def _note(trained: Trained) -> str:
    """Where other programs tokenize otherwise than regard, on a line of its own."""
    from regard.exchange.normalizer import note_on_rules

    note = note_on_rules(trained.folder.tokenizers.config)
    return f"\n{note}" if note else ""


TARGETS = {
    "ctranslate2": Target(("float32", "int8", "int16", "float16", "bfloat16"), _ctranslate2),
    "argos": Target(("int8", "float32", "int16", "float16", "bfloat16"), _argos),
    "onnx": Target(("float32",), _onnx),
    "huggingface": Target(("float32",), _huggingface),
}
