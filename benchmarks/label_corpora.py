"""Corpora of benchmarks/labels.py: a treebank, sentiment, and plain text.

`text` is plain text for pre-training: the training sentences without their labels, the World
English Bible and Shakespeare. Models with the pre-trained encoder share its tokenizer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.line_reader import read_lines
from regard.files import atomic_file
from regard.models.folder import WEIGHTS, read_tensors, write_tensors
from runner import run_regard

HELD_OUT = 50  # every 50th document is in the validation set
LINES = 100  # lines of a book per document


def prepare(text: Path, minilm: Path, data: Path, *, few: int, seeds: Sequence[int]) -> None:
    """Prepare all stores that are missing, and import the encoder."""
    data.mkdir(parents=True, exist_ok=True)
    treebank = text / "ud-ewt"
    train, dev = (treebank / f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "dev"))
    whole = whole_sentences(read_lines(text / "sst2" / "train.tsv.gz")[1:])
    if not (data / "text").is_dir():
        _prepare_text([*tree_documents(train), *reviews(whole), *books(text / "text")], data)
    if not (data / "minilm").is_dir():
        run_regard("import", str(minilm), "--out", str(data / "minilm"))
        _convert_to_float16(data / "minilm" / WEIGHTS)
    words = ["--tagged", str(train), "--valid-tagged", str(dev)]
    _store(data / "ewt", *words, "--vocab-size", "4000")
    _store(data / "ewt-text", *words, "--tokenizer-from", str(data / "text"))
    valid = ["--valid-labelled", str(text / "sst2" / "dev.tsv")]
    for source in ("text", "minilm"):
        options = [*valid, "--tokenizer-from", str(data / source)]
        every = str(text / "sst2" / "train.tsv.gz")
        _store(data / f"sst2-{source}", "--labelled", every, *options)
        for seed in seeds:
            sample = _draw_sample(whole, few, seed, data / f"sst2-{few}-{seed}.tsv")
            _store(data / f"sst2-{source}-{few}-{seed}", "--labelled", str(sample), *options)


def whole_sentences(lines: Sequence[str]) -> list[str]:
    """The lines (label and text) whose text is not part of another: SST-2 also has phrases."""
    texts = {tuple(line.split("\t")[1].split()) for line in lines}
    parts = {part for text in texts for part in _proper_parts(text) if part in texts}
    return [line for line in lines if tuple(line.split("\t")[1].split()) not in parts]


def _proper_parts(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for begin in range(len(words)):
        for end in range(begin + 1, len(words) + 1):
            if end - begin < len(words):
                yield words[begin:end]


def tree_documents(path: Path) -> list[str]:
    """Documents of the treebank, words separated by spaces as in the input of taggers."""
    documents: list[list[str]] = []
    words: list[str] = []
    for line in [*read_lines(path), ""]:
        cells = line.split("\t")
        if line.startswith("# newdoc") or not documents:
            documents.append([])
        if cells[0].isdecimal():
            words.append(cells[1])
        elif not line and words:
            documents[-1].append(" ".join(words))
            words = []
    return ["\n".join(document) for document in documents if document]


def reviews(lines: Sequence[str]) -> list[str]:
    """The text of each labelled line."""
    return [line.split("\t")[1].strip() for line in lines]


def books(folder: Path) -> list[str]:
    """Books in documents of some lines, with spaces around punctuation as in the treebank."""
    documents = []
    for path in (folder / "bible.en.txt.gz", folder / "shakespeare.txt.gz"):
        spaced = (re.sub(r"([.,;:!?()\"“”])", r" \1 ", line).split() for line in read_lines(path))
        sentences = [" ".join(words) for words in spaced if words]
        starts = range(0, len(sentences), LINES)
        documents += ["\n".join(sentences[begin : begin + LINES]) for begin in starts]
    return documents


def _prepare_text(documents: Sequence[str], data: Path) -> None:
    held_out = documents[::HELD_OUT]
    rest = [text for number, text in enumerate(documents) if number % HELD_OUT]
    paths = [data / "text.train.txt", data / "text.valid.txt"]
    for path, texts in zip(paths, (rest, held_out), strict=True):
        path.write_text("".join(text + "\n\n" for text in texts), encoding="utf-8")
    files = ["--text", str(paths[0]), "--valid-text", str(paths[1])]
    _store(data / "text", *files, "--vocab-size", "8000")
    for path in paths:
        path.unlink()


def _draw_sample(lines: Sequence[str], count: int, seed: int, path: Path) -> Path:
    """Write a random sample of lines into a file."""
    chosen = random.Random(seed).sample(list(lines), count)
    with atomic_file(path) as temporary:
        temporary.write_text("".join(line + "\n" for line in chosen), encoding="utf-8")
    return path


def _store(out: Path, *words: str) -> None:
    if not out.is_dir():
        run_regard("prepare", *words, "--out", str(out))


def _convert_to_float16(weights: Path) -> None:
    """Halve the size of the file for transfers; models are trained in float32."""
    tensors, notes = read_tensors(weights)
    write_tensors(weights, {name: tensor.half() for name, tensor in tensors.items()}, notes)
