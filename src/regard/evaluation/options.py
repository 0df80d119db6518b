"""Options of `regard evaluate` for each task; cheap to import."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from regard.bounds import Ge, Le
from regard.config import Doc, Flag
from regard.notices import Notice
from regard.option_sets import OptionSet, select

if TYPE_CHECKING:
    from regard.data.label_files import LabelFormat
    from regard.evaluation.label_report import LabelReport

# Search settings of `regard evaluate`.
SEARCH = (
    *(
        "beam_size",
        "beam_groups",
        "diversity_penalty",
        "length_penalty",
        "patience",
        "seed",
        "fertility",
        "candidates",
    ),
    *("temperature", "top_k", "top_p", "epsilon_cutoff"),  # of samples for MBR
)
_INPUT = ("source_lang", "target_lang", "zero_shot", "document_context")
TEXT = (
    *_INPUT,
    *("forbid", "retry"),
    *("mbr", "mbr_samples", "comet_checkpoint"),
    *("rerank", "rerank_weight"),
)  # and of what happens to the texts
_Worst = Annotated[
    int,
    Doc("number of sentences with the lowest chrF2, or of most confident label errors, to print"),
    Ge(0),
    Le(100_000),
]


@dataclass(frozen=True)
class EvaluationOptions(OptionSet):
    """Options of a test set and of its evaluation."""

    # Options of the command, other than --device, that have an effect.
    uses: ClassVar[tuple[str, ...]] = ("batch_size",)
    written: ClassVar[tuple[str, ...]] = ()  # fields with output files

    def run(
        self, models: Sequence[Path], device: str = "auto", batch_size: int | None = None
    ) -> list[dict[str, Any]]:
        """Return a result for each model: its `name`, and metrics by name.

        Not used for translations and labels, for which the command prints other reports.
        """
        raise NotImplementedError

    def notices(self, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield remarks on the results."""
        yield from ()

    @property
    def files(self) -> list[Path]:
        """All input files."""
        values = [getattr(self, f.name) for f in fields(self) if f.name not in self.written]
        flat = [
            path for value in values for path in (value if isinstance(value, tuple) else [value])
        ]
        return [path for path in flat if isinstance(path, Path)]


@dataclass(frozen=True)
class TranslationsOptions(EvaluationOptions):
    """Translations of a test set by models, or in files."""

    main = "reference"
    partner = "hypotheses"
    title = "translations"
    uses = ("batch_size", "picture", "backend", "precision", *SEARCH, *TEXT)
    written = ("out",)
    reference: Annotated[
        tuple[Path, ...],
        Doc("reference translations, one per line; may be repeated for several references"),
    ] = ()
    source: Annotated[Path | None, Doc("source text to translate")] = None
    ensemble: Annotated[bool, Doc("translate with an ensemble of the models")] = False
    hypotheses: Annotated[
        tuple[Path, ...],
        Doc("translations to evaluate instead of models; may be repeated"),
    ] = ()
    against: Annotated[
        Path | None, Doc("baseline for a paired bootstrap test: a model, or its translations")
    ] = None
    resamples: Annotated[
        int, Doc("number of bootstrap resamples, with --against"), Ge(100), Le(100_000)
    ] = 1000
    by_length: Annotated[bool, Doc("print BLEU by reference length")] = False
    worst: _Worst = 0
    teacher: Annotated[Path | None, Doc("autoregressive model that reranks --candidates")] = None
    tune_rerank: Annotated[
        bool, Doc("choose the weights of --rerank that maximize BLEU on this test set")
    ] = False
    lowercase: Annotated[bool, Doc("compute case-insensitive metrics")] = False
    tokenize: Annotated[str, Doc("sacrebleu tokenizer for BLEU")] = "13a"
    metrics: Annotated[
        str | None,
        Doc(
            "metrics, separated by commas: bleu, chrf, ter; default: all, but TER only if no "
            "line is too long for it"
        ),
    ] = None
    out: Annotated[
        Path | None, Doc("output file for the translations"), Flag(formerly=("--output",))
    ] = None

    def problems(self) -> Iterator[str]:
        """Yield an error if there is no reference."""
        if not self.reference:
            yield "--reference is missing; use it to give the reference translations"


