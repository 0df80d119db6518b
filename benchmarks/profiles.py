"""GPU profile of a training update or of a search: kernels by time.

    python benchmarks/profiles.py update --size base
    python benchmarks/profiles.py search --beam-size 4 --batch-size 64

Updates are those of `training.py`, searches those of `decoding.py` with random weights and a forced
length of 32 tokens. The first line is the speed without the profiler.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from peers import ours
from regard.backends.torch_backend import TorchBackend
from regard.decoding.backend import Request, search_requests
from regard.decoding.config import SearchConfig
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer
from training_task import SIZES, TrainingTask

VOCABULARY = 32768
TOKENS = 32  # per sentence


def main() -> None:
    """Time an update or a search, then profile it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=["update", "search"])
    parser.add_argument("--size", choices=list(SIZES), default="base")
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    if options.work == "update":
        work, tokens = update(options.size, options.times)
    else:
        work, tokens = search(options.size, options.beam_size, options.batch_size, options.times)
    for _ in range(3):  # compiles kernels and captures CUDA graphs
        work()
    print(f"{tokens / _seconds(work):,.0f} target tokens/s", flush=True)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    averages = profiler.key_averages()
    print(averages.table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=90))


def update(size: str, times: int) -> tuple[Callable[[], None], int]:
    """A function that runs updates, and their number of target tokens."""
    task = TrainingTask(
        SIZES[size],
        "cuda",
        vocabulary=VOCABULARY,
        batch_tokens=25600,
        warmup=0,
        updates=times,
        lengths=(TOKENS, TOKENS),
    )
    trainer = ours.trainer(task, "")
    batches = [trainer.load(batch) for batch in task.batches()]

    def work() -> None:
        for batch in batches:
            trainer.update(batch)

    return work, sum(trainer.target_tokens(batch) for batch in batches)


def search(size: str, beams: int, sentences: int, times: int) -> tuple[Callable[[], None], int]:
    """A function that runs searches, and their number of output tokens, including EOS."""
    model = (
        Transformer(ours.model_config(SIZES[size]), Vocabulary(VOCABULARY, VOCABULARY))
        .cuda()
        .eval()
    )
    rng = random.Random(1)
    requests = [
        Request([rng.randrange(4, VOCABULARY) for _ in range(TOKENS - 1)], [])
        for _ in range(sentences)
    ]
    config = SearchConfig(beam_size=beams, min_length=TOKENS - 1, max_ratio=0, max_extra=TOKENS)
    backend = TorchBackend([model], torch.device("cuda"))

    def work() -> None:
        for _ in range(times):
            list(search_requests(backend, requests, config, sentences))

    return work, times * sentences * TOKENS


def _seconds(work: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
