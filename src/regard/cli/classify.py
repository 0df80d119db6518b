"""regard classify: texts from standard input, their labels to standard output."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from regard.cli.options import BatchSize, Device, Header, Model
from regard.json_text import dumps


def classify(
    model: Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Texts, two being joined by a tab; without one, the lines of standard input.",
        ),
    ] = None,
    labelled: Annotated[
        bool,
        typer.Option(
            "--labelled", help="Lines begin with a label and a tab, as those of prepare do."
        ),
    ] = False,
    header: Header = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each text, with probabilities.")
    ] = False,
    batch_size: BatchSize = None,
    device: Device = "auto",
) -> None:
    """Give each line a label: it comes out as label, tab, text.

    A line may be two texts with a tab between them.
    """
    from regard.cli.piped import portions
    from regard.data.examples import has_header
    from regard.decoding.labeller import Classifier

    classifier = Classifier.load(model, device=device)
    for number, lines in enumerate([texts] if texts else portions(2000)):
        if labelled and number == 0 and not texts:
            lines = lines[int(has_header(enumerate(lines, 1), header)) :]
        rows = [line.split("\t")[int(labelled) :] for line in lines]
        for found in classifier.classify(rows, batch_size=batch_size):
            if as_json:
                print(dumps(asdict(found)))
            else:
                print(found.label, *found.texts, sep="\t")
