"""regard export: a trained model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Model, Overwrite
from regard.cli.outputs import claim
from regard.progress import say


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
    from regard.exchange.export import checked_precision, export_model

    checked_precision(to, precision)
    folder = to != "argos"
    claim(context, {"--out": out}, inputs=[model], overwrite=overwrite, folder=folder)
    say(export_model(model, to, out, precision))
