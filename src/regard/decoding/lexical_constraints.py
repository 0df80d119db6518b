"""Lexical constraints as tensors: the automata of all sentences, and their states in each beam.

Tables have the same shape for all sentences of a batch, and a step is a few look-ups in them, so
that it can be captured as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch
from torch import Tensor

from regard.decoding.token_constraints import Automaton
from regard.text.special import SPECIAL

_MAX_ADDED_BEAMS = 15  # per sentence, if the beam size is smaller
_NO_TOKEN = -1
_BASE, _MODULUS = 1_000_003, 2**31 - 1


@dataclass(frozen=True)
class LexicalConfig:
    """The lexical constraints of each sentence of a batch."""

    automata: Sequence[Sequence[Automaton]]
    continues_word: Sequence[bool]  # for each token: whether it continues the word before it

    def start(self, beam_size: int, device: torch.device) -> LexicalConstraints:
        """The constraints before the first token."""
        sizes = torch.tensor([beam_count(beam_size, sentence) for sentence in self.automata])
        most = int(sizes.max())
        beams = most if most == beam_size else _round_up(most, max(beam_size, 4))
        tables = self._tables()
        states = torch.zeros(len(sizes), beams, tables[0].shape[1], dtype=torch.long)
        factors = torch.tensor([pow(_BASE, i, _MODULUS) for i in range(states.shape[2])])
        tensors = (*tables, torch.tensor(self.continues_word), factors, sizes, states)
        return LexicalConstraints(*(tensor.to(device) for tensor in tensors))

    def _tables(self) -> tuple[Tensor, ...]:
        """The automata as tensors: alphabet, transitions, remaining and next tokens.

        Sizes are rounded up to powers of two: fewer shapes need fewer CUDA graphs.
        """
        flat = [*chain.from_iterable(self.automata)]
        branches = (len(ids) for each in flat for ids in each.next_tokens)
        states = _power_of_two(len(each.remaining) for each in flat)
        tokens = _power_of_two(len(each.alphabet) for each in flat)
        shape = len(self.automata), _power_of_two(map(len, self.automata))
        alphabet = torch.full((*shape, tokens), _NO_TOKEN)
        transitions = torch.zeros(*shape, states, tokens + 2, dtype=torch.long)
        remaining = torch.zeros(*shape, states, dtype=torch.long)
        next_tokens = torch.full((*shape, states, _power_of_two(branches)), SPECIAL.pad)
        for row, sentence in enumerate(self.automata):
            for column, each in enumerate(sentence):
                table, known = torch.tensor(each.transitions), len(each.alphabet)
                alphabet[row, column, :known] = torch.tensor(each.alphabet)
                transitions[row, column, : len(table), :known] = table[:, :-2]
                transitions[row, column, : len(table), -2:] = table[:, -2:]
                remaining[row, column, : len(table)] = torch.tensor(each.remaining)
                for state, ids in enumerate(each.next_tokens):
                    next_tokens[row, column, state, : len(ids)] = torch.tensor(ids)
        return alphabet, transitions, remaining, next_tokens


@dataclass(frozen=True)
class LexicalConstraints:
    """C automata, with S states and K tokens each, for each of B sentences with W beams."""

    alphabet: Tensor  # (B, C, K) the tokens of the sequences
    transitions: Tensor  # (B, C, S, K + 2) see `Automaton`
    remaining: Tensor  # (B, C, S) tokens that are missing in each state
    next_tokens: Tensor  # (B, C, S, A) tokens that continue a sequence, padded with PAD
    continues_word: Tensor  # (V,) whether each token continues the word before it
    factors: Tensor  # (C,) random numbers, which distinguish the constraints
    sizes: Tensor  # (B,) the beams of each sentence; it does not use the others
    states: Tensor  # (B, W, C) of the automata, for each beam

    @property
    def beams(self) -> int:
        """The number of beams of a sentence, those included that it does not use."""
        return self.states.shape[1]

    def select(self, sentences: Tensor) -> LexicalConstraints:
        """The constraints of these sentences."""
        per_sentence = ["alphabet", "transitions", "remaining", "next_tokens", "sizes", "states"]
        return replace(self, **{name: getattr(self, name)[sentences] for name in per_sentence})

    def next_states(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """The states of these beams after a token each. (B, n), (B, n) -> (B, n, C)"""
        states = self.states.gather(1, parents[:, :, None].expand(-1, -1, self.states.shape[2]))
        matches = tokens[:, :, None, None] == self.alphabet[:, None]  # (B, n, C, K)
        other = self.alphabet.shape[2] + self.continues_word[tokens].long()[:, :, None]
        classes = torch.where(matches.any(3), matches.int().argmax(3), other)
        _, count, size, width = self.transitions.shape
        offsets = torch.arange(count, device=states.device) * size
        indices = (offsets + states) * width + classes
        return self.transitions.flatten(1).gather(1, indices.flatten(1)).view_as(states)

    def missing_tokens(self, states: Tensor) -> Tensor:
        """The number of tokens after which each constraint is satisfied. (B, n, C) both"""
        remaining = self.remaining[:, None].expand(-1, states.shape[1], -1, -1)
        return remaining.gather(3, states[:, :, :, None]).squeeze(3)

    def progress(self, missing: Tensor) -> Tensor:
        """A number for the missing tokens of all constraints. (B, n, C) -> (B, n)"""
        return (missing * self.factors).sum(2)

    def expected_tokens(self) -> Tensor:
        """For each beam, tokens that continue or begin sequences; the others are PAD. (B, W, n)"""
        tokens = self.next_tokens[:, None].expand(-1, self.beams, -1, -1, -1)
        index = self.states[:, :, :, None, None].expand(-1, -1, -1, -1, tokens.shape[4])
        return tokens.gather(3, index).flatten(2)


def beam_count(beam_size: int, automata: Sequence[Automaton]) -> int:
    """The beams of a sentence: with constraints, twice the beam size.

    If the constraints have more tokens than that adds, one more for each token, up to 15.
    """
    if not automata:
        return beam_size
    tokens = sum(each.remaining[0] for each in automata)
    return beam_size + max(beam_size, min(tokens, _MAX_ADDED_BEAMS))


def _power_of_two(sizes: Iterable[int]) -> int:
    """The smallest power of two that is at least the largest size."""
    return 1 << (max(sizes, default=1) - 1).bit_length()


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
