"""Ragged attention on a GPU: PyTorch's flash kernel, padded attention and regard's kernel.

PYTHONPATH=src python benchmarks/attention.py [--rounds 7] [--warps 4]

Batches are like those of training: targets of similar length, sources of varying length, and
queries, keys and values that are views of one product. Forward and backward are timed separately
by CUDA events; variants are interleaved, so that a throttled GPU affects all alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import numpy as np
import torch
from torch import Tensor

from regard.attention.attend import _attend_flash, _attend_padded, ragged_mask
from regard.data.ragged import Lengths
from regard.devices import has_triton

MEANS = (14, 25, 60, 110)
SIZES = ((16_384, 4, 32), (25_600, 8, 64))  # tokens, heads, head_dim
CALLS = 20  # per timing
Step = Callable[[], object]


def padded(
    query: Tensor, key: Tensor, value: Tensor, queries: Lengths, keys: Lengths, causal: bool
) -> Tensor:
    """Padded attention with its mask."""
    mask = ragged_mask(queries, keys, causal=causal)
    return _attend_padded(query, key, value, queries, keys, mask=mask)


def main() -> None:
    """Print a table, or the reason why there is none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="timings of each variant")
    parser.add_argument("--warps", type=int, help="warps of regard's kernel")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("PyTorch finds no GPU; this benchmark requires one.")
        return
    if not has_triton():
        print("Triton is not available: it requires a C compiler and Python's headers.")
        return
    from regard.attention import kernels

    if options.warps:
        vars(kernels)["_warps"] = lambda side: options.warps
    variants: dict[str, Callable[..., Tensor]] = {
        "flash": _attend_flash,
        "padded": padded,
        "sentence": kernels.sentence_attention,
    }
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; bfloat16, us per call:")
    print(f"median of {options.rounds} rounds [minimum, maximum], and its ratio to regard's kernel")
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
                compare(variants, queries, keys, heads, width, causal, options.rounds)


def batch(tokens: int, mean: int, causal: bool) -> tuple[Lengths, Lengths]:
    """Lengths of queries and keys: the same for self-attention, else those of sources."""
    random = np.random.default_rng(mean)
    count = tokens // mean
    targets = random.normal(mean, 0.05 * mean, count).round().clip(1, 128).astype(int)
    sources = (targets * random.lognormal(0.0, 0.2, count)).round().clip(1, 128).astype(int)
    device = torch.device("cuda")
    queries = Lengths.of(targets.tolist()).to(device)
    return queries, queries if causal else Lengths.of(sources.tolist()).to(device)


def compare(
    variants: dict[str, Callable[..., Tensor]],
    queries: Lengths,
    keys: Lengths,
    heads: int,
    width: int,
    causal: bool,
    rounds: int,
) -> None:
    """Time all variants, and print their errors relative to padded attention in float32."""
    torch.manual_seed(0)
    query, key, value = parts = list(views(queries, keys, heads, width, same=causal))
    gradient = torch.randn(queries.total, heads, width, device="cuda", dtype=torch.bfloat16)
    exact = padded(query.float(), key.float(), value.float(), queries, keys, causal).detach()
    steps: dict[tuple[str, str], Step] = {}
    errors = {}
    for name, variant in variants.items():
        forward = partial(variant, *parts, queries, keys, causal=causal)
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
    for name in variants:
        line = f"  {name:9}"
        for way in ("forward", "backward"):
            samples = times[name, way]
            ratio = median(samples) / median(times["sentence", way])
            spread = f"[{min(samples):.0f}, {max(samples):.0f}]"
            line += f"{way} {median(samples):7.1f} {spread:14} x{ratio:5.2f}   "
        print(f"{line}error {errors[name]:.1e}", flush=True)


def views(
    queries: Lengths, keys: Lengths, heads: int, width: int, *, same: bool
) -> Iterator[Tensor]:
    """Query, key and value as in the layers: views of one product, or of two."""
    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    if same:
        products = [make(queries.total, 3 * heads * width)]
    else:
        products = [make(queries.total, heads * width), make(keys.total, 2 * heads * width)]
    for product in products:
        for part in product.split(heads * width, dim=-1):
            yield part.unflatten(-1, (heads, width))


def microseconds(step: Step) -> float:
    """The GPU time of a call; the GPU sleeps until all calls are queued."""
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
