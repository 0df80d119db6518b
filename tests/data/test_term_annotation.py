"""Annotated training sources: strip to the originals, keyed by pair, and only in training."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from annotated import letter_pairs, prepare_annotated
from cli.commands import Command
from cli.commands import regard as command
from data.corpora import prepare_pairs, texts_of, write_pairs
from regard.config import build
from regard.data.directions import Direction
from regard.data.file_options import DirectionsFile, ParallelFiles
from regard.data.filters import CorpusFilterConfig
from regard.data.pair_files import PairReader
from regard.data.store import Store
from regard.data.term_annotation import TermAnnotation
from regard.data.term_annotation_config import TermAnnotationConfig
from regard.errors import ConfigError, DataError
from regard.text.term_marks import strip_annotations

__all__ = ["command"]  # a fixture

TERM = re.compile(r"<term> (\w+(?: \w+)*)<trans> (\w+(?: \w+)*)</term>")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_sources_strip_to_the_originals(tmp_path: Path, kind: str) -> None:
    pairs, valid = letter_pairs(), letter_pairs(20, seed=8)
    prepare_annotated(tmp_path / "out", pairs, valid, annotate_terms=0.5, tokenizer={"kind": kind})
    store = Store(tmp_path / "out")
    annotated = texts_of(store)
    assert [(strip_annotations(source), target) for source, target in annotated] == pairs
    count = sum(
        source != original for (source, _), (original, _) in zip(annotated, pairs, strict=True)
    )
    assert 0.35 < count / len(pairs) < 0.65
    assert store.description["parts"]["train"]["annotated_terms"] == count / len(pairs)
    assert texts_of(store, "valid") == valid
    assert "annotated_terms" not in store.description["parts"]["valid"]
    terms = [term for source, _ in annotated for term in TERM.findall(source)]
    assert {len(source.split()) for source, _ in terms} == {1, 2, 3, 4}
    right = [" ".join(f"{letter}z" for letter in source.split()) for source, _ in terms]
    wrong = sum(word != target for word, (_, target) in zip(right, terms, strict=True))
    assert wrong < 0.05 * len(terms)
    numbers = {len(TERM.findall(source)) for source, _ in annotated}
    assert numbers == {0, 1, 2, 3}


def test_annotation_is_reproducible_and_keyed_by_pair(tmp_path: Path) -> None:
    pairs = letter_pairs()
    for name in ("a", "b"):
        prepare_annotated(tmp_path / name, pairs, annotate_terms=0.5)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    prepare_annotated(tmp_path / "c", pairs, annotate_terms=0.8)
    few, many = (texts_of(Store(tmp_path / name)) for name in ("a", "c"))
    sources = [source for source, _ in pairs]
    for original, (less, _), (more, _) in zip(sources, few, many, strict=True):
        assert less in (original, more)


def test_stores_without_annotation_are_unchanged(tmp_path: Path) -> None:
    pairs = letter_pairs(60)
    prepare_annotated(tmp_path / "a", pairs, annotate_terms=0.0)
    prepare_pairs(tmp_path / "b", pairs, vocab_size=310)
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert {**a, "store.json": b""} == {**b, "store.json": b""}
    assert b"term" not in contents(tmp_path / "a")["store.json"]


def test_pairs_with_marks_are_filtered_out(tmp_path: Path) -> None:
    pairs = letter_pairs(60)
    marked = [("a <term> b", "az bz"), ("a b", "az </TERM>"), ("a＜trans＞b", "az bz")]
    result = prepare_annotated(
        tmp_path / "out", [*pairs, *marked], [*marked, *pairs[:1]], annotate_terms=1
    )
    store = Store(tmp_path / "out")
    assert [strip_annotations(source) for source, _ in texts_of(store)] == [p[0] for p in pairs]
    assert texts_of(store, "valid") == pairs[:1]
    issue = "contains a mark of annotated terms: skipped"
    assert result.reports["train"][0].issues[issue] == (3, len(pairs) + 1)
    assert result.reports["valid"][0].issues[issue] == (3, 1)


def test_sources_that_would_be_too_long_are_not_annotated(tmp_path: Path) -> None:
    pairs = letter_pairs(60)
    filters = CorpusFilterConfig(max_tokens=16)
    prepare_annotated(
        tmp_path / "out", pairs, annotate_terms=1, filters=filters, tokenizer={"kind": "char"}
    )
    texts = [source for source, _ in texts_of(Store(tmp_path / "out"))]
    kept = [p[0] for p in pairs if len(p[1]) <= 15]
    assert [*map(strip_annotations, texts)] == kept
    assert 0 < sum("<term>" in text for text in texts) < len(texts)


def test_terms_of_a_glossary(tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("dog\tHund|Hunde\nhot dog\tHotdog\n")
    pairs = [("a hot dog", "ein Hotdog"), ("the Dog", "die Hunde"), ("the dog", "die Katze")]
    prepare_annotated(tmp_path / "out", pairs, annotate_terms=1, glossary=glossary)
    assert [source for source, _ in texts_of(Store(tmp_path / "out"))] == [
        "a<term> hot dog<trans> Hotdog</term>",
        "the<term> Dog<trans> Hund</term>",
        "the dog",
    ]


def test_directions_are_aligned_separately() -> None:
    annotation = TermAnnotation(TermAnnotationConfig(annotate_terms=1))
    forward, backward = Direction("x", "y"), Direction("y", "x")
    for source, target in letter_pairs():
        annotation.add(forward, source, target)
        annotation.add(backward, target, source)
    for source, target in letter_pairs():
        for direction, first, second in (
            (forward, source, target),
            (backward, target, source),
        ):
            annotated = annotation.annotated(direction, first, second)
            assert strip_annotations(annotated) == first
            assert all(word in second for _, word in TERM.findall(annotated))


def test_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="glossary has no effect without --annotate-terms"):
        TermAnnotationConfig(glossary=tmp_path / "x")
    for cls, options in (
        (ParallelFiles, {"source": ["a"], "target": ["b"]}),
        (DirectionsFile, {"corpora": "c"}),
    ):
        with pytest.raises(ConfigError, match="glossary has no effect without --annotate-terms"):
            build(cls, {**options, "glossary": "terms.tsv"})
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("dog\t<term>\n")
    with pytest.raises(DataError, match="has the term '<term>', but <term>, <trans>, </term> mark"):
        TermAnnotation(TermAnnotationConfig(0.5, glossary))
    assert TermAnnotation.of(TermAnnotationConfig()) is None
    with pytest.raises(ConfigError, match="Use --tokenizer unigram, bpe or char"):
        prepare_annotated(
            tmp_path / "out", letter_pairs(), annotate_terms=1, tokenizer={"kind": "word"}
        )


def test_command(command: Command, tmp_path: Path) -> None:
    files = write_pairs(tmp_path, "train", letter_pairs())
    given = ["--source", files.source, "--target", files.target]
    out, plain = tmp_path / "out", tmp_path / "plain"
    annotate = ["--annotate-terms", "0.5", "--out"]
    errors = command("prepare", *given, "--vocab-size", "310", *annotate, out).err
    share = Store(out).description["parts"]["train"]["annotated_terms"]
    assert f"{share:.1%} of the training pairs have annotated terms." in errors
    errors = command("prepare", *given, *annotate, tmp_path / "a", "--tokenizer-from", out).err
    assert "no token" not in errors
    command("prepare", *given, "--vocab-size", "310", "--out", plain)
    errors = command("prepare", *given, *annotate, tmp_path / "b", "--tokenizer-from", plain).err
    assert f"The tokenizer of {plain} has no token <term>: it is split into subwords." in errors
    assert texts_of(Store(tmp_path / "b")) == texts_of(Store(out))


def test_the_reader_without_annotation_has_no_marks(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, "train", letter_pairs(10))
    reader = PairReader({"train": [files]}, CorpusFilterConfig())
    assert reader.marks == ()
