"""The evaluation report of translation systems on one test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.evaluation.analysis import LengthBucket, Sentence, bleu_by_length, worst_sentences
from regard.evaluation.metrics import MetricConfig, MetricResult, References, evaluate
from regard.evaluation.options import TranslationsOptions
from regard.evaluation.significance import Comparison, compare
from regard.evaluation.summary import MetricSummary, summarize
from regard.files import write_text


@dataclass(frozen=True)
class System:
    """The translations of a test set by a model, or from a file."""

    name: str
    translations: Sequence[str]
    rerank_weights: Sequence[float] = ()  # if they were tuned


@dataclass(frozen=True)
class SystemResult:
    """The metrics of a system; analyses that were not requested are empty."""

    name: str
    metrics: list[MetricResult]
    by_length: list[LengthBucket]
    worst: list[Sentence]
    rerank_weights: list[float]


@dataclass(frozen=True)
class Report:
    """Results of all systems, and a summary of several or a significance test of two."""

    systems: list[SystemResult]
    summary: list[MetricSummary]
    comparison: list[Comparison]

    def rows(self) -> list[dict[str, Any]]:
        """Return a result for each system; the first one includes the comparison."""
        comparisons = [self.comparison, *([] for _ in self.systems[1:])]
        return [
            {**asdict(system), "comparison": [*map(asdict, comparison)]}
            for system, comparison in zip(self.systems, comparisons, strict=True)
        ]


@dataclass(frozen=True)
class EvaluatedSystems:
    """The translations of a test set by all systems, and the settings of their evaluation."""

    test: TranslationsOptions
    systems: Sequence[System]  # the baseline (`against`) is last
    references: References
    sources: Sequence[str] | None
    metric_config: MetricConfig

    def report(self) -> Report:
        """Compute the metrics and the requested analyses."""
        test, references, config = self.test, self.references, self.metric_config
        results = [
            SystemResult(
                system.name,
                evaluate(system.translations, references, config),
                bleu_by_length(system.translations, references, config) if test.by_length else [],
                worst_sentences(
                    system.translations, references, config, count=test.worst, sources=self.sources
                ),
                [*system.rerank_weights],
            )
            for system in self.systems
        ]
        if test.against is None:
            return Report(results, summarize([system.metrics for system in results]), [])
        system, against = (system.translations for system in self.systems)
        comparison = compare(system, against, references, config, resamples=test.resamples)
        return Report(results, [], comparison)

    def write_translations(self) -> None:
        """Write the translations of the model to --out, if set."""
        if self.test.out:
            write_text(self.test.out, "".join(f"{text}\n" for text in self.systems[0].translations))
