"""Results on standard output: text, one JSON document, or a line of JSON for each result.

All verbs write the same shape; docs/json.md describes it, and the fields of each verb's results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.command import Fields
from regard.cli.outputs import claim
from regard.cli.screen import written
from regard.cli.verbs import verb_name
from regard.config import Doc, Flag, Settings
from regard.json_text import dumps

SCHEMA = 1  # of the JSON; it changes when a field is renamed or removed


@dataclass(frozen=True)
class OutputOptions(Settings):
    """What a verb prints and draws."""

    format: Annotated[
        Literal["text", "json", "jsonl"],
        Doc("of standard output; json is one document, jsonl a line for each result"),
        Flag(formerly=("--json=jsonl",)),
    ] = "text"
    picture: Annotated[Path | None, Doc("a PNG to write"), Flag(formerly=("--out",))] = None
    overwrite: Annotated[bool, Doc("replace what the command writes if it exists")] = False

    def claim(self, context: typer.Context, *inputs: Path | None, **others: Path | None) -> None:
        """Refuse a picture, and other outputs, that would harm something; hold their paths."""
        outputs = {f"--{name}": path for name, path in {**others, "picture": self.picture}.items()}
        claim(context, outputs, inputs=inputs, overwrite=self.overwrite)

    def results(self, context: typer.Context, **document: Any) -> Results:
        """What prints the results of a verb; use it as a context manager."""
        return Results(verb_name(context), self.format, document)

    def present(
        self,
        context: typer.Context,
        rows: Iterable[Any],
        draw: Callable[[Path], bool],
        *,
        text: Callable[[], None] | None = None,
        sketch: Callable[[], None] | None = None,
        **document: Any,
    ) -> None:
        """Print all results of a verb as JSON, or their `text`, and draw them.

        `draw` says whether the fonts had all characters; `sketch` prints what stands for a picture
        in text where none is written.
        """
        with self.results(context, **document) as results:
            for row in rows:
                results.add(row)
        if text is not None and results.is_text:
            text()
        if self.picture is not None:
            written(self.picture, draw(self.picture))
        elif sketch is not None and results.is_text:
            sketch()


# For verbs that draw nothing.
Printed = Annotated[OutputOptions, Fields(only=("format",))]


class Results:
    """Prints results in a format; the document has more fields beside them."""

    def __init__(self, command: str, format: str, document: Mapping[str, Any]) -> None:
        self.is_text = format == "text"
        self._command, self._is_document = command, format == "json"
        self._results: list[dict[str, Any]] = []
        self._document = document

    def __enter__(self) -> Results:
        return self

    def add(self, result: Any, text: str | None = None) -> None:
        """One result, a mapping or a dataclass; where text is printed, its `text`, if any."""
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
