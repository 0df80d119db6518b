"""The PyTorch backend.

On a CPU, each batch runs on one core, and several run in parallel: the matrix products of a step
are too small for several cores. On a GPU, steps are replayed as CUDA graphs, since launching their
kernels one by one takes longer than running them.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import nn

from regard.cuda_graphs import capture_stream
from regard.data.pairs import with_eos
from regard.decoding.backend import (
    BatchLimit,
    Hypothesis,
    IdPair,
    Request,
    SearchResult,
    reduce_for_beams,
)
from regard.decoding.config import SearchConfig
from regard.decoding.forward_passes import CudaGraphPasses, EagerPasses
from regard.decoding.lexical_constraints import LexicalConfig
from regard.decoding.nonautoregressive import nonautoregressive_search
from regard.decoding.runners import CudaGraphRunner, EagerRunner
from regard.decoding.runtime import default_window
from regard.decoding.score import pair_token_log_probs
from regard.decoding.search import search
from regard.decoding.token_constraints import Automata
from regard.decoding.wrappers import Ensemble
from regard.devices import Precision
from regard.errors import ConfigError
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import Autoregressive
from regard.text.base import Tokenizer
from regard.text.segmentations import continues_word

# Default batch size on a CPU, in source tokens, and in source tokens times beams: large batches
# need fewer steps, but with more than five beams they would take too much memory.
_CPU_TOKENS, _CPU_TOKENS_TIMES_BEAMS = 6144, 5 * 4096
_NONAUTOREGRESSIVE_BATCH_SIZES = {"cpu": 64, "cuda": 256}  # defaults for one candidate
M = TypeVar("M")
T = TypeVar("T")
R = TypeVar("R")


class BoundedAutoregressive(Autoregressive[Any], Protocol):
    """An autoregressive model with a maximum length."""

    @property
    def max_length(self) -> int | None:
        """The maximum length that the positions allow; None: unlimited."""
        ...

    @property
    def scoring_unsupported_reason(self) -> str | None:
        """Why it cannot score a given translation, and what to do; None if it can."""
        ...


class _TorchBackend:
    """Base class of backends in PyTorch; precision "auto" is bfloat16 on a GPU, else float32."""

    max_length: int | None
    _uses_cuda_graphs: bool

    def __init__(self, device: torch.device, precision: Precision) -> None:
        self.device = device
        self._bfloat16 = precision == "bfloat16" or (precision == "auto" and device.type == "cuda")

    def __str__(self) -> str:
        device = "a GPU" if self.device.type == "cuda" else "the CPU"
        return f"PyTorch on {device}, {'bfloat16' if self._bfloat16 else 'float32'}"

    def _cast(self, model: M) -> M:
        """The model in the precision of the backend."""
        if self._bfloat16 and isinstance(model, nn.Module):
            return copy.deepcopy(model).bfloat16()
        return model

    @property
    def window(self) -> int:
        """The number of sentences that are sorted by length before they are batched."""
        return default_window(self.device)

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        """`num_hypotheses` hypotheses per request."""
        numbers = itertools.count()
        for hypotheses in chain.from_iterable(self._search_batches(batches, config)):
            yield SearchResult(next(numbers), hypotheses)

    def _search_batches(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[list[list[Hypothesis]]]:
        """The hypotheses of each batch, in order."""
        batches = iter(batches)
        first = [*islice(batches, 2)]
        search = partial(self._search_batch, config=config)
        if self.device.type == "cpu" and len(first) > 1:
            with single_threaded_workers() as (pool, workers):
                yield from map_ahead(pool, search, chain(first, batches), workers + 1)
            return
        for batch in chain(first, batches):
            with (
                capture_stream(self.device, self._stream)
                if self._uses_cuda_graphs
                else nullcontext()
            ):
                hypotheses = search(batch)
            yield hypotheses

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self.device)

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        """The default batch size."""
        raise NotImplementedError

    def _search_batch(
        self, requests: Sequence[Request], config: SearchConfig
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each request of a batch."""
        raise NotImplementedError


