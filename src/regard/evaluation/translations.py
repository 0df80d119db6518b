"""Systems on one test set: models that translate it, and files with translations of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from regard.data.corpus import read_lines, read_parallel
from regard.decoding.config import Runtime, SearchKeywords
from regard.decoding.effect import effective, refuse_unused_by_all
from regard.decoding.translator import Translator, shared_folder
from regard.devices import keep_freed_memory
from regard.errors import ConfigError, DataError
from regard.evaluation.metrics import (
    METRICS,
    TER_WORDS,
    Counting,
    References,
    case_hint,
    case_is_lost,
    too_long_for_ter,
)
from regard.evaluation.options import TranslationsOptions
from regard.evaluation.report import EvaluatedSystems, System
from regard.models.folder import ModelFolder
from regard.notices import Notice, sparingly


def evaluated_systems(
    test: TranslationsOptions,
    models: Sequence[Path],
    search: SearchKeywords,
    runtime: Runtime,
    say: Notice,
) -> EvaluatedSystems:
    """Read or make all translations of a test set."""
    teams = [models] if models and test.ensemble else [[model] for model in models]
    refuse_contradictions(test, teams)
    counting = _counting(test)
    references = _references(test.reference)
    sources = read_parallel(test.source, test.reference[0])[0] if test.source else None
    rivals = [[test.against] if test.against.is_dir() else test.against] if test.against else []
    everyone: list[Path | Sequence[Path]] = [*test.hypotheses, *teams, *rivals]
    # Files first: what cannot be read is told before anything is translated.
    given = {
        path: read_parallel(path, test.reference[0])[0]
        for path in everyone
        if isinstance(path, Path)
    }
    translating = [team for team in everyone if not isinstance(team, Path)]
    made = _translations(translating, sources or [], test.teacher, search, runtime, say)
    systems = [
        System(str(one), given[one]) if isinstance(one, Path) else System(_name(one), next(made))
        for one in everyone
    ]
    _hint_at_case(systems, references, counting, say)
    if test.metrics is None:
        counting = _in_time(counting, systems, references, say)
    return EvaluatedSystems(test, systems, references, sources, counting)


def refuse_contradictions(test: TranslationsOptions, teams: Sequence[Sequence[Path]]) -> None:
    """Refuse options that contradict one another."""
    count = len(teams) + len(test.hypotheses)
    if not count:
        raise ConfigError(
            "There is nothing to evaluate. Give a model folder, or translations with --hypotheses."
        )
    if test.ensemble and (len(teams) != 1 or len(teams[0]) < 2):
        raise ConfigError("--ensemble is for several models that translate together. Name them.")
    if teams and test.hypotheses:
        raise ConfigError(
            "Models and --hypotheses are two ways to say what is evaluated. Give one of them; "
            "to compare them, translate with the model and name the other file with --against."
        )
    if (teams or (test.against and test.against.is_dir())) and test.source is None:
        raise ConfigError("A model needs text to translate. Give the test set's with --source.")
    if test.against and count > 1:
        raise ConfigError(
            f"--against compares one system with another, and there are {count}. "
            "Compare them one at a time."
        )
    if test.out and len(teams) != 1:
        raise ConfigError(
            "--out keeps the translations of one model. Give one, or use "
            "`regard translate MODEL < SOURCE > FILE` for each and then --hypotheses."
        )


def _counting(test: TranslationsOptions) -> Counting:
    """How translations are measured; what does not work is told before anything is translated."""
    names = METRICS if test.metrics is None else test.metrics.lower().replace(",", " ").split()
    for name in names:
        if name not in METRICS:
            raise ConfigError(f"There is no metric {name!r}. Use some of {','.join(METRICS)}.")
    if not names:
        raise ConfigError(f"--metrics is empty. Use some of {','.join(METRICS)}.")
    counting = Counting(test.lowercase, test.tokenize, tuple(dict.fromkeys(names)))
    counting.bleu()
    return counting


def _references(paths: Sequence[Path]) -> References:
    """The lines of each reference; all have equally many."""
    first = read_lines(paths[0])
    if not first:
        raise DataError(f"{paths[0]} is empty: there is nothing to evaluate. Check the path.")
    return [first, *(read_parallel(path, paths[0])[0] for path in paths[1:])]


def _hint_at_case(
    systems: Sequence[System], references: References, counting: Counting, say: Notice
) -> None:
    """Say that figures are low because case is lost, where they are."""
    if counting.lowercase or counting.names == ("ter",):  # which is counted without case
        return
    for system in systems:
        if case_is_lost(system.translations, references):
            say(case_hint(system.name))


def _in_time(
    counting: Counting, systems: Sequence[System], references: References, say: Notice
) -> Counting:
    """The same, without TER where a line would keep it busy for minutes."""
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
    teacher: Path | None,
    search: SearchKeywords,
    runtime: Runtime,
    say: Notice,
) -> Iterator[list[str]]:
    """What each model, or ensemble, makes of the sources; one is in memory at a time."""
    # A bad third folder is told before two have been translated.
    folders = [shared_folder(team, [*map(ModelFolder.read, team)]) for team in teams]
    search = {**search, "scores": False}
    refuse_unused_by_all(search, [folder.config for folder in folders])
    if teacher is not None and all(folder.config.autoregressive for folder in folders):
        raise ConfigError("--teacher: all models write word by word. Leave it out.")
    keep_freed_memory()
    for team, folder in zip(teams, folders, strict=True):
        if len(teams) > 1:
            say(f"Translating with {_name(team)} ...")
        own = None if folder.config.autoregressive else teacher  # which is a system itself, maybe
        translator = Translator.load(*team, **runtime.loading, teacher=own)
        say(translator.engine_told)
        with sparingly(say) as notice:
            found = translator.translate(
                sources,
                batch_size=runtime.batch_size,
                notice=notice,
                **effective(search, folder.config),
            )
        yield [translation.text for translation in found]


def _name(team: Sequence[Path]) -> str:
    return " + ".join(map(str, team))
