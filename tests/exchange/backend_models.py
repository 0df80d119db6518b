"""Small models with random weights, in CTranslate2 and in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.backends.ctranslate2_backend import CTranslate2Backend
from regard.backends.torch_backend import TorchBackend
from regard.decoding.backend import Backend, Hypothesis, Request, search_requests
from regard.decoding.config import SearchConfig
from regard.exchange.ctranslate2 import WeightPrecision, write_model
from regard.models.folder import DataStatistics, ModelFolder
from regard.models.transformer import Transformer

SPECIAL_TOKENS = ["<pad>", "<unk>", "<s>", "</s>"]


class IdTokenizer:
    """As much of a tokenizer as a backend uses: each id has a name."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        return [SPECIAL_TOKENS[i] if i < len(SPECIAL_TOKENS) else f"▁{i}" for i in ids]


class IdTokenizers:
    """As much of `Tokenizers` as a backend uses."""

    def __init__(self, model: Transformer) -> None:
        self.source = IdTokenizer(model.vocabulary.source)
        self.target = IdTokenizer(model.vocabulary.target)


def describe_model(model: Transformer) -> ModelFolder:
    """Return the description of a model without a folder."""
    tokenizers: Any = IdTokenizers(model)
    languages: dict[str, str | None] = {"source": "en", "target": "de"}
    return ModelFolder(
        model.vocabulary, tokenizers, languages, DataStatistics(9, 0.0), model.config
    )


def to_ctranslate2(
    model: Transformer, out: Path, precision: WeightPrecision = "float32"
) -> CTranslate2Backend:
    """Export a model to CTranslate2 and load it."""
    folder = describe_model(model)
    write_model(folder, model, out / precision, precision=precision)
    return CTranslate2Backend(out / precision, folder.tokenizers)


def to_torch(model: Transformer) -> TorchBackend:
    """Wrap a model in a PyTorch backend."""
    return TorchBackend([model], torch.device("cpu"))


def run_search(
    backend: Backend,
    sources: Sequence[list[int]],
    *,
    prefixes: Sequence[list[int]] | None = None,
    batch_size: int | None = None,
    **settings: Any,
) -> list[list[Hypothesis]]:
    """The hypotheses that a backend returns for each source, in order."""
    prefixes = prefixes or [[] for _ in sources]
    requests = [Request(source, prefix) for source, prefix in zip(sources, prefixes, strict=True)]
    results = sorted(search_requests(backend, requests, SearchConfig(**settings), batch_size))
    assert [result.request for result in results] == list(range(len(requests)))
    return [result.hypotheses for result in results]
