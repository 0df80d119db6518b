"""A worker process of a decoder, which may run in a toolkit's environment.

    python -m decoders.worker fairseq "" task.json

It prints `{}` after loading and warm-up. For each line of standard input it translates all
sentences and prints times, translations and memory as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from decoding_task import DecodingTask
from memory import peak_memory

Translate = Callable[[Sequence[Any]], list[Any]]  # lines to lines, or ids to ids
_WARM_UP = 100  # sentences


def make_decoder(name: str, variant: str, task: DecodingTask) -> tuple[Translate, Sequence[Any]]:
    """A variant of the decoder in `decoders/NAME.py`, and its inputs."""
    module = importlib.import_module(f"decoders.{name}")
    translate: Translate = module.decoder(task, variant)
    reads_text = module.READS_TEXT and task.lines is not None
    inputs: Sequence[Any] = (task.lines or []) if reads_text else task.sentences
    return translate, inputs[: getattr(module, "MAX_SENTENCES", None)]


def run_round(task: DecodingTask, translate: Translate, inputs: Sequence[Any]) -> dict[str, Any]:
    """Translate all inputs: the seconds of each call, the translations, and peak memory."""
    calls = [[sentence] for sentence in inputs] if task.one_by_one else [inputs]
    seconds: list[float] = []
    translations: list[Any] = []
    for sentences in calls:
        begin = time.perf_counter()
        translations += translate(sentences)  # returns lists, so a GPU has finished
        seconds.append(time.perf_counter() - begin)
    memory = peak_memory(task.device)
    return {"seconds": seconds, "translations": translations, "memory": memory}


def warm_up(task: DecodingTask, translate: Translate, inputs: Sequence[Any]) -> None:
    """Translate some inputs untimed; on a GPU all of them, to meet all shapes."""
    if task.one_by_one:
        for sentence in inputs[:20]:
            translate([sentence])
    else:
        translate(inputs if task.device == "cuda" else inputs[:_WARM_UP])


def main(name: str, variant: str, path: str) -> None:
    """Warm up, then run a round for each line of standard input."""
    responses = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with the responses
    task = DecodingTask.read(Path(path))
    translate, inputs = make_decoder(name, variant, task)
    warm_up(task, translate, inputs)
    print("{}", file=responses, flush=True)
    for _ in sys.stdin:
        print(json.dumps(run_round(task, translate, inputs)), file=responses, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
