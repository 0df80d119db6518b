"""The grammar of documents: pronouns, contrastive examples, and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.data.demo.english_french_documents import (
    THINGS,
    DocumentCorpus,
    document_corpus,
    write_document_corpus,
)
from regard.evaluation.contrastive import read_contrastive


@pytest.fixture(scope="module")
def corpus() -> DocumentCorpus:
    return document_corpus(train=2000, valid=100, contrastive=60)


def test_same_seed_gives_the_same_documents(corpus: DocumentCorpus) -> None:
    assert document_corpus(train=2000, valid=100, contrastive=60) == corpus
    assert document_corpus(seed=2, train=10, valid=5, contrastive=5).train != corpus.train[:10]


def test_every_pronoun_has_the_gender_of_the_thing(corpus: DocumentCorpus) -> None:
    genders = {noun.english[0]: noun.feminine for noun in THINGS}
    assert {*genders.values()} == {True, False}
    for first, *others in corpus.train:
        words = first[0].removesuffix(".").lower().split()
        [feminine] = {genders[word] for word in words if word in genders}
        for english, french in others:
            assert "it" in english.removesuffix(".").lower().split()
            french = french.lower()
            if english.startswith("It "):
                assert french.startswith("elle " if feminine else "il ")
            elif " l'" not in french:
                assert f" {'la' if feminine else 'le'} " in french


def test_source_without_context_is_ambiguous(corpus: DocumentCorpus) -> None:
    """Each sentence occurs twice: what is correct in one context is wrong in the other."""
    for first, second in zip(corpus.contrastive[::2], corpus.contrastive[1::2], strict=True):
        assert first.source == second.source
        assert (first.correct, first.wrong) == (second.wrong, second.correct)
        assert first.correct != first.wrong
        for before, other in zip(first.context[1:], second.context[1:], strict=True):
            assert before[0] == other[0]
            assert before[1] != other[1]
    assert {len(each.context) for each in corpus.contrastive} == {1, 2}


def test_contrastive_documents_are_held_out(corpus: DocumentCorpus) -> None:
    trained = {document[:2] for document in corpus.train}
    assert len({*corpus.train}) == len(corpus.train)
    assert trained.isdisjoint(document[:2] for document in corpus.valid)
    for each in corpus.contrastive:
        assert (*each.context, (each.source, each.correct))[:2] not in trained


def test_files(corpus: DocumentCorpus, tmp_path: Path) -> None:
    write_document_corpus(corpus, tmp_path)
    sources, targets = ((tmp_path / f"train.{lang}").read_text() for lang in ("en", "fr"))
    assert len(sources.split("\n\n")) == len(targets.split("\n\n")) == len(corpus.train)
    assert sources.split("\n")[:2] == [source for source, _ in corpus.train[0][:2]]
    examples = read_contrastive(tmp_path / "contrastive.jsonl")
    assert [example.correct for example in examples] == [e.correct for e in corpus.contrastive]
    assert examples[0].category == "distance 1"
    assert examples[2].target_context == tuple(fr for _, fr in corpus.contrastive[2].context)
    row = json.loads((tmp_path / "contrastive.jsonl").read_text().split("\n")[0])
    assert row["wrong"] == [corpus.contrastive[0].wrong]
