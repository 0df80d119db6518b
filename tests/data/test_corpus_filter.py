"""Filters of a corpus: rules, languages and scores together, and the files they write."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from data.corpora import some_pairs, write_pairs
from regard.data.corpus_filter import CorpusFilter
from regard.data.filters import CorpusFilterConfig
from regard.data.pair_files import Files
from regard.data.score_filter import ScoreFilterConfig
from regard.errors import DataError

PAIRS = [
    ("The dog runs along the beach.", "Der Hund läuft am Strand entlang."),
    ("A cat", "Eine Katze"),
    ("A cat", "Eine Katze"),
    ("Le chien court le long de la plage.", "Der Hund läuft am Strand entlang."),
    ("", "Ein Haus"),
    ("A house", "Ein Haus"),
    ("A tree", "Ein Baum"),
]
KEPT = [0, 1, 5, 6]  # by rules and languages
RULES = CorpusFilterConfig(min_lang_prob=0.1)


def new_filter(folder: Path) -> CorpusFilter:
    return CorpusFilter(write_pairs(folder, "text", PAIRS), RULES, ("en", "de"))


def test_pairs_are_those_that_pass_rules_and_languages(tmp_path: Path) -> None:
    corpus = new_filter(tmp_path)
    for _ in range(2):  # can be read again
        assert [*corpus.texts("reading")] == [PAIRS[index] for index in KEPT]
    assert [pair.line for pair in corpus.pairs("reading")] == [index + 1 for index in KEPT]
    assert (corpus.report.pairs, corpus.report.kept) == (7, 4)
    assert corpus.report.issues == {
        "duplicate: skipped": (1, 3),
        "source is not in en: skipped": (1, 4),
        "empty: skipped": (1, 5),
    }
    assert corpus.report.examples["duplicate: skipped"] == [(3, *PAIRS[2])]


def test_pairs_count_for_the_first_filter_that_they_fail(tmp_path: Path) -> None:
    corpus = new_filter(tmp_path)
    scores = {"dual": np.array([0.9, 0.1, 0.2, 0.8]), "alignment": np.array([-1.0, -9, -2, -8])}
    corpus.apply_scores(scores, ScoreFilterConfig(min_dual=0.15, min_alignment=-5))
    assert corpus.kept.tolist() == [True, False, True, False]
    assert corpus.report.kept == 2
    assert {**corpus.report.issues} == {
        "duplicate: skipped": (1, 3),
        "source is not in en: skipped": (1, 4),
        "empty: skipped": (1, 5),
        "dual cross-entropy score below 0.15: skipped": (1, 2),
        "alignment score below -5: skipped": (1, 7),
    }
    assert sum(count for count, _ in corpus.report.issues.values()) == 7 - corpus.report.kept


def test_pairs_that_are_left_are_written(tmp_path: Path) -> None:
    corpus = new_filter(tmp_path)
    corpus.apply_scores({"dual": np.array([1, 0, 1, 1.0])}, ScoreFilterConfig(min_dual=0.5))
    out = tmp_path / "out.en", tmp_path / "out.de"
    corpus.write(*out)
    for path, side in zip(out, (0, 1), strict=True):
        lines = [PAIRS[index][side] for index in (0, 5, 6)]
        assert path.read_text(encoding="utf-8") == "".join(f"{line}\n" for line in lines)
    # All pairs that were written pass the filters again.
    assert len([*CorpusFilter(Files(*out), RULES, ("en", "de")).pairs("again")]) == 3


def test_gzip_files_and_examples_of_frequent_issues(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, "text", some_pairs(10) * 5)
    for path in (files.source, files.target):
        path.write_bytes(gzip.compress(path.read_bytes()))
    report = CorpusFilter(files, CorpusFilterConfig()).report
    assert report.issues == {"duplicate: skipped": (40, 11)}
    assert [line for line, *_ in report.examples["duplicate: skipped"]] == [11, 12, 13]


def test_progress_counts_lines(tmp_path: Path) -> None:
    progress: list[tuple[str, int]] = []
    files = write_pairs(tmp_path, "text", PAIRS)
    corpus = CorpusFilter(files, RULES, progress=lambda *update: progress.append(update))
    assert {task for task, _ in progress} == {"reading"}
    assert progress[-1][1] == 7
    assert [*corpus.pairs("again")]
    assert progress[-1] == ("again", 7)


def test_unusable_corpora_are_refused(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, "text", PAIRS[:2])
    files.source.write_text("a\nb\nc\n")
    empty = write_pairs(tmp_path, "empty", [("", "a"), ("b", "")])
    with pytest.raises(DataError, match="from line 3 on"):
        CorpusFilter(files, RULES)
    with pytest.raises(DataError, match="none of the 2 pairs is left; empty: skipped: 2"):
        CorpusFilter(empty, RULES)
