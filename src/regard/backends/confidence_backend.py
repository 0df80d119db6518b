"""Token log-probs of hypotheses, by forced decoding after the search.

They are those of the model: penalties, constraints, sampling temperature and a minimum length,
which change the scores of a search, do not affect them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from regard.backends.wrapped_backend import Searched, WrappedBackend
from regard.decoding.backend import Hypothesis
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import TextConfig
from regard.errors import ConfigError


class ConfidenceBackend(WrappedBackend):
    """Adds the log-prob of each token to all hypotheses."""

    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        """The hypotheses of each request with `token_log_probs`."""
        pairs = [
            (request.source, [*request.target_context, *hypothesis.tokens])
            for request, nbest in searched
            for hypothesis in nbest
        ]
        rows = iter(self.inner.token_log_probs(pairs))
        for request, nbest in searched:
            context = request.context.target
            yield [each._replace(token_log_probs=next(rows)[context:]) for each in nbest]


def computes_confidence(text: TextConfig, mode: str) -> bool:
    """Whether confidences are requested; raises an error in modes without token probabilities."""
    if not text.computes_confidence:
        return False
    if mode in ("CTC decoding", "decoding with fertilities"):
        raise ConfigError(
            "confidence (--confidence, --min-confidence) is not available for non-autoregressive "
            "models, which have no probability for each token. Leave it out."
        )
    return True
