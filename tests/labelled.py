"""Small labelled corpora: a grammar whose words are ambiguous, and texts that speak well or ill."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from regard.config import build
from regard.data.doctor import DoctorConfig
from regard.data.label_files import LabelFormat, LabelReader
from regard.data.prepare import prepare
from regard.data.spans import may_follow
from regard.data.store import Store
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

Sentence = list[tuple[str, str]]  # words and their labels
TAGGER: dict[str, Any] = {
    "kind": "tagger",
    "layers": 2,
    "width": 32,
    "heads": 2,
    "feedforward_width": 48,
    "norm_order": "pre",
    "dropout": 0.0,
}
CLASSIFIER: dict[str, Any] = {**TAGGER, "kind": "classifier"}


def tagged_sentences(count: int, *, seed: int = 0) -> list[Sentence]:
    """What "run" and "walk" are, and whose name "may" begins, the neighbours say."""
    draw = random.Random(seed)
    both = ["run", "walk", "visit"]
    found = []
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
        found.append(sentence)
    return found


def columns(sentences: list[Sentence]) -> str:
    """As word, tab, label."""
    blocks = ("".join(f"{word}\t{label}\n" for word, label in one) for one in sentences)
    return "\n".join(blocks)


def write_tagged_store(folder: Path, *, tokenizer: str | Tokenizers = "unigram") -> Store:
    """Sentences of the grammar, prepared."""
    (folder / "train.tsv").write_text(columns(tagged_sentences(300, seed=1)))
    (folder / "valid.tsv").write_text(columns(tagged_sentences(60, seed=2)))
    return _prepared(folder, LabelFormat("tagged"), tokenizer)


def opinions(count: int, *, seed: int = 0, pairs: bool = False) -> list[tuple[str, ...]]:
    """Labels and texts: good or bad, unless "not" stands before it.

    Of pairs, the second counts, and nothing is denied.
    """
    draw = random.Random(seed)

    def opinion() -> tuple[bool, str]:
        good, denied = draw.random() < 0.5, not pairs and draw.random() < 0.5
        word = draw.choice(["good", "fine"] if good else ["bad", "dull"])
        around = draw.choices(["film", "plot", "very", "a"], k=draw.randint(1, 4))
        place = draw.randint(0, len(around))
        text = [*around[:place], *(["not"] if denied else []), word, *around[place:]]
        return good != denied, " ".join(text)

    found: list[tuple[str, ...]] = []
    for _ in range(count):
        (one, text), (two, other) = opinion(), opinion()
        found.append((str(two), text, other) if pairs else (str(one), text))
    return found


def write_labelled_store(
    folder: Path, *, pairs: bool = False, tokenizer: str | Tokenizers = "word"
) -> Store:
    """Opinions, prepared."""
    for name, count, seed in (("train", 500, 1), ("valid", 100, 2)):
        rows = opinions(count, seed=seed, pairs=pairs)
        (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return _prepared(folder, LabelFormat("labelled"), tokenizer)


def _prepared(folder: Path, format: LabelFormat, tokenizer: str | Tokenizers) -> Store:
    if isinstance(tokenizer, str):
        cut = build(TokenizerConfig, {"kind": tokenizer, "vocab_size": 320})
    prepare(
        LabelReader(
            {name: [folder / f"{name}.tsv"] for name in ("train", "valid")}, format, DoctorConfig()
        ),
        folder / "prepared",
        tokenizer=cut if isinstance(tokenizer, str) else tokenizer,
    )
    return Store(folder / "prepared")


def first_illegal(labels: Sequence[str]) -> int | None:
    """The first word of a sentence that goes on in a span which nobody began, if there is one."""
    for place, (before, label) in enumerate(pairwise([None, *labels])):
        assert label is not None
        if not may_follow(label, before):
            return place
    return None
