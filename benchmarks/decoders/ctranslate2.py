"""CTranslate2 with SentencePiece, used as in its documentation.

It runs workers of one thread each: one worker of two threads is far slower on small models. The
model is exported by regard; neither regard nor PyTorch is imported here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import ctranslate2
import sentencepiece

from decoding_task import DecodingTask

READS_TEXT = True
BATCH_SIZES = (64, 64)  # sentences, for greedy and for beam search


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[str]], list[str]]:
    """A translation function from text to text; the variant is the compute type."""
    assert task.folder is not None
    translator = ctranslate2.Translator(
        str(Path(task.work) / "ctranslate2"),
        compute_type=variant,
        inter_threads=int(os.environ["OMP_NUM_THREADS"]),
        intra_threads=1,
    )
    source, target = _tokenizers(Path(task.folder))
    lowercase = _lowercase(Path(task.folder))

    def translate(lines: Sequence[str]) -> list[str]:
        tokens = source.encode([lowercase(line) for line in lines], out_type=str)
        results = translator.translate_batch(
            tokens,
            beam_size=task.beam_size,
            max_batch_size=task.choose_batch_size(*BATCH_SIZES),
            max_decoding_length=2 * max(map(len, tokens)) + 20,
        )
        return [target.decode(result.hypotheses[0]) for result in results]

    return translate


def _tokenizers(folder: Path) -> list[sentencepiece.SentencePieceProcessor]:
    joint = [folder / "tokenizer.model"] * 2
    paths = joint if joint[0].is_file() else [folder / "source.model", folder / "target.model"]
    return [sentencepiece.SentencePieceProcessor(model_file=str(path)) for path in paths]


def _lowercase(folder: Path) -> Callable[[str], str]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str.lower if config["tokenizer"]["lowercase"] else str
