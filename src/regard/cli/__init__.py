"""The `regard` command: one verb a file, wiring only.

Verbs import what needs torch when they run, so that help and completion are instant.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from regard.cli.failures import exit_status
from regard.cli.show import build_app as build_show
from regard.cli.stdio import standard_streams
from regard.cli.verbs import Verbs, refuse_undecodable
from regard.data.corpus import MAX_LINE_LENGTH, set_max_line_length
from regard.plugins import load_installed, load_plugin, plugins_in
from regard.progress import heartbeat
from regard.version import __version__

_VERBS = (  # modules, each with a function of its name
    *("demo", "prepare", "train", "translate", "generate", "fill", "tag", "classify", "embed"),
    *("evaluate", "compare", "score", "align", "average", "merge", "distill", "shortlist"),
    *("import_", "export"),
)


def build_app() -> Verbs:
    """The command with all its options; those of plugins are there if they were loaded before."""
    app = Verbs(
        name="regard",
        help="Train, run and look into Transformers that turn one sequence into another.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
    )
    app.callback()(options)
    for name in _VERBS:
        verb = getattr(import_module(f"regard.cli.{name}"), name)
        app.command(name.removesuffix("_"))(verb)
    app.add_typer(build_show(), name="show")
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    max_line_length: Annotated[
        int,
        typer.Option(
            help="Characters of a line of text; longer ones are refused, and skipped by prepare "
            "where lines are independent.",
            min=1,
            max=2**30,
        ),
    ] = MAX_LINE_LENGTH,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            help="A Python file or module that registers model kinds or tasks. May be repeated.",
            metavar="FILE_OR_MODULE",
        ),
    ] = None,
) -> None:
    """Train, run and look into Transformers that turn one sequence into another."""
    set_max_line_length(max_line_length)


def _run() -> None:
    words = sys.argv[1:]
    refuse_undecodable(words)
    load_installed()
    for name in plugins_in(words):
        load_plugin(name)
    build_app()()


def main() -> NoReturn:
    """Run the command; a failure of any kind is one sentence and an exit status."""
    # Threads that wait for each other should soon sleep: spinning makes training several times
    # slower when another program wants a core. OpenMP reads this when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    with standard_streams(), heartbeat:
        status = exit_status(_run)
    # The outcome is settled: Ctrl-C while the interpreter cleans up would print a traceback.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
