"""Inference pipelines: a trained model, its tokenizers and a search, ready for text.

What `regard.load` gives. Each adds `evaluate` and `export` to its class in `decoding/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from regard.data.corpus import read_lines
from regard.data.examples import read_examples
from regard.decoding import embedder, filler, generator, labeller, translator
from regard.decoding.config import SearchKeywords
from regard.decoding.pipeline import Pipeline as Pipeline
from regard.errors import ConfigError, DataError
from regard.evaluation.label_report import LabelReport, label_report
from regard.evaluation.metrics import METRICS, Counting, Result, evaluate
from regard.evaluation.perplexity import Perplexity, documents_of, perplexity
from regard.exchange.export import export_model
from regard.files import held_output

PathLike = str | Path
Texts = PathLike | Sequence[str]  # a file, or its lines


class Exportable:
    """A pipeline whose model folder is known."""

    path: Path

    def export(self, out: PathLike, *, to: str, precision: str | None = None) -> str:
        """Write the model for another program: ctranslate2, argos, onnx or huggingface.

        What to do with the result is said in a sentence. An existing output is refused.
        """
        out = Path(out)
        if out.exists():
            raise DataError(f"{out} exists. Choose another path, or remove it.")
        with held_output(out):
            return export_model(self.path, to, out, precision)


class Translator(translator.Translator, Exportable):
    """A translator."""

    @property
    def path(self) -> Path:  # type: ignore[override]
        """The model folder."""
        if len(self._models.paths) > 1:
            raise ConfigError("An ensemble has no folder of its own. Load one model alone.")
        return self._models.paths[0]

    def evaluate(
        self,
        source: Texts,
        reference: Texts,
        *,
        metrics: Sequence[str] = METRICS,
        lowercase: bool = False,
        batch_size: int | None = None,
        **keywords: Unpack[SearchKeywords],
    ) -> list[Result]:
        """BLEU, chrF and TER of translations, by sacrebleu, with their signatures."""
        sources, references = _lines(source), _lines(reference)
        if len(sources) != len(references):
            raise DataError(
                f"{len(sources)} sources and {len(references)} references: give one for each."
            )
        if not sources:
            raise DataError("There is nothing to evaluate: the texts are empty.")
        unknown = [name for name in metrics if name not in METRICS]
        if isinstance(metrics, str) or unknown:
            raise ConfigError(f"metrics is {metrics!r}. Give a list of {', '.join(METRICS)}.")
        found = self.translate(sources, batch_size=batch_size, **keywords)
        counting = Counting(lowercase, names=tuple(metrics))
        return evaluate([one.text for one in found], [references], counting)


class TextEvaluation(Exportable):
    """A pipeline of a model that reads running text."""

    folder: Any
    model: Any

    def evaluate(
        self, text: Texts, *, stride: int | None = None, memory: int | None = None
    ) -> Perplexity:
        """The perplexity of a text: a file, or its documents.

        A masked model has a pseudo-perplexity: each token is predicted from all others.
        """
        documents = documents_of(Path(text)) if isinstance(text, str | Path) else [*text]
        return perplexity(self.model, self.folder.tokenizers.target, documents, stride, memory)


class Generator(generator.Generator, TextEvaluation):
    """A language model that continues prompts."""


class MaskFiller(filler.MaskFiller, TextEvaluation):
    """A masked language model that fills in blanks."""


class Embedder(embedder.Embedder, TextEvaluation):
    """A model that turns texts into vectors."""


class Tagger(labeller.Tagger, Exportable):
    """A tagger of words."""

    def evaluate(
        self, tagged: PathLike, *, column: str | None = None, batch_size: int | None = None
    ) -> LabelReport:
        """Accuracy, F1 and more of the labels of a file."""
        examples = read_examples(
            Path(tagged), "tagged", column, usual_column=self.folder.seen.column
        )
        found = self.tag([example.texts for example in examples], batch_size=batch_size)
        given = [one.labels for one in found], [one.probabilities for one in found]
        return label_report(str(self.path), given, examples)


class Classifier(labeller.Classifier, Exportable):
    """A classifier of texts."""

    def evaluate(
        self, labelled: PathLike, *, header: bool | None = None, batch_size: int | None = None
    ) -> LabelReport:
        """Accuracy, F1 and more of the labels of a file."""
        examples = read_examples(Path(labelled), "labelled", header=header)
        found = self.classify([example.texts for example in examples], batch_size=batch_size)
        given = [[one.label] for one in found], [[one.probability] for one in found]
        return label_report(str(self.path), given, examples)


def _lines(texts: Texts) -> list[str]:
    """The lines of a file, or those that are given."""
    return read_lines(Path(texts)) if isinstance(texts, str | Path) else [*texts]
