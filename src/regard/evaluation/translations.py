"""Collect the translations of a test set by all systems: models and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from regard.backends.lazy_models import ensemble_description
from regard.config import build
from regard.data.line_reader import read_lines, read_parallel
from regard.decoding.config import SearchKeywords
from regard.decoding.modes import effective_settings, refuse_unused_by_all
from regard.decoding.ranking_config import with_implied
from regard.decoding.runtime import Runtime
from regard.decoding.text_config import TextConfig, TextConfigKeywords
from regard.errors import ConfigError, DataError
from regard.evaluation.metrics import (
    METRICS,
    TER_WORDS,
    MetricConfig,
    References,
    bleu_tokenizer,
    case_hint,
    case_is_lost,
    first_line_too_long_for_ter,
)
from regard.evaluation.options import TranslationsOptions
from regard.evaluation.report import EvaluatedSystems, System
from regard.evaluation.rerank_tuning import TunedWeights, tune_reranking
from regard.machine import keep_freed_memory
from regard.models.folder import ModelFolder
from regard.notices import Notice, limited_notices
from regard.pipelines.text_stream import default_workers
from regard.pipelines.translator import Translator


def evaluate_systems(
    test: TranslationsOptions,
    models: Sequence[Path],
    search: SearchKeywords,
    text: TextConfigKeywords,
    runtime: Runtime,
    notify: Notice,
) -> EvaluatedSystems:
    """Read or compute all translations of a test set."""
    ensembles = [models] if models and test.ensemble else [[model] for model in models]
    check_options(test, ensembles)
    ranking = build(TextConfig, dict(text))
    if test.tune_rerank and (not ranking.rerank or ranking.rerank_weight):
        raise ConfigError(
            "--tune-rerank chooses the weights of the models of --rerank. Use it with --rerank and "
            "without --rerank-weight."
        )
    metric_config = _metric_config(test)
    references = _read_references(test.reference)
    sources = read_parallel(test.source, test.reference[0])[0] if test.source else None
    baseline = [[test.against] if test.against.is_dir() else test.against] if test.against else []
    # A system is a file of translations or the model folders of an ensemble.
    inputs: list[Path | Sequence[Path]] = [*test.hypotheses, *ensembles, *baseline]
    # Read files first, to report errors before translating.
    from_files = {
        path: read_parallel(path, test.reference[0])[0] for path in inputs if isinstance(path, Path)
    }
    folders = [paths for paths in inputs if not isinstance(paths, Path)]
    tune = (
        partial(tune_reranking, references=references, metric_config=metric_config, text=text)
        if test.tune_rerank
        else None
    )
    translated = _translate(
        folders, sources or [], test.teacher, search, text, runtime, notify, tune=tune
    )
    systems = [
        System(str(paths), from_files[paths]) if isinstance(paths, Path) else next(translated)
        for paths in inputs
    ]
    _warn_about_case(systems, references, metric_config, notify)
    _warn_about_tokenizer(text.get("target_lang"), metric_config, notify)
    if test.metrics is None:
        metric_config = _without_slow_ter(metric_config, systems, references, notify)
    return EvaluatedSystems(test, systems, references, sources, metric_config)


def check_options(test: TranslationsOptions, ensembles: Sequence[Sequence[Path]]) -> None:
    """Raise an error for options that exclude each other."""
    count = len(ensembles) + len(test.hypotheses)
    if not count:
        raise ConfigError(
            "There is nothing to evaluate. Give a model folder, or translations with --hypotheses."
        )
    if test.ensemble and (len(ensembles) != 1 or len(ensembles[0]) < 2):
        raise ConfigError("--ensemble requires several models. Give their folders.")
    if ensembles and test.hypotheses:
        raise ConfigError(
            "Models and --hypotheses are mutually exclusive. Give one of them; to compare them, "
            "give the model, and the file with --against."
        )
    if (ensembles or (test.against and test.against.is_dir())) and test.source is None:
        raise ConfigError("Models require a source text. Use --source.")
    if test.tune_rerank and (len(ensembles) != 1 or (test.against and test.against.is_dir())):
        raise ConfigError("--tune-rerank tunes the weights for one model. Give one model.")
    if test.against and count > 1:
        raise ConfigError(
            f"--against compares two systems, but {count} were given. Compare them one at a time."
        )
    if test.out and len(ensembles) != 1:
        raise ConfigError(
            "--out writes the translations of one model. Give one model, or use "
            "`regard translate MODEL < SOURCE > FILE` for each and then --hypotheses."
        )


def _metric_config(test: TranslationsOptions) -> MetricConfig:
    """Return the metrics' config, and check that the tokenizer is available."""
    names = METRICS if test.metrics is None else test.metrics.lower().replace(",", " ").split()
    for name in names:
        if name not in METRICS:
            raise ConfigError(f"Unknown metric {name!r}. Use some of {','.join(METRICS)}.")
    if not names:
        raise ConfigError(f"--metrics is empty. Use some of {','.join(METRICS)}.")
    metric_config = MetricConfig(test.lowercase, test.tokenize, tuple(dict.fromkeys(names)))
    metric_config.bleu()
    return metric_config


