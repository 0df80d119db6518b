"""regard export: converts a trained model for another runtime or library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Model, Overwrite
from regard.cli.outputs import reserve_outputs
from regard.errors import ConfigError
from regard.progress import notify


def export(
    context: typer.Context,
    model: Model,
    to: Annotated[
        str,
        typer.Option(help="Format: ctranslate2, argos, onnx or huggingface.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder, or .argosmodel file, to write.", show_default=False)
    ],
    precision: Annotated[
        str | None,
        typer.Option(
            help="Precision of the weights: float32, int8, int16, float16 or bfloat16; default: "
            "int8 for argos, float32 for others.",
            show_default=False,
        ),
    ] = None,
    source_lang: Annotated[
        str | None,
        typer.Option(help="For argos: source language, of a model of several directions."),
    ] = None,
    target_lang: Annotated[
        str | None,
        typer.Option(help="For argos: target language, of a model of several directions."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Export a model to CTranslate2, Argos Translate, ONNX or HuggingFace transformers.

    CTranslate2 exports include the shortlist written by `regard shortlist`. Model kinds that can
    be exported to HuggingFace: transformer (Marian), causal (GPT-2), masked, tagger, classifier
    (BERT, RoBERTa) and permuted (XLNet).
    """
    from regard.data.directions import Direction
    from regard.exchange.export import check_precision, export_model

    check_precision(to, precision)
    direction = Direction(source_lang, target_lang) if source_lang and target_lang else None
    if direction is None and (source_lang or target_lang):
        raise ConfigError("--source-lang and --target-lang must be given together.")
    folder = to != "argos"
    reserve_outputs(context, {"--out": out}, inputs=[model], overwrite=overwrite, folder=folder)
    notify(export_model(model, to, out, precision, direction))
