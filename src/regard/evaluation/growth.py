"""What a layer costs as sentences grow: self-attention, recurrence and convolution.

By formula for a sentence of n words of width d, and measured for a batch:

    self-attention    2 n^2 d + 4 n d^2 multiply-adds, all words at once, 1 step between any two
    recurrence        8 n d^2 (an LSTM), one word after the other, n steps between the ends
    convolution       k n d^2, all words at once, log_k n layers between the ends

The operations are those of our layers: 4 n d^2 of attention are its projections, which the usual
table leaves out. Two words are log_k n layers apart if convolutions above each other leave wider
and wider gaps; without gaps, as ours are, it is some 2 n / k layers.
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
from regard.devices import Precision, autocast, is_half
from regard.errors import ConfigError
from regard.layers.convolution import Convolution
from regard.layers.recurrent import Recurrence
from regard.memory import machine_memory

_BESIDE_KEPT = 3  # a pass needs no more than so many times what it keeps, gradients included


@dataclass(frozen=True)
class Sizes:
    """The layers that are compared, and the batch that goes through them."""

    width: int
    heads: int
    kernel: int
    batch: int  # sentences
    precision: Precision = "auto"  # as training takes it; recurrence stays in float32

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ConfigError(f"{self.heads} heads do not divide a width of {self.width}.")
        if self.kernel % 2 == 0 or self.kernel < 3:
            raise ConfigError(f"A kernel of {self.kernel} words has no middle. Use 3, 5, 7 ...")

    def told(self, device: torch.device) -> str:
        """In one line."""
        half = is_half(device, self.precision, self.width)
        precision = "bfloat16 (recurrence: float32)" if half else "float32"
        threads = torch.get_num_threads()
        cores = "one core" if threads == 1 else f"{threads} cores"
        where = "a GPU" if device.type == "cuda" else f"{cores} of the CPU"
        shape = f"width {self.width}, {self.heads} heads, a kernel of {self.kernel}, LSTM"
        return f"{shape}; {self.batch} sentences in a batch; {precision} on {where}."


@dataclass(frozen=True)
class Kind:
    """One kind of layer: what it costs by formula, for a sentence of n words."""

    name: str
    operations: Callable[[int], int]
    steps: Callable[[int], int]
    path: Callable[[int], int]
    module: nn.Module
    forward: Callable[[Tensor, Lengths], Tensor]  # (N, D) -> (N, D)


def kinds(sizes: Sizes) -> list[Kind]:
    """The three, with weights of their own."""
    d, k = sizes.width, sizes.kernel
    attention = SelfAttention(AttentionShape(width=d, heads=sizes.heads))
    recurrence = Recurrence("lstm", d, d, 1, 0.0)
    convolution = Convolution(d, d, causal=False, kernel=k)
    return [
        Kind(
            "self-attention",
            operations=lambda n: 2 * n * n * d + 4 * n * d * d,
            steps=lambda n: 1,
            path=lambda n: 1,
            module=attention,
            forward=lambda x, lengths: attention(x, lengths, causal=False),
        ),
        Kind(
            "recurrence",
            operations=lambda n: 8 * n * d * d,
            steps=lambda n: n,
            path=lambda n: n,
            module=recurrence,
            forward=lambda x, lengths: recurrence(x, lengths)[0],
        ),
        Kind(
            "convolution",
            operations=lambda n: k * n * d * d,
            steps=lambda n: 1,
            # With gaps that are k times as wide in each layer, until n words see each other.
            path=lambda n: next(layers for layers in count(1) if k**layers >= n),
            module=convolution,
            forward=convolution,
        ),
    ]


@dataclass(frozen=True)
class Point:
    """A layer at a length: by formula for one sentence, and measured for the batch.

    Milliseconds and megabytes; None where it was not measured, and `missing` says why.
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


