"""Inference pipelines, which `regard.load` returns.

Each adds `evaluate` and `export` to its class in `pipelines/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from regard.data.directions import Direction
from regard.data.label_formats import read_examples
from regard.data.line_reader import read_lines
from regard.decoding.text_config import InputKeywords
from regard.errors import ConfigError, DataError
from regard.evaluation.contrastive import (
    ContrastiveExample,
    ContrastiveResult,
    evaluate_contrastive,
    read_contrastive,
)
from regard.evaluation.label_report import LabelReport, label_report
from regard.evaluation.metrics import METRICS, MetricConfig, MetricResult, evaluate
from regard.evaluation.perplexity import Perplexity, perplexity, read_documents
from regard.exchange.export import export_model
from regard.files import locked_output
from regard.pipelines import embedder, generator, labelling, mask_filler, translator
from regard.pipelines.document_translation import TranslateDocumentKeywords, translate_file
from regard.pipelines.pipeline import Pipeline as Pipeline
from regard.pipelines.text_search import TranslateKeywords, Translation

PathLike = str | Path
Texts = PathLike | Sequence[str]  # a file, or its lines


class Exportable:
    """A pipeline that can export its model."""

    path: Path

    def export(
        self,
        out: PathLike,
        *,
        to: str,
        precision: str | None = None,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> str:
        """Write the model for another program: ctranslate2, argos, onnx or huggingface.

        The languages are those of an Argos package, for a model of several directions. Returns a
        message that says how to use the result. An existing output is refused.
        """
        out = Path(out)
        if bool(source_lang) != bool(target_lang):
            raise ConfigError("source_lang and target_lang must be given together.")
        direction = Direction(source_lang, target_lang) if source_lang and target_lang else None
        if out.exists():
            raise DataError(f"{out} exists already. Choose another path, or remove it.")
        with locked_output(out):
            return export_model(self.path, to, out, precision, direction)


class Translator(translator.Translator, Exportable):
    """Translates text with a model or an ensemble."""

    @property
    def path(self) -> Path:  # type: ignore[override]
        """The model folder."""
        if len(self.paths) > 1:
            raise ConfigError("An ensemble has no model folder. Load a single model.")
        return self.paths[0]

    def evaluate(
        self,
        source: Texts,
        reference: Texts,
        *,
        metrics: Sequence[str] = METRICS,
        lowercase: bool = False,
        batch_size: int | None = None,
        **keywords: Unpack[TranslateKeywords],
    ) -> list[MetricResult]:
        """BLEU, chrF and TER of the translations, by sacrebleu, with signatures."""
        sources, references = _lines(source), _lines(reference)
        if len(sources) != len(references):
            raise DataError(
                f"{len(sources)} sources and {len(references)} references: give one for each."
            )
        if not sources:
            raise DataError("There is nothing to evaluate: the texts are empty.")
        unknown = [name for name in metrics if name not in METRICS]
        if isinstance(metrics, str) or unknown:
            raise ConfigError(
                f"metrics is {metrics!r}, but must be a list of {', '.join(METRICS)}."
            )
        translations = self.translate(sources, batch_size=batch_size, **keywords)
        metric_config = MetricConfig(lowercase, names=tuple(metrics))
        return evaluate([t.text for t in translations], [references], metric_config)

    def translate_file(
        self,
        source: PathLike,
        target: PathLike,
        *,
        prefix: str = "",
        overwrite: bool = False,
        **keywords: Unpack[TranslateDocumentKeywords],
    ) -> list[Translation]:
        """Translate a document in its own format; returns the translations of its texts.

        The format is known by the suffix, or given as `file_format`. `retranslate` replaces the
        translations in a message catalog or an XLIFF document. The other keywords are those of
        `translate_iterable`.
        """
        return translate_file(
            self, Path(source), Path(target), prefix=prefix, overwrite=overwrite, **keywords
        )

    def evaluate_contrastive(
        self,
        examples: PathLike | Sequence[ContrastiveExample],
        *,
        batch_size: int | None = None,
        **inputs: Unpack[InputKeywords],
    ) -> ContrastiveResult:
        """How often the correct translation has a higher score than wrong ones, in its context.

        `examples` is a file with a JSON object per line, or its content.
        """
        listed = (
            read_contrastive(Path(examples)) if isinstance(examples, str | Path) else [*examples]
        )
        return evaluate_contrastive(self, listed, batch_size=batch_size, **inputs)


class TextEvaluation(Exportable):
    """A pipeline of a model of plain text."""

    folder: Any
    model: Any

    def evaluate(
        self, text: Texts, *, stride: int | None = None, memory: int | None = None
    ) -> Perplexity:
        """The perplexity of a text: a file, or its documents.

        A masked model has a pseudo-perplexity: each token is predicted from all others.
        """
        documents = read_documents(Path(text)) if isinstance(text, str | Path) else [*text]
        return perplexity(self.model, self.folder.tokenizers.target, documents, stride, memory)


class Generator(generator.Generator, TextEvaluation):
    """A language model that continues prompts."""


class MaskFiller(mask_filler.MaskFiller, TextEvaluation):
    """A masked language model that predicts masked tokens."""


class Embedder(embedder.Embedder, TextEvaluation):
    """Computes embeddings of texts."""


class Tagger(labelling.Tagger, Exportable):
    """Predicts a label for each word."""

    def evaluate(
        self, tagged: PathLike, *, column: str | None = None, batch_size: int | None = None
    ) -> LabelReport:
        """Accuracy, F1 and other metrics on a labelled file."""
        examples = read_examples(
            Path(tagged), "tagged", column, default_column=self.folder.data_statistics.column
        )
        tagged_sentences = self.tag([e.texts for e in examples], batch_size=batch_size)
        labels = [sentence.labels for sentence in tagged_sentences]
        probabilities = [sentence.probabilities for sentence in tagged_sentences]
        return label_report(str(self.path), (labels, probabilities), examples)


class Classifier(labelling.Classifier, Exportable):
    """Predicts a label for each text or pair of texts."""

    def evaluate(
        self, labelled: PathLike, *, header: bool | None = None, batch_size: int | None = None
    ) -> LabelReport:
        """Accuracy, F1 and other metrics on a labelled file."""
        examples = read_examples(Path(labelled), "labelled", header=header)
        classified = self.classify([e.texts for e in examples], batch_size=batch_size)
        labels = [[text.label] for text in classified]
        probabilities = [[text.probability] for text in classified]
        return label_report(str(self.path), (labels, probabilities), examples)


def _lines(texts: Texts) -> list[str]:
    """The lines of a file, or the list itself."""
    return read_lines(Path(texts)) if isinstance(texts, str | Path) else [*texts]
