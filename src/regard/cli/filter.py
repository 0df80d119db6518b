"""regard filter: writes the pairs of a parallel corpus that pass filters, and reports on others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Fields, is_set_by_user, refuse_options
from regard.cli.options import TorchRuntime
from regard.cli.outputs import reserve_outputs
from regard.cli.results import OutputOptions
from regard.cli.stdin import stream_keywords
from regard.cli.tables import report_table, table
from regard.config import Doc, Settings
from regard.data.filters import CorpusFilterConfig, Report
from regard.data.score_filter import SCORE_NAMES, ScoreFilterConfig, Scores
from regard.decoding.runtime import Runtime, ThroughputOptions
from regard.errors import ConfigError
from regard.progress import console, notify, progress_counter

if TYPE_CHECKING:
    from regard.data.corpus_filter import CorpusFilter
    from regard.pipelines.dual_cross_entropy import DualScorer

_PERCENTILES = (1, 5, 10, 25, 50, 90)
_EXAMPLE_LENGTH = 70  # characters per side


@dataclass(frozen=True)
class CorpusOptions(Settings):
    """A parallel corpus."""

    source: Annotated[Path, Doc("source text, one sentence per line; plain or gzip")]
    target: Annotated[Path, Doc("target text, parallel to --source")]
    source_lang: Annotated[str | None, Doc("language code of the source")] = None
    target_lang: Annotated[str | None, Doc("language code of the target")] = None
    out_source: Annotated[
        Path | None, Doc("file for the source text that is left; default: only report")
    ] = None
    out_target: Annotated[Path | None, Doc("file for the target text that is left")] = None


@dataclass(frozen=True)
class ScoreOptions(Settings):
    """Scores of pairs."""

    forward_model: Annotated[
        Path | None, Doc("model from source to target, for the dual cross-entropy score")
    ] = None
    reverse_model: Annotated[
        Path | None, Doc("model from target to source, for the dual cross-entropy score")
    ] = None
    alignment: Annotated[
        bool, Doc("compute the alignment score, with a word aligner trained on the corpus")
    ] = False
    write_scores: Annotated[Path | None, Doc("write the scores to this file, as TSV")] = None
    read_scores: Annotated[
        Path | None, Doc("read scores that --write-scores wrote, instead of computing them")
    ] = None


def filter(
    context: typer.Context,
    corpus: CorpusOptions,
    rules: Annotated[
        CorpusFilterConfig, Fields(without=("max_tokens",), defaults={"min_lang_prob": 0.1})
    ],
    scoring: ScoreOptions,
    limits: ScoreFilterConfig,
    runtime: TorchRuntime,
    throughput: ThroughputOptions,
    output: Annotated[OutputOptions, Fields(only=("format", "overwrite"))],
) -> None:
    """Filter a parallel corpus by rules, languages and scores; report what was filtered out."""
    from regard.data.corpus_filter import CorpusFilter
    from regard.data.pair_files import Files

    _refuse_incomplete(context, corpus, scoring, limits)
    outputs = {
        "--out-source": corpus.out_source,
        "--out-target": corpus.out_target,
        "--write-scores": scoring.write_scores,
    }
    models = [scoring.forward_model, scoring.reverse_model]
    inputs = [corpus.source, corpus.target, scoring.read_scores, *models]
    reserve_outputs(context, outputs, inputs=inputs, overwrite=output.overwrite)
    languages = corpus.source_lang, corpus.target_lang
    dual = _load_models(scoring, languages, runtime, throughput)
    with progress_counter() as progress:
        filtered = CorpusFilter(Files(corpus.source, corpus.target), rules, languages, progress)
        scores = _scores(filtered, scoring, limits, dual)
        filtered.apply_scores(scores, limits)
        if corpus.out_source and corpus.out_target:
            filtered.write(corpus.out_source, corpus.out_target)
    with output.results(context) as results:
        results.add(_summary(filtered.report, scores))
    if results.is_text:
        _print_report(filtered.report, scores)
    if corpus.out_source and corpus.out_target:
        notify(f"Wrote {filtered.report.kept:,} pairs to {corpus.out_source}, {corpus.out_target}")


def _refuse_incomplete(
    context: typer.Context, corpus: CorpusOptions, scoring: ScoreOptions, limits: ScoreFilterConfig
) -> None:
    """Raise an error for options that need others."""
    for first, second in (("out_source", "out_target"), ("forward_model", "reverse_model")):
        if (context.params[first] is None) != (context.params[second] is None):
            names = (f"--{name.replace('_', '-')}" for name in (first, second))
            raise ConfigError(f"{' and '.join(names)} must be given together.")
    if is_set_by_user(context, "min_lang_prob") and not (corpus.source_lang or corpus.target_lang):
        refuse_options(
            context, {"min_lang_prob"}, "no effect without --source-lang or --target-lang."
        )
    if scoring.read_scores is not None:
        refuse_options(
            context,
            {"forward_model", "reverse_model", "alignment", "write_scores"},
            "no effect with --read-scores, which has the scores. Leave it out.",
        )
    elif limits.uses("dual") and scoring.forward_model is None:
        raise ConfigError(
            "--min-dual and --keep-dual require --forward-model and --reverse-model, or "
            "--read-scores."
        )
    if scoring.forward_model is None:
        refuse_options(
            context,
            {"device", "batch_size", "buffer_size", "workers"},
            "no effect without --forward-model and --reverse-model. Leave it out.",
        )
    if scoring.write_scores and not (_needs_alignment(scoring, limits) or scoring.forward_model):
        raise ConfigError(
            "--write-scores: there are no scores. Use --alignment, or --forward-model and "
            "--reverse-model, or both."
        )


def _needs_alignment(scoring: ScoreOptions, limits: ScoreFilterConfig) -> bool:
    return scoring.alignment or limits.uses("alignment")


def _load_models(
    scoring: ScoreOptions,
    languages: tuple[str | None, str | None],
    runtime: Runtime,
    throughput: ThroughputOptions,
) -> DualScorer | None:
    """The scorer by two models, if they are given."""
    if scoring.forward_model is None or scoring.reverse_model is None:
        return None
    from regard.pipelines.dual_cross_entropy import DualScorer
    from regard.pipelines.translator import Translator

    forward, reverse = (
        Translator.load(path, device=runtime.device, backend="torch")
        for path in (scoring.forward_model, scoring.reverse_model)
    )
    keywords = stream_keywords(runtime, throughput, forward.models[0].device, notify)
    keywords["window"] = throughput.buffer_size  # also if standard input is a terminal
    return DualScorer(forward, reverse, keywords, languages)


def _scores(
    filtered: CorpusFilter,
    scoring: ScoreOptions,
    limits: ScoreFilterConfig,
    dual: DualScorer | None,
) -> Scores:
    """The scores of the pairs that passed the rules, computed or read."""
    from regard.data.alignment_scores import alignment_scores
    from regard.data.score_files import read_scores, write_scores

    if scoring.read_scores is not None:
        scores = read_scores(scoring.read_scores, filtered.pairs("reading scores"))
        if missing := [name for name in SCORE_NAMES if limits.uses(name) and name not in scores]:
            raise ConfigError(
                f"{scoring.read_scores} has no column {missing[0]!r}. Compute these scores, too, "
                "or leave out the filters that need them."
            )
        return scores
    scores = {} if dual is None else dual.scores(filtered.texts)
    if _needs_alignment(scoring, limits):
        scores["alignment"] = alignment_scores(filtered.texts("reading words"))
    if scoring.write_scores is not None:
        write_scores(scoring.write_scores, filtered.pairs("writing scores"), scores)
    return scores


def _summary(report: Report, scores: Scores) -> dict[str, Any]:
    """The result in JSON."""
    issues = [
        {
            "issue": issue,
            "count": count,
            "first_line": first,
            "examples": [
                {"line": line, "source": source, "target": target}
                for line, source, target in report.examples.get(issue, [])
            ],
        }
        for issue, (count, first) in report.issues.items()
    ]
    scored = [
        {"name": name, "percentiles": {str(q): value for q, value in values.items()}}
        for name, values in _percentiles(scores).items()
    ]
    return {"pairs": report.pairs, "kept": report.kept, "issues": issues, "scores": scored}


def _print_report(report: Report, scores: Scores) -> None:
    """Print what was filtered out, with an example of each filter, and percentiles of scores."""
    console.print(report_table(report, "pairs"))
    for issue, examples in report.examples.items():
        line, *sides = examples[0]
        source, target = (
            text if len(text) <= _EXAMPLE_LENGTH else f"{text[:_EXAMPLE_LENGTH]}..."
            for text in sides
        )
        notify(f"{issue}, line {line}: {source} | {target}")
    if percentiles := _percentiles(scores):
        columns = ["percentile", *(f"{q} %" for q in _PERCENTILES)]
        rows = [
            (name, *(f"{value:.3g}" for value in values.values()))
            for name, values in percentiles.items()
        ]
        console.print(table("", columns, rows))


def _percentiles(scores: Scores) -> Mapping[str, dict[int, float]]:
    """For each score, the value below which each share of the pairs is."""
    import numpy as np

    return {
        name: dict(zip(_PERCENTILES, np.percentile(values, _PERCENTILES).tolist(), strict=True))
        for name, values in scores.items()
        if len(values)
    }
