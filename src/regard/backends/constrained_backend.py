"""Constrained search: sentences whose translation lacks a required term are searched again.

The first search is that of the wrapped backend, without constraints: where its hypotheses satisfy
them, they are the result. For the others, PyTorch searches among the hypotheses that satisfy them.
Constraints that are not enforced are only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
        return not self._is_unsatisfied(*searched)

    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        """Hypotheses that satisfy the constraints; the warnings of each name those it does not."""
        requests = [self._possible(request, config) for request, _ in searched]
        results = self.search_again(
            {
                number: request
                for number, request in enumerate(requests)
                if self._is_unsatisfied(request, searched[number].hypotheses)
            },
            config,
        )
        for number, (request, unconstrained) in enumerate(searched):
            yield [
                each._replace(
                    warnings=(
                        *each.warnings,
                        *self._warnings(request, requests[number], each),
                    )
                )
                for each in results.get(number) or unconstrained  # others may choose among them
            ]

    def search_again(
        self, requests: Mapping[int, Request], config: SearchConfig
    ) -> dict[int, list[Hypothesis]]:
        """The hypotheses of a constrained search; none where it fails."""
        if not requests:
            return {}
        numbers = [*requests]
        results = search_requests(self._constrained(), [*requests.values()], config, None)
        return {numbers[index]: hypotheses for index, hypotheses in results}

    def _unsatisfied(self, request: Request, hypothesis: Hypothesis) -> list[TokenConstraint]:
        return self._automata.unsatisfied(request.constraints, hypothesis.tokens)

    def _is_unsatisfied(self, request: Request, hypotheses: Sequence[Hypothesis]) -> bool:
        return any(self._unsatisfied(request, hypothesis) for hypothesis in hypotheses)

    def _possible(self, request: Request, config: SearchConfig) -> Request:
        """The request with the enforced constraints that fit into its maximum length."""
        enforced = [each for each in request.constraints if each.enforced and each.sequences]
        if not enforced:
            return request._replace(constraints=())
        length, context = len(request.segment) + 1, request.context.target
        limit = config.limit(length, self._constrained().max_length, context)
        available = limit - 1 - len(request.prefix)
        possible = []
        for constraint in enforced:
            if constraint.shortest <= available:
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
            elif constraint.enforced and constraint not in possible.constraints:
                reason = ", which does not fit into the maximum length"
            else:
                reason = ""
            yield f"lacks {constraint.name}{reason}"
