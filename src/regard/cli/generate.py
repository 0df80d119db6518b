"""regard generate: continues prompts with a language model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.bounds import Ge, Le
from regard.cli.command import Fields, given_settings
from regard.cli.options import Model, TorchRuntime, argument
from regard.cli.results import FormatOnly, ResultWriter
from regard.cli.stdin import read_texts
from regard.config import Doc, Flag, Settings
from regard.decoding.config import MAX_TOKENS, SearchConfig
from regard.errors import ConfigError
from regard.progress import notify

if TYPE_CHECKING:
    from regard.decoding.generator import Generation, Generator


@dataclass(frozen=True)
class TextOptions(Settings):
    """Generated texts."""

    max_tokens: Annotated[int, Doc("maximum number of new tokens"), Ge(1), MAX_TOKENS] = 100
    beam_size: Annotated[
        int | None,
        Doc("beam search with this beam size, or greedy search if 1, instead of sampling"),
        Ge(1),
        Le(1000),
    ] = None
    count: Annotated[int, Doc("number of texts per prompt"), Ge(1), Le(10_000)] = 1
    stream: Annotated[
        bool | None,
        Doc("print each token as it is generated; default: on a terminal"),
        Flag("--stream/--no-stream", ("--whole=false",)),
    ] = None

    def streams(self, format: str) -> bool:
        """Whether tokens are printed as they are generated."""
        is_supported = self.count == 1 and (self.beam_size or 1) == 1 and format == "text"
        if self.stream and not is_supported:
            raise ConfigError(
                "--stream supports one text per prompt. Leave out --count, --beam-size and "
                "--format."
            )
        return is_supported and (sys.stdout.isatty() if self.stream is None else self.stream)


_SEARCH = ("length_penalty", "patience", "temperature", "top_k", "top_p", "seed")
_SAMPLING = {"temperature": 0.8, "top_p": 0.95}  # defaults


def generate(
    context: typer.Context,
    model: Model,
    text: TextOptions,
    search: Annotated[SearchConfig, Fields(only=_SEARCH, defaults=_SAMPLING)],
    runtime: TorchRuntime,
    output: FormatOnly,
    prompts: Annotated[
        list[str] | None,
        argument("Prompts; default: the lines of standard input.", "PROMPT"),
    ] = None,
) -> None:
    """Continue prompts by sampling (the default), greedy search or beam search."""
    from regard.decoding.generator import Generator

    keywords: Any = given_settings(context, SearchConfig) | {"num_hypotheses": text.count}
    if text.beam_size is None:
        keywords |= {"sample": True, "temperature": search.temperature, "top_p": search.top_p}
    generator = Generator.load(model, device=runtime.device)
    streams = text.streams(output.format)
    is_limit_reported = False
    with output.results(context) as results:
        for lines in read_texts(prompts, 1 if streams else 2000):
            is_limit_reported = is_limit_reported or _report_limit(
                generator, lines, text.max_tokens
            )
            if streams:
                for prompt in lines:
                    print(prompt, end="", flush=True)
                    print_token = partial(print, end="", flush=True)
                    generator.stream(prompt, print_token, max_tokens=text.max_tokens, **keywords)
                    print()
                continue
            generations = generator.generate(
                lines, max_tokens=text.max_tokens, batch_size=runtime.batch_size, **keywords
            )
            _print(generations, results)


def _report_limit(generator: Generator, prompts: Iterable[str], max_tokens: int) -> bool:
    """Print a notice, and return True, if a text may reach the maximum length of the model."""
    if all(generator.fits_context(prompt, max_tokens) for prompt in prompts):
        return False
    notify(
        f"The maximum length of this model is {generator.context} tokens including the prompt, so "
        f"texts may end before --max-tokens {max_tokens}."
    )
    return True


def _print(generations: Sequence[Generation], results: ResultWriter) -> None:
    for generation in generations:
        results.add(generation)
    texts = [g.prompt + continuation.text for g in generations for continuation in g.continuations]
    # Blank lines separate texts of several lines.
    separator = "\n\n" if any("\n" in text for text in texts) else "\n"
    if texts and results.is_text:
        print(separator.join(texts))
