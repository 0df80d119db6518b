"""The evaluation report of the labels that a model predicts for a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from regard.data.label_files import LabelledContent
from regard.data.label_formats import Example, read_examples
from regard.data.spans import uses_iob_labels
from regard.errors import ConfigError
from regard.evaluation.label_metrics import (
    Scores,
    accuracy,
    confusion_matrix,
    label_scores,
    most_confident_errors,
    span_scores,
)
from regard.evaluation.options import LabelOptions
from regard.evaluation.summary import MetricResult
from regard.models.folder import ModelFolder
from regard.notices import Notice
from regard.pipelines.labelling import Classifier, Tagger

# The predicted labels of each example, and their probabilities.
PredictedLabels = tuple[list[list[str]], list[list[float]]]


@dataclass(frozen=True)
class LocatedLabelError:
    """A wrong label with its text, in which the word is marked by asterisks."""

    line: int  # first line of its sentence or text
    text: str
    predicted: str
    gold: str
    probability: float


@dataclass(frozen=True)
class LabelReport:
    """Metrics of a model's labels, from 0 to 1."""

    name: str
    labels: int  # number of gold labels
    accuracy: float
    macro_f1: float  # over labels
    each: Scores  # by label
    spans: Scores | None  # by span type, for IOB labels
    names: list[str]  # rows and columns of `confusion`
    confusion: list[list[int]]
    worst: list[LocatedLabelError]

    def row(self) -> dict[str, Any]:
        """Return all fields for JSON, in which predicted labels are named "found"."""
        errors = [
            {
                "found" if name == "predicted" else name: value
                for name, value in asdict(error).items()
            }
            for error in self.worst
        ]
        return {**asdict(self), "worst": errors}

    @property
    def metrics(self) -> list[MetricResult]:
        """The overall metrics in percent."""
        values = {"accuracy": self.accuracy, "macro F1": self.macro_f1}
        if self.spans:
            values["span F1"] = self.spans.overall.f1
        return [MetricResult(name, 100 * value, "") for name, value in values.items()]


def label_reports(
    test: LabelOptions,
    models: Sequence[Path],
    device: str,
    batch_size: int | None,
    notice: Notice,
) -> list[LabelReport]:
    """Evaluate each model on the examples of a file."""
    (path,), format = test.files, test.format
    # The file is read once for all models that were trained on the same column.
    read = cache(partial(read_examples, path, format.content, format.column, format.header))
    reports = []
    for model in models:
        folder = ModelFolder.read(model)
        examples = read(folder.data_statistics.column)
        _check_gold_labels(model, folder.vocabulary.labels, examples, notice)
        texts = [example.texts for example in examples]
        predicted = predict_labels(model, format.content, texts, device, batch_size)
        reports.append(label_report(str(model), predicted, examples, worst_count=test.worst))
    return reports


def _check_gold_labels(
    model: Path, label_set: Sequence[str], examples: Sequence[Example], notice: Notice
) -> None:
    """Report gold labels that the model cannot predict; raise an error if it can predict none."""
    labels = {label for example in examples for label in example.labels}
    unknown = sorted(labels - {*label_set})
    if not label_set or not unknown:  # models of other kinds are rejected later
        return
    listed = ", ".join(unknown[:3]) + (" ..." if len(unknown) > 3 else "")
    if len(unknown) == len(labels):
        raise ConfigError(
            f"None of the labels ({listed}) is in the label set of {model} "
            f"({', '.join(label_set[:3])} ...). Check the file and the column of its labels "
            "(--column)."
        )
    notice(
        f"{len(unknown)} of {len(labels)} labels are not in the label set of {model} and count as "
        f"errors: {listed}."
    )


def predict_labels(
    model: Path,
    content: LabelledContent,
    texts: Sequence[Sequence[str]],
    device: str,
    batch_size: int | None,
) -> PredictedLabels:
    """Predict the labels of texts, in batches of `size`."""
    if content == "tagged":
        tagged = Tagger.load(model, device=device).tag(texts, batch_size=batch_size)
        return [result.labels for result in tagged], [result.probabilities for result in tagged]
    classified = Classifier.load(model, device=device).classify(texts, batch_size=batch_size)
    return [[result.label] for result in classified], [
        [result.probability] for result in classified
    ]


def label_report(
    name: str, predictions: PredictedLabels, examples: Sequence[Example], *, worst_count: int = 0
) -> LabelReport:
    """Compare predicted labels with the gold labels of examples."""
    labels, probabilities = predictions
    predicted = [*chain.from_iterable(labels)]
    gold = [label for example in examples for label in example.labels]
    names = sorted({*predicted, *gold})
    each = label_scores(predicted, gold)
    has_spans = uses_iob_labels(sorted({*gold}))
    sentences = [example.labels for example in examples]
    locations = [(example, index) for example in examples for index in range(len(example.labels))]
    errors = most_confident_errors(
        predicted, gold, [*chain.from_iterable(probabilities)], count=worst_count
    )
    return LabelReport(
        name,
        labels=len(gold),
        accuracy=accuracy(predicted, gold),
        macro_f1=each.macro_f1,
        each=each,
        spans=span_scores(labels, sentences) if has_spans else None,
        names=names,
        confusion=confusion_matrix(predicted, gold, names).tolist(),
        worst=[
            LocatedLabelError(
                example.line,
                _text_with_marked_word(example, index),
                error.predicted,
                error.gold,
                error.probability,
            )
            for error in errors
            for example, index in [locations[error.index]]
        ],
    )


def _text_with_marked_word(example: Example, index: int) -> str:
    """Return the text of a classified example, or a sentence with the word at `index` marked."""
    if len(example.labels) == 1 and len(example.texts) <= 2:
        return " | ".join(example.texts)
    words = [*example.texts]
    words[index] = f"*{words[index]}*"
    return " ".join(words)
