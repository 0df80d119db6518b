"""Constrained search: sentences whose translation lacks a required term are searched again.

The first search is that of the wrapped backend, without constraints: where its hypotheses satisfy
them, they are the result. For the others, PyTorch searches among the hypotheses that satisfy them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from regard.backends.wrapped_backend import Searched, WrappedBackend
from regard.decoding.backend import Backend, Hypothesis, Request, search_requests
from regard.decoding.config import SearchConfig
from regard.decoding.token_constraints import Automata, TokenConstraint


class ConstrainedBackend(WrappedBackend):
    """Searches again where a hypothesis does not satisfy the constraints of its request."""

    def __init__(
        self, inner: Backend, constrained: Callable[[], Backend], continues_word: Sequence[bool]
    ) -> None:
        super().__init__(inner)
        self._constrained = constrained  # loads the backend that supports constraints
        self._automata = Automata(continues_word)

    def inner_request(self, request: Request) -> Request:
        """The request without constraints, which PyTorch would apply in the first search."""
        return request._replace(constraints=())

    def is_final(self, searched: Searched, config: SearchConfig) -> bool:
        """Whether all hypotheses satisfy the constraints."""
        request, hypotheses = searched
        return not any(self._unsatisfied(request, hypothesis) for hypothesis in hypotheses)

    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        """Hypotheses that satisfy the constraints; the warnings of each name those it does not."""
        requests = [self._possible(request, config) for request, _ in searched]
        results = dict(search_requests(self._constrained(), requests, config, None))
        for number, (request, unconstrained) in enumerate(searched):
            yield [
                each._replace(warnings=(*self._warnings(request, requests[number], each),))
                for each in results[number] or unconstrained  # others may choose among them
            ]

    def _unsatisfied(self, request: Request, hypothesis: Hypothesis) -> list[TokenConstraint]:
        return self._automata.unsatisfied(request.constraints, hypothesis.tokens)

    def _possible(self, request: Request, config: SearchConfig) -> Request:
        """The request with the constraints that can be satisfied within its maximum length."""
        limit = config.limit(len(request.source) + 1, self._constrained().max_length)
        available = limit - 1 - len(request.prefix)
        possible = []
        for constraint in request.constraints:
            if constraint.sequences and constraint.shortest <= available:
                possible.append(constraint)
                available -= constraint.shortest
        return request._replace(constraints=tuple(possible))

    def _warnings(
        self, request: Request, possible: Request, hypothesis: Hypothesis
    ) -> Iterator[str]:
        """What a hypothesis lacks, and why."""
        for constraint in self._unsatisfied(request, hypothesis):
            if not constraint.sequences:
                reason = ", which the vocabulary cannot express"
            elif constraint not in possible.constraints:
                reason = ", which does not fit into the maximum length"
            else:
                reason = ""
            yield f"lacks {constraint.name}{reason}"
