"""The `regard` command, with one module per subcommand.

Subcommands import modules that need torch when they run, which keeps help and completion fast.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import warnings
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from regard.cli.app import App, refuse_undecodable
from regard.cli.failures import exit_status, show_warning
from regard.cli.show import build_app as build_show
from regard.cli.stdio import standard_streams
from regard.data.line_reader import MAX_LINE_LENGTH, set_max_line_length
from regard.plugins import load_installed_plugins, load_plugin, plugin_arguments
from regard.progress import heartbeat
from regard.version import __version__

_COMMANDS = (  # modules, each with a function of the same name
    *("demo", "prepare", "train", "translate", "generate", "fill", "tag", "classify", "embed"),
    *("evaluate", "compare", "score", "align", "average", "merge", "distill", "shortlist"),
    *("import_", "export"),
)


def build_app() -> App:
    """Build the typer app, including the options of plugins that have been loaded."""
    app = App(
        name="regard",
        help="Train, run and analyze sequence-to-sequence Transformers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
    )
    app.callback()(options)
    for name in _COMMANDS:
        command = getattr(import_module(f"regard.cli.{name}"), name)
        app.command(name.removesuffix("_"))(command)
    app.add_typer(build_show(), name="show")
    return app


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
    max_line_length: Annotated[
        int,
        typer.Option(
            help="Maximum number of characters per line of text; longer lines are an error, and "
            "are filtered out by `prepare` if lines are independent.",
            min=1,
            max=2**30,
        ),
    ] = MAX_LINE_LENGTH,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            help="Python file or module that registers model kinds or tasks; may be repeated.",
            metavar="FILE_OR_MODULE",
        ),
    ] = None,
) -> None:
    """Train, run and analyze sequence-to-sequence Transformers."""
    set_max_line_length(max_line_length)


def _run() -> None:
    arguments = sys.argv[1:]
    refuse_undecodable(arguments)
    load_installed_plugins()
    for name in plugin_arguments(arguments):
        load_plugin(name)
    build_app()()


def main() -> NoReturn:
    """Run the command; every failure is reported as one message and an exit status."""
    # Let OpenMP threads sleep soon instead of spinning, which makes training several times slower
    # if other programs use the cores. OpenMP reads this when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    warnings.showwarning = show_warning
    with standard_streams(), heartbeat:
        status = exit_status(_run)
    # Ctrl-C during interpreter shutdown would print a traceback.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
