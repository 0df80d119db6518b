"""Filters of one parallel corpus, by rules, languages and scores; the result is text again.

The corpus is read several times, because it may not fit into memory: once to apply the rules, once
by each scorer, and once to write the pairs that are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.data.filters import CorpusFilterConfig, Report
from regard.data.pair_files import Files, Pair, PairReader
from regard.data.prepare import Progress
from regard.data.score_filter import ScoreFilterConfig, Scores, rejected_by_score
from regard.errors import DataError
from regard.files import atomic_file

_PART = "train"  # all filters apply to it


class CorpusFilter:
    """Filters of one corpus; `report` counts what they filter out."""

    def __init__(
        self,
        files: Files,
        config: CorpusFilterConfig,
        languages: tuple[str | None, str | None] = (None, None),
        progress: Progress = lambda task, lines: None,
    ) -> None:
        """Read the corpus and apply the rules and the language filter."""
        self._files, self._progress = files, progress
        self._reader = PairReader({_PART: [files]}, config, languages)
        self.report = Report()
        self.kept = np.ones(sum(1 for _ in self._read("reading", self.report)), bool)
        self.report.kept = len(self.kept)
        if problem := self._reader.problem(files, self.report):
            raise DataError(problem)

    def pairs(self, task: str) -> Iterator[Pair]:
        """The pairs that pass rules and languages; `task` is shown with the progress."""
        return self._read(task, Report())

    def texts(self, task: str) -> Iterator[tuple[str, str]]:
        """The source and target of `pairs`."""
        return ((pair.source, pair.target) for pair in self.pairs(task))

    def _read(self, task: str, report: Report) -> Iterator[Pair]:
        self._reader.start(_PART)
        for pair in self._reader.examples(_PART, self._files, report):
            self._progress(task, pair.line)
            yield pair

    def apply_scores(self, scores: Scores, config: ScoreFilterConfig) -> None:
        """Filter out pairs by their scores; a pair is counted by the first filter it fails."""
        rejected = [*rejected_by_score(scores, config)]
        for _, mask in rejected:
            self.kept &= ~mask
        for index, pair in enumerate(self.pairs("filtering") if rejected else ()):
            if not self.kept[index]:
                reason = next(reason for reason, mask in rejected if mask[index])
                self.report.note(f"{reason}: skipped", pair.line, (pair.source, pair.target))
        self.report.kept = int(self.kept.sum())

    def write(self, source: Path, target: Path) -> None:
        """Write the pairs that are left to two files."""
        with (
            atomic_file(source) as first,
            atomic_file(target) as second,
            first.open("w", encoding="utf-8") as sources,
            second.open("w", encoding="utf-8") as targets,
        ):
            for pair, is_kept in zip(self.pairs("writing"), self.kept, strict=True):
                if is_kept:
                    sources.write(f"{pair.source}\n")
                    targets.write(f"{pair.target}\n")
