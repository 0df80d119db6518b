"""The backend that a search runs on: the selected one or PyTorch, and the wrappers around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from regard.backends.alignment_backend import AlignmentBackend
from regard.backends.confidence_backend import ConfidenceBackend, computes_confidence
from regard.backends.constrained_backend import ConstrainedBackend
from regard.backends.mbr import MbrBackend, make_utility
from regard.backends.rerank import RerankBackend
from regard.backends.retry import RetryBackend, retries
from regard.data.model_text import ModelText
from regard.decoding.backend import Backend
from regard.decoding.config import SearchConfig
from regard.decoding.ranking_config import candidate_count
from regard.decoding.text_config import TextConfig
from regard.text.segmentations import continues_word

if TYPE_CHECKING:
    from regard.backends.lazy_models import LazyModels


def search_backend(
    config: SearchConfig,
    text: TextConfig,
    selected: Backend,
    models: Callable[[], LazyModels],
    mode: str,
    model_text: ModelText,
    constrained: bool = False,
) -> Backend:
    """The backend for a search with these settings: the wrappers around it, innermost first.

    `mode` is the decoding mode (`modes.py`). `models` loads the models in PyTorch, which some
    settings need whatever backend was selected.
    """
    backend: Backend = models().torch_backend if config.requires_torch else selected
    if constrained:
        continues = continues_word(model_text.tokenizers.target)
        backend = ConstrainedBackend(backend, lambda: models().torch_backend, continues)
    if text.mbr:
        candidates = candidate_count(config, text, mode)
        utility = make_utility(text, model_text, backend.device)
        backend = MbrBackend(backend, utility, model_text, candidates)
    elif text.rerank:
        candidates = candidate_count(config, text, mode)
        rerankers = models().rerankers(text.rerank)
        backend = RerankBackend(backend, rerankers, text.weights, model_text, candidates)
    if retries(config, text, mode):
        backend = RetryBackend(backend, text)
    if computes_confidence(text, mode):  # outermost: of the hypotheses that are returned
        backend = ConfidenceBackend(backend)
    if text.aligns:
        backend = AlignmentBackend(backend, lambda: models().aligner)
    return backend
