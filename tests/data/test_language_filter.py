"""The filter of pairs in other languages: reasons, passes, and `prepare`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import Command, regard
from data.corpora import texts_of, write_pairs
from regard.data.file_options import select_files
from regard.data.filters import CorpusFilterConfig, Report
from regard.data.language_filter import LanguageFilter
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.errors import ConfigError
from regard.text import language_id
from regard.text.config import TokenizerConfig

__all__ = ["regard"]  # a fixture

ENGLISH, GERMAN = "The dog runs along the beach.", "Der Hund läuft am Strand entlang."
FRENCH = "Le chien court le long de la plage."
PAIRS = [
    (ENGLISH, GERMAN),
    (FRENCH, GERMAN),
    (ENGLISH, FRENCH),
    (FRENCH, ENGLISH),
    ("Tom", "Tom!"),
    ("12:30", "12.30"),
    (GERMAN, ENGLISH),
]
ENGLISH_GERMAN = ("en", "de")


@pytest.mark.parametrize(
    ("languages", "reasons"),
    [
        (("en", "de"), {2: "source", 3: "target", 4: "source", 7: "source"}),
        (("en", None), {2: "source", 4: "source", 7: "source"}),
        ((None, "de"), {3: "target", 4: "target", 7: "target"}),
        ((None, None), {}),
    ],
)
def test_sides_in_other_languages_are_rejected(
    languages: tuple[str | None, str | None], reasons: dict[int, str]
) -> None:
    report = Report()
    pairs = [(line, *pair) for line, pair in enumerate(PAIRS, 1)]
    kept = LanguageFilter(languages, 0.1).filter(pairs, report)
    assert [line for line, *_ in kept] == [line for line, *_ in pairs if line not in reasons]
    counts: dict[str, tuple[int, int]] = {}
    for line, side in reasons.items():
        issue = f"{side} is not in {languages[side == 'target']}: skipped"
        count, first = counts.get(issue, (0, line))
        counts[issue] = count + 1, first
    assert report.issues == counts


def test_later_passes_repeat_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    language_filter, reports = LanguageFilter(ENGLISH_GERMAN, 0.1), [Report(), Report()]
    pairs = [(line, *pair) for line, pair in enumerate(PAIRS, 1)]
    first = [*language_filter.filter(pairs, reports[0])]
    monkeypatch.setattr(language_id.LanguageVerifier, "probability", None)  # must not be called
    assert [*language_filter.filter(pairs, reports[1])] == first
    assert reports[0] == reports[1]


def test_an_interrupted_pass_is_not_remembered() -> None:
    language_filter = LanguageFilter(ENGLISH_GERMAN, 0.1)
    next(iter(language_filter.filter([(1, *PAIRS[0])], Report())))
    assert [*language_filter.filter([(1, *PAIRS[1])], Report())] == []


def test_stores_have_no_pairs_in_other_languages(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, "train", PAIRS)
    valid = write_pairs(tmp_path, "valid", [(GERMAN, ENGLISH)])
    reader = PairReader(
        {"train": [files], "valid": [valid]},
        CorpusFilterConfig(min_lang_prob=0.1),
        ENGLISH_GERMAN,
    )
    result = prepare(reader, tmp_path / "out", tokenizer=TokenizerConfig(vocab_size=300))
    store = Store(tmp_path / "out")
    assert texts_of(store) == [PAIRS[index] for index in (0, 4, 5)]
    assert texts_of(store, "valid") == [(GERMAN, ENGLISH)]  # only length limits apply
    issues = {"source is not in en: skipped": (3, 2), "target is not in de: skipped": (1, 3)}
    assert result.reports["train"][0].issues == issues


def test_command_reports_other_languages(tmp_path: Path, regard: Command) -> None:
    files = write_pairs(tmp_path, "train", PAIRS)
    result = regard(
        *["prepare", "--source", files.source, "--target", files.target, "--vocab-size", "300"],
        *["--source-lang", "en", "--target-lang", "de", "--min-lang-prob", "0.1"],
        *["--out", tmp_path / "out"],
    )
    assert result.status == 0, result.err
    assert "source is not in en: skipped" in result.err
    assert len(Store(tmp_path / "out").part("train")) == 3


def test_filter_needs_a_language() -> None:
    options = {"min_lang_prob": 0.1, "source": (Path("a"),), "target": (Path("b"),)}
    with pytest.raises(ConfigError, match="--min-lang-prob requires --source-lang or --target-l"):
        select_files(options)


def test_unsupported_languages_are_refused_before_reading(tmp_path: Path) -> None:
    missing = Files(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ConfigError, match="The language 'xx' cannot be identified"):
        PairReader({"train": [missing]}, CorpusFilterConfig(min_lang_prob=0.1), ("en", "xx"))
