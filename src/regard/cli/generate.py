"""regard generate: a prompt in, what a language model makes of it out."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from regard.cli.given import given_settings
from regard.cli.options import BatchSize, Device, Model, numeric, setting
from regard.decoding.config import MAX_TOKENS, SearchConfig
from regard.errors import ConfigError
from regard.json_text import dumps


def generate(
    context: typer.Context,
    model: Model,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROMPT", help="How texts begin; without one, the lines of standard input."
        ),
    ] = None,
    max_tokens: Annotated[int, numeric("Tokens to write at most", 1, MAX_TOKENS.bound)] = 100,
    beam_size: Annotated[
        int | None,
        numeric("Search so many beginnings instead of drawing; 1: greedily", 1, 1_000),
    ] = None,
    count: Annotated[int, numeric("Texts for each prompt", 1, 10_000)] = 1,
    length_penalty: Annotated[
        float, setting(SearchConfig, "length_penalty")
    ] = SearchConfig.length_penalty,
    patience: Annotated[float, setting(SearchConfig, "patience")] = SearchConfig.patience,
    temperature: Annotated[float, setting(SearchConfig, "temperature")] = 0.8,
    top_k: Annotated[int, setting(SearchConfig, "top_k")] = SearchConfig.top_k,
    top_p: Annotated[float, setting(SearchConfig, "top_p")] = 0.95,
    seed: Annotated[int, setting(SearchConfig, "seed")] = SearchConfig.seed,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--whole", help="Each token at once, or whole texts; unset: on a terminal."
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="text or jsonl.")] = "text",
    batch_size: BatchSize = None,
    device: Device = "auto",
) -> None:
    """Go on from prompts, by drawing (the default), greedily or by beam search."""
    from regard.cli.piped import portions
    from regard.cli.screen import say
    from regard.decoding.generator import Generator

    if format not in ("text", "jsonl"):
        raise ConfigError(f"There is no format {format!r}. Use text or jsonl.")
    keywords: Any = given_settings(context, SearchConfig) | {"top_beams": count}
    if beam_size is None:
        keywords |= {"sample": True, "temperature": temperature, "top_p": top_p}
    generator = Generator.load(model, device=device)
    told = count == 1 and (beam_size or 1) == 1 and format == "text"
    if stream and not told:
        raise ConfigError("--stream tells one text at a time. Leave out --count, beams and jsonl.")
    streams = told and (sys.stdout.isatty() if stream is None else stream)
    is_told = False
    for lines in [prompts] if prompts else portions(1 if streams else 2000):
        if not is_told and not all(generator.has_room(line, max_tokens) for line in lines):
            is_told = True
            say(
                f"A text gets no longer than the {generator.context} tokens that this model reads "
                f"at once, its prompt included, and so may end before --max-tokens {max_tokens}."
            )
        if streams:
            for prompt in lines:
                print(prompt, end="", flush=True)
                generator.stream(prompt, _tell, max_tokens=max_tokens, **keywords)
                print()
            continue
        found = generator.generate(lines, max_tokens=max_tokens, batch_size=batch_size, **keywords)
        if format == "jsonl":
            for one in found:
                print(dumps(asdict(one)))
            continue
        texts = [one.prompt + other.text for one in found for other in one.continuations]
        # Texts of several lines are told apart by blank ones.
        between = "\n\n" if any("\n" in text for text in texts) else "\n"
        print(between.join(texts), end="\n" if texts else "")


def _tell(text: str) -> None:
    print(text, end="", flush=True)
