"""All that is said of the labels that a model gives to a test set, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path

from regard.data.examples import Example, read_examples
from regard.data.label_files import LabelledContent
from regard.data.spans import mark_spans
from regard.decoding.labeller import Classifier, Tagger
from regard.errors import ConfigError
from regard.evaluation.labelling import (
    Scores,
    accuracy,
    confusion,
    label_scores,
    span_scores,
    worst,
)
from regard.evaluation.options import LabelOptions
from regard.evaluation.summary import Result
from regard.models.folder import ModelFolder
from regard.notices import Notice

# The labels that a model gives to each example, and how likely it finds each of them.
Given = tuple[list[list[str]], list[list[float]]]


@dataclass(frozen=True)
class WrongLabel:
    """A mistake, with the text around it; a wrong word stands between stars."""

    line: int  # where its sentence or text begins
    text: str
    found: str
    gold: str
    probability: float


@dataclass(frozen=True)
class LabelReport:
    """How good a model's labels are."""

    name: str
    labels: int  # how many there are to give
    accuracy: float  # from 0 to 1, as all others
    macro_f1: float  # over labels
    each: Scores  # labels by themselves
    spans: Scores | None  # where labels mark spans
    names: list[str]  # of the rows and columns of
    confusion: list[list[int]]
    worst: list[WrongLabel]

    @property
    def metrics(self) -> list[Result]:
        """The figures of all labels, of a hundred."""
        values = {"accuracy": self.accuracy, "macro F1": self.macro_f1}
        if self.spans:
            values["span F1"] = self.spans.overall.f1
        return [Result(name, 100 * value, "") for name, value in values.items()]


def label_reports(
    test: LabelOptions,
    models: Sequence[Path],
    device: str,
    batch_size: int | None,
    notice: Notice,
) -> list[LabelReport]:
    """How good the labels are that each model gives to the examples of a file."""
    (path,), format = test.files, test.format
    # Models that were trained on one column have the file read once.
    read = cache(partial(read_examples, path, format.content, format.column, format.header))
    reports = []
    for model in models:
        folder = ModelFolder.read(model)
        examples = read(folder.seen.column)
        _mention_strange_labels(model, folder.vocabulary.labels, examples, notice)
        texts = [example.texts for example in examples]
        given = given_labels(model, format.content, texts, device, batch_size)
        reports.append(label_report(str(model), given, examples, worst_count=test.worst))
    return reports


def _mention_strange_labels(
    model: Path, known: Sequence[str], examples: Sequence[Example], notice: Notice
) -> None:
    """Those that a model cannot give count as mistakes; if it can give none, nothing is right."""
    labels = {label for example in examples for label in example.labels}
    strange = sorted(labels - {*known})
    if not known or not strange:  # a model that gives none is refused later
        return
    some = ", ".join(strange[:3]) + (" ..." if len(strange) > 3 else "")
    if len(strange) == len(labels):
        raise ConfigError(
            f"{model} knows none of these labels ({some}); it gives {', '.join(known[:3])} ... "
            "Check which column they are in (--column), and the file."
        )
    notice(f"{model} does not know {len(strange)} of {len(labels)} labels: {some}. They count.")


def given_labels(
    model: Path,
    content: LabelledContent,
    texts: Sequence[Sequence[str]],
    device: str,
    size: int | None,
) -> Given:
    """The labels that a model gives to some texts, `size` in a batch."""
    if content == "tagged":
        words = Tagger.load(model, device=device).tag(texts, batch_size=size)
        return [one.labels for one in words], [one.probabilities for one in words]
    found = Classifier.load(model, device=device).classify(texts, batch_size=size)
    return [[one.label] for one in found], [[one.probability] for one in found]


def label_report(
    name: str, given: Given, examples: Sequence[Example], *, worst_count: int = 0
) -> LabelReport:
    """The figures of labels beside what is right."""
    labels, probabilities = given
    found = [*chain.from_iterable(labels)]
    gold = [label for example in examples for label in example.labels]
    names = sorted({*found, *gold})
    each = label_scores(found, gold)
    marked = mark_spans(sorted({*gold}))
    sentences = [example.labels for example in examples]
    places = [(example, place) for example in examples for place in range(len(example.labels))]
    mistakes = worst(found, gold, [*chain.from_iterable(probabilities)], count=worst_count)
    return LabelReport(
        name,
        labels=len(gold),
        accuracy=accuracy(found, gold),
        macro_f1=each.macro_f1,
        each=each,
        spans=span_scores(labels, sentences) if marked else None,
        names=names,
        confusion=confusion(found, gold, names).tolist(),
        worst=[
            WrongLabel(example.line, _around(example, place), one.found, one.gold, one.probability)
            for one in mistakes
            for example, place in [places[one.place]]
        ],
    )


def _around(example: Example, place: int) -> str:
    """A text, or the words of a sentence of which one is marked."""
    if len(example.labels) == 1 and len(example.texts) <= 2:
        return " | ".join(example.texts)
    words = [*example.texts]
    words[place] = f"*{words[place]}*"
    return " ".join(words)
