"""One pass of a model over some rows, given from the host and fetched back by it.

On a GPU a pass is recorded for each shape of its rows: these are filled up to one of a few sizes,
all their numbers go there in one copy, and one launch does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.data.shapes import Side
from regard.recording import Recording

# Rows, then tensors of the device, to a tensor that begins with the tokens of the last row.
Work = Callable[..., Tensor]
_MOST = 256  # recordings; each keeps its inputs, and all of them share the rest


class EagerPasses:
    """Passes as they come."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __call__(
        self, name: Hashable, work: Work, rows: Sequence[Ragged], *tensors: Tensor
    ) -> Tensor:
        """What the work makes of rows that lie on the host, still on the device.

        Work of one name is the same each time. It may have more at its end than was asked for.
        """
        return work(*(row.to(self._device) for row in rows), *tensors)


@dataclass(frozen=True)
class Shape:
    """What rows of sentences have in common if the work on some can be replayed for others."""

    sides: tuple[Side, ...]
    sentences: int

    @staticmethod
    def around(rows: Sequence[Ragged], limit: int | None = None) -> Shape:
        """The shape that rows of equally many sentences are filled to.

        No filler is longer than the limit, if there is one.
        """
        count = 1 << (len(rows[0].lengths) - 1).bit_length()
        sides, fillers = [], 0
        for row in rows:
            unit = 1 << max(4, row.lengths.total.bit_length() - 4)  # eight sizes an octave
            side = Side.around(row.lengths, unit, limit or 1 << 30)
            sides.append(side)
            fillers = max(fillers, 1 + unit // side.longest)
        return Shape(tuple(sides), count + fillers)

    def packed(self, rows: Sequence[Ragged]) -> Tensor:
        """All numbers of the filled rows as one."""
        filled = [
            side.filled(row, self.sentences) for side, row in zip(self.sides, rows, strict=True)
        ]
        return torch.cat([part for row in filled for part in (row.tokens, row.lengths.lengths)])

    def unpacked(self, numbers: Tensor) -> list[Ragged]:
        """What `packed` made one of."""
        sizes = [size for side in self.sides for size in (side.tokens, self.sentences)]
        parts = numbers.split(sizes)
        return [
            side.laid_out(*parts[2 * number : 2 * number + 2])
            for number, side in enumerate(self.sides)
        ]


class CudaGraphPasses(EagerPasses):
    """By recordings, one for each shape; the stream must be one that can be recorded."""

    def __init__(self, device: torch.device, limit: int | None = None) -> None:
        super().__init__(device)
        self._limit = limit  # of the length of a sentence
        self._pool = torch.cuda.graph_pool_handle()
        self._known: dict[Hashable, tuple[Tensor, list[Tensor], Recording[Tensor]]] = {}

    def __call__(
        self, name: Hashable, work: Work, rows: Sequence[Ragged], *tensors: Tensor
    ) -> Tensor:
        """Do the work, by a recording if there is room for it; good until the next time."""
        shape = Shape.around(rows, self._limit)
        numbers = shape.packed(rows).pin_memory()
        key = name, shape, *(part.shape for part in tensors)
        if key not in self._known:
            if len(self._known) == _MOST:
                there = numbers.to(self._device, non_blocking=True)
                return work(*shape.unpacked(there), *tensors)
            here = torch.empty(len(numbers), dtype=torch.long, device=self._device)
            copies = [torch.empty_like(part) for part in tensors]
            recording = Recording(lambda: work(*shape.unpacked(here), *copies), self._pool)
            self._known[key] = here, copies, recording
        inputs, held, recording = self._known[key]
        inputs.copy_(numbers, non_blocking=True)
        for own, part in zip(held, tensors, strict=True):
            own.copy_(part)
        return recording()
