"""regard generate: a prompt in, what a language model makes of it out."""

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
from regard.cli.piped import given_or_piped
from regard.cli.results import Printed, Results
from regard.config import Doc, Flag, Settings
from regard.decoding.config import MAX_TOKENS, SearchConfig
from regard.errors import ConfigError
from regard.progress import say

if TYPE_CHECKING:
    from regard.decoding.generator import Generation, Generator


@dataclass(frozen=True)
class TextOptions(Settings):
    """Which texts are written for a prompt."""

    max_tokens: Annotated[int, Doc("tokens to write at most"), Ge(1), MAX_TOKENS] = 100
    beam_size: Annotated[
        int | None,
        Doc("search so many beginnings instead of drawing; 1: greedily"),
        Ge(1),
        Le(1000),
    ] = None
    count: Annotated[int, Doc("texts for each prompt"), Ge(1), Le(10_000)] = 1
    stream: Annotated[
        bool | None,
        Doc("each token at once, or whole texts; unset: on a terminal"),
        Flag("--stream/--whole"),
    ] = None

    def streams(self, format: str) -> bool:
        """Whether tokens are printed as they are written."""
        can = self.count == 1 and (self.beam_size or 1) == 1 and format == "text"
        if self.stream and not can:
            raise ConfigError(
                "--stream tells one text at a time. Leave out --count, beams and jsonl."
            )
        return can and (sys.stdout.isatty() if self.stream is None else self.stream)


_SEARCH = ("length_penalty", "patience", "temperature", "top_k", "top_p", "seed")
_DRAWING = {"temperature": 0.8, "top_p": 0.95}  # defaults


def generate(
    context: typer.Context,
    model: Model,
    text: TextOptions,
    search: Annotated[SearchConfig, Fields(only=_SEARCH, defaults=_DRAWING)],
    runtime: TorchRuntime,
    output: Printed,
    prompts: Annotated[
        list[str] | None,
        argument("How texts begin; without one, the lines of standard input.", "PROMPT"),
    ] = None,
) -> None:
    """Go on from prompts, by drawing (the default), greedily or by beam search."""
    from regard.decoding.generator import Generator

    keywords: Any = given_settings(context, SearchConfig) | {"top_beams": text.count}
    if text.beam_size is None:
        keywords |= {"sample": True, "temperature": search.temperature, "top_p": search.top_p}
    generator = Generator.load(model, device=runtime.device)
    streams = text.streams(output.format)
    is_told = False
    with output.results(context) as results:
        for lines in given_or_piped(prompts, 1 if streams else 2000):
            is_told = is_told or _tell_limit(generator, lines, text.max_tokens)
            if streams:
                for prompt in lines:
                    print(prompt, end="", flush=True)
                    tell = partial(print, end="", flush=True)
                    generator.stream(prompt, tell, max_tokens=text.max_tokens, **keywords)
                    print()
                continue
            found = generator.generate(
                lines, max_tokens=text.max_tokens, batch_size=runtime.batch_size, **keywords
            )
            _print(found, results)


def _tell_limit(generator: Generator, prompts: Iterable[str], max_tokens: int) -> bool:
    """Whether a text may end early because the model reads no more; that is said."""
    if all(generator.has_room(prompt, max_tokens) for prompt in prompts):
        return False
    say(
        f"A text gets no longer than the {generator.context} tokens that this model reads "
        f"at once, its prompt included, and so may end before --max-tokens {max_tokens}."
    )
    return True


def _print(found: Sequence[Generation], results: Results) -> None:
    for one in found:
        results.add(one)
    texts = [one.prompt + other.text for one in found for other in one.continuations]
    # Texts of several lines are told apart by blank ones.
    between = "\n\n" if any("\n" in text for text in texts) else "\n"
    if texts and results.is_text:
        print(between.join(texts))
