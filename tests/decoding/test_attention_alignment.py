"""A view of attention is where that head looks most, the same in every batch and for every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from data.test_aligner import rows
from regard.attention.multihead import AttentionRecord
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.decoding.attention_maps import Gaze, View, all_views
from regard.errors import ConfigError
from toys import sentences, some_model

KINDS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "recurrent": {"kind": "recurrent"},
    "convolutional": {"kind": "convolutional"},
}


@pytest.mark.parametrize("form", KINDS.values(), ids=KINDS)
def test_a_view_is_where_its_head_looks_most(form: dict[str, Any]) -> None:
    model = some_model(**form)
    source, target = sentences(7), sentences(7, seed=1)
    found = list(all_views(model, rows(source), rows(target)))
    for one, s, t in zip(found, source, target, strict=True):
        record = AttentionRecord()
        model(Batch(with_ends([s]), with_ends([t])), record)
        for view in one.views:
            heads = record.cross[view.layer][0]  # (H, T, S), end marks at both ends
            weights = heads.mean(0) if view.head is None else heads[view.head]
            weights = weights[int(view.reads) : int(view.reads) + len(t), : len(s)]
            forward, backward = one.through(view)
            np.testing.assert_array_equal(forward, weights.argmax(1))
            np.testing.assert_array_equal(backward, weights.argmax(0))


def test_there_is_a_view_for_each_head_and_their_mean() -> None:
    [seen] = all_views(some_model(), rows(sentences(1)), rows(sentences(1)))
    assert len(seen.views) == 2 * 2 * (4 + 1)  # written or read, layers, heads
    assert str(seen.views[0]) == "layer 1, head 1, as a word is written"
    assert str(seen.views[-1]) == "layer 2, all heads, as a word is read"


def test_a_gaze_is_one_view_of_all_pairs_in_their_order() -> None:
    model, view = some_model(), View(reads=True, layer=1, head=2)
    source, target = rows([*sentences(5), [], [4]]), rows([*sentences(5, seed=1), [4], []])
    seen = [one.through(view) for one in all_views(model, source, target)]
    for (forward, backward), expected in zip(
        Gaze(model, view).heads(source, target), seen, strict=True
    ):
        np.testing.assert_array_equal(forward, expected[0])
        np.testing.assert_array_equal(backward, expected[1])
    assert [forward.tolist() for forward, _ in seen[5:]] == [[-1], []]
    assert [backward.tolist() for _, backward in seen[5:]] == [[], [-1]]


def test_a_model_that_looks_nowhere_has_no_views() -> None:
    model = some_model(kind="recurrent", memory="none")
    with pytest.raises(ConfigError, match="does not look at its source"):
        list(all_views(model, rows([[4]]), rows([[5]])))
