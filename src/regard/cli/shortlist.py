"""regard shortlist: writes a lexical shortlist, which speeds up CTranslate2."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Model, Overwrite, number_option
from regard.cli.outputs import reserve_outputs
from regard.cli.results import FormatOnly, ResultWriter
from regard.cli.tables import print_table, table
from regard.progress import notify

if TYPE_CHECKING:
    from regard.data.lexicon import Ids
    from regard.data.store import Store

_SIZES = (5, 10, 20, 50, 100, 200)
_BATCH = 32


def shortlist(
    context: typer.Context,
    model: Model,
    output: FormatOnly,
    data: Annotated[
        Path,
        typer.Option(
            help="Prepared folder with the tokenizer of the model, such as its training data.",
            show_default=False,
        ),
    ],
    likeliest: Annotated[
        int,
        number_option("Number of most probable translations of each source subword", 1, 10_000),
    ] = 20,
    frequent: Annotated[
        int,
        number_option(
            "Number of most frequent target subwords, which are always included", 0, 10_000_000
        ),
    ] = 100,
    overwrite: Overwrite = False,
) -> None:
    """Learn a lexical shortlist from training data, and write it to the model folder."""
    from regard.data.lexicon import most_likely_targets
    from regard.data.shortlist import SHORTLIST, build_shortlist, most_frequent_targets
    from regard.data.store import Store
    from regard.models.folder import ModelFolder, refuse_other_text

    store, folder = Store(data), ModelFolder.read(model)
    refuse_other_text(model, folder, store)
    store.refuse_document_context("`regard shortlist`")
    reserve_outputs(context, {"MODEL": model / SHORTLIST}, inputs=[data], overwrite=overwrite)
    tokenizers = folder.tokenizers
    part = store.part("train")
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    always = most_frequent_targets(part, sizes[1], frequent)
    translations = most_likely_targets(part, sizes, count=max(likeliest, *_SIZES), excluded=always)
    with output.results(context) as results:
        if store.has("valid"):
            _print_coverage(store, always, translations, likeliest, results)
    build_shortlist(always, translations[:, :likeliest], tokenizers).write(model, tokenizers)
    notify(f"Wrote {model / SHORTLIST}")


def _print_coverage(
    store: Store, always: Ids, learned: Ids, likeliest: int, results: ResultWriter
) -> None:
    """Print coverage and size of shortlists of several lengths, on the validation split."""
    from regard.data.shortlist import build_shortlist, compute_coverage

    rows = []
    for size in sorted({*_SIZES, likeliest}):
        candidate = build_shortlist(always, learned[:, :size], store.tokenizers)
        coverage = compute_coverage(candidate, store.part("valid"), batch_size=_BATCH)
        results.add({"likeliest": size, "is_written": size == likeliest, **asdict(coverage)})
        note = "written" if size == likeliest else ""
        rows.append(
            [size, 100 * coverage.covered, round(coverage.sentence), round(coverage.batch), note]
        )
    if not results.is_text:
        return
    total = store.tokenizers.target.vocab_size
    title = f"Coverage of the validation split and shortlist size, of {total:,} subwords"
    columns = ["likeliest", "coverage, %", "size, 1 sentence", f"size, {_BATCH} sentences", ""]
    print_table(table(title, columns, rows))
