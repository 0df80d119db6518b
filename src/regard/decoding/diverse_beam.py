"""Diverse beam search (Vijayakumar et al., 2016, arXiv:1610.02424): beams in dissimilar groups.

The beams of a sentence are divided into groups, each of which is a beam search of its own. At each
position, the groups choose their tokens one after another, and a token counts less for each beam of
an earlier group that has chosen it there (Hamming diversity).

Differences from the original: the penalty changes what a group chooses at this position, but not
the scores of hypotheses, which remain those of the model and can be compared between groups; and
EOS is never penalized, so that groups need not differ in length. With one group, the search is the
plain beam search.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.data.ragged import Ragged
from regard.decoding.backend import Hypothesis, sort_by_score
from regard.decoding.beam import BeamSearch, FinishedHypotheses, initial_fields
from regard.decoding.config import SearchConfig
from regard.decoding.constraints import FREE, DecodingConstraints
from regard.decoding.next_token import Candidates, NextTokenScores
from regard.decoding.penalties import PenaltyConfig
from regard.decoding.runners import EagerRunner, run_search
from regard.models.protocol import Autoregressive


@torch.inference_mode()
def diverse_beam_search(
    model: Autoregressive[Any],
    source: Ragged,
    constraints: DecodingConstraints,
    config: SearchConfig,
    *,
    penalties: PenaltyConfig | None = None,
    runner: EagerRunner | None = None,
) -> list[list[Hypothesis]]:
    """Up to `num_hypotheses` distinct hypotheses per source sentence, best first.

    They are the best hypothesis of each group, the second best of each, and so on.
    """
    groups, size = config.beam_groups, config.group_size
    fields = initial_fields(
        runner or EagerRunner(), model, source, constraints, beams=config.beam_size
    )
    log_probs = fields["log_probs"]
    empty = FinishedHypotheses.empty(
        torch.full_like(log_probs, -torch.inf).unflatten(1, (groups, size)),
        fields["last_tokens"].unflatten(1, (groups, size)),
    )
    log_probs[:, ::size] = 0.0  # each group starts with a single empty prefix
    search = DiverseBeamSearch(
        **fields | {"finished": empty},
        length_penalty=config.length_penalty,
        num_hypotheses=-(-config.num_hypotheses // groups),
        max_finished=config.max_finished,
        penalties=penalties.start(fields["tokens"]) if penalties else None,
        diversity_penalty=config.diversity_penalty,
    )
    nbests = run_search(search, runner or EagerRunner())
    return [sort_by_score(nbest[: config.num_hypotheses]) for nbest in nbests]


@dataclass
class DiverseBeamSearch(BeamSearch):
    """The state of a diverse beam search over B sentences with G groups of W beams each.

    Candidates and finished hypotheses are (B, G, ...); other tensors have G W beams. The
    `num_hypotheses` are those of a group.
    """

    diversity_penalty: float = field(kw_only=True)

    @property
    def graph_key(self) -> Hashable:
        """Everything but tensor shapes that a step depends on."""
        return "diverse", self.diversity_penalty, super().graph_key

    def rank(self, scores: NextTokenScores, *, may_force: bool) -> Candidates:
        """The 2W best continuations of each group, with the log-probs of the model. (B, G, 2W)"""
        forced = self.forced_candidates(scores) if may_force else None
        continuations = self._continuations(scores)
        chosen = continuations.tokens[:, 0, :0]  # by the beams of earlier groups
        ranked = []
        for group in range(self.finished.scores.shape[1]):
            candidates = Candidates(*(part[:, group] for part in continuations))
            candidates = self._rank_group(candidates, chosen)
            beams = self.best_unfinished(candidates)
            chosen = torch.cat([chosen, beams.tokens.where(beams.log_probs > -torch.inf, FREE)], 1)
            ranked.append(candidates)
        return self._with_forced(Candidates(*map(_stack_groups, zip(*ranked, strict=True))), forced)

    def _continuations(self, scores: NextTokenScores) -> Candidates:
        """The continuations that can be among the best of their group; (B, G, W k).

        Earlier groups have chosen at most G W - W tokens. Of the G W + W best continuations of a
        beam, 2W are therefore not penalized, and no other continuation comes before these.
        """
        groups, size = self.finished.scores.shape[1:]
        beams = groups * size
        count = min(beams + size, scores.vocab_size)
        best = scores.topk(self.log_probs.view(-1, 1), count)
        parents = torch.arange(beams, device=best.tokens.device)[:, None].expand(-1, count)
        shape = len(self.active), groups, size * count
        return Candidates(
            best.log_probs.view(shape),
            parents.expand(len(self.active), -1, -1).reshape(shape),
            best.tokens.view(shape),
        )

    def _rank_group(self, candidates: Candidates, chosen: Tensor) -> Candidates:
        """The 2W best candidates of a group, given the tokens that earlier groups have chosen."""
        count = (candidates.tokens[:, :, None] == chosen[:, None]).sum(2)
        penalized = candidates.log_probs - self.diversity_penalty * count
        order = penalized.topk(2 * self.finished.scores.shape[2], dim=1).indices
        return Candidates(*(part.gather(1, order) for part in candidates))

    def _with_forced(self, candidates: Candidates, forced: Candidates | None) -> Candidates:
        """The candidates, or those that are forced in sentences that have such."""
        if forced is None:
            return candidates
        groups, size = self.finished.scores.shape[1:]
        log_probs, parents, tokens = (
            part[:, : groups * size].unflatten(1, (groups, size)) for part in forced
        )
        is_forced = tokens[:, :, :1] != FREE
        return Candidates(
            candidates.log_probs.where(~is_forced, pad(log_probs, (0, size), value=-torch.inf)),
            candidates.parents.where(~is_forced, pad(parents, (0, size))),
            candidates.tokens.where(~is_forced, pad(tokens, (0, size))),
        )

    def prune(self, candidates: Candidates) -> Candidates:
        """The best unfinished candidates; groups of which none can win get no beams."""
        log_probs, parents, tokens = self.best_unfinished(candidates)
        is_active = self.is_active(log_probs.amax(2))
        self.active.copy_(is_active.any(1))
        log_probs = log_probs.masked_fill(~is_active[:, :, None], -torch.inf)
        return Candidates(log_probs.flatten(1), parents.flatten(1), tokens.flatten(1))

    def results(self, sentences: Sequence[int]) -> list[list[Hypothesis]]:
        """The distinct hypotheses of these sentences: the best of each group, the second best, ...

        The best ones of different groups, and so on, are sorted by score.
        """
        finished = self.finished
        order = finished.scores.argsort(dim=1, descending=True, stable=True)
        columns = (
            part.gather(1, order).transpose(1, 2).flatten(1)
            for part in (finished.lengths, finished.log_probs, finished.beams)
        )
        return [*map(_distinct, self.hypotheses(torch.tensor(sentences), *columns))]


def _stack_groups(parts: Sequence[Tensor]) -> Tensor:
    """Tensors of G groups as one. (B, n) each -> (B, G, n)"""
    return torch.stack(list(parts), 1)


def _distinct(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses without those whose tokens have occurred before."""
    first: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in hypotheses:
        first.setdefault(tuple(hypothesis.tokens), hypothesis)
    return [*first.values()]
