"""regard shortlist: the subwords that a sentence can need, for engines that score no others."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Model, Overwrite, numeric
from regard.cli.outputs import claim
from regard.cli.results import Printed, Results
from regard.cli.screen import show, table
from regard.progress import say

if TYPE_CHECKING:
    from regard.data.lexicon import Ids
    from regard.data.store import Store

_SIZES = (5, 10, 20, 50, 100, 200)
_BATCH = 32


def shortlist(
    context: typer.Context,
    model: Model,
    output: Printed,
    data: Annotated[
        Path,
        typer.Option(
            help="The prepared folder that it was trained on, or another with its tokenizer.",
            show_default=False,
        ),
    ],
    likeliest: Annotated[
        int,
        numeric("Target subwords that each source subword allows beside them", 1, 10_000),
    ] = 20,
    frequent: Annotated[
        int,
        numeric("The most frequent target subwords, which are always allowed", 0, 10_000_000),
    ] = 100,
    overwrite: Overwrite = False,
) -> None:
    """Learn which subwords translate which, and put a shortlist into the model's folder."""
    from regard.data.lexicon import likeliest as learned
    from regard.data.shortlist import SHORTLIST
    from regard.data.shortlist import frequent as most_frequent
    from regard.data.shortlist import shortlist as listed
    from regard.data.store import Store
    from regard.models.folder import ModelFolder, refuse_other_text

    store, folder = Store(data), ModelFolder.read(model)
    refuse_other_text(model, folder, store)
    claim(context, {"MODEL": model / SHORTLIST}, inputs=[data], overwrite=overwrite)
    tokenizers = folder.tokenizers
    part = store.part("train")
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    always = most_frequent(part, sizes[1], frequent)
    table = learned(part, sizes, count=max(likeliest, *_SIZES), without=always)
    with output.results(context) as results:
        if store.has("valid"):
            _show_coverage(store, always, table, likeliest, results)
    listed(always, table[:, :likeliest], tokenizers).write(model, tokenizers)
    say(f"Written: {model / SHORTLIST}")


def _show_coverage(
    store: Store, always: Ids, learned: Ids, likeliest: int, results: Results
) -> None:
    """What shortlists of several lengths are like, on the validation text."""
    from regard.data.shortlist import coverage, shortlist

    rows = []
    for size in sorted({*_SIZES, likeliest}):
        one = shortlist(always, learned[:, :size], store.tokenizers)
        found = coverage(one, store.part("valid"), batch_size=_BATCH)
        results.add({"likeliest": size, "is_written": size == likeliest, **asdict(found)})
        mark = "written" if size == likeliest else ""
        rows.append([size, 100 * found.covered, round(found.sentence), round(found.batch), mark])
    if not results.is_text:
        return
    total = store.tokenizers.target.vocab_size
    title = f"Of {total:,} subwords, on the validation text:"
    columns = ["likeliest", "% covered", "for a sentence", f"for {_BATCH} sentences", ""]
    show(table(title, columns, rows))
