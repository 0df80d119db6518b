"""CTranslate2 with SentencePiece, used as in its documentation.

It runs workers of one thread each: one worker of two threads is far slower on small models. The
model is exported by regard; neither regard nor PyTorch is imported here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import ctranslate2
import sentencepiece

from decoding_task import DecodingTask

READS_TEXT = True
BATCH_SIZES = (64, 64)  # sentences, for greedy and for beam search
_STREAM_BATCH_SIZES = (32, 16)  # for `translate_iterable` on two cores, in int8
_CHUNK = 1024  # lines that are tokenized in one call


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[str]], list[str]]:
    """A translation function from text to text; the variant is the compute type."""
    translator, source, target, lowercase = _load(task, variant)

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


def stream_decoder(task: DecodingTask, variant: str) -> Callable[[Iterator[str]], Iterator[str]]:
    """A translation function of an iterator, by `translate_iterable`; tokenization in batches."""
    translator, source, target, lowercase = _load(task, variant)

    def tokens(lines: Iterator[str]) -> Iterator[list[str]]:
        while chunk := [*islice(lines, _CHUNK)]:
            yield from source.encode([lowercase(line) for line in chunk], out_type=str)

    def translate_all(lines: Iterator[str]) -> Iterator[str]:
        results = translator.translate_iterable(
            tokens(lines),
            beam_size=task.beam_size,
            max_batch_size=task.choose_batch_size(*_STREAM_BATCH_SIZES),
        )
        while chunk := [result.hypotheses[0] for result in islice(results, _CHUNK)]:
            yield from target.decode(chunk)

    return translate_all


def _load(task: DecodingTask, variant: str) -> tuple[Any, Any, Any, Callable[[str], str]]:
    """The translator, the tokenizers of both sides, and the normalization of the source."""
    assert task.folder is not None
    translator = ctranslate2.Translator(
        str(Path(task.work) / "ctranslate2"),
        device=task.device,
        compute_type=variant,
        inter_threads=int(os.environ["OMP_NUM_THREADS"]) if task.device == "cpu" else 1,
        intra_threads=1,
    )
    source, target = _tokenizers(Path(task.folder))
    return translator, source, target, _lowercase(Path(task.folder))


def _tokenizers(folder: Path) -> list[sentencepiece.SentencePieceProcessor]:
    joint = [folder / "tokenizer.model"] * 2
    paths = joint if joint[0].is_file() else [folder / "source.model", folder / "target.model"]
    return [sentencepiece.SentencePieceProcessor(model_file=str(path)) for path in paths]


def _lowercase(folder: Path) -> Callable[[str], str]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str.lower if config["tokenizer"]["lowercase"] else str
