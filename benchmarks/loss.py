"""The fused losses against the plain ones on a GPU: time forward and back, and memory.

PYTHONPATH=src python benchmarks/loss.py
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from plain_losses import plain_cross_entropy, plain_r_drop
from regard.training.losses import Loss

SIZES = [(16384, 8000), (25600, 32768)]  # rows, words
BLOCKS = [2048, 4096, 8192]
ROUNDS, REPEATS = 7, 5
SMOOTHING = 0.1
Form = Callable[[Tensor, Tensor], Loss]


def plain(logits: Tensor, targets: Tensor, *, weight: float | None) -> Loss:
    """As `losses.py` does without a kernel."""
    if weight is None:
        return plain_cross_entropy(logits.float(), targets, SMOOTHING)
    return plain_r_drop(logits.float(), targets, SMOOTHING, weight)


def fused(logits: Tensor, targets: Tensor, *, weight: float | None, block: int) -> Loss:
    """The kernels."""
    from regard.training.loss_kernel import fused_loss

    return Loss(*fused_loss(logits, targets, SMOOTHING, weight, block))


def forms(weight: float | None) -> dict[str, Form]:
    """What is compared, by name; the first is what the others are compared with."""
    kernels = {
        f"fused, block {block}": partial(fused, weight=weight, block=block) for block in BLOCKS
    }
    return {"plain": partial(plain, weight=weight), **kernels}


def step(form: Form, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and gradient, as in an update."""
    total = form(logits, targets).total
    (gradient,) = torch.autograd.grad(total / len(targets), logits)
    return total.detach(), gradient


def milliseconds(form: Form, logits: Tensor, targets: Tensor) -> float:
    """The mean of some steps."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(REPEATS):
        step(form, logits, targets)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / REPEATS


def gigabytes(form: Form, logits: Tensor, targets: Tensor) -> float:
    """The peak of one step beyond the logits."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(form, logits, targets)
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def compare(rows: int, words: int, weight: float | None) -> None:
    """Print a line for each form."""
    print(f"\n({rows}, {words}) bfloat16, {'R-Drop' if weight else 'cross-entropy'}")
    torch.manual_seed(0)
    logits = (3 * torch.randn(rows, words, device="cuda")).bfloat16().requires_grad_()
    targets = torch.randint(words, (rows,), device="cuda")
    compared = forms(weight)
    total, gradient = step(compared["plain"], logits, targets)  # also warms up and compiles
    for name, form in compared.items():
        found, also = step(form, logits, targets)
        apart = float((also.float() - gradient.float()).norm() / gradient.float().norm())
        error = abs(float(found / total) - 1)
        print(f"  {name:18} loss differs by {error:.1e}, gradient by {apart:.1e}")
    del gradient, also
    times: dict[str, list[float]] = {name: [] for name in compared}
    for _ in range(ROUNDS):  # in turns, so that a clock that slows down slows all
        for name, form in compared.items():
            times[name].append(milliseconds(form, logits, targets))
    baseline = statistics.median(times["plain"])
    for name, form in compared.items():
        middle, low, high = statistics.median(times[name]), min(times[name]), max(times[name])
        print(
            f"  {name:18} {middle:7.3f} ms ({low:.3f} to {high:.3f}), "
            f"{baseline / middle:5.2f} times as fast, {gigabytes(form, logits, targets):5.2f} GiB"
        )


def main() -> None:
    """All sizes, with and without R-Drop."""
    if not torch.cuda.is_available():
        sys.exit("There is no GPU that PyTorch can use here, and nothing to compare without one.")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for rows, words in SIZES:
        for weight in (None, 5.0):
            compare(rows, words, weight)


if __name__ == "__main__":
    main()
