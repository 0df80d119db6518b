"""regard evaluate: BLEU, chrF and TER of models and files, and what a difference means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.given import given_settings, refuse_options, refuse_other_options
from regard.cli.labels import evaluate_labels
from regard.cli.options import (
    BatchSize,
    Column,
    Device,
    Engine,
    Header,
    Overwrite,
    Precision,
    Teacher,
    numeric,
    setting,
)
from regard.cli.outputs import claim
from regard.cli.perplexity import evaluate_text
from regard.data.label_doctor import LabelFormat
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.evaluation.metrics import Counting, References
    from regard.evaluation.report import System


def evaluate(
    context: typer.Context,
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="MODEL",
            help="Model or run folders; of several, mean and spread are told.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            help="The right translations, line by line. May be repeated: several references for "
            "each line, counted as sacrebleu counts them.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text for the models to translate.")] = None,
    text: Annotated[
        Path | None,
        typer.Option(help="In place of both: running text for language models to foretell."),
    ] = None,
    tagged: Annotated[
        Path | None,
        typer.Option(help="In place of them: words with labels (CoNLL-U or columns) for a tagger."),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(help="In place of them: texts with labels (label, tab, text)."),
    ] = None,
    column: Column = None,
    header: Header = None,
    stride: Annotated[
        int | None,
        numeric(
            "With --text: tokens by which the window moves on; unset: half of it", 1, 1_000_000
        ),
    ] = None,
    memory: Annotated[
        int | None,
        numeric(
            "With --text: tokens that a model with a memory remembers; unset: as it says",
            0,
            1_000_000,
        ),
    ] = None,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Several models translate together, as one.")
    ] = False,
    hypotheses: Annotated[
        list[Path] | None,
        typer.Option(
            help="In place of models: translations that exist already. May be repeated.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Another model, or its translations: does the difference mean anything?"),
    ] = None,
    resamples: Annotated[
        int, numeric("With --against: resamples of the paired bootstrap", 100, 100_000)
    ] = 1000,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="BLEU by the length of the reference.")
    ] = False,
    worst: Annotated[
        int,
        numeric(
            "How many of the worst sentences to show (by chrF2), or of the worst labels", 0, 100_000
        ),
    ] = 0,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="A PNG: BLEU by length, and the scores of sentences; or which label is taken for "
            "which."
        ),
    ] = None,
    beam_size: Annotated[int, setting(SearchConfig, "beam_size")] = SearchConfig.beam_size,
    length_penalty: Annotated[
        float, setting(SearchConfig, "length_penalty")
    ] = SearchConfig.length_penalty,
    patience: Annotated[float, setting(SearchConfig, "patience")] = SearchConfig.patience,
    seed: Annotated[int, setting(SearchConfig, "seed")] = SearchConfig.seed,
    fertility: Annotated[str, setting(SearchConfig, "fertility")] = SearchConfig.fertility,
    candidates: Annotated[int, setting(SearchConfig, "candidates")] = SearchConfig.candidates,
    teacher: Teacher = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Count without case.")] = False,
    tokenize: Annotated[str, typer.Option(help="sacrebleu's tokenizer for BLEU.")] = "13a",
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Some of bleu,chrf,ter; unset: all, TER only if no line is too long for it.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Keep the model's translations here.")] = None,
    overwrite: Overwrite = False,
    format: Annotated[str, typer.Option(help="text or json.")] = "text",
    batch_size: BatchSize = None,
    engine: Engine = "auto",
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Measure translations (BLEU, chrF, TER by sacrebleu), the perplexity of a text, or labels."""
    if format not in ("text", "json"):
        raise ConfigError(f"There is no format {format!r}. Use text or json.")
    hypotheses = hypotheses or []
    read = [*(models or []), *hypotheses, *(reference or [])]
    inputs = [*read, source, text, tagged, labelled, against, teacher]
    written = {"--output": output, "--picture": picture}
    claim(context, written, inputs=inputs, overwrite=overwrite)
    _refuse_ignored(context)
    if tagged is not None or labelled is not None:
        test = tagged or labelled
        assert test is not None
        evaluate_labels(
            models or [],
            test,
            LabelFormat("tagged" if tagged else "labelled", column, header),
            worst=worst,
            picture=picture,
            as_json=format == "json",
            batch_size=batch_size,
            device=device,
        )
        return
    if text is not None:
        evaluate_text(
            models or [], text, stride=stride, memory=memory, format=format, device=device
        )
        return
    if not reference:
        raise ConfigError(
            "Give the right translations with --reference, a text with --text, or labels with "
            "--tagged or --labelled."
        )
    teams = [models] if models and ensemble else [[model] for model in models or []]
    _check_systems(
        teams, hypotheses, source=source, against=against, output=output, ensemble=ensemble
    )

    from regard.cli.report import draw, print_json, print_text
    from regard.data.corpus import read_parallel
    from regard.evaluation.report import System, report
    from regard.files import write_text

    counting = _counting(lowercase, tokenize, metrics)
    references = _references(reference)
    sources = read_parallel(source, reference[0])[0] if source else None
    rivals = [[against] if against.is_dir() else against] if against else []
    everyone: list[Path | list[Path]] = [*hypotheses, *teams, *rivals]
    # Files first: what cannot be read is told before anything is translated.
    given = {
        path: read_parallel(path, reference[0])[0] for path in everyone if isinstance(path, Path)
    }
    made = _translations(
        [team for team in everyone if isinstance(team, list)],
        sources or [],
        SearchKeywords(**given_settings(context, SearchConfig), scores=False),  # type: ignore[typeddict-item]
        teacher=teacher,
        batch_size=batch_size,
        engine=engine,
        precision=precision,
        device=device,
    )
    systems = [
        System(str(one), given[one]) if isinstance(one, Path) else System(_name(one), next(made))
        for one in everyone
    ]
    rival = systems.pop() if against else None
    try:
        _hint_at_case([*systems, *([rival] if rival else [])], references, counting)
        if metrics is None:
            counting = _in_time(counting, [*systems, *([rival] if rival else [])], references)
        told = report(
            systems,
            references,
            counting,
            sources=sources,
            against=rival,
            resamples=resamples,
            lengths=by_length,
            worst_count=worst,
        )
        if format == "json":
            print_json(told)
        else:
            print_text(told)
    finally:  # the figures and the file do not depend on each other
        if output:
            write_text(output, "".join(text + "\n" for text in systems[0].translations))
    if picture:
        draw(picture, [*systems, *([rival] if rival else [])], references, counting)


