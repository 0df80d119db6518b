"""Greedy search and sampling: one hypothesis per sentence, one token at a time.

Greedy search takes the most probable token. Sampling draws one, after temperature, top-k, top-p and
epsilon cutoff; every sentence has its own random generator, so samples do not depend on the batch.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.decoding.backend import Hypothesis, finished_hypothesis
from regard.decoding.config import SearchConfig
from regard.decoding.constraints import FREE, DecodingConstraints
from regard.decoding.next_token import NextTokenScores, next_token_scores
from regard.decoding.penalties import PenaltyConfig
from regard.decoding.runners import EagerRunner, Search, run_search
from regard.devices import has_triton
from regard.models.protocol import Autoregressive
from regard.text.special import SPECIAL

# Maps next-token scores and sentence indices (B,) to log-probs and tokens, (B, 1) both.
TokenChooser = Callable[[NextTokenScores, Tensor], tuple[Tensor, Tensor]]


def argmax_tokens(scores: NextTokenScores, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable tokens; the default `TokenChooser` of `greedy_search`."""
    return scores.max()


@torch.inference_mode()
def greedy_search(
    model: Autoregressive[Any],
    source: Ragged,
    constraints: DecodingConstraints,
    *,
    length_penalty: float = 1.0,
    choose: TokenChooser = argmax_tokens,
    scored: bool = True,
    penalties: PenaltyConfig | None = None,
    runner: EagerRunner | None = None,
) -> list[Hypothesis]:
    """A hypothesis per source sentence; `scored=False` is faster, with NaN as scores."""
    runner = runner or EagerRunner()
    fields = runner.initial_fields(model, source, constraints)
    fields["penalties"] = penalties.start(fields["tokens"]) if penalties else None
    tokens = fields.pop("tokens").squeeze(2)  # (T, B)
    count, device = tokens.shape[1], tokens.device
    search = GreedySearch(
        **fields,
        length_penalty=length_penalty,
        log_probs=torch.zeros(count, device=device),
        tokens=tokens.fill_(SPECIAL.eos),
        choose=choose,
        indices=torch.arange(count, device=device),
        scored=scored,
    )
    return run_search(search, runner)


@dataclass
class GreedySearch(Search[Hypothesis]):
    """The state of a greedy search over B sentences."""

    choose: TokenChooser
    indices: Tensor  # (B,) of the sentences in the whole batch
    scored: bool = True

    @property
    def graph_key(self) -> Hashable:
        """Everything but tensor shapes that a step depends on."""
        limits = self.constraints.min_length, self.constraints.at_limit
        penalties = self.penalties and self.penalties.graph_key
        return "greedy", self.choose, self.scored, *limits, penalties

    def advance(self, *, may_force: bool) -> None:
        """Extend every hypothesis by one token."""
        logits = self.model.step(self.last_tokens, self.state)
        scores = next_token_scores(
            logits.squeeze(1),
            self.constraints,
            self.position,
            penalties=self.penalties,
            scored=self.scored,
        )
        forced = self.constraints.forced_tokens(self.position)[:, None] if may_force else None
        # Before `choose`, which bans tokens: a forced token may be a banned one.
        forced_log_probs = scores.gather(forced.clamp(min=0)) if forced is not None else None
        log_probs, tokens = self.choose(scores, self.indices)
        if forced is not None and forced_log_probs is not None:
            forced_log_probs = self.constraints.forced_log_probs(forced_log_probs, self.position)
            log_probs = torch.where(forced == FREE, log_probs, forced_log_probs)
            tokens = torch.where(forced == FREE, tokens, forced)
        if self.penalties is not None:
            counted = self.constraints.without_context(tokens, self.position)
            self.penalties.append(counted, self.position)
        self._append(tokens, log_probs.squeeze(1))

    def _append(self, tokens: Tensor, log_probs: Tensor) -> None:
        """Append one token to each sentence; tokens after EOS add no log-prob. (B, 1), (B,)"""
        if tokens.is_cuda and has_triton():
            from regard.decoding import next_token_kernel

            return next_token_kernel.append_tokens(tokens, log_probs, self)
        self.log_probs += log_probs * self.active
        self.last_tokens.copy_(tokens)
        self.tokens.index_copy_(0, self.position, tokens.view(1, -1))
        self.active &= tokens.squeeze(1) != SPECIAL.eos
        self.position += 1
        return None

    def select(self, sentences: Tensor) -> GreedySearch:
        """The search over these sentences only."""
        return replace(super().select(sentences), indices=self.indices[sentences])

    def results(self, sentences: Sequence[int]) -> list[Hypothesis]:
        """The hypotheses of these sentences, up to EOS."""
        rows, hypotheses = torch.tensor(sentences), []
        tokens, log_probs = self.tokens.cpu()[:, rows].t(), self.log_probs.cpu()[rows]
        offsets = self.constraints.context_lengths(rows)
        columns = tokens.tolist(), log_probs.tolist(), offsets
        for ids, log_prob, offset in zip(*columns, strict=True):
            end = ids.index(SPECIAL.eos) + 1
            log_prob = log_prob if self.scored else math.nan
            hypothesis = finished_hypothesis(ids[:end], log_prob, self.length_penalty, end - offset)
            hypotheses.append(hypothesis)
        return hypotheses


