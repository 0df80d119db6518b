"""Codecs of taggers and classifiers; this module does not import PyTorch, so workers start fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.data.model_text import ModelText
from regard.pipelines.text_stream import Remarked

if TYPE_CHECKING:
    from regard.data.labelled import Texts

Label = tuple[int, list[float]]  # a label id, from 1, and the probabilities of all labels


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence with their labels, and the probabilities of these labels."""

    words: list[str]
    labels: list[str]
    probabilities: list[float]


@dataclass(frozen=True)
class Classified:
    """A text or a pair of texts with its label, and the probabilities of all labels."""

    texts: list[str]
    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """The probability of the label."""
        return self.probabilities[self.label]


@dataclass(frozen=True)
class TaggingCodec:
    """Encodes the words of sentences in parts, and joins the predicted labels."""

    text: ModelText
    limit: int  # subwords of a part

    def encode(
        self, sentences: Sequence[list[str]]
    ) -> tuple[list[Texts], list[tuple[list[str], int]]]:
        """The parts of all sentences; the words of each sentence and the number of its parts."""
        tokenizer = self.text.tokenizers.source
        parts = [
            [*_split(tokenizer.encode_words(words), self.limit)] if words else []
            for words in sentences
        ]
        counts = zip(sentences, map(len, parts), strict=True)
        return [part for sentence in parts for part in sentence], [*counts]

    def decode(
        self,
        items: Sequence[Texts],
        context: list[tuple[list[str], int]],
        predictions: Sequence[list[Label]],
    ) -> list[Remarked[Tagged]]:
        """The labels of each sentence."""
        remaining, labels = iter(predictions), self.text.vocabulary.labels
        results = []
        for words, count in context:
            predicted = [label for _ in range(count) for label in next(remaining)]
            names = [labels[label_id - 1] for label_id, _ in predicted]
            probabilities = [row[label_id - 1] for label_id, row in predicted]
            results.append(Remarked(Tagged(words, names, probabilities)))
        return results


@dataclass(frozen=True)
class ClassificationCodec:
    """Encodes texts or pairs of texts, and names the predicted labels."""

    text: ModelText

    def encode(self, examples: Sequence[list[str]]) -> tuple[list[Texts], Sequence[list[str]]]:
        """The ids of the texts of each example."""
        tokenizer = self.text.tokenizers.source
        return [tokenizer.encode_all(example) for example in examples], examples

    def decode(
        self,
        items: Sequence[Texts],
        examples: Sequence[list[str]],
        predictions: Sequence[list[Label]],
    ) -> list[Remarked[Classified]]:
        """The label of each example."""
        names = self.text.vocabulary.labels
        return [
            Remarked(Classified(example, names[label_id - 1], dict(zip(names, row, strict=True))))
            for example, [(label_id, row)] in zip(examples, predictions, strict=True)
        ]


def _split(words: Texts, limit: int) -> Iterator[Texts]:
    """Parts of a sentence with at most `limit` subwords each; longer words are truncated."""
    part: list[Sequence[int]] = []
    size = 0
    for word in words:
        word = word[:limit]
        if part and size + len(word) > limit:
            yield part
            part, size = [], 0
        part.append(word)
        size += len(word)
    yield part
