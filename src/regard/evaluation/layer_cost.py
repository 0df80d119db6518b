"""Cost of self-attention, recurrent and convolutional layers by sequence length.

By formula for a sequence of n tokens of width d, and measured for a batch:

    self-attention    2 n^2 d + 4 n d^2 multiply-adds, parallel, path length 1
    recurrence        8 n d^2 (LSTM), n sequential steps, path length n
    convolution       k n d^2, parallel, path length log_k n

Multiply-adds are those of regard's layers: 4 n d^2 of self-attention are its projections, which
Vaswani et al. (2017) leave out. The path length log_k n holds for stacked dilated convolutions;
without dilation, as in regard, it is about 2 n / k.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor, nn

from regard.attention.config import AttentionShape
from regard.attention.multihead import SelfAttention
from regard.data.ragged import Lengths
from regard.devices import Precision, autocast, uses_bfloat16
from regard.errors import ConfigError
from regard.layers.convolution import Convolution
from regard.layers.recurrent import Recurrence
from regard.machine import memory_limit

_PEAK_FACTOR = 3  # upper bound of a pass's peak memory over its saved activations


@dataclass(frozen=True)
class LayerSizes:
    """The size of the layers and of their input."""

    width: int
    heads: int
    kernel: int
    batch: int  # sentences
    precision: Precision = "auto"  # as in training; recurrence always uses float32

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ConfigError(
                f"--d-model is {self.width}, but must be divisible by --num-heads ({self.heads})."
            )
        if self.kernel % 2 == 0 or self.kernel < 3:
            raise ConfigError(f"--kernel-size is {self.kernel}, but must be odd and at least 3.")

    def describe(self, device: torch.device) -> str:
        """Return the sizes, precision and device in one line."""
        bfloat16 = uses_bfloat16(device, self.precision, self.width)
        precision = "bfloat16 (recurrence: float32)" if bfloat16 else "float32"
        threads = torch.get_num_threads()
        cores = "1 CPU core" if threads == 1 else f"{threads} CPU cores"
        hardware = "a GPU" if device.type == "cuda" else cores
        shape = f"width {self.width}, {self.heads} heads, kernel size {self.kernel}, LSTM"
        return f"{shape}; batches of {self.batch} sentences; {precision} on {hardware}."


@dataclass(frozen=True)
class LayerSpec:
    """A kind of layer, with its cost by formula for a sequence of n tokens."""

    name: str
    operations: Callable[[int], int]  # multiply-adds
    steps: Callable[[int], int]  # sequential operations
    path: Callable[[int], int]  # maximum path length
    module: nn.Module
    forward: Callable[[Tensor, Lengths], Tensor]  # (N, D) -> (N, D)


def layer_specs(sizes: LayerSizes) -> list[LayerSpec]:
    """Create a self-attention, a recurrent and a convolutional layer."""
    d, k = sizes.width, sizes.kernel
    attention = SelfAttention(AttentionShape(d_model=d, num_heads=sizes.heads))
    recurrence = Recurrence("lstm", d, d, 1, 0.0)
    convolution = Convolution(d, d, causal=False, kernel_size=k)
    return [
        LayerSpec(
            "self-attention",
            operations=lambda n: 2 * n * n * d + 4 * n * d * d,
            steps=lambda n: 1,
            path=lambda n: 1,
            module=attention,
            forward=lambda x, lengths: attention(x, lengths, causal=False),
        ),
        LayerSpec(
            "recurrence",
            operations=lambda n: 8 * n * d * d,
            steps=lambda n: n,
            path=lambda n: n,
            module=recurrence,
            forward=lambda x, lengths: recurrence(x, lengths)[0],
        ),
        LayerSpec(
            "convolution",
            operations=lambda n: k * n * d * d,
            steps=lambda n: 1,
            # With dilations of k^0, k^1, ... until the receptive field covers n tokens.
            path=lambda n: next(layers for layers in count(1) if k**layers >= n),
            module=convolution,
            forward=convolution,
        ),
    ]


@dataclass(frozen=True)
class LayerCost:
    """The cost of a layer at a length: by formula for a sequence, and measured for the batch.

    In milliseconds and megabytes; None if it was not measured for the reason `missing`.
    """

    layer: str
    length: int
    operations: int
    steps: int
    path: int
    forward: float | None = None
    backward: float | None = None
    memory: float | None = None
    missing: str = ""


def measure_layers(
    sizes: LayerSizes, lengths: Sequence[int], device: torch.device, *, rounds: int, seconds: float
) -> Iterator[list[LayerCost]]:
    """Measure all layers at each length, except those estimated to take more than `seconds`.

    The time is the median over rounds, in which the layers alternate, after a warm-up pass. The
    memory excludes weights and input: on a GPU it is the allocator's peak, on a CPU the size of the
    activations saved for the backward pass.
    """
    torch.manual_seed(0)
    benchmarks = [LayerBenchmark(layer, sizes, device, seconds) for layer in layer_specs(sizes)]
    for length in sorted(lengths):
        for benchmark in benchmarks:
            benchmark.warm_up(length)
        for _ in range(rounds):
            for benchmark in benchmarks:
                benchmark.run()
        yield [benchmark.cost(length) for benchmark in benchmarks]


@dataclass
class LayerBenchmark:
    """Measures one layer at increasing lengths."""

    _layer: LayerSpec
    _sizes: LayerSizes
    _device: torch.device
    _seconds: float
    _last: tuple[int, float, float] | None = None  # operations, seconds, bytes
    _missing: str = ""
    _times: list[tuple[float, float]] = field(default_factory=list)
    _memory: float = 0.0

    def __post_init__(self) -> None:
        self._bfloat16 = uses_bfloat16(self._device, self._sizes.precision, self._sizes.width)
        self._layer.module.to(self._device)

    def warm_up(self, length: int) -> None:
        """Run a pass that measures memory, unless memory or time are estimated to be exceeded."""
        self._times = []
        self._missing = self._missing or self._exceeded_limit(self._layer.operations(length))
        if self._missing:
            return
        shape = self._sizes.batch * length, self._sizes.width
        self._lengths = Lengths.of([length] * self._sizes.batch).to(self._device)
        self._x = torch.randn(shape, device=self._device, requires_grad=True)
        if self._last is None:
            self._catch_out_of_memory(self._pass)  # libraries initialize and allocate workspaces
        self._catch_out_of_memory(self._measure_memory)

    def run(self) -> None:
        """Run and time a pass."""
        if not self._missing:
            self._catch_out_of_memory(lambda: self._times.append(self._pass()))

    def cost(self, length: int) -> LayerCost:
        """Return the median times and the memory at a length."""
        layer = self._layer
        formulas = layer.operations(length), layer.steps(length), layer.path(length)
        if self._missing:
            return LayerCost(layer.name, length, *formulas, missing=self._missing)
        forward, backward = (statistics.median(times) for times in zip(*self._times, strict=True))
        self._last = formulas[0], forward + backward, self._memory
        measured = 1e3 * forward, 1e3 * backward, self._memory / 1e6
        return LayerCost(layer.name, length, *formulas, *measured)

    def _exceeded_limit(self, operations: int) -> str:
        """Return the limit that would be exceeded, estimated in proportion to operations, or ""."""
        if self._last is None:
            return ""
        last_operations, seconds, memory = self._last
        factor = operations / last_operations
        if seconds * factor > self._seconds:
            return f"over {self._seconds:g} s"
        needed = memory * factor * _PEAK_FACTOR
        if self._device.type == "cpu" and needed > (memory_limit() or math.inf):
            return "out of memory"
        return ""

    def _catch_out_of_memory(self, function: Callable[[], object]) -> None:
        try:
            function()
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate" not in str(error):
                raise
            self._missing = "out of memory"
            self._x = torch.empty(0)  # frees memory for the other layers

    def _measure_memory(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            before = torch.cuda.memory_allocated(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            self._pass()
            self._memory = torch.cuda.max_memory_allocated(self._device) - before
            return
        saved: dict[int, int] = {}  # bytes by address

        def save(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            self._pass()
        for tensor in (self._x, *self._layer.module.parameters()):
            saved.pop(tensor.untyped_storage().data_ptr(), None)
        self._memory = float(sum(saved.values()))

    def _pass(self) -> tuple[float, float]:
        """Return the seconds of a forward and of a backward pass."""
        self._layer.module.zero_grad(set_to_none=True)
        self._x.grad = None
        times = [self._now()]
        with autocast(self._device, enabled=self._bfloat16):
            y = self._layer.forward(self._x, self._lengths)
        times.append(self._now())
        y.backward(torch.ones_like(y))
        times.append(self._now())
        return times[1] - times[0], times[2] - times[1]

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()
