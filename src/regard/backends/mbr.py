"""Minimum Bayes risk decoding (Kumar and Byrne, 2004; Eikema and Aziz, 2020, arXiv:2005.10283).

The expected utility of a candidate is its mean utility against all candidates as references,
weighted by their probabilities: equal ones for samples, those of the model, normalized, for an
n-best list. Utilities are computed on detokenized text, and candidates with the same text count
as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.backends.utilities import Utility, chrf, make_bleu
from regard.backends.wrapped_backend import Searched, WrappedBackend
from regard.data.model_text import ModelText
from regard.decoding.backend import Backend, Hypothesis
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import TextConfig
from regard.errors import ConfigError

if TYPE_CHECKING:
    import torch


class MbrBackend(WrappedBackend):
    """Ranks the hypotheses of another backend by their expected utility, which is their score."""

    def __init__(self, inner: Backend, utility: Utility, text: ModelText, candidates: int) -> None:
        super().__init__(inner)
        self._utility, self._text, self._candidates = utility, text, candidates

    def inner_config(self, config: SearchConfig) -> SearchConfig:
        """The search for candidates."""
        return replace(config, num_hypotheses=self._candidates, scores=True)

    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        """The best candidates of each request with distinct texts."""
        sources = self._text.decode_sources([request.segment for request, _ in searched])
        target = self._text.tokenizers.target
        for source, (_, hypotheses) in zip(sources, searched, strict=True):
            texts = target.decode_all([each.tokens for each in hypotheses])
            weights = (
                np.full(len(hypotheses), 1 / len(hypotheses))
                if config.sample
                else _normalized(hypotheses)
            )
            ranked = rank_by_utility(source, texts, weights, self._utility)
            yield [
                hypotheses[index]._replace(score=utility)
                for index, utility in ranked[: config.num_hypotheses]
            ]


def rank_by_utility(
    source: str, texts: Sequence[str], weights: NDArray[np.float64], utility: Utility
) -> list[tuple[int, float]]:
    """The indices of distinct texts and their expected utilities, best first."""
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        first.setdefault(text, index)
    numbers = {text: number for number, text in enumerate(first)}
    totals = np.zeros(len(first))
    np.add.at(totals, [numbers[text] for text in texts], weights)
    expected = utility(source, [*first]) @ totals
    order = np.argsort(-expected, kind="stable")
    indices = [*first.values()]
    return [(indices[number], float(expected[number])) for number in order]


def _normalized(hypotheses: Sequence[Hypothesis]) -> NDArray[np.float64]:
    """The probabilities of the hypotheses, given that it is one of them."""
    log_probs = np.array([hypothesis.log_probability for hypothesis in hypotheses])
    probabilities: NDArray[np.float64] = np.exp(log_probs - log_probs.max())
    return probabilities / probabilities.sum()


def make_utility(config: TextConfig, text: ModelText, device: torch.device | None) -> Utility:
    """The utility that the settings select."""
    if config.mbr == "chrf":
        return chrf
    if config.mbr == "bleu":
        return make_bleu(_target_language(config, text))
    if text.directions:
        raise ConfigError(
            "mbr=comet (--mbr comet) supports models of one direction only. Use --mbr chrf."
        )
    assert config.comet_checkpoint is not None
    import torch

    from regard.backends.comet_utility import load_comet

    return load_comet(config.comet_checkpoint, device or torch.device("cpu"))


def _target_language(config: TextConfig, text: ModelText) -> str | None:
    """The target language, also where the settings leave it out because there is only one."""
    source = config.source_lang
    targets = {each.target for each in text.directions if source in (None, each.source)}
    known = config.target_lang or text.languages["target"]
    return targets.pop() if known is None and len(targets) == 1 else known
