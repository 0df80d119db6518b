"""regard evaluate: BLEU, chrF and TER of a model on a test set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import BatchSize, Device, Model, setting
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError, DataError


def evaluate(
    model: Model,
    source: Annotated[Path, typer.Option(help="Text to translate.", show_default=False)],
    reference: Annotated[
        Path, typer.Option(help="Its right translation, line by line.", show_default=False)
    ],
    beam_size: Annotated[int, setting(SearchConfig, "beam_size")] = SearchConfig.beam_size,
    length_penalty: Annotated[
        float, setting(SearchConfig, "length_penalty")
    ] = SearchConfig.length_penalty,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Count without case.")] = False,
    tokenize: Annotated[str, typer.Option(help="sacrebleu's tokenizer for BLEU.")] = "13a",
    output: Annotated[Path | None, typer.Option(help="Keep the translations here.")] = None,
    format: Annotated[str, typer.Option(help="text or json.")] = "text",
    batch_size: BatchSize = 64,
    device: Device = "auto",
) -> None:
    """Translate a test set and measure BLEU, chrF and TER (sacrebleu)."""
    from regard.cli.screen import say
    from regard.data.corpus import read_parallel
    from regard.decoding.translator import Translator
    from regard.evaluation import metrics
    from regard.files import write_text

    if format not in ("text", "json"):
        raise ConfigError(f"There is no format {format!r}. Use text or json.")
    if tokenize not in metrics.TOKENIZERS:
        raise ConfigError(
            f"sacrebleu has no tokenizer {tokenize!r}. Use one of {', '.join(metrics.TOKENIZERS)}."
        )
    sources, references = read_parallel(source, reference)
    if not sources:
        raise DataError(f"{source} is empty: there is nothing to evaluate. Check the path.")
    translator = Translator.load(model, device=device)
    found = translator.translate(
        sources,
        beam_size=beam_size,
        length_penalty=length_penalty,
        batch_size=batch_size,
        notice=say,
    )
    texts = [translation.text for translation in found]
    if output:
        write_text(output, "".join(text + "\n" for text in texts))
    results = metrics.evaluate(texts, references, lowercase=lowercase, tokenize=tokenize)
    if format == "json":
        print(json.dumps([vars(result) for result in results], indent=2))
        return
    for result in results:
        print(f"{result.name:6} {result.value:6.2f}   {result.signature}")
