"""Toy labelled corpora: a grammar with ambiguous words, and positive or negative texts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from regard.config import build
from regard.data.filters import CorpusFilterConfig
from regard.data.label_files import LabelFormat, LabelReader
from regard.data.prepare import prepare
from regard.data.spans import is_valid_transition
from regard.data.store import Store
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

Sentence = list[tuple[str, str]]  # words and their labels
TAGGER: dict[str, Any] = {
    "kind": "tagger",
    "num_layers": 2,
    "d_model": 32,
    "num_heads": 2,
    "ffn_dim": 48,
    "norm_order": "pre",
    "dropout": 0.0,
}
CLASSIFIER: dict[str, Any] = {**TAGGER, "kind": "classifier"}


def tagged_sentences(count: int, *, seed: int = 0) -> list[Sentence]:
    """Sentences in which the tags of "run", "walk" and "may" depend on the context."""
    draw = random.Random(seed)
    both = ["run", "walk", "visit"]
    sentences = []
    for _ in range(count):
        sentence: Sentence = []
        for part in draw.choices(["thing", "person", "place"], k=draw.randint(1, 3)):
            if part == "thing":
                sentence += [("the", "O"), (draw.choice([*both, "dog"]), "B-thing")]
            elif part == "person":
                sentence += [("may", "B-name"), (draw.choice(["jones", "smith"]), "I-name")]
            else:
                sentence += [("in", "O"), ("new", "B-place"), ("york", "I-place")]
            sentence += [(draw.choice([*both, "may"]), "O")]
        sentences.append(sentence)
    return sentences


def columns(sentences: list[Sentence]) -> str:
    """Lines of word, tab, label."""
    blocks = ("".join(f"{word}\t{label}\n" for word, label in sentence) for sentence in sentences)
    return "\n".join(blocks)


def write_tagged_store(folder: Path, *, tokenizer: str | Tokenizers = "unigram") -> Store:
    """Prepare sentences of the grammar."""
    (folder / "train.tsv").write_text(columns(tagged_sentences(300, seed=1)))
    (folder / "valid.tsv").write_text(columns(tagged_sentences(60, seed=2)))
    return _prepared(folder, LabelFormat("tagged"), tokenizer)


def opinions(count: int, *, seed: int = 0, pairs: bool = False) -> list[tuple[str, ...]]:
    """Labels and texts: positive or negative, inverted by "not".

    Of pairs, the second counts, and nothing is denied.
    """
    draw = random.Random(seed)

    def opinion() -> tuple[bool, str]:
        good, denied = draw.random() < 0.5, not pairs and draw.random() < 0.5
        word = draw.choice(["good", "fine"] if good else ["bad", "dull"])
        around = draw.choices(["film", "plot", "very", "a"], k=draw.randint(1, 4))
        position = draw.randint(0, len(around))
        text = [*around[:position], *(["not"] if denied else []), word, *around[position:]]
        return good != denied, " ".join(text)

    examples: list[tuple[str, ...]] = []
    for _ in range(count):
        (label, text), (pair_label, other) = opinion(), opinion()
        examples.append((str(pair_label), text, other) if pairs else (str(label), text))
    return examples


def write_labelled_store(
    folder: Path, *, pairs: bool = False, tokenizer: str | Tokenizers = "word"
) -> Store:
    """Prepare opinions."""
    for name, count, seed in (("train", 500, 1), ("valid", 100, 2)):
        rows = opinions(count, seed=seed, pairs=pairs)
        (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return _prepared(folder, LabelFormat("labelled"), tokenizer)


def _prepared(folder: Path, format: LabelFormat, tokenizer: str | Tokenizers) -> Store:
    if isinstance(tokenizer, str):
        cut = build(TokenizerConfig, {"kind": tokenizer, "vocab_size": 320})
    prepare(
        LabelReader(
            {name: [folder / f"{name}.tsv"] for name in ("train", "valid")},
            format,
            CorpusFilterConfig(),
        ),
        folder / "prepared",
        tokenizer=cut if isinstance(tokenizer, str) else tokenizer,
    )
    return Store(folder / "prepared")


def first_illegal(labels: Sequence[str]) -> int | None:
    """The position of the first I- label without a preceding B- or I- label, if any."""
    for position, (before, label) in enumerate(pairwise([None, *labels])):
        assert label is not None
        if not is_valid_transition(label, before):
            return position
    return None
