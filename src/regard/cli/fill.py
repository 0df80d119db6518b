"""regard fill: a text with blanks in, the likeliest words for them out."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import BatchSize, Device, Model, numeric
from regard.cli.screen import show, table
from regard.errors import ConfigError, DataError
from regard.json_text import dumps

if TYPE_CHECKING:
    from regard.decoding.filler import Filled


def fill(
    model: Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="With [MASK] where a word is missing; without one, the lines of standard input.",
        ),
    ] = None,
    top_k: Annotated[int, numeric("Words for each blank", 1, 10_000)] = 5,
    format: Annotated[str, typer.Option(help="text or json (a line for each text).")] = "text",
    batch_size: BatchSize = None,
    device: Device = "auto",
) -> None:
    """Say which words a masked language model finds likeliest in the blanks of a text."""
    from regard.cli.piped import portions
    from regard.cli.screen import sparingly
    from regard.decoding.filler import Filler

    if format not in ("text", "json"):
        raise ConfigError(f"There is no format {format!r}. Use text or json.")
    filler = Filler.load(model, device=device)
    done = answered = 0
    with sparingly() as notice:
        for lines in [texts] if texts else portions(2000):
            for filled in filler.fill(
                lines, top_k=top_k, batch_size=batch_size, notice=notice, first_line=done + 1
            ):
                _print(filled, format)
                answered += bool(filled.blanks)
            done += len(lines)
    if done and not answered:
        raise DataError("No line was filled. Write [MASK] where a word is missing.")


def _print(filled: Filled, format: str) -> None:
    if format == "json":
        print(dumps({**asdict(filled), "best": filled.best}))
        return
    if not filled.blanks:
        print(filled.text)
    for number, guesses in enumerate(filled.blanks, 1):
        several = f", blank {number}" if len(filled.blanks) > 1 else ""
        rows = [
            [guess.word.replace("\n", "\\n"), f"{100 * guess.probability:.1f} %"]
            for guess in guesses
        ]
        print(f"{filled.text}{several}")
        show(table("", ["word", "probability"], rows))
