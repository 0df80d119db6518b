"""A store of toy documents, for tests."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.config import build
from regard.data.document_context import DocumentContext
from regard.data.documents import pair_reader
from regard.data.filters import CorpusFilterConfig
from regard.data.pair_files import Files
from regard.data.prepare import PrepareResult, prepare
from regard.data.store import Store
from regard.models.folder import WEIGHTS, read_tensors, write_tensors
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from toys import write_model_folder

Documents = Sequence[Sequence[tuple[str, str]]]


def toy_documents(count: int, seed: int = 1, *, longest: int = 5) -> list[list[tuple[str, str]]]:
    """Documents of lines of a few letters, whose targets are the letters in reverse order."""
    draw = random.Random(seed)
    lines = [
        [" ".join(draw.choices("abcdefghij", k=draw.randint(2, 6))) for _ in range(length)]
        for length in (draw.randint(1, longest) for _ in range(count))
    ]
    return [[(line, line[::-1]) for line in document] for document in lines]


def joined(documents: Iterable[Sequence[tuple[str, str]]], side: int) -> str:
    """The text of one side, with blank lines between documents."""
    return "\n".join("".join(f"{pair[side]}\n" for pair in document) for document in documents)


def write_files(folder: Path, name: str, documents: Documents) -> Files:
    """Write two parallel text files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / f"{name}.source", folder / f"{name}.target")
    files.source.write_text(joined(documents, 0))
    files.target.write_text(joined(documents, 1))
    return files


def prepare_documents(
    folder: Path,
    source: int,
    target: int,
    train: Documents,
    valid: Documents = (),
    *,
    tokenizer: str = "word",
    **filters: Any,
) -> PrepareResult:
    """Prepare documents in the folder `prepared`, with a number of context sentences per side."""
    parts = {"train": [write_files(folder, "train", train)]}
    if valid:
        parts["valid"] = [write_files(folder, "valid", valid)]
    return prepare(
        pair_reader(
            parts,
            CorpusFilterConfig(skip_copied=False, **filters),
            DocumentContext(source, target),
            ("xx", "yy"),
        ),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": tokenizer, "vocab_size": 300}),
        languages=("xx", "yy"),
    )


def write_document_store(
    folder: Path, source: int, target: int, *, tokenizer: str = "word"
) -> Store:
    """A store of toy documents with a validation set."""
    train, valid = toy_documents(120), toy_documents(12, seed=2)
    prepare_documents(folder, source, target, train, valid, tokenizer=tokenizer)
    return Store(folder / "prepared")


def write_letters_model(folder: Path, store: Store, **changes: Any) -> Path:
    """A model folder with random weights, whose outputs are letters that depend on the context."""
    write_model_folder(folder, store, output_bias=True, norm_order="pre", **changes)
    tensors, metadata = read_tensors(folder / WEIGHTS)
    tokenizer = store.tokenizers.target
    letters = [ids[-1] for ids in map(tokenizer.encode, "abcdefghij")]
    draw = torch.Generator().manual_seed(1)
    for name, weights in tensors.items():
        weights.add_(0.6 * torch.randn(weights.shape, generator=draw))
        if name.endswith("projection.bias"):
            weights.fill_(-100.0)
            weights[letters], weights[SPECIAL.eos] = 0.0, 3.0
    write_tensors(folder / WEIGHTS, tensors, metadata)
    return folder
