"""regard classify: predicts a label for each text."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.command import Fields, refuse_options
from regard.cli.options import Model, TorchRuntime, argument
from regard.cli.results import FormatOnly
from regard.cli.stdin import read_texts
from regard.evaluation.options import LabelledOptions


def classify(
    context: typer.Context,
    model: Model,
    runtime: TorchRuntime,
    output: FormatOnly,
    tsv: Annotated[LabelledOptions, Fields(only=("header",), panel="Labelled lines")],
    texts: Annotated[
        list[str] | None,
        argument(
            "Texts, or text pairs separated by a tab; default: the lines of standard input.", "TEXT"
        ),
    ] = None,
    labelled: Annotated[
        bool,
        typer.Option("--labelled", help="Skip the label and tab that each line begins with."),
    ] = False,
) -> None:
    """Predict the label of each text, and print label, tab, text.

    A text pair is written as two texts separated by a tab.
    """
    from regard.data.label_formats import has_header
    from regard.decoding.labelling import Classifier

    if not labelled or texts:
        refuse_options(context, ["header"], "no effect without --labelled. Leave it out.")
    classifier = Classifier.load(model, device=runtime.device)
    with output.results(context) as results:
        for number, lines in enumerate(read_texts(texts)):
            if labelled and number == 0 and not texts:
                lines = lines[int(has_header(enumerate(lines, 1), tsv.header)) :]
            rows = [line.split("\t")[int(labelled) :] for line in lines]
            for result in classifier.classify(rows, batch_size=runtime.batch_size):
                results.add(result, "\t".join([result.label, *result.texts]))
