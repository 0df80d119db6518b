"""Aligners of translations: by the attention of a selected head, or by occlusion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from data.test_aligner import rows
from regard.backends.aligners import (
    CrossAttentionAligner,
    OcclusionAligner,
    PairAligner,
    make_aligner,
    select_head,
)
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.store import Store
from regard.decoding.attention_maps import AlignmentHead, align_by_all_heads
from regard.models.base import AutoregressiveModel
from regard.text.special import SPECIAL
from toys import (
    autoregressive_model,
    nonautoregressive_model,
    run,
    sentences,
    some_run,
    write_model_folder,
)

HEADS = [AlignmentHead(False, 0, None), AlignmentHead(True, 0, 0)]
PAIRS = [*zip([*sentences(6), [], [5]], [*sentences(6, seed=1), [5], []], strict=True)]


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("head", HEADS, ids=str)
def test_attention_is_that_of_the_head(kind: str, head: AlignmentHead) -> None:
    model = autoregressive_model(kind=kind)
    sources, targets = (rows([*side]) for side in zip(*PAIRS, strict=True))
    expected = [
        pair.by_head(head)[0].tolist() for pair in align_by_all_heads(model, sources, targets)
    ]
    expected[6] = []  # without a source, nothing is aligned
    assert CrossAttentionAligner(model, head).align(PAIRS) == expected


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "unilm"])
def test_occlusion_finds_the_token_that_a_probability_depends_on_most(kind: str) -> None:
    model = autoregressive_model(kind=kind)
    source, target = [5, 6, 7, 8], [9, 10, 11]
    rows = []
    for place in range(4):
        occluded = [SPECIAL.unk if i == place else token for i, token in enumerate(source)]
        with torch.inference_mode():
            predictions = model(Batch(with_eos([occluded]), with_eos([target])))
            log_probs = predictions.project(predictions.hidden).log_softmax(-1)
        rows.append([float(log_probs[j, token]) for j, token in enumerate(target)])
    expected = [min(range(4), key=lambda place: rows[place][j]) for j in range(3)]
    assert OcclusionAligner(model).align([(source, target), ([], target)]) == [expected, []]


def test_models_without_cross_attention_align_by_occlusion(reversal_store: Store) -> None:
    tokenizer = reversal_store.tokenizers.source
    for model in (
        autoregressive_model(kind="recurrent", cross_attention="none"),
        autoregressive_model(kind="unilm"),
    ):
        assert isinstance(make_aligner(model, tokenizer), OcclusionAligner)
    assert make_aligner(nonautoregressive_model(), tokenizer) is None


@pytest.mark.parametrize(
    "model", [{}, {"kind": "recurrent", "cross_attention": "none"}], ids=["attention", "occlusion"]
)
def test_a_model_that_reverses_words_aligns_them_in_reverse(
    model: dict[str, Any], reversal_store: Store, tmp_path: Path
) -> None:
    steps = {"max_steps": 250, "checkpoint_every": 250}
    run(
        some_run(tmp_path / "run", reversal_store, {**model, "dropout": 0.0}, **steps),
        reversal_store,
    )
    translator = regard.load(tmp_path / "run", backend="torch", device="cpu")
    [trained] = translator.models
    aligner = make_aligner(trained, translator.text.tokenizers.source)
    assert aligner is not None
    others: list[PairAligner] = [OcclusionAligner(trained)]
    if not model:
        heads = [AlignmentHead(shift, 0, head) for shift in (False, True) for head in (None, 0, 1)]
        others = [CrossAttentionAligner(trained, head) for head in heads]
    best = max(_accuracy(other, translator) for other in others)
    assert _accuracy(aligner, translator) >= best - 0.2


def _accuracy(aligner: PairAligner, translator: Any) -> float:
    """The fraction of tokens that are aligned to their mirror image."""
    tokenizer = translator.text.tokenizers.source
    lines = ["a b c d e", "f c a", "j i h g"]
    pairs = [(tokenizer.encode(line), tokenizer.encode(line[::-1])) for line in lines]
    hits = [
        position == len(source) - 1 - place
        for (source, _), alignment in zip(pairs, aligner.align(pairs), strict=True)
        for place, position in enumerate(alignment)
    ]
    return sum(hits) / len(hits)


def test_selection_is_deterministic(reversal_store: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path, reversal_store)
    translator = regard.load(folder, backend="torch", device="cpu")
    model, tokenizer = translator.models[0], translator.text.tokenizers.source
    assert isinstance(model, AutoregressiveModel)
    head = select_head(model, tokenizer)
    assert head is not None
    assert head == select_head(model, tokenizer)
