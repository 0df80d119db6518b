"""Attention alignments are the argmax of a head's weights, in any batch and for any model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from data.test_aligner import rows
from regard.attention.multihead import AttentionRecorder
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.decoding.attention_maps import AlignmentHead, AttentionAligner, align_by_all_heads
from regard.errors import ConfigError
from toys import autoregressive_model, sentences

KINDS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "recurrent": {"kind": "recurrent"},
    "convolutional": {"kind": "convolutional"},
}


@pytest.mark.parametrize("variant", KINDS.values(), ids=KINDS)
def test_alignment_is_the_argmax_of_attention(variant: dict[str, Any]) -> None:
    model = autoregressive_model(**variant)
    source, target = sentences(7), sentences(7, seed=1)
    alignments = list(align_by_all_heads(model, rows(source), rows(target)))
    for pair, s, t in zip(alignments, source, target, strict=True):
        recorder = AttentionRecorder()
        model(Batch(with_eos([s]), with_eos([t])), recorder)
        for head in pair.heads:
            layer = recorder.cross[head.layer][0]  # (H, T, S), EOS included
            weights = layer.mean(0) if head.head is None else layer[head.head]
            weights = weights[int(head.shift) : int(head.shift) + len(t), : len(s)]
            forward, backward = pair.by_head(head)
            np.testing.assert_array_equal(forward, weights.argmax(1))
            np.testing.assert_array_equal(backward, weights.argmax(0))


def test_heads_and_their_mean_are_listed() -> None:
    [pair] = align_by_all_heads(autoregressive_model(), rows(sentences(1)), rows(sentences(1)))
    assert len(pair.heads) == 2 * 2 * (4 + 1)  # NAIVE-ATT or SHIFT-ATT, layers, heads
    assert str(pair.heads[0]) == "layer 1, head 1, NAIVE-ATT"
    assert str(pair.heads[-1]) == "layer 2, all heads, SHIFT-ATT"


def test_aligner_uses_one_head_for_all_pairs() -> None:
    model, head = autoregressive_model(), AlignmentHead(shift=True, layer=1, head=2)
    source, target = rows([*sentences(5), [], [4]]), rows([*sentences(5, seed=1), [4], []])
    alignments = [pair.by_head(head) for pair in align_by_all_heads(model, source, target)]
    for (forward, backward), expected in zip(
        AttentionAligner(model, head).align(source, target), alignments, strict=True
    ):
        np.testing.assert_array_equal(forward, expected[0])
        np.testing.assert_array_equal(backward, expected[1])
    assert [forward.tolist() for forward, _ in alignments[5:]] == [[-1], []]
    assert [backward.tolist() for _, backward in alignments[5:]] == [[], [-1]]


def test_model_without_cross_attention_is_refused() -> None:
    model = autoregressive_model(kind="recurrent", cross_attention="none")
    with pytest.raises(ConfigError, match="has no cross-attention"):
        list(align_by_all_heads(model, rows([[4]]), rows([[5]])))
