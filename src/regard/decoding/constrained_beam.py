"""Beam search with lexical constraints: hypotheses that contain given words.

A plain beam search would drop prefixes with an improbable word before they turn out to be the best
with it. As in dynamic beam allocation (Post and Vilar, 2018, arXiv:1804.06609), the beams of a
sentence are therefore divided among banks: prefixes that lack the same number of constraint tokens.
Besides the best continuations of each beam, those by an expected constraint token are candidates.
The best candidate of each bank becomes a beam, then the second best of each, and so on. Only
hypotheses that satisfy all constraints end.

Differences from the original: a sentence has at least twice as many beams as in a plain search; in
a bank, prefixes with different constraints compete only after the best of each; candidates that
could not satisfy the constraints before the maximum length are dropped; and constraints are
automata (`token_constraints.py`), so that a word also counts where the model writes it by itself.
Without constraints, the search is the plain beam search.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.data.ragged import Ragged
from regard.decoding.backend import Hypothesis
from regard.decoding.beam import BeamSearch, initial_fields
from regard.decoding.config import SearchConfig
from regard.decoding.constraints import FREE, DecodingConstraints
from regard.decoding.lexical_constraints import LexicalConfig, LexicalConstraints
from regard.decoding.next_token import Candidates, NextTokenScores
from regard.decoding.penalties import PenaltyConfig
from regard.decoding.runners import EagerRunner, run_search
from regard.models.protocol import Autoregressive
from regard.text.special import SPECIAL


@torch.inference_mode()
def constrained_beam_search(
    model: Autoregressive[Any],
    source: Ragged,
    constraints: DecodingConstraints,
    lexical: LexicalConfig,
    config: SearchConfig,
    *,
    penalties: PenaltyConfig | None = None,
    runner: EagerRunner | None = None,
) -> list[list[Hypothesis]]:
    """Up to `num_hypotheses` hypotheses per source sentence that satisfy its constraints."""
    runner, beam_size = runner or EagerRunner(), config.beam_size
    state = lexical.start(beam_size, constraints.limits.device)
    fields = initial_fields(
        runner, model, source, constraints, beams=state.beams, finished=beam_size
    )
    search = ConstrainedBeamSearch(
        **fields,
        length_penalty=config.length_penalty,
        num_hypotheses=config.num_hypotheses,
        max_finished=config.max_finished,
        penalties=penalties.start(fields["tokens"]) if penalties else None,
        lexical=state,
    )
    return run_search(search, runner)


class _Ranked(NamedTuple):
    """Candidates of each sentence, best first; (B, M) each."""

    log_probs: Tensor  # of the prefix and the new token; -inf: no candidate
    parents: Tensor
    tokens: Tensor
    missing: Tensor  # tokens after which all constraints are satisfied
    progress: Tensor  # a number that differs where other constraints lack tokens

    def take(self, indices: Tensor) -> _Ranked:
        """These candidates. (B, n)"""
        return _Ranked(*(part.gather(1, indices) for part in self))

    def only(self, selected: Tensor) -> _Ranked:
        """The same candidates, but those that are not selected have probability 0. (B, M)"""
        return self._replace(log_probs=self.log_probs.masked_fill(~selected, -torch.inf))

    def sorted(self) -> _Ranked:
        """The candidates, best first."""
        return self.take(self.log_probs.argsort(dim=1, descending=True, stable=True))


@dataclass
class ConstrainedBeamSearch(BeamSearch):
    """The state of a constrained beam search over B sentences with W beams each.

    The beam size is the number of finished hypotheses; W is larger.
    """

    lexical: LexicalConstraints = field(kw_only=True)

    @property
    def graph_key(self) -> Hashable:
        """Everything but tensor shapes that a step depends on."""
        return "constrained", super().graph_key

    def advance(self, *, may_force: bool) -> None:
        """Extend every beam by one token."""
        candidates = self.rank(self.next_token_scores(), may_force=may_force)
        ranked = self._valid(candidates)
        self.finish(self._satisfied(ranked))
        unfinished = ranked.only(ranked.tokens != SPECIAL.eos)
        self.active.copy_(self.is_active(self._best_that_can_win(unfinished)))
        beams = _allocate(unfinished, self.lexical.sizes, self.last_tokens.shape[1])
        tokens = self.constraints.without_context(beams.tokens, self.position)
        self.lexical.states.copy_(self.lexical.next_states(beams.parents, tokens))
        self.move_to(beams)

    def rank(self, scores: NextTokenScores, *, may_force: bool) -> Candidates:
        """The candidates of each sentence, unordered: the best of each beam, and expected ones."""
        forced = self.forced_candidates(scores) if may_force else None
        expected = self.lexical.expected_tokens()  # (B, W, n)
        expected_log_probs = scores.gather(expected.flatten(0, 1)).view_as(expected)
        vocab_size, beam_size = len(self.lexical.continues_word), self.finished.scores.shape[1]
        count = min(beam_size + 1, vocab_size)  # of these, at least W do not end
        best = scores.topk(self.log_probs.view(-1, 1), count)
        best_tokens, best_log_probs = (
            part.view(*expected.shape[:2], count) for part in (best.tokens, best.log_probs)
        )
        is_new = _is_new(expected, torch.where(best_log_probs > -torch.inf, best_tokens, FREE))
        expected_log_probs += self.log_probs[:, :, None]
        log_probs, order = expected_log_probs.masked_fill(~is_new, -torch.inf).topk(
            min(count, expected.shape[2]), dim=2
        )
        tokens = torch.cat([best_tokens, expected.gather(2, order)], 2)
        parents = torch.arange(tokens.shape[1], device=tokens.device)[:, None].expand_as(tokens)
        columns = torch.cat([best_log_probs, log_probs], 2), parents, tokens
        return _with_forced(Candidates(*(column.flatten(1) for column in columns)), forced)

    def _valid(self, candidates: Candidates) -> _Ranked:
        """The candidates that can satisfy the constraints before the maximum length, best first."""
        states = self.lexical.next_states(candidates.parents, candidates.tokens)
        missing = self.lexical.missing_tokens(states)
        total = missing.sum(2)
        available = (self.constraints.limits - 2 - self.position)[:, None]  # before EOS
        available = available.where(candidates.tokens != SPECIAL.eos, 0)
        ranked = _Ranked(*candidates, total, self.lexical.progress(missing))
        return ranked.only(total <= available).sorted()

    def _satisfied(self, ranked: _Ranked) -> Candidates:
        """The best continuations of beams that satisfy all constraints: which may end."""
        missing = self.lexical.missing_tokens(self.lexical.states).sum(2)
        best = ranked.only(missing.gather(1, ranked.parents) == 0).sorted()
        return Candidates(*(part[:, : self.finished.scores.shape[1]] for part in best[:3]))

    def _best_that_can_win(self, unfinished: _Ranked) -> Tensor:
        """The best log-prob of the beams that a finished hypothesis must beat. (B,)

        Those that lack constraint tokens count until there are enough finished hypotheses: they
        would have to pay for these tokens, and may be past the end of the sentence.
        """
        is_satisfied = unfinished.missing == 0
        is_full = self.finished.scores[:, -1:] > -torch.inf
        return unfinished.only(is_satisfied | ~is_full).log_probs.amax(1)

    def select(self, sentences: Tensor) -> ConstrainedBeamSearch:
        """The search over these sentences only."""
        selected = cast(ConstrainedBeamSearch, super().select(sentences))
        return replace(selected, lexical=self.lexical.select(sentences))


def _is_new(expected: Tensor, best: Tensor) -> Tensor:
    """Whether expected tokens of each beam are neither among the best nor repeated, nor PAD.

    (B, W, n), (B, W, k) -> (B, W, n)
    """
    is_earlier = torch.ones(expected.shape[2:] * 2, device=expected.device).tril(-1) > 0
    repeats = (expected[:, :, :, None] == expected[:, :, None]) & is_earlier
    is_best = (expected[:, :, :, None] == best[:, :, None]).any(3)
    return (expected != SPECIAL.pad) & ~is_best & ~repeats.any(3)


def _with_forced(candidates: Candidates, forced: Candidates | None) -> Candidates:
    """The candidates, or those that are forced in sentences that have such."""
    if forced is None:
        return candidates
    padding = 0, candidates.tokens.shape[1] - forced.tokens.shape[1]
    is_forced = forced.tokens[:, :1] != FREE
    return Candidates(
        torch.where(is_forced, pad(forced.log_probs, padding, value=-torch.inf), candidates[0]),
        torch.where(is_forced, pad(forced.parents, padding), candidates.parents),
        torch.where(is_forced, pad(forced.tokens, padding), candidates.tokens),
    )


def _allocate(ranked: _Ranked, sizes: Tensor, beams: int) -> Candidates:
    """The candidates that become beams: the best of each bank, the second best, and so on.

    A bank is the number of missing tokens. The best candidates of a bank are the best of each set
    of satisfied constraints, then the second best, and so on. `sizes` (B,) are the beams of each
    sentence; the others have probability 0.
    """
    ranked = ranked.take(_ranks(ranked, ranked.progress).argsort(dim=1, stable=True))
    order = _ranks(ranked, ranked.missing).argsort(dim=1, stable=True)
    is_used = torch.arange(beams, device=sizes.device) < sizes[:, None]
    return Candidates(*ranked.take(order[:, :beams]).only(is_used).sorted()[:3])


def _ranks(ranked: _Ranked, groups: Tensor) -> Tensor:
    """For each candidate, the number of earlier ones of its group; a large number if invalid."""
    is_valid = ranked.log_probs > -torch.inf
    groups = torch.where(is_valid, groups, -1)
    order = groups.argsort(dim=1, stable=True)
    ordered = groups.gather(1, order)
    columns = torch.arange(groups.shape[1], device=groups.device).expand_as(groups)
    is_first = torch.ones_like(is_valid)
    is_first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    firsts = torch.where(is_first, columns, 0).cummax(1).values
    ranks = torch.empty_like(order).scatter_(1, order, columns - firsts)
    return torch.where(is_valid, ranks, groups.shape[1])
