"""What benchmarks/labels.py learns from: a treebank, sentiment, and the text at hand.

`text` is running text to pre-train on, and its subwords are those of all that begins with what was
pre-trained: the training sentences without their labels, the World English Bible and Shakespeare.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.corpus import read_lines
from regard.files import whole_file
from regard.models.folder import WEIGHTS, read_tensors, write_tensors
from side_by_side import regard

HELD_OUT = 50  # of so many documents, one is validated on
LINES = 100  # of a book, in a document


def prepare(text: Path, minilm: Path, data: Path, *, few: int, seeds: Sequence[int]) -> None:
    """All stores, and the imported encoder beside them; what is there already stays."""
    data.mkdir(parents=True, exist_ok=True)
    treebank = text / "ud-ewt"
    train, dev = (treebank / f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "dev"))
    whole = whole_sentences(read_lines(text / "sst2" / "train.tsv.gz")[1:])
    if not (data / "text").is_dir():
        _running_text([*tree_documents(train), *reviews(whole), *books(text / "text")], data)
    if not (data / "minilm").is_dir():
        regard("import", str(minilm), "--out", str(data / "minilm"))
        _halve(data / "minilm" / WEIGHTS)
    words = ["--tagged", str(train), "--valid-tagged", str(dev)]
    _store(data / "ewt", *words, "--vocab-size", "4000")
    _store(data / "ewt-text", *words, "--tokenizer-from", str(data / "text"))
    valid = ["--valid-labelled", str(text / "sst2" / "dev.tsv")]
    for origin in ("text", "minilm"):
        cut = [*valid, "--tokenizer-from", str(data / origin)]
        every = str(text / "sst2" / "train.tsv.gz")
        _store(data / f"sst2-{origin}", "--labelled", every, *cut)
        for seed in seeds:
            drawn = _drawn(whole, few, seed, data / f"sst2-{few}-{seed}.tsv")
            _store(data / f"sst2-{origin}-{few}-{seed}", "--labelled", str(drawn), *cut)


def whole_sentences(lines: Sequence[str]) -> list[str]:
    """The lines, label and text, whose text is a part of no other: SST-2 has phrases, too."""
    texts = {tuple(line.split("\t")[1].split()) for line in lines}
    parts = {part for text in texts for part in _proper_parts(text) if part in texts}
    return [line for line in lines if tuple(line.split("\t")[1].split()) not in parts]


def _proper_parts(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for begin in range(len(words)):
        for end in range(begin + 1, len(words) + 1):
            if end - begin < len(words):
                yield words[begin:end]


def tree_documents(path: Path) -> list[str]:
    """Documents of the treebank, their words with spaces between them, as taggers read them."""
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
    """The texts of labelled lines, each by itself."""
    return [line.split("\t")[1].strip() for line in lines]


def books(folder: Path) -> list[str]:
    """Stretches of books, with spaces before punctuation, as treebank and reviews have them."""
    found = []
    for path in (folder / "bible.en.txt.gz", folder / "shakespeare.txt.gz"):
        spaced = (re.sub(r"([.,;:!?()\"“”])", r" \1 ", line).split() for line in read_lines(path))
        kept = [" ".join(words) for words in spaced if words]
        stretches = range(0, len(kept), LINES)
        found += ["\n".join(kept[begin : begin + LINES]) for begin in stretches]
    return found


def _running_text(documents: Sequence[str], data: Path) -> None:
    held_out = documents[::HELD_OUT]
    rest = [text for number, text in enumerate(documents) if number % HELD_OUT]
    paths = [data / "text.train.txt", data / "text.valid.txt"]
    for path, texts in zip(paths, (rest, held_out), strict=True):
        path.write_text("".join(text + "\n\n" for text in texts), encoding="utf-8")
    files = ["--text", str(paths[0]), "--valid-text", str(paths[1])]
    _store(data / "text", *files, "--vocab-size", "8000")
    for path in paths:
        path.unlink()


def _drawn(lines: Sequence[str], count: int, seed: int, path: Path) -> Path:
    """Some lines, drawn by a seed, in a file."""
    chosen = random.Random(seed).sample(list(lines), count)
    with whole_file(path) as temporary:
        temporary.write_text("".join(line + "\n" for line in chosen), encoding="utf-8")
    return path


def _store(out: Path, *words: str) -> None:
    if not out.is_dir():
        regard("prepare", *words, "--out", str(out))


def _halve(weights: Path) -> None:
    """Half the bytes, to be carried to another machine; models train in float32 all the same."""
    tensors, notes = read_tensors(weights)
    write_tensors(weights, {name: tensor.half() for name, tensor in tensors.items()}, notes)
