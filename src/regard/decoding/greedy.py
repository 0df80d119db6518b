"""One path a sentence: the likeliest token each time, or whatever else `choose` picks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.decoding.hypothesis import Hypothesis, finished
from regard.decoding.rules import FREE, Rules
from regard.decoding.steps import Pace, Plain, run
from regard.decoding.words import Words, next_words
from regard.devices import has_triton
from regard.models.protocol import Autoregressive, S
from regard.text.special import SPECIAL

Choose = Callable[[Words, Tensor], tuple[Tensor, Tensor]]


def likeliest(words: Words, sentences: Tensor) -> tuple[Tensor, Tensor]:
    """The next words of sentences (B,) -> log-probabilities and tokens, (B, 1) both"""
    return words.likeliest()


@torch.inference_mode()
def greedy_search(
    model: Autoregressive[S],
    source: Ragged,
    rules: Rules,
    *,
    length_penalty: float = 1.0,
    choose: Choose = likeliest,
    scored: bool = True,
    pace: Pace | None = None,
) -> list[Hypothesis]:
    """A hypothesis for each source sentence; without scores, which then are NaN, it is quicker."""
    pace = pace or Plain()
    room = pace.room(rules.greatest_limit)
    state = pace.start(model, source, beams=1, room=room)
    last = model.first_tokens(len(source.lengths))
    greedy = GreedySearch.of(model, state, rules, last, room, length_penalty, choose)
    greedy.scored = scored
    return run(greedy, pace)


@dataclass
class GreedySearch(Generic[S]):
    """The state of a search over B sentences."""

    model: Autoregressive[S]
    state: S
    rules: Rules
    length_penalty: float
    choose: Choose
    sentences: Tensor  # (B,) their numbers
    place: Tensor  # (1,) where the next tokens will stand
    last: Tensor  # (B, 1) the last tokens
    log_probs: Tensor  # (B,)
    tokens: Tensor  # (T, B) what was written at each place
    going: Tensor  # (B,)
    scored: bool = True

    @staticmethod
    def of(
        model: Autoregressive[S],
        state: S,
        rules: Rules,
        last: Tensor,
        room: int,
        length_penalty: float,
        choose: Choose,
    ) -> GreedySearch[S]:
        """Nothing is written yet."""
        count, device = len(last), last.device
        return GreedySearch(
            model,
            state,
            rules,
            length_penalty,
            choose,
            sentences=torch.arange(count, device=device),
            place=last.new_zeros(1),
            last=last,
            log_probs=torch.zeros(count, device=device),
            tokens=last.new_full((room, count), SPECIAL.end),
            going=torch.ones(count, dtype=torch.bool, device=device),
        )

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

    def select(self, sentences: Tensor) -> GreedySearch[S]:
        """Some sentences alone."""
        return GreedySearch(
            self.model,
            self.state.select(sentences),
            self.rules.select(sentences),
            self.length_penalty,
            self.choose,
            sentences=self.sentences[sentences],
            place=self.place.clone(),
            last=self.last[sentences],
            log_probs=self.log_probs[sentences],
            tokens=self.tokens[:, sentences],
            going=self.going[sentences],
            scored=self.scored,
        )

    def results(self, sentences: Sequence[int]) -> list[Hypothesis]:
        """What each of these sentences came to, up to its end mark."""
        rows, found = torch.tensor(sentences), []
        tokens, totals = self.tokens.cpu()[:, rows].t(), self.log_probs.cpu()[rows]
        for ids, total in zip(tokens.tolist(), totals.tolist(), strict=True):
            length = ids.index(SPECIAL.end) + 1
            total = total if self.scored else math.nan
            found.append(finished(ids[:length], total, self.length_penalty))
        return found
