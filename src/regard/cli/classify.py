"""regard classify: texts from standard input, their labels to standard output."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.command import Fields, refuse_options
from regard.cli.options import Model, TorchRuntime, argument
from regard.cli.piped import given_or_piped
from regard.cli.results import Printed
from regard.evaluation.options import LabelledOptions


def classify(
    context: typer.Context,
    model: Model,
    runtime: TorchRuntime,
    output: Printed,
    tsv: Annotated[LabelledOptions, Fields(only=("header",), panel="Labelled lines")],
    texts: Annotated[
        list[str] | None,
        argument(
            "Texts, two being joined by a tab; without one, the lines of standard input.", "TEXT"
        ),
    ] = None,
    labelled: Annotated[
        bool,
        typer.Option(
            "--labelled", help="Lines begin with a label and a tab, as those of prepare do."
        ),
    ] = False,
) -> None:
    """Give each line a label: it comes out as label, tab, text.

    A line may be two texts with a tab between them.
    """
    from regard.data.examples import has_header
    from regard.decoding.labeller import Classifier

    if not labelled or texts:
        refuse_options(context, ["header"], "no effect without --labelled lines. Leave it out.")
    classifier = Classifier.load(model, device=runtime.device)
    with output.results(context) as results:
        for number, lines in enumerate(given_or_piped(texts)):
            if labelled and number == 0 and not texts:
                lines = lines[int(has_header(enumerate(lines, 1), tsv.header)) :]
            rows = [line.split("\t")[int(labelled) :] for line in lines]
            for found in classifier.classify(rows, batch_size=runtime.batch_size):
                results.add(found, "\t".join([found.label, *found.texts]))