def make_sampler(generators: Sequence[np.random.Generator], config: SearchConfig) -> TokenChooser:
    """A `TokenChooser` that samples, with one random generator per sentence."""

    def choose(scores: NextTokenScores, indices: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = scores.log_probs()
        filtered = filter_top_k(log_probs / config.temperature, config.top_k)
        filtered = filter_epsilon(filter_top_p(filtered, config.top_p), config.epsilon_cutoff)
        uniform = torch.tensor([generators[index].random() for index in indices.tolist()])
        tokens = sample(filtered.softmax(-1), uniform.to(log_probs.device))[:, None]
        return log_probs.gather(1, tokens), tokens

    return choose


def filter_top_k(log_probs: Tensor, k: int) -> Tensor:
    """-inf for all but the k most probable tokens; k = 0 keeps all. (B, V) -> (B, V)"""
    if k == 0 or k >= log_probs.shape[-1]:
        return log_probs
    threshold = log_probs.topk(k, dim=-1).values[..., -1:]
    return log_probs.masked_fill(log_probs < threshold, -torch.inf)


def filter_top_p(log_probs: Tensor, p: float) -> Tensor:
    """-inf for all but the most probable tokens with total probability p. (B, V) -> (B, V)"""
    if p >= 1.0:
        return log_probs
    probabilities, order = log_probs.softmax(-1).sort(dim=-1, descending=True)
    preceding = probabilities.cumsum(-1) - probabilities
    excluded = (preceding >= p) & (preceding > 0)  # the most probable token is always kept
    dropped = torch.zeros_like(excluded).scatter(-1, order, excluded)
    return log_probs.masked_fill(dropped, -torch.inf)


def filter_epsilon(log_probs: Tensor, epsilon: float) -> Tensor:
    """-inf for all tokens less probable than epsilon (Hewitt et al., 2022, arXiv:2210.15191).

    The most probable token is always kept. (B, V) -> (B, V)
    """
    if epsilon == 0.0:
        return log_probs
    probabilities = log_probs.softmax(-1)
    threshold = probabilities.amax(-1, keepdim=True).clamp(max=epsilon)
    return log_probs.masked_fill(probabilities < threshold, -torch.inf)


def sample(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Inverse transform sampling, given uniform numbers from [0, 1). (B, V), (B,) -> (B,)"""
    sums = probabilities.double().cumsum(-1)
    tokens = torch.searchsorted(sums, (uniform.double() * sums[:, -1])[:, None], right=True)
    # Rounding must not select a token with probability zero after the last possible one.
    last = (probabilities > 0).int().cumsum(-1).argmax(-1, keepdim=True)
    return tokens.minimum(last).squeeze(1)


def sentence_generator(seed: int, number: int, ids: list[int]) -> np.random.Generator:
    """A generator seeded by the sentence's ids: the same in any batch, order or file."""
    digest = hashlib.sha256(np.asarray(ids, dtype=np.int64).tobytes()).digest()
    return np.random.default_rng([seed, number, int.from_bytes(digest[:8], "little")])
