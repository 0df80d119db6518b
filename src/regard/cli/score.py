"""regard score: how likely a model finds given translations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import BatchSize, Device, Models, setting
from regard.decoding.config import SearchConfig


def score(
    models: Models,
    source: Annotated[Path, typer.Option(help="Source text.", show_default=False)],
    target: Annotated[Path, typer.Option(help="Its translation.", show_default=False)],
    length_penalty: Annotated[
        float, setting(SearchConfig, "length_penalty")
    ] = SearchConfig.length_penalty,
    batch_size: BatchSize = None,
    device: Device = "auto",
) -> None:
    """Print the score of each given translation, as the search would count it."""
    from regard.data.corpus import read_parallel
    from regard.decoding.translator import Translator

    sources, targets = read_parallel(source, target)
    translator = Translator.load(*models, device=device, engine="torch")
    for value in translator.score(
        sources, targets, length_penalty=length_penalty, batch_size=batch_size
    ):
        print(f"{value:.6f}")
