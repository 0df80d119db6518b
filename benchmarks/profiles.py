"""Where the time of a GPU goes: the kernels of an update, or of a search, the longest first.

    python benchmarks/profiles.py update --size base
    python benchmarks/profiles.py search --beam-size 4 --batch-size 64

Both are as the contests have them: updates as in `training.py`, searches of 32 forced tokens with
random weights. The first line is the speed without the profiler, and without a rival beside it.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from lesson import SIZES, Lesson
from peers import ours
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Job
from regard.decoding.torch_engine import TorchEngine
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer

WORDS = 32768
TOKENS = 32  # of a sentence


def main() -> None:
    """Time some work, then profile it."""
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
    for _ in range(3):  # kernels are compiled and recorded
        work()
    print(f"{tokens / _seconds(work):,.0f} target tokens/s", flush=True)
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    averages = found.key_averages()
    print(averages.table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=90))


def update(size: str, times: int) -> tuple[Callable[[], None], int]:
    """Some updates, and the target tokens in them."""
    lesson = Lesson(
        SIZES[size],
        "cuda",
        vocabulary=WORDS,
        batch_tokens=25600,
        warmup=0,
        updates=times,
        lengths=(TOKENS, TOKENS),
    )
    learner = ours.learner(lesson, "")
    batches = [learner.load(batch) for batch in lesson.batches()]

    def work() -> None:
        for batch in batches:
            learner.update(batch)

    return work, sum(learner.target_tokens(batch) for batch in batches)


def search(size: str, beams: int, sentences: int, times: int) -> tuple[Callable[[], None], int]:
    """Some searches, and the tokens that they write, end marks included."""
    model = Transformer(ours.model_config(SIZES[size]), Vocabulary(WORDS, WORDS)).cuda().eval()
    draw = random.Random(1)
    jobs = [
        Job([draw.randrange(4, WORDS) for _ in range(TOKENS - 1)], []) for _ in range(sentences)
    ]
    config = SearchConfig(beam_size=beams, min_length=TOKENS - 1, max_ratio=0, max_extra=TOKENS)
    engine = TorchEngine([model], torch.device("cuda"))

    def work() -> None:
        for _ in range(times):
            list(engine.search(jobs, config, sentences))

    return work, times * sentences * TOKENS


def _seconds(work: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
