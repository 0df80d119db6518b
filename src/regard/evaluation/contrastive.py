"""Contrastive evaluation: whether a model prefers correct translations in their context.

Each example is a sentence in its context, with a correct translation and wrong ones. A model is
right where its score of the correct one is higher than those of all others; nothing is translated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from regard.config import Settings
from regard.data.line_reader import decode_line, raw_lines
from regard.decoding.text_config import InputKeywords
from regard.errors import DataError
from regard.pipelines.translator import Translator
from regard.schema import JsonReader

_READER = JsonReader(DataError, "`regard evaluate --help` names the format.")


@dataclass(frozen=True)
class ContrastiveExample(Settings):
    """A line of a contrastive test set."""

    source: str
    correct: str
    wrong: tuple[str, ...]
    source_context: tuple[str, ...] = ()  # previous sentences, nearest last
    target_context: tuple[str, ...] = ()  # their translations
    category: str = ""

    def problems(self) -> Iterator[str]:
        """There are texts, and contexts of the same length."""
        if not self.wrong:
            yield "wrong is empty, but must have a translation"
        if not all(text.strip() for text in (self.source, *self.source_context)):
            yield "source and source_context must not be blank"
        if self.target_context and len(self.target_context) != len(self.source_context):
            yield (
                f"target_context has {len(self.target_context)} sentences, but must have one for "
                f"each of the {len(self.source_context)} in source_context"
            )


@dataclass(frozen=True)
class ContrastiveResult:
    """The accuracy of a model on a contrastive test set."""

    examples: int
    accuracy: float
    categories: dict[str, float]  # accuracy by category, without that of examples of none


def read_contrastive(path: Path) -> list[ContrastiveExample]:
    """The examples of a file with a JSON object per line."""
    examples = []
    with closing(raw_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}, line {number},"
            text = decode_line(line, path, number)
            if text.strip():
                tree = _READER.parse(text.encode(), where)
                examples.append(_READER.build(ContrastiveExample, tree, where, notify=False))
    if not examples:
        raise DataError(f"{path} has no examples. Check the path.")
    return examples


def evaluate_contrastive(
    translator: Translator,
    examples: Sequence[ContrastiveExample],
    *,
    batch_size: int | None = None,
    **inputs: Unpack[InputKeywords],
) -> ContrastiveResult:
    """The accuracy of a model; each translation is scored at the end of its context."""
    if translator.text.document_context.target:
        _require_target_context(examples)
    pairs: list[tuple[str, str]] = []
    places = []  # of the translations to compare
    for example in examples:
        targets = example.target_context or ("",) * len(example.source_context)
        context = [*zip(example.source_context, targets, strict=True)]
        for target in (example.correct, *example.wrong):
            places.append(len(pairs) + len(context))
            pairs += [*context, (example.source, target), ("", "")]
    sources, targets = zip(*pairs, strict=True)
    scores = translator.score(sources, targets, batch_size=batch_size, **inputs)
    remaining = iter(scores[place] for place in places)
    by_category: dict[str, list[bool]] = {}
    for example in examples:
        correct, *others = (next(remaining) for _ in range(1 + len(example.wrong)))
        by_category.setdefault(example.category, []).append(correct > max(others))
    right = [each for outcomes in by_category.values() for each in outcomes]
    categories = {
        category: sum(outcomes) / len(outcomes)
        for category, outcomes in by_category.items()
        if category
    }
    return ContrastiveResult(len(examples), sum(right) / len(right), categories)


def _require_target_context(examples: Sequence[ContrastiveExample]) -> None:
    for number, example in enumerate(examples, 1):
        if example.source_context and not example.target_context:
            raise DataError(
                f"Example {number} has no target_context, which a model with context of target "
                "sentences requires. Add the translations of source_context."
            )