class TorchBackend(_TorchBackend):
    """An autoregressive model, or an ensemble of them."""

    def __init__(
        self,
        models: Sequence[BoundedAutoregressive],
        device: torch.device,
        precision: Precision = "auto",
        target: Tokenizer | None = None,
    ) -> None:
        super().__init__(device, precision)
        self._target = target
        models = self._models = [*map(self._cast, models)]
        self._model: Autoregressive[Any] = Ensemble(models) if len(models) > 1 else models[0]
        self.max_length = common_max_length(models)
        self._uses_cuda_graphs = device.type == "cuda" and self._model.step_capturable
        self._runner = CudaGraphRunner() if self._uses_cuda_graphs else EagerRunner()

    @cached_property
    def _automata(self) -> Automata:
        """The automata of lexical constraints."""
        assert self._target is not None, "constraints depend on the words of the tokenizer"
        return Automata(continues_word(self._target))

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        """In tokens on a CPU, in sentences on a GPU."""
        if self.device.type == "cpu":
            tokens = max(1, min(_CPU_TOKENS, _CPU_TOKENS_TIMES_BEAMS // config.beam_size))
            return BatchLimit(tokens, in_tokens=True)
        return BatchLimit(reduce_for_beams(256, config))

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """The log-prob of each target token and of EOS, by forced decoding."""
        return pair_token_log_probs(cast(Sequence[Model], self._models), pairs, self.device)

    def _search_batch(
        self, requests: Sequence[Request], config: SearchConfig
    ) -> list[list[Hypothesis]]:
        count = len(requests)
        if self._uses_cuda_graphs:  # padded with empty sentences, so that there are few shapes
            padding = [Request([], [])] * ((1 << (count - 1).bit_length()) - count)
            requests = [*requests, *padding]
        source = with_eos([request.source for request in requests])
        if self._uses_cuda_graphs:
            longest = -(-source.lengths.longest // 16) * 16
            source = source.padded_to(min(longest, self.max_length or longest))
        hypotheses = search(
            self._model,
            source.to(self.device),
            config,
            prefixes=[request.prefix for request in requests],
            contexts=[request.context for request in requests],
            max_length=self.max_length,
            lexical=self._lexical_config(requests),
            runner=None if config.sample else self._runner,  # samples are drawn on the host
        )
        return hypotheses[:count]

    def _lexical_config(self, requests: Sequence[Request]) -> LexicalConfig | None:
        """The lexical constraints of a batch; None if there are none."""
        if not any(request.constraints for request in requests):
            return None
        automata = [self._automata.of(request.constraints) for request in requests]
        return LexicalConfig(automata, self._automata.continues_word)


class NonAutoregressiveBackend(_TorchBackend):
    """A non-autoregressive model, and optionally a teacher that reranks its candidates."""

    def __init__(
        self,
        model: Model,
        device: torch.device,
        precision: Precision = "auto",
        teacher: Model | None = None,
    ) -> None:
        super().__init__(device, precision)
        self._model = cast(NonAutoregressive, self._cast(model))
        self._teacher = self._cast(teacher)
        self.max_length = model.max_length
        models = [model] if teacher is None else [model, teacher]
        # A captured pass must launch the same kernels for all batches of a shape.
        self._uses_cuda_graphs = device.type == "cuda" and all(
            not each.config.autoregressive
            or (each.config.cuda_graphs_unsupported_reason is None and each.forward_capturable)
            for each in models
        )
        limit = common_max_length(models)
        self._passes = (
            CudaGraphPasses(device, limit) if self._uses_cuda_graphs else EagerPasses(device)
        )

    def __str__(self) -> str:
        return f"{super().__str__()}, non-autoregressive"

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        """In sentences, fewer with several candidates."""
        size = _NONAUTOREGRESSIVE_BATCH_SIZES[self.device.type]
        return BatchLimit(max(4, size // config.candidates))

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """Raise a ConfigError: all tokens are predicted at once, not one after the other."""
        raise ConfigError(
            "Token probabilities are not available for non-autoregressive models. Use an "
            "autoregressive model."
        )

    def _search_batch(
        self, requests: Sequence[Request], config: SearchConfig
    ) -> list[list[Hypothesis]]:
        if any(request.prefix for request in requests):
            raise ConfigError(
                "Non-autoregressive models do not support forced prefixes. Leave out the prefix."
            )
        source = with_eos([request.source for request in requests])
        return nonautoregressive_search(
            self._model, source, config, teacher=self._teacher, passes=self._passes
        )


def common_max_length(models: Sequence[BoundedAutoregressive | Model]) -> int | None:
    """The maximum length that the positions of all models allow; None: unlimited."""
    limits = [model.max_length for model in models if model.max_length is not None]
    return min(limits, default=None)


@contextmanager
def single_threaded_workers() -> Iterator[tuple[Executor, int]]:
    """A pool with as many workers as PyTorch has threads, each with a single thread; and how many.

    Searches that have not started are dropped if the caller stops early.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool, threads
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def map_ahead(
    pool: Executor, function: Callable[[T], R], items: Iterable[T], count: int
) -> Iterator[R]:
    """`pool.map` with at most `count` items taken before the first result is returned."""
    pending: deque[Future[R]] = deque()
    for item in items:
        pending.append(pool.submit(function, item))
        if len(pending) >= count:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
