"""The `regard` command, with one module per subcommand.

Only the subcommand that is called is imported, and it imports modules that need PyTorch when it
runs, which keeps help fast.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import warnings
from collections.abc import Collection
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from regard.cli.app import App, refuse_undecodable
from regard.cli.failures import exit_status, show_warning
from regard.cli.stdio import standard_streams
from regard.data.line_reader import MAX_LINE_LENGTH, set_max_line_length
from regard.plugins import load_installed_plugins, load_plugin, plugin_arguments
from regard.progress import heartbeat
from regard.version import __version__

# The subcommands and the first lines of their help. `import` is in `import_.py`, because it is a
# keyword of Python.
_COMMANDS = {
    "demo": "Train a small Transformer on a synthetic corpus, evaluate it, and plot its attention.",
    "prepare": "Validate and filter text files, train a tokenizer, and write token ids for "
    "training.",
    "filter": "Filter a parallel corpus by rules, languages and scores; report what was filtered "
    "out.",
    "train": "Train a model; running the same command again resumes a stopped run.",
    "tune": "Search for the best settings of a run with Optuna.",
    "translate": "Translate each line of standard input, or documents (--file).",
    "generate": "Continue prompts by sampling (the default), greedy search or beam search.",
    "fill": "Print the most probable tokens for each [MASK] of a text, by a masked language model.",
    "tag": "Predict the label of each word of sentences in plain text, CoNLL-U or other columns.",
    "classify": "Predict the label of each text, and print label, tab, text.",
    "embed": "Compute an embedding of each line of standard input.",
    "serve": "Serve models over HTTP: LibreTranslate, DeepL, Hugging Face, OpenAI and our own API.",
    "evaluate": "Evaluate translations (sacrebleu), contrastive accuracy, perplexity, or predicted "
    "labels.",
    "compare": "Compare BLEU, size, training cost and speed of models, or the cost of layer types.",
    "score": "Print the score of each translation: length-normalized log-probability, as in beam "
    "search.",
    "calibrate": "Calibrate the confidences of a model or an ensemble on validation data.",
    "align": "Print word alignments of parallel text, or write fertilities to a prepared folder.",
    "average": "Average the weights of the last or best checkpoints of a run.",
    "merge": "Merge an adapter into its base model, and write a model folder without adapters.",
    "distill": "Translate training data with a teacher model (sequence-level knowledge "
    "distillation).",
    "shortlist": "Learn a lexical shortlist from training data, and write it to the model folder.",
    "import": "Convert a model of HuggingFace transformers: Marian, GPT-2, BERT, RoBERTa or XLNet.",
    "export": "Export a model to CTranslate2, Argos Translate, ONNX or HuggingFace transformers.",
    "cache": "List models that were converted to CTranslate2, which are kept to load faster.",
    "show": "Plot position encodings, masks, schedules and attention; print models and settings.",
}


def build_app(used: Collection[str] = tuple(_COMMANDS)) -> App:
    """Build the typer app, including the options of plugins that have been loaded.

    Subcommands that are not `used` are listed in the help, but not imported.
    """
    app = App(
        name="regard",
        help="Train, run and analyze sequence-to-sequence Transformers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
    )
    app.callback()(global_options)
    for name, summary in _COMMANDS.items():
        if name not in used:
            app.command(name, help=summary)(_unused)
        elif name == "show":
            app.add_typer(import_module("regard.cli.show").build_app(), name=name)
        else:
            function = name.replace("import", "import_")
            app.command(name)(getattr(import_module(f"regard.cli.{function}"), function))
    return app


def _unused() -> None:
    raise AssertionError("only subcommands among the arguments are called")


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


def global_options(
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
    completes = "_REGARD_COMPLETE" in os.environ  # the command line is in another variable
    build_app(_COMMANDS if completes else arguments)()


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
