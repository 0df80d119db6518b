"""One path a sentence: the likeliest token each time, or whatever else `choose` picks.

Sampling draws it, after temperature, top-k and top-p, each a pure function. Every sentence draws
from a generator of its own, so its sample does not depend on its neighbours.
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
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Hypothesis, finished
from regard.decoding.rules import FREE, Rules
from regard.decoding.steps import EagerRunner, Search, run
from regard.decoding.words import Words, next_words
from regard.devices import has_triton
from regard.models.protocol import Autoregressive
from regard.text.special import SPECIAL

Choose = Callable[[Words, Tensor], tuple[Tensor, Tensor]]


def likeliest(words: Words, sentences: Tensor) -> tuple[Tensor, Tensor]:
    """The next words of sentences (B,) -> log-probabilities and tokens, (B, 1) both"""
    return words.likeliest()


@torch.inference_mode()
def greedy_search(
    model: Autoregressive[Any],
    source: Ragged,
    rules: Rules,
    *,
    length_penalty: float = 1.0,
    choose: Choose = likeliest,
    scored: bool = True,
    runner: EagerRunner | None = None,
) -> list[Hypothesis]:
    """A hypothesis for each source sentence; without scores, which then are NaN, it is quicker."""
    runner = runner or EagerRunner()
    begun = runner.begin(model, source, rules)
    tokens = begun.pop("tokens").squeeze(2)  # (T, B)
    count, device = tokens.shape[1], tokens.device
    greedy = GreedySearch(
        **begun,
        length_penalty=length_penalty,
        log_probs=torch.zeros(count, device=device),
        tokens=tokens.fill_(SPECIAL.end),
        choose=choose,
        sentences=torch.arange(count, device=device),
        scored=scored,
    )
    return run(greedy, runner)


@dataclass
class GreedySearch(Search[Hypothesis]):
    """The state of a search over B sentences."""

    choose: Choose
    sentences: Tensor  # (B,) their numbers
    scored: bool = True

    @property
    def kind(self) -> Hashable:
        """What its steps depend on, shapes apart."""
        return "greedy", self.choose, self.scored, self.rules.minimum, self.rules.at_limit

    def advance(self, *, forces: bool) -> None:
        """One step."""
        logits = self.model.step(self.last, self.state)
        words = next_words(logits.squeeze(1), self.rules, self.place, scored=self.scored)
        forced = self.rules.forced(self.place)[:, None] if forces else None
        needed = words.of(forced.clamp(min=0)) if forced is not None else None
        gains, tokens = self.choose(words, self.sentences)
        if forced is not None and needed is not None:  # it may be forbidden otherwise
            gains = torch.where(forced == FREE, gains, self.rules.paid(needed, self.place))
            tokens = torch.where(forced == FREE, tokens, forced)
        self._write(tokens, gains.squeeze(1))

    def _write(self, tokens: Tensor, gains: Tensor) -> None:
        """One more token for each sentence; after its end they do not count. (B, 1), (B,)"""
        if tokens.is_cuda and has_triton():
            from regard.decoding import words_kernel

            return words_kernel.write(tokens, gains, self)
        self.log_probs += gains * self.going
        self.last.copy_(tokens)
        self.tokens.index_copy_(0, self.place, tokens.view(1, -1))
        self.going &= tokens.squeeze(1) != SPECIAL.end
        self.place += 1
        return None

    def select(self, sentences: Tensor) -> GreedySearch:
        """Some sentences alone."""
        return replace(super().select(sentences), sentences=self.sentences[sentences])

    def results(self, sentences: Sequence[int]) -> list[Hypothesis]:
        """What each of these sentences came to, up to its end mark."""
        rows, found = torch.tensor(sentences), []
        tokens, totals = self.tokens.cpu()[:, rows].t(), self.log_probs.cpu()[rows]
        for ids, total in zip(tokens.tolist(), totals.tolist(), strict=True):
            length = ids.index(SPECIAL.end) + 1
            total = total if self.scored else math.nan
            found.append(finished(ids[:length], total, self.length_penalty))
        return found


def sampler(generators: Sequence[np.random.Generator], config: SearchConfig) -> Choose:
    """A `choose` for `greedy_search` that draws instead of taking the likeliest."""

    def choose(words: Words, sentences: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = words.all()
        likely = kept_top_k(log_probs / config.temperature, config.top_k)
        likely = kept_top_p(likely, config.top_p)
        draws = torch.tensor([generators[sentence].random() for sentence in sentences.tolist()])
        tokens = drawn(likely.softmax(-1), draws.to(log_probs.device))[:, None]
        return log_probs.gather(1, tokens), tokens

    return choose


def kept_top_k(log_probs: Tensor, k: int) -> Tensor:
    """Only the k likeliest stay; k = 0: all. (B, V) -> the same"""
    if k == 0 or k >= log_probs.shape[-1]:
        return log_probs
    least = log_probs.topk(k, dim=-1).values[..., -1:]
    return log_probs.masked_fill(log_probs < least, -torch.inf)


def kept_top_p(log_probs: Tensor, p: float) -> Tensor:
    """Only the likeliest stay that together reach probability p. (B, V) -> the same"""
    if p >= 1.0:
        return log_probs
    ordered, places = log_probs.softmax(-1).sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    enough = (before >= p) & (before > 0)  # the likeliest always stays
    dropped = torch.zeros_like(enough).scatter(-1, places, enough)
    return log_probs.masked_fill(dropped, -torch.inf)


def drawn(probabilities: Tensor, draws: Tensor) -> Tensor:
    """The word at which the running sum passes a draw from [0, 1). (B, V), (B,) -> (B,)"""
    sums = probabilities.double().cumsum(-1)
    chosen = torch.searchsorted(sums, (draws.double() * sums[:, -1])[:, None], right=True)
    # Rounding must not choose a word of probability zero behind the last possible one.
    last = (probabilities > 0).int().cumsum(-1).argmax(-1, keepdim=True)
    return chosen.minimum(last).squeeze(1)


def keyed_generator(seed: int, number: int, ids: list[int]) -> np.random.Generator:
    """Keyed by the sentence itself: the same in any batch, order or file."""
    digest = hashlib.sha256(np.asarray(ids, dtype=np.int64).tobytes()).digest()
    return np.random.default_rng([seed, number, int.from_bytes(digest[:8], "little")])