@dataclass(frozen=True)
class ContrastiveOptions(EvaluationOptions):
    """Correct and wrong translations, which models score in their context."""

    main = "contrastive"
    title = "contrastive examples"
    uses = ("batch_size", *_INPUT)
    contrastive: Annotated[
        Path | None,
        Doc(
            "contrastive examples, one JSON object per line: source, correct, wrong (a list), and "
            "optionally source_context, target_context (lists of sentences) and category"
        ),
    ] = None

    def run(
        self,
        models: Sequence[Path],
        device: str = "auto",
        batch_size: int | None = None,
        **inputs: Any,
    ) -> list[dict[str, Any]]:
        """Compute accuracies; `inputs` are fields of `InputConfig`."""
        from regard.evaluation.contrastive import evaluate_contrastive, read_contrastive
        from regard.pipelines.translator import Translator

        assert self.contrastive is not None
        examples, results = read_contrastive(self.contrastive), []
        for path in models:
            translator = Translator.load(path, device=device, backend="torch")
            result = evaluate_contrastive(translator, examples, batch_size=batch_size, **inputs)
            results.append({"name": str(path), **asdict(result)})
        return results


@dataclass(frozen=True)
class TextOptions(EvaluationOptions):
    """Perplexity of plain text."""

    main = "text"
    title = "plain text"
    uses = ()
    text: Annotated[Path | None, Doc("text file for perplexity evaluation")] = None
    stride: Annotated[
        int | None,
        Doc("stride of the sliding window in tokens; default: half a window"),
        Ge(1),
        Le(1_000_000),
    ] = None
    memory: Annotated[
        int | None,
        Doc("memory length in tokens, for models with memory; default: as in their config"),
        Ge(0),
        Le(1_000_000),
    ] = None

    def run(
        self, models: Sequence[Path], device: str = "auto", batch_size: int | None = None
    ) -> list[dict[str, Any]]:
        """Compute perplexities."""
        from regard.devices import resolve_device
        from regard.evaluation.perplexity import perplexity, read_documents
        from regard.models.folder import load_model

        assert self.text is not None
        documents, results = read_documents(self.text), []
        for path in models:
            folder, model = load_model(path, resolve_device(device))
            tokenizer = folder.tokenizers.target
            result = perplexity(model, tokenizer, documents, self.stride, self.memory)
            results.append({"name": str(path), **result.row()})
        return results

    def notices(self, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield a warning that pseudo-perplexity is not comparable."""
        if len(results) > 1 and any(result["pseudo"] for result in results):
            yield (
                "Masked models are evaluated by pseudo-perplexity, which uses the context on both "
                "sides and is not comparable with the perplexity of other models."
            )


@dataclass(frozen=True)
class LabelOptions(EvaluationOptions):
    """Common options of test sets with labels."""

    uses = ("batch_size", "picture")
    worst: _Worst = 0

    @property
    @abstractmethod
    def format(self) -> LabelFormat:
        """The format of the file."""

    def reports(
        self, models: Sequence[Path], device: str, batch_size: int | None, notice: Notice
    ) -> list[LabelReport]:
        """Evaluate the labels that each model predicts."""
        from regard.evaluation.label_report import label_reports

        return label_reports(self, models, device, batch_size, notice)


@dataclass(frozen=True)
class TaggedOptions(LabelOptions):
    """Words with labels."""

    main = "tagged"
    title = "words with labels"
    tagged: Annotated[Path | None, Doc("words with labels (CoNLL-U or columns) for a tagger")] = (
        None
    )
    column: Annotated[
        str | None,
        Doc(
            "column of the labels, by name in CoNLL-U or by number; default: as in the model's "
            "training data, else upos in CoNLL-U and the last column in other files"
        ),
    ] = None

    @property
    def format(self) -> LabelFormat:
        """CoNLL-U or columns."""
        from regard.data.label_files import LabelFormat

        return LabelFormat("tagged", self.column)


@dataclass(frozen=True)
class LabelledOptions(LabelOptions):
    """Texts with labels."""

    main = "labelled"
    title = "texts with labels"
    labelled: Annotated[
        Path | None, Doc("texts with labels (label, tab, text) for a classifier")
    ] = None
    header: Annotated[bool | None, Doc("whether the first line is a header; default: detect")] = (
        None
    )

    @property
    def format(self) -> LabelFormat:
        """Label, tab, text."""
        from regard.data.label_files import LabelFormat

        return LabelFormat("labelled", header=self.header)


EVALUATION_OPTIONS: list[type[EvaluationOptions]] = [
    TranslationsOptions,
    ContrastiveOptions,
    TextOptions,
    TaggedOptions,
    LabelledOptions,
]


def select_evaluation(options: Mapping[str, Any]) -> EvaluationOptions:
    """Return the evaluation that the options select; raise an error for options of others."""
    return select(EVALUATION_OPTIONS, options, "tests")
