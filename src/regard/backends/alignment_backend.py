"""Alignment of hypotheses: the source token that each target token translates.

Whatever library ran the search, the hypotheses are aligned by the model in PyTorch, in one forward
pass for many of them. They are aligned without document context, so that no token is aligned to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from regard.backends.wrapped_backend import Searched, WrappedBackend
from regard.decoding.backend import Backend, Hypothesis
from regard.decoding.config import SearchConfig

if TYPE_CHECKING:
    from regard.backends.aligners import PairAligner


class AlignmentBackend(WrappedBackend):
    """Aligns the hypotheses of the requests that need it."""

    def __init__(self, inner: Backend, aligner: Callable[[], PairAligner | None]) -> None:
        super().__init__(inner)
        self._aligner = aligner

    def is_final(self, searched: Searched, config: SearchConfig) -> bool:
        """Whether the request needs no alignment."""
        return not searched.request.needs_alignment

    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        """The hypotheses with alignments; without, if there is no aligner."""
        aligner = self._aligner()
        if aligner is None:
            return [hypotheses for _, hypotheses in searched]
        pairs = [
            (request.segment, hypothesis.tokens)
            for request, hypotheses in searched
            for hypothesis in hypotheses
        ]
        alignments = iter(aligner.align(pairs))
        return [
            [hypothesis._replace(alignment=next(alignments)) for hypothesis in hypotheses]
            for _, hypotheses in searched
        ]