def _check_systems(
    teams: Sequence[Sequence[Path]],
    hypotheses: Sequence[Path],
    *,
    source: Path | None,
    against: Path | None,
    output: Path | None,
    ensemble: bool,
) -> None:
    """Refuse options that contradict one another."""
    count = len(teams) + len(hypotheses)
    if not count:
        raise ConfigError(
            "There is nothing to evaluate. Give a model folder, or translations with --hypotheses."
        )
    if ensemble and (len(teams) != 1 or len(teams[0]) < 2):
        raise ConfigError("--ensemble is for several models that translate together. Name them.")
    if teams and hypotheses:
        raise ConfigError(
            "Models and --hypotheses are two ways to say what is evaluated. Give one of them; "
            "to compare them, translate with the model and name the other file with --against."
        )
    if (teams or (against and against.is_dir())) and source is None:
        raise ConfigError("A model needs text to translate. Give the test set's with --source.")
    if against and count > 1:
        raise ConfigError(
            f"--against compares one system with another, and there are {count}. "
            "Compare them one at a time."
        )
    if output and len(teams) != 1:
        raise ConfigError(
            "--output keeps the translations of one model. Give one, or use "
            "`regard translate MODEL < SOURCE > FILE` for each and then --hypotheses."
        )


def _counting(lowercase: bool, tokenize: str, metrics: str | None) -> Counting:
    """How translations are measured; what does not work is told before anything is translated."""
    from regard.evaluation.metrics import METRICS, Counting

    wanted = METRICS if metrics is None else tuple(metrics.lower().replace(",", " ").split())
    for name in wanted:
        if name not in METRICS:
            raise ConfigError(f"There is no metric {name!r}. Use some of {','.join(METRICS)}.")
    if not wanted:
        raise ConfigError(f"--metrics is empty. Use some of {','.join(METRICS)}.")
    counting = Counting(lowercase, tokenize, tuple(dict.fromkeys(wanted)))
    counting.bleu()
    return counting


def _references(paths: Sequence[Path]) -> References:
    """The lines of each reference; all have equally many."""
    from regard.data.corpus import read_lines, read_parallel

    first = read_lines(paths[0])
    if not first:
        raise DataError(f"{paths[0]} is empty: there is nothing to evaluate. Check the path.")
    return [first, *(read_parallel(path, paths[0])[0] for path in paths[1:])]


