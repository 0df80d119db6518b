"""regard prepare: text files in, a prepared folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import setting
from regard.data.doctor import DoctorConfig, Report
from regard.errors import ConfigError
from regard.text.config import TokenizerConfig


def prepare(
    source: Annotated[Path, typer.Option(help="Training text, a sentence a line; plain or gzip.")],
    target: Annotated[Path, typer.Option(help="Its translation, line by line.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    valid_source: Annotated[Path | None, typer.Option(help="Validation text.")] = None,
    valid_target: Annotated[Path | None, typer.Option(help="Its translation.")] = None,
    source_lang: Annotated[
        str | None, typer.Option(help="Language code, kept with models.")
    ] = None,
    target_lang: Annotated[
        str | None, typer.Option(help="Language code, kept with models.")
    ] = None,
    vocab_size: Annotated[int, setting(TokenizerConfig, "vocab_size")] = TokenizerConfig.vocab_size,
    tokenizer: Annotated[str, setting(TokenizerConfig, "kind")] = TokenizerConfig.kind,
    joint: Annotated[
        bool, setting(TokenizerConfig, "joint", "--joint/--separate")
    ] = TokenizerConfig.joint,
    nfkc: Annotated[bool, setting(TokenizerConfig, "nfkc")] = TokenizerConfig.nfkc,
    lowercase: Annotated[bool, setting(TokenizerConfig, "lowercase")] = TokenizerConfig.lowercase,
    max_tokens: Annotated[int, setting(DoctorConfig, "max_tokens")] = DoctorConfig.max_tokens,
    max_characters: Annotated[
        int, setting(DoctorConfig, "max_characters")
    ] = DoctorConfig.max_characters,
    max_ratio: Annotated[float, setting(DoctorConfig, "max_ratio")] = DoctorConfig.max_ratio,
    skip_copied: Annotated[bool, setting(DoctorConfig, "skip_copied")] = DoctorConfig.skip_copied,
    skip_duplicates: Annotated[
        bool, setting(DoctorConfig, "skip_duplicates")
    ] = DoctorConfig.skip_duplicates,
) -> None:
    """Examine parallel text, learn its subwords and store it for training."""
    from regard.cli.screen import counting, say
    from regard.config import build
    from regard.data.prepare import Files
    from regard.data.prepare import prepare as prepare_store

    if (valid_source is None) != (valid_target is None):
        raise ConfigError("Give both --valid-source and --valid-target, or neither.")
    parts = {"train": Files(source, target)}
    if valid_source and valid_target:
        parts["valid"] = Files(valid_source, valid_target)
    text = {"kind": tokenizer, "vocab_size": vocab_size, "joint": joint}
    rules = {"max_tokens": max_tokens, "max_characters": max_characters, "max_ratio": max_ratio}
    with counting() as progress:
        done = prepare_store(
            parts,
            out,
            tokenizer=build(TokenizerConfig, {**text, "nfkc": nfkc, "lowercase": lowercase}),
            doctor=build(
                DoctorConfig,
                {**rules, "skip_copied": skip_copied, "skip_duplicates": skip_duplicates},
            ),
            languages=(source_lang, target_lang),
            progress=progress,
        )
    for name, report in done.reports.items():
        print_report(name, report)
    sizes = done.description["vocabulary"]
    for side in ("source",) if joint else ("source", "target"):
        if sizes[side] < vocab_size:
            name = "joint" if joint else side
            say(f"The {name} vocabulary has {sizes[side]} subwords: the text gives no more.")
    say(f"Prepared in {out}. Next: regard train --preset tiny --data {out} --out runs/NAME")


def print_report(name: str, report: Report) -> None:
    """What the doctor saw."""
    from regard.cli.screen import console, table

    rows = [("pairs read", report.pairs, "")]
    rows += [(what, count, f"line {first}") for what, (count, first) in report.found.items()]
    rows.append(("pairs kept", report.kept, ""))
    console.print(table(f"{name}", ["what", "count", "first at"], rows))
