"""regard fill: a text with blanks in, the likeliest words for them out."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Model, TorchRuntime, argument, numeric
from regard.cli.piped import given_or_piped
from regard.cli.results import Printed, Results
from regard.cli.screen import show, table
from regard.errors import DataError
from regard.notices import sparingly
from regard.progress import say

if TYPE_CHECKING:
    from regard.decoding.filler import Filled


def fill(
    context: typer.Context,
    model: Model,
    runtime: TorchRuntime,
    output: Printed,
    texts: Annotated[
        list[str] | None,
        argument(
            "With [MASK] where a word is missing; without one, the lines of standard input.", "TEXT"
        ),
    ] = None,
    top_k: Annotated[int, numeric("Words for each blank", 1, 10_000)] = 5,
) -> None:
    """Say which words a masked language model finds likeliest in the blanks of a text."""
    from regard.decoding.filler import MaskFiller

    filler = MaskFiller.load(model, device=runtime.device)
    done = answered = 0
    with sparingly(say) as notice, output.results(context) as results:
        for lines in given_or_piped(texts):
            for filled in filler.fill(
                lines,
                top_k=top_k,
                batch_size=runtime.batch_size,
                notice=notice,
                first_line=done + 1,
            ):
                _print(filled, results)
                answered += bool(filled.blanks)
            done += len(lines)
    if done and not answered:
        raise DataError("No line was filled. Write [MASK] where a word is missing.")


def _print(filled: Filled, results: Results) -> None:
    results.add({**asdict(filled), "best": filled.best}, None if filled.blanks else filled.text)
    for number, guesses in enumerate(filled.blanks if results.is_text else (), 1):
        several = f", blank {number}" if len(filled.blanks) > 1 else ""
        rows = [
            [guess.word.replace("\n", "\\n"), f"{100 * guess.probability:.1f} %"]
            for guess in guesses
        ]
        print(f"{filled.text}{several}")
        show(table("", ["word", "probability"], rows))
