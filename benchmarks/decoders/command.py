"""What a script around a library does from its start to its end.

    python -m decoders.command ctranslate2 int8 exercise.json < text > translations

It loads the library and the model, reads all lines, translates and prints them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from decoders.worker import make_decoder
from exercise import Exercise


def main(name: str, form: str, path: str) -> None:
    """All lines of the standard input at once."""
    translate, _ = make_decoder(name, form, Exercise.read(Path(path)))
    lines = sys.stdin.read().splitlines()
    print("\n".join(translate(lines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
