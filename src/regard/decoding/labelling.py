"""The pipelines of token classification (tagging) and text classification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from regard.data.byte_features import ByteFeatures
from regard.data.labelled import ClassifiedCollate, Collate, TaggedCollate, Texts
from regard.decoding.backend import map_by_length
from regard.decoding.pipeline import Pipeline, checked_texts, refuse_single_text
from regard.errors import DataError
from regard.models.classifier import ClassifierModel
from regard.models.labelling import LabelModel
from regard.models.tagger import TaggerModel


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
        words = [
            checked_texts(
                sentence.split() if isinstance(sentence, str) else sentence,
                f"Sentence {number}: word",
            )
            for number, sentence in enumerate(sentences, 1)
        ]
        limit = self.model.config.max_positions - 2
        tokenizer = self.folder.tokenizers.source
        parts = [
            [*_split(tokenizer.encode_words(sentence), limit)] if sentence else []
            for sentence in words
        ]
        rows = [part for sentence in parts for part in sentence]
        byte_features = ByteFeatures(tokenizer) if self.model.config.char_embedding_dim else None
        collate = TaggedCollate(self.model.config.decoder_start_id, byte_features)
        predictions = iter(_predict(self.model, collate, rows, batch_size))
        labels = self.folder.vocabulary.labels
        results = []
        for sentence, sentence_parts in zip(words, parts, strict=True):
            predicted = [label for _ in sentence_parts for label in next(predictions)]
            names = [labels[label_id - 1] for label_id, _ in predicted]
            probabilities = [row[label_id - 1] for label_id, row in predicted]
            results.append(Tagged(sentence, names, probabilities))
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
        examples = [
            checked_texts([text] if isinstance(text, str) else text, f"Text {number}: column")
            for number, text in enumerate(texts, 1)
        ]
        columns = self.folder.data_statistics.texts
        wrong = next((n for n, texts in enumerate(examples, 1) if len(texts) != columns), None)
        if wrong:
            raise DataError(
                f"Text {wrong} has {len(examples[wrong - 1])} columns, but this model was trained "
                f"with {columns}. Separate columns by tabs; add --labelled if the first is a label."
            )
        tokenizer, names = self.folder.tokenizers.source, self.folder.vocabulary.labels
        ids = [tokenizer.encode_all(example) for example in examples]
        config = self.model.config
        collate = ClassifiedCollate(config.decoder_start_id, config.max_positions)
        predictions = _predict(self.model, collate, ids, batch_size)
        return [
            Classified(example, names[label_id - 1], dict(zip(names, row, strict=True)))
            for example, [(label_id, row)] in zip(examples, predictions, strict=True)
        ]


_Label = tuple[int, list[float]]  # a label id, from 1, and the probabilities of all labels


def _predict(
    model: LabelModel, collate: Collate, examples: Sequence[Texts], batch_size: int | None
) -> list[list[_Label]]:
    """The predicted labels of each example."""

    @torch.inference_mode()
    def predict_batch(chunk: list[Texts]) -> list[list[_Label]]:
        batch = collate(chunk).to(model.device)
        predictions = model(batch)
        label_ids = model.predict_labels(predictions).tolist()
        labels = zip(label_ids, model.probabilities(predictions).tolist(), strict=True)
        return [[next(labels) for _ in range(size)] for size in batch.target.lengths.host.tolist()]

    return map_by_length(examples, lambda texts: sum(map(len, texts)), batch_size, predict_batch)


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
