"""Forward passes over batches in host memory: eager, or by replaying CUDA graphs.

On a GPU, a CUDA graph is captured for each shape: batches are padded to one of a few shapes, copied
to the device in a single transfer, and processed by a single launch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.cuda_graphs import CapturedStep
from regard.data.ragged import Ragged
from regard.data.shapes import SideShape

# Rows, then tensors on the device -> a tensor whose first axis is the tokens of the last row.
Forward = Callable[..., Tensor]
_MAX_GRAPHS = 256  # each has its own inputs; all share a memory pool


class EagerPasses:
    """Runs forward passes eagerly."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __call__(
        self, name: Hashable, forward: Forward, rows: Sequence[Ragged], *tensors: Tensor
    ) -> Tensor:
        """Apply `forward` to rows on the host; the result is on the device.

        A name identifies the function. The result may have padding at its end.
        """
        return forward(*(row.to(self._device) for row in rows), *tensors)


@dataclass(frozen=True)
class Shape:
    """The shape of rows that share a CUDA graph."""

    sides: tuple[SideShape, ...]
    sentences: int

    @staticmethod
    def bucket(rows: Sequence[Ragged], limit: int | None = None) -> Shape:
        """The shape to which rows with the same number of sentences are padded.

        Padding sentences are at most `limit` tokens long.
        """
        count = 1 << (len(rows[0].lengths) - 1).bit_length()
        sides, fillers = [], 0
        for row in rows:
            unit = 1 << max(4, row.lengths.total.bit_length() - 4)  # eight sizes per power of two
            side = SideShape.bucket(row.lengths, unit, limit or 1 << 30)
            sides.append(side)
            fillers = max(fillers, 1 + unit // side.longest)
        return Shape(tuple(sides), count + fillers)

    def pack(self, rows: Sequence[Ragged]) -> Tensor:
        """The tokens and lengths of the padded rows, concatenated."""
        filled = [
            side.filled(row, self.sentences) for side, row in zip(self.sides, rows, strict=True)
        ]
        return torch.cat([part for row in filled for part in (row.tokens, row.lengths.lengths)])

    def unpack(self, packed: Tensor) -> list[Ragged]:
        """The rows that `pack` concatenated."""
        sizes = [size for side in self.sides for size in (side.tokens, self.sentences)]
        parts = packed.split(sizes)
        return [
            side.to_ragged(*parts[2 * number : 2 * number + 2])
            for number, side in enumerate(self.sides)
        ]


class CudaGraphPasses(EagerPasses):
    """Replays CUDA graphs, one per shape; must run on a stream that supports capture."""

    def __init__(self, device: torch.device, limit: int | None = None) -> None:
        super().__init__(device)
        self._limit = limit  # maximum length of a sentence
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[Hashable, tuple[Tensor, list[Tensor], CapturedStep[Tensor]]] = {}

    def __call__(
        self, name: Hashable, forward: Forward, rows: Sequence[Ragged], *tensors: Tensor
    ) -> Tensor:
        """Apply `forward`, captured if possible; the next call overwrites the result."""
        shape = Shape.bucket(rows, self._limit)
        packed = shape.pack(rows).pin_memory()
        key = name, shape, *(part.shape for part in tensors)
        if key not in self._graphs:
            if len(self._graphs) == _MAX_GRAPHS:
                on_device = packed.to(self._device, non_blocking=True)
                return forward(*shape.unpack(on_device), *tensors)
            static = torch.empty(len(packed), dtype=torch.long, device=self._device)
            copies = [torch.empty_like(part) for part in tensors]
            captured = CapturedStep(lambda: forward(*shape.unpack(static), *copies), self._pool)
            self._graphs[key] = static, copies, captured
        static_packed, static_tensors, captured = self._graphs[key]
        static_packed.copy_(packed, non_blocking=True)
        for static_tensor, tensor in zip(static_tensors, tensors, strict=True):
            static_tensor.copy_(tensor)
        return captured()
