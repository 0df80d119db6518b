"""regard classify: predicts a label for each text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Annotated

import typer

from regard.cli.command import Fields, refuse_options
from regard.cli.options import Model, TorchRuntime, argument
from regard.cli.results import FormatOnly
from regard.cli.stdin import is_interactive, read_texts, stream_keywords
from regard.decoding.runtime import ThroughputOptions
from regard.evaluation.options import LabelledOptions
from regard.progress import notify

_HEADER_LINES = 2000  # whose labels are compared with that of the first line


def classify(
    context: typer.Context,
    model: Model,
    runtime: TorchRuntime,
    throughput: ThroughputOptions,
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
    from regard.pipelines.labelling import Classifier

    if not labelled or texts:
        refuse_options(context, ["header"], "no effect without --labelled. Leave it out.")
    classifier = Classifier.load(model, device=runtime.device)
    lines = read_texts(texts)
    if labelled and not texts:
        lines = _without_header(lines, tsv.header)
    rows = (line.split("\t")[int(labelled) :] for line in lines)
    with output.results(context) as results:
        stream = stream_keywords(runtime, throughput, classifier.model.device, notify)
        for result in classifier.classify_iterable(rows, **stream):
            results.add(result, "\t".join([result.label, *result.texts]))


def _without_header(lines: Iterator[str], header: bool | None) -> Iterator[str]:
    """The lines without a header, which is recognized by its label if `header` is None."""
    from regard.data.label_formats import has_header

    first = [*islice(lines, 1 if is_interactive() else _HEADER_LINES)]
    return chain(first[int(has_header(enumerate(first, 1), header)) :], lines)
