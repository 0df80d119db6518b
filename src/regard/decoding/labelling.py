"""The pipelines of token classification (tagging) and text classification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack

import torch

from regard.data.byte_features import ByteFeatures
from regard.data.labelled import ClassifiedCollate, Collate, TaggedCollate, Texts
from regard.data.model_text import ModelText
from regard.decoding.pipeline import Pipeline
from regard.decoding.text_stream import Remarked, StreamKeywords, StreamOptions, TextStream
from regard.decoding.texts import checked_texts, refuse_single_text
from regard.errors import DataError
from regard.models.classifier import ClassifierModel
from regard.models.labelling import LabelModel
from regard.models.tagger import TaggerModel

_Label = tuple[int, list[float]]  # a label id, from 1, and the probabilities of all labels


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


class Tagger(Pipeline):
    """A trained tagger that labels words."""

    task = "tagging"
    purpose = "labels words", "tagger-tiny"
    model: TaggerModel

    def tag(
        self, sentences: Sequence[str | Sequence[str]], *, batch_size: int | None = None
    ) -> list[Tagged]:
        """Label each word; a sentence given as text is split at whitespace.

        A sentence that is longer than the model's limit is processed in parts.
        """
        refuse_single_text(sentences)
        words = [*_checked_words(sentences)]
        return self._stream(batch_size).map(words)

    def tag_iterable(
        self, sentences: Iterable[str | Sequence[str]], **keywords: Unpack[StreamKeywords]
    ) -> Iterator[Tagged]:
        """The labels of any number of sentences, in order."""
        refuse_single_text(sentences)
        options = StreamOptions(**keywords)
        return self._stream(options.batch_size).iterate(_checked_words(sentences), options)

    def _stream(self, batch_size: int | None) -> TextStream[list[str], Texts, list[_Label], Tagged]:
        config = self.model.config
        byte_features = (
            ByteFeatures(self.folder.tokenizers.source) if config.char_embedding_dim else None
        )
        collate = TaggedCollate(config.decoder_start_id, byte_features)
        codec = _TaggingCodec(self.folder.text, config.max_positions - 2)
        return self.text_stream(codec, _predictor(self.model, collate), _length, batch_size)


def _checked_words(sentences: Iterable[str | Sequence[str]]) -> Iterator[list[str]]:
    """The words of each sentence."""
    for number, sentence in enumerate(sentences, 1):
        words = sentence.split() if isinstance(sentence, str) else sentence
        yield checked_texts(words, f"Sentence {number}: word")


@dataclass(frozen=True)
class _TaggingCodec:
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
        predictions: Sequence[list[_Label]],
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


class Classifier(Pipeline):
    """A trained classifier that labels texts."""

    task = "classification"
    purpose = "labels texts", "classifier-tiny"
    model: ClassifierModel

    def classify(
        self, texts: Sequence[str | Sequence[str]], *, batch_size: int | None = None
    ) -> list[Classified]:
        """Label each text or pair of texts; texts beyond the model's limit are truncated."""
        refuse_single_text(texts)
        examples = [*self._checked_examples(texts)]
        return self._stream(batch_size).map(examples)

    def classify_iterable(
        self, texts: Iterable[str | Sequence[str]], **keywords: Unpack[StreamKeywords]
    ) -> Iterator[Classified]:
        """The labels of any number of texts or pairs of texts, in order."""
        refuse_single_text(texts)
        options = StreamOptions(**keywords)
        return self._stream(options.batch_size).iterate(self._checked_examples(texts), options)

    def _checked_examples(self, texts: Iterable[str | Sequence[str]]) -> Iterator[list[str]]:
        """The columns of each text; their number must be that of the training data."""
        for number, text in enumerate(texts, 1):
            columns = checked_texts(
                [text] if isinstance(text, str) else text, f"Text {number}: column"
            )
            expected = self.folder.data_statistics.texts
            if len(columns) != expected:
                raise DataError(
                    f"Text {number} has {len(columns)} columns, but this model was trained with "
                    f"{expected}. Separate columns by tabs; add --labelled if the first is a label."
                )
            yield columns

    def _stream(
        self, batch_size: int | None
    ) -> TextStream[list[str], Texts, list[_Label], Classified]:
        config = self.model.config
        collate = ClassifiedCollate(config.decoder_start_id, config.max_positions)
        codec = _ClassificationCodec(self.folder.text)
        return self.text_stream(codec, _predictor(self.model, collate), _length, batch_size)


@dataclass(frozen=True)
class _ClassificationCodec:
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
        predictions: Sequence[list[_Label]],
    ) -> list[Remarked[Classified]]:
        """The label of each example."""
        names = self.text.vocabulary.labels
        return [
            Remarked(Classified(example, names[label_id - 1], dict(zip(names, row, strict=True))))
            for example, [(label_id, row)] in zip(examples, predictions, strict=True)
        ]


def _predictor(model: LabelModel, collate: Collate) -> Callable[[list[Texts]], list[list[_Label]]]:
    """A function that predicts the labels of each example of a batch."""

    @torch.inference_mode()
    def predict_batch(chunk: list[Texts]) -> list[list[_Label]]:
        batch = collate(chunk).to(model.device)
        predictions = model(batch)
        label_ids = model.predict_labels(predictions).tolist()
        labels = zip(label_ids, model.probabilities(predictions).tolist(), strict=True)
        return [[next(labels) for _ in range(size)] for size in batch.target.lengths.host.tolist()]

    return predict_batch


def _length(texts: Texts) -> int:
    """The number of subwords."""
    return sum(map(len, texts))


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
