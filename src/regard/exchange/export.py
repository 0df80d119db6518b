"""A trained model for another program: one entry to all exporters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard.data.shortlist import SHORTLIST, Shortlist
from regard.errors import ConfigError
from regard.exchange import argos, ctranslate2, huggingface, onnx
from regard.exchange.normalizer import note_on_rules
from regard.models.folder import load_model
from regard.recognize import refuse_exported

PRECISIONS = {  # of weights, by the program to export to; the first is the default
    "ctranslate2": ("float32", "int8", "int16", "float16", "bfloat16"),
    "argos": ("int8", "float32", "int16", "float16", "bfloat16"),
    "onnx": ("float32",),
    "huggingface": ("float32",),
}


def export_model(path: Path, to: str, out: Path, precision: str | None = None) -> str:
    """Export a model folder; what to do with the result, in a sentence."""
    chosen: Any = checked_precision(to, precision)
    refuse_exported(path)
    folder, model = load_model(path, torch.device("cpu"))
    message = f"Written: {out}. Try: regard translate {out} < your.txt"
    if to == "ctranslate2":
        is_listed = (path / SHORTLIST).is_file()
        shortlist = Shortlist.read(path, folder.tokenizers) if is_listed else None
        ctranslate2.export(folder, model, out, precision=chosen, shortlist=shortlist)
        message += f"\nCTranslate2 itself reads {out / ctranslate2.ENGINE}."
        if is_listed:
            message += " The shortlist went along; there it is asked for with use_vmap."
    elif to == "argos":
        argos.export(folder, model, out, precision=chosen)
        message = (
            f"Written: {out}. Argos Translate and LibreTranslate have it after this line of "
            "Python:\n"
            f"  import argostranslate.package as p; p.install_from_path({str(out)!r})"
        )
    elif to == "onnx":
        onnx.write_onnx(folder, model, out)
    else:
        kind = huggingface.export_folder(folder, model, out)
        message = f"Written: {out}. In Python: transformers.{kind}.from_pretrained({str(out)!r})"
    note = note_on_rules(folder.tokenizers.config)  # where programs tokenize otherwise
    return f"{message}\n{note}" if note else message


def checked_precision(to: str, precision: str | None) -> str:
    """The precision of the weights for that program, which must take it."""
    if to not in PRECISIONS:
        raise ConfigError(f"There is no {to!r} to export to. Use {', '.join(PRECISIONS)}.")
    known = PRECISIONS[to]
    if precision not in (None, *known):
        raise ConfigError(f"{to} has no precision {precision!r}. Use one of {', '.join(known)}.")
    return precision or known[0]
