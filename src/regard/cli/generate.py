"""regard generate: continues prompts with a language model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.bounds import Ge, Le
from regard.cli.command import Fields, given_settings, refuse_options
from regard.cli.options import Model, TorchRuntime, argument
from regard.cli.results import FormatOnly, ResultWriter
from regard.cli.stdin import read_texts, stream_keywords
from regard.config import Doc, Flag, Settings
from regard.decoding.config import MAX_TOKENS, SearchConfig
from regard.decoding.runtime import ThroughputOptions
from regard.errors import ConfigError
from regard.progress import notify

if TYPE_CHECKING:
    from regard.pipelines.generator import Generator
    from regard.pipelines.text_codecs import Generation


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


_SEARCH = ("length_penalty", "patience", "temperature", "top_k", "top_p", "epsilon_cutoff", "seed")
_SAMPLING = {"temperature": 0.8, "top_p": 0.95}  # defaults


def generate(
    context: typer.Context,
    model: Model,
    text: TextOptions,
    search: Annotated[SearchConfig, Fields(only=_SEARCH, defaults=_SAMPLING)],
    runtime: TorchRuntime,
    throughput: ThroughputOptions,
    output: FormatOnly,
    prompts: Annotated[
        list[str] | None,
        argument("Prompts; default: the lines of standard input.", "PROMPT"),
    ] = None,
) -> None:
    """Continue prompts by sampling (the default), greedy search or beam search."""
    from regard.pipelines.generator import Generator

    keywords: Any = given_settings(context, SearchConfig) | {"num_hypotheses": text.count}
    if text.beam_size is None:
        keywords |= {"sample": True, "temperature": search.temperature, "top_p": search.top_p}
    generator = Generator.load(model, device=runtime.device)
    lines = _report_limit(generator, read_texts(prompts), text.max_tokens)
    with output.results(context) as results:
        if text.streams(output.format):
            reason = "no effect when tokens are printed as they are generated. Use --no-stream."
            refuse_options(context, ["buffer_size", "workers"], reason)
            for prompt in lines:
                print(prompt, end="", flush=True)
                print_token = partial(print, end="", flush=True)
                generator.stream(prompt, print_token, max_tokens=text.max_tokens, **keywords)
                print()
            return
        stream = stream_keywords(runtime, throughput, generator.model.device, notify)
        _print(
            generator.generate_iterable(lines, max_tokens=text.max_tokens, **stream, **keywords),
            results,
        )


def _report_limit(generator: Generator, prompts: Iterable[str], max_tokens: int) -> Iterator[str]:
    """Yield the prompts; print a notice if a text may reach the maximum length of the model."""
    is_reported = False
    for prompt in prompts:
        if not is_reported and not generator.fits_context(prompt, max_tokens):
            notify(
                f"The maximum length of this model is {generator.context} tokens including the "
                f"prompt, so texts may end before --max-tokens {max_tokens}."
            )
            is_reported = True
        yield prompt


def _print(generations: Iterable[Generation], results: ResultWriter) -> None:
    """Print texts, with blank lines between texts of several lines."""
    previous = ""
    for generation in generations:
        texts = [generation.prompt + other.text for other in generation.continuations]
        results.add(generation)
        for text in texts if results.is_text else ():
            print(f"\n{text}" if previous and "\n" in previous + text else text)
            previous = text
