"""The part of `regard evaluate` that is about running text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import ConfigError
from regard.json_text import dumps


def evaluate_text(
    models: Sequence[Path],
    text: Path,
    *,
    stride: int | None,
    memory: int | None,
    format: str,
    device: str,
) -> None:
    """Print how well each model foretells a text."""
    from regard.cli.screen import say, show, table
    from regard.devices import device_named
    from regard.evaluation.perplexity import documents_of, perplexity
    from regard.models.folder import load_model

    if not models:
        raise ConfigError("There is nothing to evaluate. Give a model folder.")
    documents = documents_of(text)
    rows, kinds = [], set()
    for path in models:
        folder, model = load_model(path, device_named(device))
        found = perplexity(model, folder.tokenizers.target, documents, stride, memory)
        kinds.add(folder.config.kind)
        rows.append(
            {
                "model": str(path),
                "perplexity": found.per_token,
                "per_word": found.per_word,
                "bits_per_byte": found.bits_per_byte,
                "tokens": found.tokens,
                "words": found.words,
                "bytes": found.bytes,
                "window": found.window,
                "stride": found.stride,
                "memory": found.memory,
            }
        )
    if format == "json":
        print(dumps(rows, indent=2))
        return
    counts = ["tokens", "words", "window", "stride", "memory"]
    columns = ["model", "perplexity", "a word", "bits/byte", *counts]
    names = ["model", "perplexity", "per_word", "bits_per_byte", *counts]
    show(table("", columns, [[row[name] for name in names] for row in rows]))
    if "masked" in kinds and len(rows) > 1:
        say(
            "A masked model sees what comes after a token, too: that is its pseudo-perplexity, and "
            "nothing to compare with the perplexity of models that foretell."
        )
