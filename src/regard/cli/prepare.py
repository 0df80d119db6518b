"""regard prepare: text files in, a prepared folder out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.given import refuse_options
from regard.cli.options import Column, Header, Overwrite, setting
from regard.cli.outputs import claim
from regard.data.doctor import DoctorConfig, Report
from regard.data.label_doctor import LabelFormat
from regard.errors import ConfigError, one_message
from regard.text.config import TokenizerConfig

if TYPE_CHECKING:
    from regard.config import Tree
    from regard.data.prepare import Files, Prepared

_TOKENIZER = ("vocab_size", "tokenizer", "character_coverage", "joint", "nfkc", "lowercase")
_OF_TOKENIZER = (
    "this comes with the tokenizer that --tokenizer-from names. Leave it out, or learn a new "
    "tokenizer without --tokenizer-from."
)
_OF_TEXT = (
    "running text has one side, of which nothing is skipped. Its validation text is --valid-text."
)
# What only pairs of sentences have a use for, what running text has none for besides, and what only
# labelled text has.
_PAIRS = (
    *("source", "target", "tag", "valid_source", "valid_target", "target_lang", "joint"),
    *("max_ratio", "skip_copied", "skip_duplicates"),
)
_LIMITS = ("max_tokens", "max_characters")
_LABELS_SHOWN = 30
_LABELS = ("tagged", "valid_tagged", "labelled", "valid_labelled", "column", "header")


def prepare(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    source: Annotated[
        list[Path] | None,
        typer.Option(help="Training text, a sentence a line; plain or gzip. May be repeated."),
    ] = None,
    target: Annotated[
        list[Path] | None,
        typer.Option(help="Its translation, line by line; one for each --source."),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="In place of both: running text for language models; blank lines end a document. "
            "May be repeated."
        ),
    ] = None,
    valid_text: Annotated[Path | None, typer.Option(help="With --text: validation text.")] = None,
    tagged: Annotated[
        list[Path] | None,
        typer.Option(
            help="In place of them: words with labels, as CoNLL-U or as columns (word, tab, "
            "label); blank lines end a sentence. May be repeated."
        ),
    ] = None,
    valid_tagged: Annotated[
        Path | None, typer.Option(help="With --tagged: validation sentences.")
    ] = None,
    column: Column = None,
    labelled: Annotated[
        list[Path] | None,
        typer.Option(
            help="In place of them: texts with labels, a line being label, tab, text, or label, "
            "tab, text, tab, text. May be repeated."
        ),
    ] = None,
    valid_labelled: Annotated[
        Path | None, typer.Option(help="With --labelled: validation texts.")
    ] = None,
    header: Header = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            help='A word before each source line, such as <bt>; one for each --source, "" for none.'
        ),
    ] = None,
    valid_source: Annotated[Path | None, typer.Option(help="Validation text.")] = None,
    valid_target: Annotated[Path | None, typer.Option(help="Its translation.")] = None,
    source_lang: Annotated[
        str | None, typer.Option(help="Language code, kept with models.")
    ] = None,
    target_lang: Annotated[
        str | None, typer.Option(help="Language code, kept with models.")
    ] = None,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option(help="A model or prepared folder whose tokenizer is taken, not a new one."),
    ] = None,
    vocab_size: Annotated[int, setting(TokenizerConfig, "vocab_size")] = TokenizerConfig.vocab_size,
    tokenizer: Annotated[str, setting(TokenizerConfig, "kind")] = TokenizerConfig.kind,
    character_coverage: Annotated[
        float, setting(TokenizerConfig, "character_coverage")
    ] = TokenizerConfig.character_coverage,
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
    overwrite: Overwrite = False,
) -> None:
    """Examine parallel, running or labelled text, learn its subwords, store it for training."""
    from regard.cli.screen import counting, say
    from regard.config import build
    from regard.data.prepare import Files
    from regard.data.prepare import prepare as prepare_store
    from regard.text.folder import tokenizers_in

    read = [*(source or []), *(target or []), *(text or []), *(tagged or []), *(labelled or [])]
    read += filter(None, [valid_source, valid_target, valid_text, valid_tagged, valid_labelled])
    inputs = [*read, tokenizer_from]
    claim(context, {"--out": out}, inputs=inputs, overwrite=overwrite, folder=True)
    if tokenizer_from:
        refuse_options(context, _TOKENIZER, _OF_TOKENIZER)
    cut = {"kind": tokenizer, "vocab_size": vocab_size, "joint": joint}
    cut["character_coverage"] = character_coverage
    config = build(TokenizerConfig, {**cut, "nfkc": nfkc, "lowercase": lowercase})
    limits = {"max_tokens": max_tokens, "max_characters": max_characters}
    if text:
        others: tuple[str, ...] = (*_PAIRS, *_LIMITS, *_LABELS)
        refuse_options(context, others, _OF_TEXT)
        _prepare_text(_parts(text, valid_text), out, config, tokenizer_from, source_lang)
        return
    if tagged or labelled:
        others = (
            ("labelled", "valid_labelled", "header")
            if tagged
            else ("tagged", "valid_tagged", "column")
        )
        others = (*_PAIRS, *others, "text", "valid_text")
        refuse_options(context, others, "this has no use here, where text has labels.")
        parts = _parts(tagged or labelled or [], valid_tagged or valid_labelled)
        format = LabelFormat("tagged" if tagged else "labelled", column, header)
        rules = build(DoctorConfig, limits)
        _prepare_labels(parts, out, format, rules, config, tokenizer_from, source_lang)
        return
    refuse_options(context, _LABELS, "this is for --tagged or --labelled text.")
    if bool(source) != bool(target):
        here, missing = ("--source", "--target") if source else ("--target", "--source")
        raise ConfigError(f"{here} is given and {missing} is not: each text needs its translation.")
    if not source or not target:
        raise ConfigError(
            "Say what is read: --source and --target, running text with --text, or labelled text "
            "with --tagged or --labelled."
        )
    if (valid_source is None) != (valid_target is None):
        raise ConfigError("Give both --valid-source and --valid-target, or neither.")
    corpora = {"train": _corpora(source, target, tag or [])}
    if valid_source and valid_target:
        corpora["valid"] = [Files(valid_source, valid_target)]
    kept = {"skip_copied": skip_copied, "skip_duplicates": skip_duplicates}
    with counting() as progress:
        done = prepare_store(
            corpora,
            out,
            tokenizer=tokenizers_in(tokenizer_from) if tokenizer_from else config,
            doctor=build(DoctorConfig, {**limits, "max_ratio": max_ratio, **kept}),
            languages=(source_lang, target_lang),
            progress=progress,
        )
    for name, pairs in corpora.items():
        for files, report in zip(pairs, done.reports[name], strict=True):
            print_report(f"{name}: {files}", report)
    if tokenizer_from:
        for word in dict.fromkeys(tag or []):
            if word and not done.tokenizers.source.knows(word):
                say(f"The tokenizer of {tokenizer_from} does not know {word}: it is spelled.")
    else:
        for notice in _clipped(done.description["vocabulary"], config):
            say(notice)
    _say_what_is_next(out, tokenizer_from, "tiny")


def _say_what_is_next(out: Path, tokenizer_from: Path | None, preset: str) -> None:
    from regard.cli.screen import say

    tuning = tokenizer_from is not None and not (tokenizer_from / "store.json").is_file()
    start = f"--from {tokenizer_from}" if tuning else f"--preset {preset}"
    say(f"Prepared in {out}. Next: regard train {start} --data {out} --out runs/NAME")


def _parts(train: list[Path], valid: Path | None) -> dict[str, list[Path]]:
    return {"train": train} | ({"valid": [valid]} if valid else {})


def _prepare_labels(
    parts: dict[str, list[Path]],
    out: Path,
    format: LabelFormat,
    rules: DoctorConfig,
    config: TokenizerConfig,
    tokenizer_from: Path | None,
    language: str | None,
) -> None:
    from regard.cli.screen import counting
    from regard.data.prepare_labels import prepare_labels
    from regard.text.folder import tokenizers_in

    with counting() as progress:
        done = prepare_labels(
            parts,
            out,
            format=format,
            tokenizer=tokenizers_in(tokenizer_from) if tokenizer_from else config,
            doctor=rules,
            language=language,
            progress=progress,
        )
    told = done.description["parts"]
    _print_reports(parts, done, config, tokenizer_from, what="examples")
    _print_labels(parts, told, done.description["vocabulary"]["labels"])
    _say_what_is_next(
        out,
        tokenizer_from,
        {"tagged": "tagger-tiny", "labelled": "classifier-tiny"}[format.content],
    )


def _print_labels(parts: Iterable[str], told: Tree, labels: Sequence[str]) -> None:
    """The most frequent labels, and a word if there are too many to be learned."""
    from regard.cli.screen import console, say, table

    counts = told["train"]["counts"]
    first = sorted(labels, key=lambda label: -counts[label])[:_LABELS_SHOWN]
    rows = [(label, *(told[name]["counts"][label] for name in parts)) for label in first]
    console.print(table("", ["label", *parts], rows))
    if len(labels) > len(first):
        say(f"... and {len(labels) - len(first):,} other labels.")
    if len(labels) > max(_LABELS_SHOWN, sum(counts.values()) // 4):
        say(
            "Nearly everything has a label of its own, so there is nothing to learn from. Are the "
            "labels where they should be? A line of texts is label, tab, text; --column says where "
            "words have theirs."
        )


def _print_reports(
    parts: dict[str, list[Path]],
    done: Prepared,
    config: TokenizerConfig,
    tokenizer_from: Path | None,
    *,
    what: str,
) -> None:
    """What the doctor saw in each file, and in all of a part."""
    from regard.cli.screen import console, say, table

    for name, files in parts.items():
        for path, report in zip(files, done.reports[name], strict=True):
            print_report(f"{name}: {path}", report, what=what)
        told = done.description["parts"][name]
        counts = [(one, told[one]) for one in ("documents", "words", "tokens") if one in told]
        console.print(table("", ["in all", "count"], counts))
    if not tokenizer_from:
        for notice in _clipped(done.description["vocabulary"], config):
            say(notice)


def _prepare_text(
    parts: dict[str, list[Path]],
    out: Path,
    config: TokenizerConfig,
    tokenizer_from: Path | None,
    language: str | None,
) -> None:
    from regard.cli.screen import counting, say
    from regard.data.prepare_text import prepare_text
    from regard.text.folder import tokenizers_in

    tokenizer = tokenizers_in(tokenizer_from) if tokenizer_from else config
    with counting() as progress:
        done = prepare_text(parts, out, tokenizer=tokenizer, language=language, progress=progress)
    _print_reports(parts, done, config, tokenizer_from, what="lines")
    say(f"Prepared in {out}. Next: regard train --preset gpt-tiny --data {out} --out runs/NAME")


def _corpora(sources: Sequence[Path], targets: Sequence[Path], tags: Sequence[str]) -> list[Files]:
    """What belongs together: the n-th of each."""
    from regard.data.prepare import Files

    problems = []
    if len(targets) != len(sources):
        problems.append(
            f"--source is given {len(sources)} times and --target {len(targets)} times: "
            "each text needs its translation."
        )
    if tags and len(tags) != len(sources):
        problems.append(
            f"--source is given {len(sources)} times and --tag {len(tags)} times: give one for "
            'each, --tag "" being none, or leave them out.'
        )
    if problems:
        raise ConfigError(one_message(problems, "The corpora do not match"))
    tags = tags or [""] * len(sources)
    return [Files(*files) for files in zip(sources, targets, tags, strict=True)]


def _clipped(sizes: dict[str, int], config: TokenizerConfig) -> Iterator[str]:
    """A notice for each vocabulary that is smaller than asked for."""
    for side in ("source",) if config.joint else ("source", "target"):
        if sizes[side] < config.vocab_size:
            name = "joint" if config.joint else side
            yield f"The {name} vocabulary has {sizes[side]} subwords: the text gives no more."


def print_report(name: str, report: Report, what: str = "pairs") -> None:
    """What the doctor saw."""
    from regard.cli.screen import console, say, table

    rows = [(f"{what} read", report.pairs, "")]
    rows += [(thing, count, f"line {first}") for thing, (count, first) in report.found.items()]
    rows.append((f"{what} kept", report.kept, ""))
    say(name)  # not as the table's title, which would break a long path
    console.print(table("", ["what", "count", "first at"], rows))
