"""The part of `regard evaluate` that is about translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.given import given_settings, refuse_options
from regard.cli.results import OutputOptions
from regard.config import settings_of
from regard.decoding.config import Runtime, SearchConfig, SearchKeywords
from regard.errors import ConfigError
from regard.evaluation.options import TranslationsOptions

if TYPE_CHECKING:
    from regard.evaluation.analysis import LengthBucket, Sentence
    from regard.evaluation.report import Report
    from regard.evaluation.significance import Estimate
    from regard.evaluation.translations import EvaluatedSystems


def evaluate_translations(
    context: typer.Context,
    test: TranslationsOptions,
    models: Sequence[Path],
    search: SearchConfig,
    runtime: Runtime,
    output: OutputOptions,
) -> None:
    """Print the figures of each system, and keep translations."""
    if test.teacher and search.candidates == 1:
        raise ConfigError("A --teacher chooses among --candidates. Give a number of them, too.")
    _refuse_ignored(context, test, models, output)

    from regard.evaluation.translations import evaluated_systems
    from regard.progress import say

    keywords = SearchKeywords(**given_settings(context, SearchConfig))  # type: ignore[typeddict-item]
    tested = evaluated_systems(test, models, keywords, runtime, say)
    try:
        output.present(context, TranslationFindings(tested))
    finally:  # the figures and the file do not depend on each other
        tested.write_translations()


def _refuse_ignored(
    context: typer.Context,
    test: TranslationsOptions,
    models: Sequence[Path],
    output: OutputOptions,
) -> None:
    """Refuse options that have no effect beside the others."""
    shows_bleu = test.by_length or output.picture
    if test.metrics and "bleu" not in test.metrics.lower() and not shows_bleu:
        refuse_options(context, ["tokenize"], "no effect without BLEU. Leave it out.")
    if not test.against:
        refuse_options(context, ["resamples"], "no effect without --against.")
    if not models and not (test.against and test.against.is_dir()):
        names = {one.name for cls in (Runtime, SearchConfig) for one in settings_of(cls)}
        names |= {"teacher", "ensemble"}
        refuse_options(context, names, "no model translates here. Leave it out.")


@dataclass(frozen=True)
class TranslationFindings:
    """The figures of systems."""

    tested: EvaluatedSystems

    @cached_property
    def report(self) -> Report:
        """All figures."""
        return self.tested.report()

    @property
    def document(self) -> Mapping[str, Any]:
        """Mean and spread of several systems."""
        return {"summary": [*map(asdict, self.report.summary)]}

    def rows(self) -> list[dict[str, Any]]:
        """Each system; what was not asked for is an empty list."""
        return self.report.rows()

    def print_text(self) -> None:
        """The figures, and below them what else was asked for."""
        from regard.cli.screen import show, systems_table

        systems = self.report.systems
        if self.report.comparison:
            self._print_comparison()
        elif self.report.summary:
            show(systems_table([one.name for one in systems], [one.metrics for one in systems]))
            print()
            _print_signatures({metric.name: metric.signature for metric in systems[0].metrics})
        else:
            for result in systems[0].metrics:
                print(f"{result.name:6} {result.value:6.2f}   {result.signature}")
        if systems[0].by_length:
            names = [system.name for system in systems] if len(systems) > 1 else ["BLEU"]
            print()
            print_by_length(names, [system.by_length for system in systems])
        for system in systems:
            if system.worst:
                title = "The worst by chrF2" + (f", {system.name}" if len(systems) > 1 else "")
                _print_worst(title, system.worst)

    def _print_comparison(self) -> None:
        from regard.cli.screen import show, table
        from regard.evaluation.significance import verdict

        system, against = (measured.name for measured in self.report.systems)
        comparison = self.report.comparison
        rows = [
            [c.name, _interval(c.system), _interval(c.against), f"{c.p_value:.3f}"]
            for c in comparison
        ]
        show(table("", ["", system, against, "p"], rows))
        print(f"\n{verdict(comparison, system, against)}\n")
        _print_signatures({one.name: one.signature for one in comparison})

    def draw(self, picture: Path) -> bool:
        """BLEU by length and the scores of sentences, of all systems."""
        from regard import plots
        from regard.evaluation.analysis import by_length, sentence_scores

        how = self.tested.references, self.tested.counting
        texts = {system.name: system.translations for system in self.tested.systems}
        found = {name: by_length(lines, *how) for name, lines in texts.items()}
        return plots.quality(
            picture,
            lengths=[f"{one.words}\n({one.sentences:,})" for one in next(iter(found.values()))],
            bleu={name: [bucket.bleu for bucket in buckets] for name, buckets in found.items()},
            scores={name: sentence_scores(lines, *how) for name, lines in texts.items()},
        )


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({estimate.mean:.2f} ± {estimate.margin:.2f})"


def _print_signatures(signatures: Mapping[str, str]) -> None:
    for name, signature in signatures.items():
        print(f"{name:6} {signature}")


def print_by_length(names: Sequence[str], systems: Sequence[Sequence[LengthBucket]]) -> None:
    """A column for each system."""
    from regard.cli.screen import show, table

    rows = [
        [alike[0].words, alike[0].sentences, *(bucket.bleu for bucket in alike)]
        for alike in zip(*systems, strict=True)
    ]
    show(table("BLEU by length", ["words", "sentences", *names], rows))


def _print_worst(title: str, sentences: Sequence[Sentence]) -> None:
    """Three or more lines a sentence: translation and references stand below each other."""
    from regard.cli.screen import show, table

    rows: list[list[str]] = []
    for sentence in sentences:
        texts = [("source", sentence.source)] if sentence.source is not None else []
        texts += [("translation", sentence.translation)]
        texts += [("reference", reference) for reference in sentence.references]
        places = [[f"{sentence.line}", f"{sentence.score:.1f}"], *[["", ""]] * len(texts)]
        rows += [[*place, *text] for place, text in zip(places, texts, strict=False)]
    print()
    show(table(title, ["line", "chrF2", "", ""], rows))
