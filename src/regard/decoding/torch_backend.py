"""The PyTorch backend.

On a CPU, each batch runs on one core, and several run in parallel: the matrix products of a step
are too small for several cores. On a GPU, steps are replayed as CUDA graphs, since launching their
kernels one by one takes longer than running them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cached_property
from itertools import chain
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import nn

from regard.cuda_graphs import capture_stream
from regard.data.pairs import with_eos
from regard.decoding.backend import (
    Hypothesis,
    Request,
    SearchResult,
    batch_by_length,
    reduce_for_beams,
)
from regard.decoding.config import SearchConfig
from regard.decoding.forward_passes import CudaGraphPasses, EagerPasses
from regard.decoding.nonautoregressive import nonautoregressive_search
from regard.decoding.runners import CudaGraphRunner, EagerRunner
from regard.decoding.search import search
from regard.decoding.wrappers import Ensemble
from regard.devices import Precision
from regard.errors import ConfigError
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import Autoregressive

# Default batch size on a CPU, in source tokens, and in source tokens times beams: large batches
# need fewer steps, but with more than five beams they would take too much memory.
_CPU_TOKENS, _CPU_TOKENS_TIMES_BEAMS = 6144, 5 * 4096
_NONAUTOREGRESSIVE_BATCH_SIZES = {"cpu": 64, "cuda": 256}  # defaults for one candidate
M = TypeVar("M")


class BoundedAutoregressive(Autoregressive[Any], Protocol):
    """An autoregressive model with a maximum length."""

    @property
    def max_length(self) -> int | None:
        """The maximum length that the positions allow; None: unlimited."""
        ...


class _TorchBackend:
    """Base class of backends in PyTorch; precision "auto" is bfloat16 on a GPU, else float32."""

    max_length: int | None
    _uses_cuda_graphs: bool

    def __init__(self, device: torch.device, precision: Precision) -> None:
        self._device = device
        self._bfloat16 = precision == "bfloat16" or (precision == "auto" and device.type == "cuda")

    def __str__(self) -> str:
        device = "a GPU" if self._device.type == "cuda" else "the CPU"
        return f"PyTorch on {device}, {'bfloat16' if self._bfloat16 else 'float32'}"

    def _cast(self, model: M) -> M:
        """The model in the precision of the backend."""
        if self._bfloat16 and isinstance(model, nn.Module):
            return copy.deepcopy(model).bfloat16()
        return model

    def search(
        self, requests: Iterable[Request], config: SearchConfig, batch_size: int | None
    ) -> Iterator[SearchResult]:
        """`num_hypotheses` hypotheses per request."""
        requests = list(requests)
        lengths = [len(request.source) + 1 for request in requests]  # with EOS
        size, in_tokens = (
            (batch_size, False) if batch_size is not None else self._default_batch_size(config)
        )
        chunks = list(
            batch_by_length(range(len(requests)), lengths.__getitem__, size, in_tokens=in_tokens)
        )

        def run(numbers: list[int]) -> list[SearchResult]:
            hypotheses = self._search_batch([requests[n] for n in numbers], config)
            return [*map(SearchResult, numbers, hypotheses)]

        if self._device.type == "cpu" and len(chunks) > 1:
            with single_threaded_workers() as pool:
                yield from chain.from_iterable(pool.map(run, chunks))
        elif chunks:
            with (
                capture_stream(self._device, self._stream)
                if self._uses_cuda_graphs
                else nullcontext()
            ):
                results = [*map(run, chunks)]
            yield from chain.from_iterable(results)

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self._device)

    def _default_batch_size(self, config: SearchConfig) -> tuple[int, bool]:
        """The default batch size, and whether it is in tokens rather than sentences."""
        raise NotImplementedError

    def _search_batch(
        self, requests: list[Request], config: SearchConfig
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
    ) -> None:
        super().__init__(device, precision)
        models = [*map(self._cast, models)]
        self._model: Autoregressive[Any] = Ensemble(models) if len(models) > 1 else models[0]
        self.max_length = common_max_length(models)
        self._uses_cuda_graphs = device.type == "cuda" and self._model.step_capturable
        self._runner = CudaGraphRunner() if self._uses_cuda_graphs else EagerRunner()

    def _default_batch_size(self, config: SearchConfig) -> tuple[int, bool]:
        if self._device.type == "cpu":
            return max(1, min(_CPU_TOKENS, _CPU_TOKENS_TIMES_BEAMS // config.beam_size)), True
        return reduce_for_beams(256, config), False

    def _search_batch(
        self, requests: list[Request], config: SearchConfig
    ) -> list[list[Hypothesis]]:
        count = len(requests)
        if self._uses_cuda_graphs:  # padded with empty sentences, so that there are few shapes
            requests = requests + [Request([], [])] * ((1 << (count - 1).bit_length()) - count)
        source = with_eos([request.source for request in requests])
        if self._uses_cuda_graphs:
            longest = -(-source.lengths.longest // 16) * 16
            source = source.padded_to(min(longest, self.max_length or longest))
        hypotheses = search(
            self._model,
            source.to(self._device),
            config,
            prefixes=[request.prefix for request in requests],
            max_length=self.max_length,
            runner=None if config.sample else self._runner,  # samples are drawn on the host
        )
        return hypotheses[:count]


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

    def _default_batch_size(self, config: SearchConfig) -> tuple[int, bool]:
        return max(4, _NONAUTOREGRESSIVE_BATCH_SIZES[self._device.type] // config.candidates), False

    def _search_batch(
        self, requests: list[Request], config: SearchConfig
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
def single_threaded_workers() -> Iterator[Executor]:
    """A pool with as many workers as PyTorch has threads; each uses a single thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)
