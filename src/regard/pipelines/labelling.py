"""The pipelines of token classification (tagging) and text classification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Unpack

import torch

from regard.data.byte_features import ByteFeatures
from regard.data.labelled import ClassifiedCollate, Collate, TaggedCollate, Texts
from regard.errors import DataError
from regard.models.classifier import ClassifierModel
from regard.models.labelling import LabelModel
from regard.models.tagger import TaggerModel
from regard.pipelines.label_codecs import (
    ClassificationCodec,
    Classified,
    Label,
    Tagged,
    TaggingCodec,
)
from regard.pipelines.pipeline import Pipeline
from regard.pipelines.text_stream import StreamKeywords, StreamOptions, TextStream
from regard.pipelines.texts import checked_texts, refuse_single_text


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
        return self.result_stream(batch_size).map(words)

    def tag_iterable(
        self, sentences: Iterable[str | Sequence[str]], **keywords: Unpack[StreamKeywords]
    ) -> Iterator[Tagged]:
        """The labels of any number of sentences, in order."""
        refuse_single_text(sentences)
        options = StreamOptions(**keywords)
        return self.result_stream(options.batch_size).iterate(_checked_words(sentences), options)

    def result_stream(
        self, batch_size: int | None
    ) -> TextStream[list[str], Texts, list[Label], Tagged]:
        """From words or texts to their labels."""
        config = self.model.config
        byte_features = (
            ByteFeatures(self.folder.tokenizers.source) if config.char_embedding_dim else None
        )
        collate = TaggedCollate(config.decoder_start_id, byte_features)
        codec = TaggingCodec(self.folder.text, config.max_positions - 2)
        return self.text_stream(codec, _predictor(self.model, collate), _length, batch_size)


def _checked_words(sentences: Iterable[str | Sequence[str]]) -> Iterator[list[str]]:
    """The words of each sentence."""
    for number, sentence in enumerate(sentences, 1):
        words = sentence.split() if isinstance(sentence, str) else sentence
        yield checked_texts(words, f"Sentence {number}: word")


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
        examples = [*self.checked_examples(texts)]
        return self.result_stream(batch_size).map(examples)

    def classify_iterable(
        self, texts: Iterable[str | Sequence[str]], **keywords: Unpack[StreamKeywords]
    ) -> Iterator[Classified]:
        """The labels of any number of texts or pairs of texts, in order."""
        refuse_single_text(texts)
        options = StreamOptions(**keywords)
        return self.result_stream(options.batch_size).iterate(self.checked_examples(texts), options)

    def checked_examples(self, texts: Iterable[str | Sequence[str]]) -> Iterator[list[str]]:
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

    def result_stream(
        self, batch_size: int | None
    ) -> TextStream[list[str], Texts, list[Label], Classified]:
        """From words or texts to their labels."""
        config = self.model.config
        collate = ClassifiedCollate(config.decoder_start_id, config.max_positions)
        codec = ClassificationCodec(self.folder.text)
        return self.text_stream(codec, _predictor(self.model, collate), _length, batch_size)


def _predictor(model: LabelModel, collate: Collate) -> Callable[[list[Texts]], list[list[Label]]]:
    """A function that predicts the labels of each example of a batch."""

    @torch.inference_mode()
    def predict_batch(chunk: list[Texts]) -> list[list[Label]]:
        batch = collate(chunk).to(model.device)
        predictions = model(batch)
        label_ids = model.predict_labels(predictions).tolist()
        labels = zip(label_ids, model.probabilities(predictions).tolist(), strict=True)
        return [[next(labels) for _ in range(size)] for size in batch.target.lengths.host.tolist()]

    return predict_batch


def _length(texts: Texts) -> int:
    """The number of subwords."""
    return sum(map(len, texts))
