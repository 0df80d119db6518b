"""Lexical constraints as token ids: sequences that an output contains, and automata that find them.

An automaton (Aho and Corasick, 1975) reads an output token by token. Its states say how many
occurrences are complete, and which part of the next one has been read. A sequence is no whole word
if the next token continues the word, so an occurrence counts when the next token, or EOS, is read.

This module does not import PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

_IMPOSSIBLE = 1_000_000  # remaining tokens of a state from which a constraint cannot be satisfied


class TokenConstraint(NamedTuple):
    """Sequences of token ids, one of which an output contains `occurrences` times."""

    # In other words or segmentations. Without any, no output satisfies the constraint.
    sequences: tuple[tuple[int, ...], ...]
    occurrences: int = 1  # or more
    exactly: bool = False  # not more
    whole_word: bool = True  # the last token must not be followed by one that continues the word
    name: str = ""  # of the term, for warnings

    @property
    def shortest(self) -> int:
        """The fewest tokens that satisfy the constraint."""
        return self.occurrences * min(map(len, self.sequences))


@dataclass(frozen=True)
class Automaton:
    """The automaton of a constraint; its start state is 0.

    A transition is selected by the index of a token in the alphabet, or by one of two classes of
    other tokens: at index -2 those that may follow a word, at -1 those that continue it.
    """

    alphabet: list[int]  # the tokens of the sequences
    transitions: list[list[int]]  # of each state: the next states
    remaining: list[int]  # of each state: the tokens that are missing; 0: satisfied
    next_tokens: list[list[int]]  # of each state: those that continue or begin a sequence

    def is_satisfied_by(self, tokens: Sequence[int], continues_word: Sequence[bool]) -> bool:
        """Whether an output, without EOS, satisfies the constraint."""
        state = 0
        for token in tokens:
            known = token in self.alphabet
            index = self.alphabet.index(token) if known else -2 + continues_word[token]
            state = self.transitions[state][index]
        return self.remaining[state] == 0


class Automata:
    """The automata of constraints over a vocabulary, each of which is built once."""

    def __init__(self, continues_word: Sequence[bool]) -> None:
        self.continues_word = continues_word  # for each token id
        self._build = lru_cache(4096)(
            lambda constraint: _Builder(constraint, continues_word).build()
        )

    def of(self, constraints: Sequence[TokenConstraint]) -> list[Automaton]:
        """The automaton of each constraint."""
        return [self._build(constraint) for constraint in constraints]

    def unsatisfied(
        self, constraints: Sequence[TokenConstraint], tokens: Sequence[int]
    ) -> list[TokenConstraint]:
        """The constraints that an output, without EOS, does not satisfy."""
        return [each for each in constraints if not self._is_satisfied(each, tokens)]

    def _is_satisfied(self, constraint: TokenConstraint, tokens: Sequence[int]) -> bool:
        if not constraint.sequences:
            return False
        return self._build(constraint).is_satisfied_by(tokens, self.continues_word)


class _Builder:
    """Builds an automaton from the trie of the sequences.

    A state is a pair of completed occurrences and a node of the trie. Two further states have no
    way out: of satisfied constraints, and of those that must not be, but were, satisfied again.
    """

    def __init__(self, constraint: TokenConstraint, continues_word: Sequence[bool]) -> None:
        self._constraint, self._continues_word = constraint, continues_word
        self._alphabet = sorted({token for ids in constraint.sequences for token in ids})
        self._children: list[dict[int, int]] = [{}]  # of each node: the next nodes by token
        self._is_end = [False]  # of each node: whether it ends a sequence
        for ids in constraint.sequences:
            self._insert(ids)
        self._add_failures()
        nodes, levels = len(self._children), constraint.occurrences + constraint.exactly
        self._satisfied, self._dead = levels * nodes, levels * nodes + 1

    def build(self) -> Automaton:
        """The automaton."""
        pairs = [
            (complete, node)
            for complete in range(self._constraint.occurrences + self._constraint.exactly)
            for node in range(len(self._children))
        ]
        final = [[state] * (len(self._alphabet) + 2) for state in (self._satisfied, self._dead)]
        return Automaton(
            self._alphabet,
            [*([*self._transitions(*pair)] for pair in pairs), *final],
            [*(self._remaining(*pair) for pair in pairs), 0, _IMPOSSIBLE],
            [*(self._next_tokens(*pair) for pair in pairs), [], []],
        )

    def _insert(self, ids: Sequence[int]) -> None:
        node = 0
        for token in ids:
            if token not in self._children[node]:
                self._children[node][token] = len(self._children)
                self._children.append({})
                self._is_end.append(False)
            node = self._children[node][token]
        self._is_end[node] = True

    def _add_failures(self) -> None:
        """Complete the trie to an automaton: after a mismatch, the longest suffix that fits."""
        self._goto = [dict[int, int]() for _ in self._children]
        self._goto[0] = {token: self._children[0].get(token, 0) for token in self._alphabet}
        queue = [(child, 0) for child in self._children[0].values()]
        for node, failure in queue:  # breadth first; grows while it is read
            self._is_end[node] |= self._is_end[failure]
            for token in self._alphabet:
                child = self._children[node].get(token)
                self._goto[node][token] = self._goto[failure][token] if child is None else child
                if child is not None:
                    queue.append((child, self._goto[failure][token]))

    def _transitions(self, complete: int, node: int) -> Iterator[int]:
        for token in self._alphabet:
            yield self._next(complete, node, token, continues=self._continues_word[token])
        yield self._next(complete, node, None, continues=False)
        yield self._next(complete, node, None, continues=True)

    def _next(self, complete: int, node: int, token: int | None, *, continues: bool) -> int:
        """The state after a token; None: one that is in no sequence."""
        constraint = self._constraint
        is_complete = self._is_end[node] and constraint.whole_word and not continues
        if is_complete and complete < constraint.occurrences:
            complete, node = complete + 1, 0
        following = 0 if token is None else self._goto[node][token]
        if (
            self._is_end[following]
            and not constraint.whole_word
            and complete < constraint.occurrences
        ):
            complete, following = complete + 1, 0
        if complete < constraint.occurrences:
            return self._state(complete, following)
        if not constraint.exactly:
            return self._satisfied
        return self._dead if self._is_end[following] else self._state(complete, following)

    def _state(self, complete: int, node: int) -> int:
        return complete * len(self._children) + node

    def _remaining(self, complete: int, node: int) -> int:
        """The fewest tokens after which the constraint is satisfied."""
        missing = self._constraint.occurrences - complete - 1
        if missing < 0:
            return 0
        return self._distances[node] + missing * self._distances[0]

    @cached_property
    def _distances(self) -> list[int]:
        """Of each node: the fewest tokens until a sequence ends; 0 at its end."""
        distances, before = [0 if is_end else _IMPOSSIBLE for is_end in self._is_end], list[int]()
        nodes = range(len(distances))
        while distances != before:  # children come after their parents, so two or three times
            before = [*distances]
            for node in reversed(nodes):
                others = (1 + distances[other] for other in self._goto[node].values())
                distances[node] = min([distances[node], *others])
        return distances

    def _next_tokens(self, complete: int, node: int) -> list[int]:
        """The tokens that continue a sequence, or begin the next one after its end."""
        ended = self._is_end[node]
        if complete + ended >= self._constraint.occurrences:
            return []
        return [*self._children[0 if ended else node]]
