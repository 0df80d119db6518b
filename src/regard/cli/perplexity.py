"""The part of `regard evaluate` that is about running text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from regard.errors import ConfigError


def evaluate_text(
    models: Sequence[Path], text: Path, *, stride: int | None, format: str, device: str
) -> None:
    """Print how well each model foretells a text."""
    from regard.cli.screen import show, table
    from regard.devices import device_named
    from regard.evaluation.perplexity import documents_of, perplexity
    from regard.models.folder import load_model

    if not models:
        raise ConfigError("There is nothing to evaluate. Give a model folder.")
    if format not in ("text", "json"):
        raise ConfigError(f"There is no format {format!r}. Use text or json.")
    documents = documents_of(text)
    rows = []
    for path in models:
        folder, model = load_model(path, device_named(device))
        found = perplexity(model, folder.tokenizers.target, documents, stride)
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
            }
        )
    if format == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    columns = ["model", "perplexity", "a word", "bits/byte", "tokens", "words", "window", "stride"]
    names = ["model", "perplexity", "per_word", "bits_per_byte", *columns[4:]]
    show(table("", columns, [[row[name] for name in names] for row in rows]))
