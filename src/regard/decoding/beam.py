"""Beam search: keep the W best unfinished prefixes of each sentence.

A step of the search is

    step      the decoder reads the last tokens and returns next-token logits
    rank      the best continuations of each sentence, over all its beams
    finish    continuations that end in EOS become finished hypotheses
    prune     the best of the others become the new beams

A sentence is finished when it has W finished hypotheses with higher scores than its best beam at
its current length, or when no beam is left. With `max_finished`, it stops as CTranslate2 does:
after that many finished hypotheses; without a length penalty, after `num_hypotheses` of them if one
was the best candidate of its step. Sentences of a batch do not influence each other. All tensors
have fixed shapes, so that a step can be captured as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.decoding.backend import Hypothesis, finished_hypothesis, sort_by_score
from regard.decoding.constraints import FREE, DecodingConstraints
from regard.decoding.next_token import Candidates, NextTokenScores, next_token_scores
from regard.decoding.penalties import PenaltyConfig
from regard.decoding.runners import EagerRunner, Search, nested_tensors, run_search
from regard.models.protocol import Autoregressive
from regard.text.special import SPECIAL


@torch.inference_mode()
def beam_search(
    model: Autoregressive[Any],
    source: Ragged,
    constraints: DecodingConstraints,
    *,
    beam_size: int,
    num_hypotheses: int | None = None,
    length_penalty: float = 1.0,
    max_finished: int | None = None,
    penalties: PenaltyConfig | None = None,
    runner: EagerRunner | None = None,
) -> list[list[Hypothesis]]:
    """Up to `num_hypotheses` (default: `beam_size`) hypotheses per source sentence, best first."""
    runner = runner or EagerRunner()
    fields = initial_fields(runner, model, source, constraints, beams=beam_size)
    search = BeamSearch(
        **fields,
        length_penalty=length_penalty,
        num_hypotheses=num_hypotheses or beam_size,
        max_finished=max_finished,
        penalties=penalties.start(fields["tokens"]) if penalties else None,
    )
    return run_search(search, runner)


def initial_fields(
    runner: EagerRunner,
    model: Autoregressive[Any],
    source: Ragged,
    constraints: DecodingConstraints,
    *,
    beams: int,
    finished: int | None = None,
) -> dict[str, Any]:
    """The fields of a `BeamSearch` at position 0, for a number of finished hypotheses."""
    fields = runner.initial_fields(model, source, constraints, beams=beams)
    last_tokens = fields["last_tokens"]
    log_probs = torch.full(last_tokens.shape, -torch.inf, device=last_tokens.device)
    kept = slice(finished or beams)
    fields["finished"] = FinishedHypotheses.empty(log_probs[:, kept], last_tokens[:, kept])
    log_probs[:, 0] = 0.0  # each sentence starts with a single empty prefix
    return {**fields, "log_probs": log_probs, "parents": fields["tokens"].clone()}


@dataclass
class FinishedHypotheses:
    """The W best finished hypotheses of each sentence, best first; (B, W) unless noted.

    In diverse beam search, those of each group: (B, G, W / G).
    """

    scores: Tensor  # length-normalized; -inf marks an empty entry
    log_probs: Tensor
    lengths: Tensor  # without EOS
    beams: Tensor  # the beam that EOS was appended to
    count: Tensor  # (B,) or (B, G) finished so far, including those that were dropped
    best_finished: Tensor  # (B,) or (B, G) whether the best candidate of any step ended in EOS

    @staticmethod
    def empty(log_probs: Tensor, tokens: Tensor) -> FinishedHypotheses:
        """No finished hypotheses; log_probs (..., W) must be -inf."""
        zeros = torch.zeros_like(tokens)
        return FinishedHypotheses(
            scores=log_probs.clone(),
            log_probs=log_probs.clone(),
            lengths=zeros,
            beams=zeros.clone(),
            count=zeros[..., 0].clone(),
            best_finished=torch.zeros_like(zeros[..., 0], dtype=torch.bool),
        )


@dataclass
class BeamSearch(Search[list[Hypothesis]]):
    """The state of a beam search over B sentences; an unused beam has log-probability -inf."""

    parents: Tensor  # (T, B, W) back-pointers: the beam at the previous position
    finished: FinishedHypotheses
    num_hypotheses: int = 1  # returned per sentence
    max_finished: int | None = None  # finished hypotheses after which a sentence is done

    @property
    def graph_key(self) -> Hashable:
        """Everything but tensor shapes that a step depends on."""
        stopping = self.length_penalty, self.num_hypotheses, self.max_finished
        limits = self.constraints.min_length, self.constraints.at_limit
        return "beam", *stopping, *limits, self.penalties and self.penalties.graph_key

    def advance(self, *, may_force: bool) -> None:
        """Extend every beam by one token."""
        candidates = self.rank(self.next_token_scores(), may_force=may_force)
        self.finish(candidates)
        self.move_to(self.prune(candidates))

    def next_token_scores(self) -> NextTokenScores:
        """The scores of the next tokens of all beams."""
        logits = self.model.step(self.last_tokens, self.state)
        return next_token_scores(
            logits.flatten(0, 1), self.constraints, self.position, penalties=self.penalties
        )

    def rank(self, scores: NextTokenScores, *, may_force: bool) -> Candidates:
        """The 2W best continuations of each sentence: at least W of them do not end in EOS."""
        forced = self.forced_candidates(scores) if may_force else None
        free = scores.topk(self.log_probs, 2 * self.last_tokens.shape[1])
        if forced is None:
            return free
        is_forced = forced.tokens != FREE
        return Candidates(
            *(torch.where(is_forced, *pair) for pair in zip(forced, free, strict=True))
        )

    def finish(self, candidates: Candidates) -> None:
        """Add those of the W best candidates that end in EOS to the finished hypotheses."""
        finished, beam_size = self.finished, self.finished.scores.shape[-1]
        is_eos = candidates.tokens[..., :beam_size] == SPECIAL.eos
        log_probs = candidates.log_probs[..., :beam_size].masked_fill(~is_eos, -torch.inf)
        is_finished = log_probs > -torch.inf
        finished.count += is_finished.sum(-1)
        finished.best_finished |= is_finished[..., 0]
        all_scores = torch.cat([finished.scores, self._length_normalized(log_probs)], -1)
        scores, order = all_scores.topk(beam_size, dim=-1)
        finished.scores.copy_(scores)
        for old, new in (
            (finished.log_probs, log_probs),
            (finished.lengths, self.position.expand(log_probs.shape)),
            (finished.beams, candidates.parents[..., :beam_size]),
        ):
            old.copy_(torch.cat([old, new], -1).gather(-1, order))

    def prune(self, candidates: Candidates) -> Candidates:
        """The W best unfinished candidates; sentences of which none can win become inactive."""
        unfinished = self.best_unfinished(candidates)
        self.active.copy_(self.is_active(unfinished.log_probs[:, 0]))
        return unfinished

    def best_unfinished(self, candidates: Candidates) -> Candidates:
        """The W best candidates that do not end in EOS. (..., count) -> (..., W)"""
        is_eos = candidates.tokens == SPECIAL.eos
        order = is_eos.to(torch.uint8).argsort(dim=-1, stable=True)
        order = order[..., : self.finished.scores.shape[-1]]
        log_probs = candidates.log_probs.masked_fill(is_eos, -torch.inf).gather(-1, order)
        return Candidates(
            log_probs, candidates.parents.gather(-1, order), candidates.tokens.gather(-1, order)
        )

    def move_to(self, candidates: Candidates) -> None:
        """Replace the beams by these candidates."""
        self.log_probs.copy_(candidates.log_probs.masked_fill(~self.active[:, None], -torch.inf))
        self.last_tokens.copy_(candidates.tokens)
        self.tokens.index_copy_(0, self.position, candidates.tokens[None])
        self.parents.index_copy_(0, self.position, candidates.parents[None])
        self.state.reorder(candidates.parents)
        if self.penalties is not None:
            tokens = self.constraints.without_context(candidates.tokens, self.position)
            self.penalties.append(tokens, self.position, candidates.parents)
        self.position += 1

    def is_active(self, best: Tensor) -> Tensor:
        """Whether each sentence (or group) continues, given its best log-prob. (B, ...)"""
        if self.max_finished is None:
            return self._length_normalized(best) > self.finished.scores[..., -1]
        if self.length_penalty == 0:
            is_done = self.finished.best_finished & (self.finished.count >= self.num_hypotheses)
        else:
            is_done = self.finished.count >= self.max_finished
        return (best > -torch.inf) & ~is_done

    def _length_normalized(self, log_probs: Tensor) -> Tensor:
        """The scores of hypotheses that end at the current position. (B, ...)"""
        lengths = self.constraints.scored_length(self.position).float() ** self.length_penalty
        return log_probs / lengths.view(-1, *[1] * (log_probs.ndim - 1))

    def forced_candidates(self, scores: NextTokenScores) -> Candidates:
        """Every beam continued by its forced token; the token is FREE where none is forced."""
        sentences, beam_size = self.last_tokens.shape
        tokens = self.constraints.forced_tokens(self.position)[:, None].expand(-1, beam_size)
        log_probs = scores.gather(tokens.clamp(min=0).reshape(-1, 1)).view(sentences, beam_size)
        log_probs = self.constraints.forced_log_probs(log_probs, self.position)
        padding = torch.full_like(log_probs, -torch.inf)
        beams = torch.arange(beam_size, device=log_probs.device).repeat(2)
        return Candidates(
            torch.cat([self.log_probs + log_probs, padding], 1),
            beams.expand(sentences, -1),
            tokens.repeat(1, 2),
        )

    def select(self, sentences: Tensor) -> BeamSearch:
        """The search over these sentences only."""
        finished = FinishedHypotheses(*(part[sentences] for part in nested_tensors(self.finished)))
        parents = self.parents[:, sentences]
        return replace(super().select(sentences), parents=parents, finished=finished)

    def results(self, sentences: Sequence[int]) -> list[list[Hypothesis]]:
        """The finished hypotheses of these sentences, best first."""
        finished = self.finished
        columns = finished.lengths, finished.log_probs, finished.beams
        hypotheses = self.hypotheses(
            torch.tensor(sentences), *(column[:, : self.num_hypotheses] for column in columns)
        )
        return [*map(sort_by_score, hypotheses)]

    def hypotheses(
        self, rows: Tensor, lengths: Tensor, log_probs: Tensor, beams: Tensor
    ) -> list[list[Hypothesis]]:
        """Finished hypotheses of some sentences, of all (B, n), in the same order. (rows,)"""
        scored = self.constraints.scored_length(lengths)
        lengths, log_probs, beams, scored_lengths = (
            part.cpu()[rows] for part in (lengths, log_probs, beams, scored)
        )
        tokens = self._backtrack(rows, lengths, beams)
        columns = (part.tolist() for part in (tokens, lengths, log_probs, scored_lengths))
        return [
            [
                finished_hypothesis(
                    [*ids[:length], SPECIAL.eos], log_prob, self.length_penalty, scored_length
                )
                for ids, length, log_prob, scored_length in zip(*sentence, strict=True)
                if log_prob > -torch.inf
            ]
            for sentence in zip(*columns, strict=True)
        ]

    def _backtrack(self, rows: Tensor, lengths: Tensor, beams: Tensor) -> Tensor:
        """The tokens of each hypothesis, by following the back-pointers from its last beam.

        rows (n,), lengths and beams (n, num_hypotheses) -> (n, num_hypotheses, T)
        """
        longest = int(lengths.max())
        tokens, parents = (part[:longest].cpu()[:, rows] for part in (self.tokens, self.parents))
        sequences = tokens.new_zeros(longest, *beams.shape)
        for position in reversed(range(longest)):
            sequences[position] = tokens[position].gather(1, beams)
            parent = parents[position].gather(1, beams)
            beams = torch.where(position < lengths, parent, beams)
        return sequences.permute(1, 2, 0)
