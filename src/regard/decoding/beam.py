"""Beam search: at each step, keep the W best unfinished beginnings of each sentence.

    advance   the model reads the last tokens and scores the next ones
    rank      the best continuations of each sentence, over all its beams
    retire    continuations that end are finished hypotheses
    keep      the best of the others are the new beams

A sentence is done when it has W finished hypotheses that no beam, as it stands, could beat; or when
no beam is left. If `enough` is given, it is done where CTranslate2 would be: when so many are
finished; without a length penalty, when as many as are wanted are finished and the best candidate
of a step was among them. Nothing in a sentence's search depends on another sentence. Everything is
a tensor of fixed size, so that a step can be recorded.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.decoding.engine import Hypothesis, best_first, finished
from regard.decoding.rules import FREE, Rules
from regard.decoding.steps import EagerRunner, Search, run, tensors_of
from regard.decoding.words import Candidates, Words, next_words
from regard.models.protocol import Autoregressive
from regard.text.special import SPECIAL


@torch.inference_mode()
def beam_search(
    model: Autoregressive[Any],
    source: Ragged,
    rules: Rules,
    *,
    beam_size: int,
    top_beams: int | None = None,
    length_penalty: float = 1.0,
    enough: int | None = None,
    runner: EagerRunner | None = None,
) -> list[list[Hypothesis]]:
    """Up to `top_beams` hypotheses for each source sentence, best first; unsaid: all beams."""
    runner = runner or EagerRunner()
    begun = runner.begin(model, source, rules, beams=beam_size)
    last, tokens = begun["last"], begun["tokens"]
    log_probs = torch.full(last.shape, -torch.inf, device=last.device)
    none, empty = log_probs.clone(), torch.zeros_like(last)
    log_probs[:, 0] = 0.0  # one empty beginning for each sentence
    beams = BeamSearch(
        **begun,
        length_penalty=length_penalty,
        log_probs=log_probs,
        parents=tokens.clone(),
        ended=Ended(
            none, none.clone(), empty, empty.clone(), empty[:, 0].clone(), ~none.isinf()[:, 0]
        ),
        wanted=top_beams or beam_size,
        enough=enough,
    )
    return run(beams, runner)


@dataclass
class Ended:
    """The best finished hypotheses of each sentence, best first; each (B, W)."""

    scores: Tensor  # -inf: there is none
    log_probs: Tensor
    lengths: Tensor  # without the end mark
    beams: Tensor  # that were ended
    count: Tensor  # (B,) of all that ever were
    best: Tensor  # (B,) whether the best candidate of any step was among them


@dataclass
class BeamSearch(Search[list[Hypothesis]]):
    """The state of a search over B sentences; beams, best first, are -inf where there is none."""

    parents: Tensor  # (T, B, W) by which beam of the place before
    ended: Ended
    wanted: int = 1  # hypotheses of each sentence
    enough: int | None = None  # finished ones, and a sentence is done

    @property
    def kind(self) -> Hashable:
        """What its steps depend on, shapes apart."""
        stop = self.length_penalty, self.wanted, self.enough
        return "beam", *stop, self.rules.minimum, self.rules.at_limit

    def advance(self, *, forces: bool) -> None:
        """One step."""
        logits = self.model.step(self.last, self.state)
        words = next_words(logits.flatten(0, 1), self.rules, self.place)
        candidates = self.rank(words, forces=forces)
        self.retire(candidates)
        parents = self.keep(candidates)
        self.state.reorder(parents)
        self.place += 1

    def rank(self, words: Words, *, forces: bool) -> Candidates:
        """The best continuations: twice the beam, for at most half of them can be ends."""
        only = self._forced(words) if forces else None
        free = words.best(self.log_probs, 2 * self.last.shape[1])
        if only is None:
            return free
        forced = only.tokens != FREE
        return Candidates(*(torch.where(forced, *both) for both in zip(only, free, strict=True)))

    def retire(self, candidates: Candidates) -> None:
        """Move the ends among the W best candidates to the finished hypotheses."""
        ended, width = self.ended, self.last.shape[1]
        ends = candidates.tokens[:, :width] == SPECIAL.end
        log_probs = candidates.log_probs[:, :width].masked_fill(~ends, -torch.inf)
        real = log_probs > -torch.inf
        ended.count += real.sum(1)
        ended.best |= real[:, 0]
        both = torch.cat([ended.scores, self._normalized(log_probs)], 1)
        scores, places = both.topk(width, dim=1)
        ended.scores.copy_(scores)
        for kept, new in (
            (ended.log_probs, log_probs),
            (ended.lengths, self.place.expand(log_probs.shape)),
            (ended.beams, candidates.parents[:, :width]),
        ):
            kept.copy_(torch.cat([kept, new], 1).gather(1, places))

    def keep(self, candidates: Candidates) -> Tensor:
        """The best candidates that go on are the new beams; which beams they continue. (B, W)"""
        width = self.last.shape[1]
        ends = candidates.tokens == SPECIAL.end
        places = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        log_probs = candidates.log_probs.masked_fill(ends, -torch.inf).gather(1, places)
        self.going.copy_(self._goes_on(log_probs[:, 0]))
        self.log_probs.copy_(log_probs.masked_fill(~self.going[:, None], -torch.inf))
        self.last.copy_(candidates.tokens.gather(1, places))
        parents = candidates.parents.gather(1, places)
        self.tokens.index_copy_(0, self.place, self.last[None])
        self.parents.index_copy_(0, self.place, parents[None])
        return parents

    def _goes_on(self, best: Tensor) -> Tensor:
        """Which sentences are not done, by the log-probability of their best beam. (B,)"""
        if self.enough is None:
            return self._normalized(best) > self.ended.scores[:, -1]
        if self.length_penalty == 0:
            done = self.ended.best & (self.ended.count >= self.wanted)
        else:
            done = self.ended.count >= self.enough
        return (best > -torch.inf) & ~done

    def _normalized(self, log_probs: Tensor) -> Tensor:
        """As the score of a hypothesis that stands at this place."""
        lengths = self.rules.counted(self.place).float() ** self.length_penalty
        return log_probs / (lengths if log_probs.ndim == 1 else lengths[:, None])

    def _forced(self, words: Words) -> Candidates:
        """Each beam goes on by what is forced; where nothing is, the token is -1."""
        sentences, width = self.last.shape
        wanted = self.rules.forced(self.place)[:, None].expand(-1, width)
        gains = words.of(wanted.clamp(min=0).reshape(-1, 1)).view(sentences, width)
        gains = self.rules.paid(gains, self.place)
        nothing = torch.full_like(gains, -torch.inf)
        beams = torch.arange(width, device=gains.device).repeat(2)
        return Candidates(
            torch.cat([self.log_probs + gains, nothing], 1),
            beams.expand(sentences, -1),
            wanted.repeat(1, 2),
        )

    def select(self, sentences: Tensor) -> BeamSearch:
        """Some sentences alone."""
        ended = Ended(*(part[sentences] for part in tensors_of(self.ended)))
        parents = self.parents[:, sentences]
        return replace(super().select(sentences), parents=parents, ended=ended)

    def results(self, sentences: Sequence[int]) -> list[list[Hypothesis]]:
        """The finished hypotheses of these sentences, best first."""
        rows = torch.tensor(sentences)
        ended, counted = self.ended, self.rules.counted(self.ended.lengths)
        lengths, totals, beams, counts = (
            part.cpu()[rows, : self.wanted]
            for part in (ended.lengths, ended.log_probs, ended.beams, counted)
        )
        bodies = self._bodies(rows, lengths, beams)
        columns = (part.tolist() for part in (bodies, lengths, totals, counts))
        return [
            best_first(
                finished([*body[:length], SPECIAL.end], total, self.length_penalty, count)
                for body, length, total, count in zip(*sentence, strict=True)
                if total > -torch.inf
            )
            for sentence in zip(*columns, strict=True)
        ]

    def _bodies(self, rows: Tensor, lengths: Tensor, beams: Tensor) -> Tensor:
        """What was written along the way to each end, read backwards. (rows, wanted, T)"""
        places = int(lengths.max())
        tokens, parents = self.tokens[:places].cpu()[:, rows], self.parents[:places].cpu()[:, rows]
        bodies = tokens.new_zeros(places, *beams.shape)
        for place in reversed(range(places)):
            bodies[place] = tokens[place].gather(1, beams)
            beams = torch.where(place < lengths, parents[place].gather(1, beams), beams)
        return bodies.permute(1, 2, 0)
