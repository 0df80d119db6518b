"""Results on standard output: text, one JSON document, or a line of JSON for each result.

All verbs write the same shape; docs/json.md describes it, and the fields of each verb's results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import typer

from regard.cli.command import Fields
from regard.cli.outputs import claim
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

    def results(self, context: typer.Context) -> Results:
        """What prints the results of a verb; use it as a context manager."""
        return Results(verb_name(context), self.format)

    def present(self, context: typer.Context, findings: Findings) -> None:
        """Print and draw what a verb has found."""
        with self.results(context) as results:
            results.document = findings.document
            for row in findings.rows() if not results.is_text else ():
                results.add(row)
        if self.format == "text":
            findings.print_text()
        if self.picture is not None:
            from regard.cli.screen import written

            written(self.picture, findings.draw(self.picture))


class Findings(Protocol):
    """What a verb has found, in all forms."""

    @property
    def document(self) -> Mapping[str, Any]:
        """Fields of the JSON document beside the results."""

    def rows(self) -> list[dict[str, Any]]:
        """The results as JSON."""

    def print_text(self) -> None:
        """Print them for people."""

    def draw(self, picture: Path) -> bool:
        """Draw them; whether the fonts had all characters."""


# For verbs that draw nothing.
Printed = Annotated[OutputOptions, Fields(only=("format",))]


class Results:
    """Prints results as JSON; text is printed by the verb itself."""

    def __init__(self, command: str, format: str) -> None:
        self.is_text = format == "text"
        self._command, self._is_document = command, format == "json"
        self._results: list[dict[str, Any]] = []
        self.document: Mapping[str, Any] = {}  # fields of the document beside the results

    def __enter__(self) -> Results:
        return self

    def add(self, result: Any) -> None:
        """One result, a mapping or a dataclass; with a text format, nothing is printed."""
        row = dict(result) if isinstance(result, Mapping) else asdict(result)
        if self._is_document:
            self._results.append(row)
        elif not self.is_text:
            print(dumps({"schema": SCHEMA, **row}))

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._is_document and kind is None:
            document = {"schema": SCHEMA, "command": self._command, "results": self._results}
            print(dumps({**document, **self.document}, indent=2))
