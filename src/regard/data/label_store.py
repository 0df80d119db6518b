"""Labelled text in a prepared store: the ids of texts, how many each word has, and the labels.

An example is a sentence of words with a label each, or one or two texts with one label. For each
part there are three sides: "text" (the ids of all its words or texts, end to end), "sizes" (how
many ids each has) and "labels". Labels are numbered from 1 in the order of their names; 0 is no
label, as `SPECIAL.pad` is no word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import Tree
from regard.data.rows import Sentences
from regard.data.store import Store, fingerprint
from regard.data.store_description import dtype_for
from regard.data.store_writer import SideWriter
from regard.text.tokenizer import Tokenizers

_COUNTS = "uint32"


@dataclass(frozen=True)
class LabelledPart:
    """The examples of one part."""

    text: Sentences
    sizes: Sentences
    labels: Sentences

    def __len__(self) -> int:
        return len(self.text)


def labelled_part(store: Store, name: str) -> LabelledPart:
    """The examples of a part."""
    text = Sentences(store.folder, f"{name}.text", store.description["dtype"])
    sizes = Sentences(store.folder, f"{name}.sizes", _COUNTS)
    labels = Sentences(store.folder, f"{name}.labels", _COUNTS)
    known = store.vocabulary
    store.verify(
        name,
        {
            "text": (text, known.source),
            "sizes": (sizes, len(text.flat()) + 1),
            "labels": (labels, len(known.labels) + 1),
        },
        {"examples": len(text), "tokens": len(text.flat())},
    )
    return LabelledPart(text, sizes, labels)


class LabelWriter:
    """Writes the examples of one part, and describes what it wrote."""

    def __init__(
        self, folder: Path, name: str, tokenizers: Tokenizers, labels: Sequence[str]
    ) -> None:
        self._sides = [
            SideWriter(folder, f"{name}.text", dtype_for(tokenizers)),
            SideWriter(folder, f"{name}.sizes", _COUNTS),
            SideWriter(folder, f"{name}.labels", _COUNTS),
        ]
        self._numbers = {label: number for number, label in enumerate(labels, 1)}
        self._counts = dict.fromkeys(labels, 0)
        self._examples = self._texts = 0

    def append(self, ids: Sequence[Sequence[int]], labels: Sequence[str]) -> None:
        """One more example: the ids of each word or text, and the labels."""
        text, sizes, numbers = self._sides
        text.append([number for one in ids for number in one])
        sizes.append([*map(len, ids)])
        numbers.append([self._numbers[label] for label in labels])
        for label in labels:
            self._counts[label] += 1
        self._examples += 1
        self._texts = max(self._texts, len(ids))

    def description(self) -> Tree:
        """What `store.json` says of the part."""
        text, sizes, labels = self._sides
        return {
            "examples": self._examples,
            "texts": sizes.tokens,
            "most_texts": self._texts,
            "labels": labels.tokens,
            "counts": self._counts,
            "tokens": text.tokens,
            "longest": text.longest,
            "digest": fingerprint(side.digest for side in self._sides),
        }

    def __enter__(self) -> LabelWriter:
        return self

    def __exit__(self, *error: object) -> None:
        for side in self._sides:
            side.__exit__()