def grown(
    sizes: Sizes, lengths: Sequence[int], device: torch.device, *, rounds: int, seconds: float
) -> Iterator[list[Point]]:
    """All layers at each length, in turn; what would take longer than `seconds` is left out.

    The time is the median of some rounds, in which the layers take turns, after one that does not
    count. The memory is what a pass needs beside weights and input: on a GPU the peak of
    PyTorch's allocator, on a CPU all that forward keeps for backward.
    """
    torch.manual_seed(0)
    trials = [Trial(kind, sizes, device, seconds) for kind in kinds(sizes)]
    for length in sorted(lengths):
        for trial in trials:
            trial.warm_up(length)
        for _ in range(rounds):
            for trial in trials:
                trial.run()
        yield [trial.point(length) for trial in trials]


@dataclass
class Trial:
    """One kind of layer on its way through the lengths."""

    _kind: Kind
    _sizes: Sizes
    _device: torch.device
    _seconds: float
    _last: tuple[int, float, float] | None = None  # operations, seconds, bytes
    _missing: str = ""
    _times: list[tuple[float, float]] = field(default_factory=list)
    _memory: float = 0.0

    def __post_init__(self) -> None:
        self._half = is_half(self._device, self._sizes.precision, self._sizes.width)
        self._kind.module.to(self._device)

    def warm_up(self, length: int) -> None:
        """A pass that tells the memory; none if there is too little of it, or of time."""
        self._times = []
        self._missing = self._missing or self._excess(self._kind.operations(length))
        if self._missing:
            return
        shape = self._sizes.batch * length, self._sizes.width
        self._lengths = Lengths.of([length] * self._sizes.batch).to(self._device)
        self._x = torch.randn(shape, device=self._device, requires_grad=True)
        if self._last is None:
            self._within_memory(self._pass)  # libraries wake up, and keep memory of their own
        self._within_memory(self._remember_memory)

    def run(self) -> None:
        """A pass that counts."""
        if not self._missing:
            self._within_memory(lambda: self._times.append(self._pass()))

    def point(self, length: int) -> Point:
        """What the passes at a length have shown."""
        kind = self._kind
        formulas = kind.operations(length), kind.steps(length), kind.path(length)
        if self._missing:
            return Point(kind.name, length, *formulas, missing=self._missing)
        forward, backward = (statistics.median(times) for times in zip(*self._times, strict=True))
        self._last = formulas[0], forward + backward, self._memory
        figures = 1e3 * forward, 1e3 * backward, self._memory / 1e6
        return Point(kind.name, length, *formulas, *figures)

    def _excess(self, operations: int) -> str:
        """What there is too little of, if time and memory grow as the operations do."""
        if self._last is None:
            return ""
        before, seconds, memory = self._last
        more = operations / before
        if seconds * more > self._seconds:
            return f"over {self._seconds:g} s"
        needed = memory * more * _BESIDE_KEPT
        if self._device.type == "cpu" and needed > (machine_memory() or math.inf):
            return "out of memory"
        return ""

    def _within_memory(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate" not in str(error):
                raise
            self._missing = "out of memory"
            self._x = torch.empty(0)  # the others may need the room

    def _remember_memory(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            before = torch.cuda.memory_allocated(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            self._pass()
            self._memory = torch.cuda.max_memory_allocated(self._device) - before
            return
        kept: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            self._pass()
        for own in (self._x, *self._kind.module.parameters()):
            kept.pop(own.untyped_storage().data_ptr(), None)
        self._memory = float(sum(kept.values()))

    def _pass(self) -> tuple[float, float]:
        """Seconds of forward and of backward."""
        self._kind.module.zero_grad(set_to_none=True)
        self._x.grad = None
        times = [self._now()]
        with autocast(self._device, half=self._half):
            y = self._kind.forward(self._x, self._lengths)
        times.append(self._now())
        y.backward(torch.ones_like(y))
        times.append(self._now())
        return times[1] - times[0], times[2] - times[1]

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()
