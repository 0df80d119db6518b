"""Export a trained model to another toolkit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard.data.calibration import CALIBRATION, read_calibration
from regard.data.directions import Direction
from regard.data.shortlist import SHORTLIST, Shortlist
from regard.errors import ConfigError
from regard.exchange import argos, ctranslate2, huggingface, onnx
from regard.exchange.ctranslate2_files import CTRANSLATE2_FOLDER
from regard.exchange.normalizer import normalizer_notice
from regard.foreign_models import refuse_exported
from regard.models.folder import load_model
from regard.text.tags import add_tag, target_tag

PRECISIONS = {  # of weights, by export format; the first is the default
    "ctranslate2": ("float32", "int8", "int16", "float16", "bfloat16"),
    "argos": ("int8", "float32", "int16", "float16", "bfloat16"),
    "onnx": ("float32",),
    "huggingface": ("float32",),
}


def export_model(
    path: Path,
    to: str,
    out: Path,
    precision: str | None = None,
    direction: Direction | None = None,
) -> str:
    """Export a model folder; return a message on how to use the result.

    `direction` is that of an Argos package, for a model of several directions.
    """
    weight_precision: Any = check_precision(to, precision)
    if direction and to != "argos":
        raise ConfigError(
            f"--source-lang and --target-lang have no effect on --to {to}: all directions are "
            "exported. Leave them out."
        )
    refuse_exported(path)
    folder, model = load_model(path, torch.device("cpu"))
    if folder.tokenizers.config.reverse_target and to in ("argos", "huggingface"):
        raise ConfigError(
            f"{path} is a right-to-left model, whose output other programs would show in reverse "
            "order. Only --to ctranslate2 and --to onnx are supported, for use with regard."
        )
    message = f"Wrote {out}. Next: regard translate {out} < your.txt"
    if to == "ctranslate2":
        has_shortlist = (path / SHORTLIST).is_file()
        shortlist = Shortlist.read(path, folder.tokenizers) if has_shortlist else None
        calibration = read_calibration(path)
        ctranslate2.export(folder, model, out, precision=weight_precision, shortlist=shortlist)
        if calibration is not None:
            calibration.for_weights_of(out).write(out / CALIBRATION)
        message += f"\nThe CTranslate2 model is {out / CTRANSLATE2_FOLDER}."
        if has_shortlist:
            message += " It includes the shortlist, which CTranslate2 uses with use_vmap=True."
    elif to == "argos":
        argos.export(folder, model, out, precision=weight_precision, direction=direction)
        message = (
            f"Wrote {out}. Install it for Argos Translate and LibreTranslate in Python:\n"
            f"  import argostranslate.package as p; p.install_from_path({str(out)!r})"
        )
    elif to == "onnx":
        onnx.export_onnx(folder, model, out)
    else:
        model_class = huggingface.export_folder(folder, model, out)
        load = f"transformers.{model_class}.from_pretrained({str(out)!r})"
        message = f"Wrote {out}. Load it with: {load}"
        if folder.directions:
            tag = target_tag(folder.directions[0].target)
            message += (
                f"\nBegin each source text with its target tag, as in {add_tag('Hello', tag)!r}."
            )
    notice = normalizer_notice(folder.tokenizers.config)
    return f"{message}\n{notice}" if notice else message


def check_precision(to: str, precision: str | None) -> str:
    """Return the precision of exported weights, which the format must support."""
    if to not in PRECISIONS:
        raise ConfigError(f"Unknown export format {to!r}. Use one of {', '.join(PRECISIONS)}.")
    supported = PRECISIONS[to]
    if precision not in (None, *supported):
        raise ConfigError(
            f"Precision {precision!r} is not supported for {to}. Use one of {', '.join(supported)}."
        )
    return precision or supported[0]
