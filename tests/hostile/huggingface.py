"""HuggingFace model folders for `regard import`, one per family, with random weights."""

from __future__ import annotations

import sys
from pathlib import Path

from exchange.language_models import write_bert, write_gpt2, write_xlnet
from exchange.marian_models import write_marian


def write(folder: Path) -> None:
    """Write the model folders."""
    write_marian(folder / "marian", varied=True)
    write_gpt2(folder / "gpt2")
    write_bert(folder / "bert")
    write_bert(folder / "roberta", "RobertaForMaskedLM")
    write_xlnet(folder / "xlnet")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
