"""Context of examples: which sentences, and how many fit."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import build
from regard.data.document_context import (
    SEPARATOR,
    ContextOptions,
    DocumentContext,
    context_ids,
    with_previous,
)
from regard.errors import ConfigError

SENTENCES = st.lists(st.lists(st.integers(4, 9), max_size=5), max_size=5)


@given(SENTENCES, st.integers(0, 40))
def test_context_is_the_nearest_sentences_that_fit(previous: list[list[int]], limit: int) -> None:
    ids = context_ids(previous, limit)
    assert len(ids) <= limit
    ends = [place for place, token in enumerate(ids) if token == SEPARATOR]
    kept = len(ends)
    assert ids == context_ids(previous[len(previous) - kept :], 1000)
    assert not ids or ids[-1] == SEPARATOR
    if kept < len(previous):
        assert len(ids) + len(previous[-kept - 1]) + 1 > limit


def test_no_room_means_no_context() -> None:
    assert context_ids([[5, 6]], -3) == context_ids([[5, 6]], 2) == context_ids([], 9) == []
    assert context_ids([[7], [5, 6]], 3) == [5, 6, SEPARATOR]


@given(st.lists(st.sampled_from(["a", "b", "", "  "]), max_size=20), st.integers(0, 3))
def test_previous_texts_are_those_of_the_same_document(texts: list[str], size: int) -> None:
    results = [*with_previous(texts, size, str)]
    assert [text for text, _ in results] == texts
    expected: list[tuple[str, ...]] = []
    for is_blank, document in groupby(texts, lambda text: not text.strip()):
        lines = [*document]
        expected += [
            () if is_blank or not size else tuple(lines[max(0, number - size) : number])
            for number in range(len(lines))
        ]
    assert [previous for _, previous in results] == expected


def test_settings() -> None:
    assert ContextOptions(2, 1).document_context == DocumentContext(2, 1)
    assert DocumentContext(2, 1).size == DocumentContext(0, 2).size == 2
    assert DocumentContext(2, 1, 30).within(20) == DocumentContext(2, 1, 19)
    assert DocumentContext(2, 1, 30).within(None).within(31) == DocumentContext(2, 1, 30)
    assert str(DocumentContext(2, 1)) == "2 source and 1 target sentences"
    with pytest.raises(ConfigError, match="source is -1, but must be at least 0"):
        build(DocumentContext, {"source": -1})
