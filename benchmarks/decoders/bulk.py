"""Translation of a large file by a library, in the way that its documentation recommends.

    python -m decoders.bulk ctranslate2 int8 task.json < text > translations

The last line of standard error gives the lines and seconds, like that of `regard translate`: text
in and text out, without loading. CTranslate2 gets an iterable of tokenized lines, and sorts and
batches them itself. HuggingFace gets sorted batches of a large chunk of lines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from decoders.worker import make_decoder
from decoding_task import DecodingTask

_CHUNK = 32_768  # lines


def load(name: str, variant: str, task: DecodingTask) -> Callable[[Iterator[str]], Iterator[str]]:
    """A function that translates any number of lines."""
    if name == "ctranslate2":
        from decoders import ctranslate2

        return ctranslate2.stream_decoder(task, variant)
    translate, _ = make_decoder(name, variant, task)

    def translate_all(lines: Iterator[str]) -> Iterator[str]:
        while chunk := [*islice(lines, _CHUNK)]:
            yield from translate(chunk)

    return translate_all


def read_lines() -> Iterator[str]:
    """The lines of standard input."""
    return (line.rstrip("\n") for line in sys.stdin)


def main(name: str, variant: str, path: str) -> None:
    """Translate all lines."""
    translate_all = load(name, variant, DecodingTask.read(Path(path)))
    begin = time.perf_counter()
    count = 0
    for text in translate_all(read_lines()):
        print(text)
        count += 1
    print(f"{count} lines in {time.perf_counter() - begin:.3f} s", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