def _hint_at_case(systems: Sequence[System], references: References, counting: Counting) -> None:
    """Say that figures are low because case is lost, where they are."""
    from regard.cli.report import say_case_is_lost
    from regard.evaluation.metrics import case_is_lost

    if counting.lowercase or counting.names == ("ter",):  # which is counted without case
        return
    for system in systems:
        if case_is_lost(system.translations, references):
            say_case_is_lost(system.name)


def _in_time(counting: Counting, systems: Sequence[System], references: References) -> Counting:
    """The same, without TER where a line would keep it busy for minutes."""
    from regard.cli.screen import say
    from regard.evaluation.metrics import METRICS, TER_WORDS, too_long_for_ter

    line = too_long_for_ter([*references, *(system.translations for system in systems)])
    if line is None:
        return counting
    say(
        f"Line {line} has more than {TER_WORDS} words, for which TER would take minutes; it is "
        f"left out. To wait for it: --metrics {','.join(METRICS)}"
    )
    return replace(counting, names=tuple(name for name in counting.names if name != "ter"))


def _translations(
    teams: Sequence[Sequence[Path]],
    sources: Sequence[str],
    keywords: SearchKeywords,
    *,
    teacher: Path | None,
    batch_size: int | None,
    engine: str,
    precision: str | None,
    device: str,
) -> Iterator[list[str]]:
    """What each model, or ensemble, makes of the sources; one is in memory at a time."""
    from regard.cli.screen import say, sparingly
    from regard.decoding.effect import effective, refuse_unused_by_all
    from regard.decoding.translator import Translator, shared_folder
    from regard.devices import keep_freed_memory
    from regard.models.folder import ModelFolder

    # A bad third folder is told before two have been translated.
    folders = [shared_folder(team, [*map(ModelFolder.read, team)]) for team in teams]
    refuse_unused_by_all(keywords, [folder.config for folder in folders])
    if teacher is not None and all(one.config.kind != "nonautoregressive" for one in folders):
        raise ConfigError("--teacher: all models write word by word. Leave it out.")
    keep_freed_memory()
    for team, folder in zip(teams, folders, strict=True):
        if len(teams) > 1:
            say(f"Translating with {_name(team)} ...")
        at_once = folder.config.kind == "nonautoregressive"
        translator = Translator.load(
            *team,
            device=device,
            engine=engine,
            precision=precision,
            teacher=teacher if at_once else None,  # which may be compared with it, too
        )
        say(translator.engine_told)
        own = effective(keywords, folder.config)
        with sparingly() as notice:
            found = translator.translate(sources, batch_size=batch_size, notice=notice, **own)
        yield [translation.text for translation in found]


def _refuse_ignored(context: typer.Context) -> None:
    """Refuse options of another kind of evaluation."""
    given = context.params
    always, labels = {"models", "format", "device"}, {"tagged", "labelled", "column", "header"}
    running = {"text", "stride", "memory"}
    tests = [name for name in ("text", "tagged", "labelled") if given[name] is not None]
    if len(tests) > 1:
        raise ConfigError(f"--{' and --'.join(tests)} are different tests. Give one of them.")
    if given["tagged"] or given["labelled"]:
        used = always | labels | {"worst", "picture", "overwrite", "batch_size"}
        refuse_other_options(context, used, "no effect on labels. Leave it out.")
    elif given["text"]:
        refuse_other_options(context, always | running, "no effect with --text. Leave it out.")
    else:
        refuse_options(context, labels | running, "no effect on translations. Leave it out.")
    if given["teacher"] and given["candidates"] == 1:
        raise ConfigError("A --teacher chooses among --candidates. Give a number of them, too.")
    shows_bleu = given["by_length"] or given["picture"]
    if given["metrics"] and "bleu" not in given["metrics"].lower() and not shows_bleu:
        refuse_options(context, ["tokenize"], "no effect without BLEU. Leave it out.")
    if not given["against"]:
        refuse_options(context, ["resamples"], "no effect without --against.")
    against = given["against"] is not None and given["against"].is_dir()
    if not given["models"] and not against:
        translating = {"engine", "precision", "device", "batch_size", "teacher", "ensemble"}
        names = translating.union(field.name for field in fields(SearchConfig))
        refuse_options(context, names, "no model translates here. Leave it out.")


def _name(team: Sequence[Path]) -> str:
    return " + ".join(map(str, team))
