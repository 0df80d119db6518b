"""Folders of HuggingFace's for `regard import`, one of each family, with random weights."""

from __future__ import annotations

import sys
from pathlib import Path

from exchange.languages import write_bert, write_gpt2, write_xlnet
from exchange.marians import write_marian


def write(folder: Path) -> None:
    """Write them below a folder."""
    write_marian(folder / "marian", talkative=True)
    write_gpt2(folder / "gpt2")
    write_bert(folder / "bert")
    write_bert(folder / "roberta", "RobertaForMaskedLM")
    write_xlnet(folder / "xlnet")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