def _read_references(paths: Sequence[Path]) -> References:
    """Read reference files, which must have the same number of lines."""
    first = read_lines(paths[0])
    if not first:
        raise DataError(f"{paths[0]} is empty: there is nothing to evaluate. Check the path.")
    return [first, *(read_parallel(path, paths[0])[0] for path in paths[1:])]


def _warn_about_case(
    systems: Sequence[System], references: References, metric_config: MetricConfig, notify: Notice
) -> None:
    """Report systems whose output is lowercase while the references are cased."""
    if metric_config.lowercase or metric_config.names == ("ter",):  # TER is case-insensitive
        return
    for system in systems:
        if case_is_lost(system.translations, references):
            notify(case_hint(system.name))


def _warn_about_tokenizer(
    language: str | None, metric_config: MetricConfig, notify: Notice
) -> None:
    """Report that BLEU counts whole sentences as words, in a language written without spaces."""
    tokenizer = bleu_tokenizer(language)
    default = bleu_tokenizer(None)
    if "bleu" in metric_config.names and metric_config.tokenize == default != tokenizer:
        notify(
            f"Text in {language} has no spaces between words, and the tokenizer {default} leaves "
            f"most of it unsplit. For BLEU in this language, use --tokenize {tokenizer}."
        )


def _without_slow_ter(
    metric_config: MetricConfig, systems: Sequence[System], references: References, notify: Notice
) -> MetricConfig:
    """Remove TER if a line is so long that it would take minutes."""
    line = first_line_too_long_for_ter([*references, *(system.translations for system in systems)])
    if line is None:
        return metric_config
    notify(
        f"TER is not computed: line {line} has more than {TER_WORDS} words, for which it would "
        f"take minutes. To compute it: --metrics {','.join(METRICS)}"
    )
    names = tuple(name for name in metric_config.names if name != "ter")
    return replace(metric_config, names=names)


def _translate(
    ensembles: Sequence[Sequence[Path]],
    sources: Sequence[str],
    teacher: Path | None,
    search: SearchKeywords,
    text: TextConfigKeywords,
    runtime: Runtime,
    notify: Notice,
    *,
    tune: Callable[..., TunedWeights] | None,
) -> Iterator[System]:
    """Yield the translations of each model or ensemble, with one in memory at a time.

    `tune` tunes the weights of rerankers.
    """
    # Check all folders before translating with any of them.
    folders = [ensemble_description(paths, [*map(ModelFolder.read, paths)]) for paths in ensembles]
    search = {**with_implied(search, build(TextConfig, dict(text))), "scores": False}
    refuse_unused_by_all(search, [folder.config.decoding_family for folder in folders])
    if teacher is not None and all(folder.config.autoregressive for folder in folders):
        raise ConfigError("--teacher has no effect for autoregressive models. Leave it out.")
    keep_freed_memory()
    for paths, folder in zip(ensembles, folders, strict=True):
        if len(ensembles) > 1:
            notify(f"Translating with {_join_names(paths)} ...")
        reranker = None if folder.config.autoregressive else teacher
        translator = Translator.load(*paths, **runtime.loading, teacher=reranker)
        notify(translator.backend_notice)
        with limited_notices(notify) as notice:
            settings = effective_settings(search, folder.config.decoding_family)
            translate = partial(
                translator.translate_iterable,
                sources,
                batch_size=runtime.batch_size,
                workers=default_workers(translator.backend.device, len(sources)),
                notice=notice,
            )
            if tune is None:
                texts = [translation.text for translation in translate(**settings, **text)]
                system = System(_join_names(paths), texts)
            else:
                tuned = tune(translator, translate, sources, settings)
                notify(str(tuned))
                system = System(_join_names(paths), tuned.translations, tuned.weights)
        yield system


def _join_names(paths: Sequence[Path]) -> str:
    return " + ".join(map(str, paths))
