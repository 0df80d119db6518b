"""Text in, labels out: a tagger or a classifier and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from regard.data.labelled import ClassifiedCollate, Collate, TaggedCollate, Texts
from regard.data.spelling import Speller
from regard.decoding.engine import by_length
from regard.decoding.pipeline import Pipeline, checked_texts, refuse_one_text
from regard.errors import DataError
from regard.models.classifier import ClassifierModel
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


class Tagger(Pipeline):
    """A trained tagger, ready for text."""

    task = "tagging"
    purpose = "labels words", "tagger-tiny"
    model: TaggerModel

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
            names = [labels[number - 1] for number, _ in given]
            results.append(Tagged(sentence, names, [row[number - 1] for number, row in given]))
        return results


class Classifier(Pipeline):
    """A trained classifier, ready for text."""

    task = "classification"
    purpose = "labels texts", "classifier-tiny"
    model: ClassifierModel

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
            Classified(one, names[number - 1], dict(zip(names, row, strict=True)))
            for one, [(number, row)] in zip(examples, found, strict=True)
        ]


_Label = tuple[int, list[float]]  # a label by its number, from 1, and how likely each is


def _labels(
    model: LabelModel, collate: Collate, examples: Sequence[Texts], batch_size: int | None
) -> list[list[_Label]]:
    """The labels of each example, in the order of the examples."""

    @torch.inference_mode()
    def of(chunk: list[Texts]) -> list[list[_Label]]:
        batch = collate(chunk).to(model.device)
        predictions = model(batch)
        chosen = model.chosen(predictions).tolist()
        labels = zip(chosen, model.probabilities(predictions).tolist(), strict=True)
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
