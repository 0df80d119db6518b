"""regard: train, run and look into Transformers that turn one sequence into another.

>>> import regard
>>> model = regard.load("runs/ende")
>>> model.translate(["A dog runs."], beam_size=5)[0].text
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from regard.decoding.translator import Translator

__all__ = ["RegardError", "__version__", "load"]


def load(
    *folders: str | Path, device: str = "auto", engine: str = "auto", precision: str | None = None
) -> Translator:
    """The translator in a model folder (or run folder); several folders translate together.

    Language models are loaded by `Generator` (in `regard.decoding.generator`), `Filler` (in
    `regard.decoding.filler`) and `Embedder` (in `regard.decoding.embedder`).

    `engine` is "torch", "ctranslate2", or "auto": CTranslate2 on a CPU, if it is installed and can
    run the model. `precision` is "float32", "bfloat16" (in PyTorch; the default on a
    GPU), or "int8" (in CTranslate2).
    """
    from regard.decoding.translator import Translator

    return Translator.load(*folders, device=device, engine=engine, precision=precision)


def __dir__() -> list[str]:
    """What is for others to use, and not what this file needs itself."""
    return __all__
