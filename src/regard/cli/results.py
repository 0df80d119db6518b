"""Writes results to standard output as text, as one JSON document, or as JSON lines.

The JSON of all commands has the same structure, which docs/reference/json.md describes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.app import command_name
from regard.cli.command import Fields
from regard.cli.outputs import reserve_outputs
from regard.cli.tables import report_plot
from regard.config import Doc, Flag, Settings
from regard.json_text import dumps

SCHEMA = 1  # version of the JSON output; changes when a field is renamed or removed


@dataclass(frozen=True)
class OutputOptions(Settings):
    """Output of a command."""

    format: Annotated[
        Literal["text", "json", "jsonl"],
        Doc("format of standard output; json is one document, jsonl one line per result"),
        Flag(formerly=("--json=jsonl",)),
    ] = "text"
    picture: Annotated[
        Path | None, Doc("write a plot to this PNG file"), Flag(formerly=("--out",))
    ] = None
    overwrite: Annotated[bool, Doc("overwrite existing output")] = False

    def reserve(self, context: typer.Context, *inputs: Path | None, **others: Path | None) -> None:
        """Check and lock the output paths: the picture, and others by the name of their option."""
        outputs = {f"--{name}": path for name, path in {**others, "picture": self.picture}.items()}
        reserve_outputs(context, outputs, inputs=inputs, overwrite=self.overwrite)

    def results(self, context: typer.Context, **document: Any) -> ResultWriter:
        """A context manager that writes the results of a command."""
        return ResultWriter(command_name(context), self.format, document)

    def print_results(
        self,
        context: typer.Context,
        rows: Iterable[Any],
        draw: Callable[[Path], bool],
        *,
        text: Callable[[], None] | None = None,
        sketch: Callable[[], None] | None = None,
        **document: Any,
    ) -> None:
        """Print the results as JSON, or call `text` to print them, and draw the picture.

        `draw` returns whether the fonts have all characters. `sketch` prints a text plot if no
        picture is written.
        """
        with self.results(context, **document) as results:
            for row in rows:
                results.add(row)
        if text is not None and results.is_text:
            text()
        if self.picture is not None:
            report_plot(self.picture, draw(self.picture))
        elif sketch is not None and results.is_text:
            sketch()


# For commands without plots.
FormatOnly = Annotated[OutputOptions, Fields(only=("format",))]


class ResultWriter:
    """Writes results in a format; `document` has further fields of the JSON document."""

    def __init__(self, command: str, format: str, document: Mapping[str, Any]) -> None:
        self.is_text = format == "text"
        self._command, self._is_document = command, format == "json"
        self._results: list[dict[str, Any]] = []
        self._document = document

    def __enter__(self) -> ResultWriter:
        return self

    def add(self, result: Any, text: str | None = None) -> None:
        """Write a result, a mapping or dataclass; in text format, print `text` if there is any."""
        if self.is_text:
            if text is not None:
                print(text)
            return
        row = dict(result) if isinstance(result, Mapping) else asdict(result)
        if self._is_document:
            self._results.append(row)
        else:
            print(dumps({"schema": SCHEMA, **row}))

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._is_document and kind is None:
            document = {"schema": SCHEMA, "command": self._command, "results": self._results}
            print(dumps({**document, **self._document}, indent=2))
