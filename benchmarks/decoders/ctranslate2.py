"""CTranslate2 itself, with SentencePiece around it, as its documentation shows.

Two workers of one thread each: one worker of two threads is far slower on small models. Its model
is what regard exports; nothing of regard, and no PyTorch, is imported here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import ctranslate2
import sentencepiece

from exercise import Exercise

READS_TEXT = True
BATCHES = (64, 64)  # sentences at once, greedily and with beams


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[str]], list[str]]:
    """Text to text; the form is a precision."""
    assert exercise.folder is not None
    translator = ctranslate2.Translator(
        str(Path(exercise.work) / "ctranslate2"),
        compute_type=form,
        inter_threads=int(os.environ["OMP_NUM_THREADS"]),
        intra_threads=1,
    )
    source, target = _tokenizers(Path(exercise.folder))
    lowercase = _lowercase(Path(exercise.folder))

    def translate(lines: Sequence[str]) -> list[str]:
        cut = source.encode([lowercase(line) for line in lines], out_type=str)
        found = translator.translate_batch(
            cut,
            beam_size=exercise.beam_size,
            max_batch_size=exercise.at_once(*BATCHES),
            max_decoding_length=2 * max(map(len, cut)) + 20,
        )
        return [target.decode(result.hypotheses[0]) for result in found]

    return translate


def _tokenizers(folder: Path) -> list[sentencepiece.SentencePieceProcessor]:
    joint = [folder / "tokenizer.model"] * 2
    paths = joint if joint[0].is_file() else [folder / "source.model", folder / "target.model"]
    return [sentencepiece.SentencePieceProcessor(model_file=str(path)) for path in paths]


def _lowercase(folder: Path) -> Callable[[str], str]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str.lower if config["tokenizer"]["lowercase"] else str
