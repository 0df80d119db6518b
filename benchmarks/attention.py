"""Ragged attention on a GPU: PyTorch's flash kernel, the padded form and ours, beside each other.

PYTHONPATH=src python benchmarks/attention.py [--rounds 7] [--warps 4]

A batch is made as training makes it: targets of like length, sources that spread around them, and
queries, keys and values that are views of one product. Forward and backward are timed apart, by the
GPU's clock, while the host is ahead; the forms take turns, so that a warm or throttled GPU treats
all alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import numpy as np
import torch
from torch import Tensor

from regard.attention.attend import _flash, _padded, ragged_mask
from regard.data.ragged import Lengths
from regard.devices import has_triton

MEANS = (14, 25, 60, 110)
SIZES = ((16_384, 4, 32), (25_600, 8, 64))  # tokens, heads, width of a head
CALLS = 20  # in a row, timed together
Step = Callable[[], object]


def padded(
    query: Tensor, key: Tensor, value: Tensor, queries: Lengths, keys: Lengths, causal: bool
) -> Tensor:
    """The padded form with its mask."""
    mask = ragged_mask(queries, keys, causal=causal)
    return _padded(query, key, value, queries, keys, mask=mask)


def main() -> None:
    """Print a table, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="how often each form takes its turn")
    parser.add_argument("--warps", type=int, help="of our kernel, instead of those by size")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("There is no GPU here, and nothing to measure without one.")
        return
    if not has_triton():
        print("Triton cannot work here: it needs a C compiler and Python's headers.")
        return
    from regard.attention import kernels

    if options.warps:
        vars(kernels)["_warps"] = lambda side: options.warps
    forms: dict[str, Callable[..., Tensor]] = {
        "flash": _flash,
        "padded": padded,
        "sentence": kernels.sentence_attention,
    }
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; bfloat16, us a call:")
    print(f"median of {options.rounds} rounds [least, most], and how often ours fits into it")
    for tokens, heads, width in SIZES:
        for mean in MEANS:
            for causal in (True, False):
                queries, keys = batch(tokens, mean, causal)
                print(
                    f"\n{queries.total} tokens, {heads} heads of {width}, "
                    f"{'causal' if causal else 'cross'}: {len(queries)} sentences, "
                    f"mean {queries.total / len(queries):.1f} and {keys.total / len(keys):.1f}, "
                    f"longest {queries.longest} and {keys.longest}"
                )
                compare(forms, queries, keys, heads, width, causal, options.rounds)


def batch(tokens: int, mean: int, causal: bool) -> tuple[Lengths, Lengths]:
    """Lengths of the queries, and of the keys: the same, or those of sources."""
    random = np.random.default_rng(mean)
    count = tokens // mean
    targets = random.normal(mean, 0.05 * mean, count).round().clip(1, 128).astype(int)
    sources = (targets * random.lognormal(0.0, 0.2, count)).round().clip(1, 128).astype(int)
    device = torch.device("cuda")
    queries = Lengths.of(targets.tolist()).to(device)
    return queries, queries if causal else Lengths.of(sources.tolist()).to(device)


def compare(
    forms: dict[str, Callable[..., Tensor]],
    queries: Lengths,
    keys: Lengths,
    heads: int,
    width: int,
    causal: bool,
    rounds: int,
) -> None:
    """Time all forms, and say how far each is from the padded one in float32."""
    torch.manual_seed(0)
    query, key, value = parts = list(views(queries, keys, heads, width, same=causal))
    gradient = torch.randn(queries.total, heads, width, device="cuda", dtype=torch.bfloat16)
    exact = padded(query.float(), key.float(), value.float(), queries, keys, causal).detach()
    steps: dict[tuple[str, str], Step] = {}
    errors = {}
    for name, form in forms.items():
        forward = partial(form, *parts, queries, keys, causal=causal)
        result = forward()
        errors[name] = float((result.detach() - exact).norm() / exact.norm())
        backward = partial(torch.autograd.grad, result, parts, gradient, retain_graph=True)
        steps[name, "forward"], steps[name, "backward"] = forward, backward
    for step in steps.values():
        microseconds(step)  # warm
    times: dict[tuple[str, str], list[float]] = {timed: [] for timed in steps}
    for _ in range(rounds):
        for timed, step in steps.items():
            times[timed].append(microseconds(step))
    for name in forms:
        line = f"  {name:9}"
        for way in ("forward", "backward"):
            taken = times[name, way]
            ratio = median(taken) / median(times["sentence", way])
            spread = f"[{min(taken):.0f}, {max(taken):.0f}]"
            line += f"{way} {median(taken):7.1f} {spread:14} x{ratio:5.2f}   "
        print(f"{line}error {errors[name]:.1e}", flush=True)


def views(
    queries: Lengths, keys: Lengths, heads: int, width: int, *, same: bool
) -> Iterator[Tensor]:
    """Query, key and value as the layers make them: parts of one product, or of two."""
    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    if same:
        products = [make(queries.total, 3 * heads * width)]
    else:
        products = [make(queries.total, heads * width), make(keys.total, 2 * heads * width)]
    for product in products:
        for part in product.split(heads * width, dim=-1):
            yield part.unflatten(-1, (heads, width))


def microseconds(step: Step) -> float:
    """A call's time on the GPU, which sleeps until the host has handed over all calls."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(50_000_000)  # cycles: some 25 ms
    start.record()
    for _ in range(CALLS):
        step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / CALLS * 1000


if __name__ == "__main__":
    main()
