"""A decoder in a Python process of its own, perhaps not ours: it does a round whenever it is told.

    python -m decoders.worker fairseq "" exercise.json

It says `{}` once it is warm, and for each line that it reads it translates all sentences and says
how that went. Loading is over by then.
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

from exercise import Exercise
from memory import peak_memory

Translate = Callable[[Sequence[Any]], list[Any]]  # lines to lines, or ids to ids
_WARM = 100  # sentences


def make_decoder(name: str, form: str, exercise: Exercise) -> tuple[Translate, Sequence[Any]]:
    """The decoder of `decoders/NAME.py` in one of its forms, and what it is given."""
    module = importlib.import_module(f"decoders.{name}")
    translate: Translate = module.decoder(exercise, form)
    reads_text = module.READS_TEXT and exercise.lines is not None
    given: Sequence[Any] = (exercise.lines or []) if reads_text else exercise.sentences
    return translate, given[: getattr(module, "AT_MOST", None)]


def measured(exercise: Exercise, translate: Translate, given: Sequence[Any]) -> dict[str, Any]:
    """A round: the seconds of each call, the translations, and the peak of memory."""
    parts = [[sentence] for sentence in given] if exercise.one_by_one else [given]
    seconds: list[float] = []
    written: list[Any] = []
    for part in parts:
        begin = time.perf_counter()
        written += translate(part)  # it answers with lists, so a GPU has finished
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds, "written": written, "memory": peak_memory(exercise.device)}


def warm_up(exercise: Exercise, translate: Translate, given: Sequence[Any]) -> None:
    """What nobody counts: first allocations, and on a GPU all shapes that will come."""
    if exercise.one_by_one:
        for sentence in given[:20]:
            translate([sentence])
    else:
        translate(given if exercise.device == "cuda" else given[:_WARM])


def main(name: str, form: str, path: str) -> None:
    """Warm up, then a round for each line of the standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    exercise = Exercise.read(Path(path))
    translate, given = make_decoder(name, form, exercise)
    warm_up(exercise, translate, given)
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(measured(exercise, translate, given)), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
