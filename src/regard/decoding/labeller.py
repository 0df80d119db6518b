"""Text in, labels out: a tagger or a classifier and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self, cast

import torch

from regard.data.labelled import ClassifiedCollate, Collate, TaggedCollate, Texts
from regard.data.spelling import Speller
from regard.decoding.engine import by_length, checked_texts, refuse_one_text
from regard.devices import device_named
from regard.errors import DataError
from regard.models.classifier import ClassifierModel
from regard.models.folder import ModelFolder, load_model, refuse_other_task
from regard.models.labelling import LabelModel
from regard.models.tagger import TaggerModel


@dataclass(frozen=True)
class Tagged:
    """A sentence whose words have labels, and how likely the model finds each of these."""

    words: list[str]
    labels: list[str]
    probabilities: list[float]


@dataclass(frozen=True)
class Classified:
    """A text, or two, with a label, and how likely the model finds each that there is."""

    texts: list[str]
    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """Of the label."""
        return self.probabilities[self.label]


class Tagger:
    """A trained tagger, ready for text."""

    def __init__(self, path: Path, folder: ModelFolder, model: TaggerModel) -> None:
        self.path, self.folder, self.model = path, folder, model

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> Self:
        """Read a model folder."""
        path = Path(folder)
        described = refuse_other_task(path, "tagging", "labels words", "tagger-tiny")
        described, model = load_model(path, device_named(device), described)
        return cls(path, described, cast(TaggerModel, model))

    def tag(
        self, sentences: Sequence[str | Sequence[str]], *, batch_size: int | None = None
    ) -> list[Tagged]:
        """A label for each word; words of a sentence given as text stand between spaces.

        A sentence that is too long for the model is read in parts.
        """
        refuse_one_text(sentences)
        words = [
            checked_texts(one.split() if isinstance(one, str) else one, f"Sentence {number}: word")
            for number, one in enumerate(sentences, 1)
        ]
        most = self.model.config.max_positions - 2
        tokenizer = self.folder.tokenizers.source
        parts = [[*_parts(tokenizer.encode_words(one), most)] if one else [] for one in words]
        rows = [part for one in parts for part in one]
        speller = Speller(tokenizer) if self.model.config.characters else None
        collate = TaggedCollate(self.model.config.start_mark, speller)
        found = iter(_labels(self.model, collate, rows, batch_size))
        labels = self.folder.vocabulary.labels
        results = []
        for sentence, own in zip(words, parts, strict=True):
            given = [label for _ in own for label in next(found)]
            names = [labels[label.number - 1] for label in given]
            results.append(
                Tagged(sentence, names, [label.row[label.number - 1] for label in given])
            )
        return results


class Classifier:
    """A trained classifier, ready for text."""

    def __init__(self, path: Path, folder: ModelFolder, model: ClassifierModel) -> None:
        self.path, self.folder, self.model = path, folder, model

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> Self:
        """Read a model folder."""
        path = Path(folder)
        described = refuse_other_task(path, "classification", "labels texts", "classifier-tiny")
        described, model = load_model(path, device_named(device), described)
        return cls(path, described, cast(ClassifierModel, model))

    def classify(
        self, texts: Sequence[str | Sequence[str]], *, batch_size: int | None = None
    ) -> list[Classified]:
        """A label for each text, or for each two; what is too long is read as far as it can be."""
        refuse_one_text(texts)
        examples = [
            checked_texts([one] if isinstance(one, str) else one, f"Text {number}: column")
            for number, one in enumerate(texts, 1)
        ]
        known = self.folder.seen.texts
        wrong = next((n for n, one in enumerate(examples, 1) if len(one) != known), None)
        if wrong:
            raise DataError(
                f"Text {wrong} has {len(examples[wrong - 1])} columns, and this model was trained "
                f"with {known}. Columns lie between tabs; if the first is a label, say --labelled."
            )
        tokenizer, names = self.folder.tokenizers.source, self.folder.vocabulary.labels
        ids = [tokenizer.encode_all(one) for one in examples]
        config = self.model.config
        collate = ClassifiedCollate(config.start_mark, config.max_positions)
        found = _labels(self.model, collate, ids, batch_size)
        return [
            Classified(one, names[label.number - 1], dict(zip(names, label.row, strict=True)))
            for one, [label] in zip(examples, found, strict=True)
        ]


class _Label(NamedTuple):
    """A label by its number, and how likely each is."""

    number: int
    row: list[float]


def _labels(
    model: LabelModel, collate: Collate, examples: Sequence[Texts], batch_size: int | None
) -> list[list[_Label]]:
    """The labels of each example, in the order of the examples."""

    @torch.inference_mode()
    def of(chunk: list[Texts]) -> list[list[_Label]]:
        batch = collate(chunk).to(model.device)
        predictions = model(batch)
        chosen = model.chosen(predictions).tolist()
        labels = map(_Label, chosen, model.probabilities(predictions).tolist())
        return [[next(labels) for _ in range(size)] for size in batch.target.lengths.host.tolist()]

    return by_length(examples, lambda texts: sum(map(len, texts)), batch_size, of)


def _parts(words: Texts, most: int) -> Iterator[Texts]:
    """A sentence in parts of no more subwords than that; a word that is longer is cut."""
    part: list[Sequence[int]] = []
    size = 0
    for word in words:
        word = word[:most]
        if part and size + len(word) > most:
            yield part
            part, size = [], 0
        part.append(word)
        size += len(word)
    yield part
