"""A translation command for a library: loads the model, translates stdin and prints the result.

python -m decoders.command ctranslate2 int8 task.json < text > translations
"""

from __future__ import annotations

import sys
from pathlib import Path

from decoders.worker import make_decoder
from decoding_task import DecodingTask


def main(name: str, variant: str, path: str) -> None:
    """Translate all lines of standard input."""
    translate, _ = make_decoder(name, variant, DecodingTask.read(Path(path)))
    lines = sys.stdin.read().splitlines()
    print("\n".join(translate(lines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
