"""Aligners of sources and their translations by the model itself, without training data.

A model with cross-attention aligns by the attention of one layer: the mean of its heads or one of
them, at the step that predicts a token (NAIVE-ATT) or at the next (SHIFT-ATT). Which is best
differs from model to model. It is selected by occlusion on random sources: the source token whose
replacement by UNK reduces the probability of a target token most is the one that it translates
(Li et al., 2019, arXiv:1910.14319, "prediction difference"). Models without cross-attention align
by occlusion itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from regard.attention.multihead import AttentionRecorder
from regard.backends.torch_backend import TorchBackend
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.rows import Rows
from regard.decoding.attention_maps import AlignmentHead, HeadAlignments, align_by_all_heads
from regard.decoding.backend import Request, search_requests
from regard.decoding.config import SearchConfig
from regard.decoding.pair_batches import map_pairs_by_length
from regard.models.base import AutoregressiveModel, Model
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

Pair = tuple[Sequence[int], Sequence[int]]
_PROBES, _PROBE_LENGTHS = 32, (5, 10)  # random sources, and their minimum and maximum length
_MAX_LOGITS = 1 << 25  # of a forward pass


class PairAligner(Protocol):
    """Aligns pairs of token ids, both without EOS."""

    def align(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """The source position of each target token; empty if the source is."""
        ...


@dataclass(frozen=True)
class CrossAttentionAligner:
    """Aligns each target token to the source token with the highest attention weight of a head."""

    model: Model
    head: AlignmentHead

    def align(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """The source position of each target token; empty if the source is."""
        return map_pairs_by_length(pairs, self.model.device, None, self._align_batch)

    @torch.inference_mode()
    def _align_batch(self, batch: Batch) -> list[list[int]]:
        layer = _cross_attention(self.model, batch)[self.head.layer].float()  # (B, H, T, S)
        weights = layer.mean(1) if self.head.head is None else layer[:, self.head.head]
        weights = weights.cpu()
        sources, targets = (side.lengths.extended(-1).host.tolist() for side in batch.sides)
        first = int(self.head.shift)
        return [
            row[first : first + target, :source].argmax(-1).tolist() if source else []
            for row, source, target in zip(weights, sources, targets, strict=True)
        ]


@dataclass(frozen=True)
class OcclusionAligner:
    """Aligns each target token to the source token that its probability depends on most."""

    model: Model

    def align(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """The source position of each target token; empty if the source is."""
        return [self._align(*pair) if pair[0] else [] for pair in pairs]

    @torch.inference_mode()
    def _align(self, source: Sequence[int], target: Sequence[int]) -> list[int]:
        occluded = [
            [*source[:place], SPECIAL.unk, *source[place + 1 :]] for place in range(len(source))
        ]
        size = max(1, _MAX_LOGITS // (self.model.vocabulary.target * (len(target) + 1)))
        log_probs = torch.cat(
            [
                self._log_probs(occluded[start : start + size], target)
                for start in range(0, len(occluded), size)
            ]
        )  # (S, T)
        positions: list[int] = log_probs.argmin(0).tolist()
        return positions

    def _log_probs(self, sources: Sequence[Sequence[int]], target: Sequence[int]) -> Tensor:
        batch = Batch(with_eos(sources), with_eos([target] * len(sources))).to(self.model.device)
        predictions = self.model(batch)
        logits = predictions.project(predictions.hidden).float()
        log_probs = logits.log_softmax(-1).gather(1, predictions.targets[:, None])
        return log_probs.view(len(sources), -1)[:, :-1]


def make_aligner(model: Model, tokenizer: Tokenizer) -> PairAligner | None:
    """The aligner of a model; None for non-autoregressive models, which cannot score a target."""
    if not model.config.autoregressive:
        return None
    head = select_head(cast(AutoregressiveModel, model), tokenizer)
    return OcclusionAligner(model) if head is None else CrossAttentionAligner(model, head)


def select_head(model: AutoregressiveModel, tokenizer: Tokenizer) -> AlignmentHead | None:
    """The head with the highest agreement with occlusion on random sources.

    None if the model has no cross-attention.
    """
    probe = Batch(with_eos([[SPECIAL.unk]]), with_eos([[SPECIAL.unk]])).to(model.device)
    with torch.inference_mode():
        if not _cross_attention(model, probe):
            return None
    pairs = [*_probes(model, tokenizer)]
    expected = OcclusionAligner(model).align(pairs)
    alignments = [*align_by_all_heads(model, *(_rows(side) for side in zip(*pairs, strict=True)))]
    return max(alignments[0].heads, key=lambda head: _agreement(head, alignments, expected))


def _probes(model: AutoregressiveModel, tokenizer: Tokenizer) -> Iterator[Pair]:
    """Random sequences of words, and their translations."""
    draw = random.Random(1)
    words = [token for token, begins in enumerate(tokenizer.word_starts()) if begins]
    words = [token for token in words if token > SPECIAL.eos] or [SPECIAL.unk]
    sources = [draw.choices(words, k=draw.randint(*_PROBE_LENGTHS)) for _ in range(_PROBES)]
    backend = TorchBackend([model], model.device, "float32")
    requests = [Request(source, []) for source in sources]
    for number, [hypothesis] in search_requests(backend, requests, SearchConfig(beam_size=1), None):
        yield sources[number], hypothesis.tokens


def _agreement(
    head: AlignmentHead, alignments: Sequence[HeadAlignments], expected: Sequence[Sequence[int]]
) -> int:
    """The number of target tokens that a head aligns as expected."""
    return sum(
        int(np.sum(pair.by_head(head)[0] == np.array(positions)))
        for pair, positions in zip(alignments, expected, strict=True)
    )


def _cross_attention(model: Model, batch: Batch) -> list[Tensor]:
    """The attention weights from target to source in each layer: (B, H, T, S); T and S with EOS."""
    recorder = AttentionRecorder()
    model(batch, recorder)
    return recorder.cross


def _rows(lines: Sequence[Sequence[int]]) -> Rows:
    ids = np.array([token for line in lines for token in line], dtype=np.int64)
    return Rows(ids, np.cumsum([0, *map(len, lines)]))
