"""Fused losses compared with the reference on a GPU: time of forward and backward, and memory.

PYTHONPATH=src python benchmarks/loss.py
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from reference_losses import reference_cross_entropy, reference_r_drop
from regard.training.losses import Loss

SIZES = [(16384, 8000), (25600, 32768)]  # rows, vocabulary
BLOCKS = [2048, 4096, 8192]
ROUNDS, REPEATS = 7, 5
SMOOTHING = 0.1
Variant = Callable[[Tensor, Tensor], Loss]


def reference(logits: Tensor, targets: Tensor, *, weight: float | None) -> Loss:
    """The reference implementation."""
    if weight is None:
        return reference_cross_entropy(logits.float(), targets, SMOOTHING)
    return reference_r_drop(logits.float(), targets, SMOOTHING, weight)


def fused(logits: Tensor, targets: Tensor, *, weight: float | None, block: int) -> Loss:
    """The fused kernels."""
    from regard.training.loss_kernel import fused_loss

    return Loss(*fused_loss(logits, targets, SMOOTHING, weight, block))


def variants(weight: float | None) -> dict[str, Variant]:
    """Implementations by name; the first is the baseline."""
    kernels = {
        f"fused, block {block}": partial(fused, weight=weight, block=block) for block in BLOCKS
    }
    return {"reference": partial(reference, weight=weight), **kernels}


def step(variant: Variant, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and gradient of one step."""
    total = variant(logits, targets).total
    (gradient,) = torch.autograd.grad(total / len(targets), logits)
    return total.detach(), gradient


def milliseconds(variant: Variant, logits: Tensor, targets: Tensor) -> float:
    """Mean time of a step."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(REPEATS):
        step(variant, logits, targets)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / REPEATS


def gigabytes(variant: Variant, logits: Tensor, targets: Tensor) -> float:
    """Peak memory of a step without the logits."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(variant, logits, targets)
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def compare(rows: int, vocabulary: int, weight: float | None) -> None:
    """Print a line for each variant."""
    print(f"\n({rows}, {vocabulary}) bfloat16, {'R-Drop' if weight else 'cross-entropy'}")
    torch.manual_seed(0)
    logits = (3 * torch.randn(rows, vocabulary, device="cuda")).bfloat16().requires_grad_()
    targets = torch.randint(vocabulary, (rows,), device="cuda")
    compared = variants(weight)
    total, gradient = step(compared["reference"], logits, targets)  # also warms up and compiles
    for name, variant in compared.items():
        loss, grad = step(variant, logits, targets)
        grad_error = float((grad.float() - gradient.float()).norm() / gradient.float().norm())
        loss_error = abs(float(loss / total) - 1)
        print(f"  {name:18} loss differs by {loss_error:.1e}, gradient by {grad_error:.1e}")
    del gradient, grad
    times: dict[str, list[float]] = {name: [] for name in compared}
    for _ in range(ROUNDS):  # interleaved, so that a lower GPU clock affects all variants
        for name, variant in compared.items():
            times[name].append(milliseconds(variant, logits, targets))
    baseline = statistics.median(times["reference"])
    for name, variant in compared.items():
        median, low, high = statistics.median(times[name]), min(times[name]), max(times[name])
        memory = gigabytes(variant, logits, targets)
        print(
            f"  {name:18} {median:7.3f} ms ({low:.3f} to {high:.3f}), "
            f"{baseline / median:5.2f} times as fast, {memory:5.2f} GiB"
        )


def main() -> None:
    """Compare all sizes, with and without R-Drop."""
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU; this benchmark requires one.")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for rows, vocabulary in SIZES:
        for weight in (None, 5.0):
            compare(rows, vocabulary, weight)


if __name__ == "__main__":
    main()
