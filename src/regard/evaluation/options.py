"""The tests of each task as options of `regard evaluate`; importing them costs nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from regard.bounds import Ge, Le
from regard.config import Doc, Flag
from regard.notices import Notice
from regard.option_sets import OptionSet, select

if TYPE_CHECKING:
    from regard.data.label_files import LabelFormat
    from regard.evaluation.label_report import LabelReport

# Settings of searches that `regard evaluate` has.
SEARCH = ("beam_size", "length_penalty", "patience", "seed", "fertility", "candidates")
_Worst = Annotated[
    int,
    Doc("how many of the worst sentences to show (by chrF2), or of the worst labels"),
    Ge(0),
    Le(100_000),
]


@dataclass(frozen=True)
class EvaluationOptions(OptionSet):
    """A test of models, and how it is evaluated."""

    # Options of the command beside --device that have an effect, too.
    uses: ClassVar[tuple[str, ...]] = ("batch_size",)
    written: ClassVar[tuple[str, ...]] = ()  # fields with files that are written

    def run(
        self, models: Sequence[Path], device: str = "auto", batch_size: int | None = None
    ) -> list[dict[str, Any]]:
        """One result for each model: its `name`, and metrics by name.

        The command has reports of its own for translations and labels.
        """
        raise NotImplementedError

    def notices(self, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a reader of the results should know."""
        yield from ()

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        values = [getattr(self, one.name) for one in fields(self) if one.name not in self.written]
        flat = [value for one in values for value in (one if isinstance(one, tuple) else [one])]
        return [value for value in flat if isinstance(value, Path)]


@dataclass(frozen=True)
class TranslationsOptions(EvaluationOptions):
    """Translations of a test set, of models or in files."""

    main = "reference"
    partner = "hypotheses"
    title = "translations"
    uses = ("batch_size", "picture", "backend", "precision", *SEARCH)
    written = ("out",)
    reference: Annotated[
        tuple[Path, ...],
        Doc(
            "the right translations, line by line. May be repeated: several references for each "
            "line, counted as sacrebleu counts them"
        ),
    ] = ()
    source: Annotated[Path | None, Doc("text for the models to translate")] = None
    ensemble: Annotated[bool, Doc("several models translate together, as one")] = False
    hypotheses: Annotated[
        tuple[Path, ...],
        Doc("in place of models: translations that exist already. May be repeated"),
    ] = ()
    against: Annotated[
        Path | None, Doc("another model, or its translations: compared by a paired bootstrap")
    ] = None
    resamples: Annotated[
        int, Doc("with --against: resamples of the paired bootstrap"), Ge(100), Le(100_000)
    ] = 1000
    by_length: Annotated[bool, Doc("BLEU by the length of the reference")] = False
    worst: _Worst = 0
    teacher: Annotated[
        Path | None, Doc("a model that writes word by word, to choose among --candidates")
    ] = None
    lowercase: Annotated[bool, Doc("count without case")] = False
    tokenize: Annotated[str, Doc("tokenizer for BLEU, one of sacrebleu")] = "13a"
    metrics: Annotated[
        str | None,
        Doc("some of bleu,chrf,ter; unset: all, TER only if no line is too long for it"),
    ] = None
    out: Annotated[
        Path | None, Doc("keep the model's translations here"), Flag(formerly=("--output",))
    ] = None

    def problems(self) -> Iterator[str]:
        """Nothing is measured without a reference."""
        if not self.reference:
            yield "--reference is missing, which names the right translations"


@dataclass(frozen=True)
class TextOptions(EvaluationOptions):
    """The perplexity of running text."""

    main = "text"
    title = "running text"
    uses = ()
    text: Annotated[Path | None, Doc("text file for perplexity evaluation")] = None
    stride: Annotated[
        int | None,
        Doc("tokens by which the window moves on; unset: half of it"),
        Ge(1),
        Le(1_000_000),
    ] = None
    memory: Annotated[
        int | None,
        Doc("tokens that a model with a memory remembers; unset: as it says"),
        Ge(0),
        Le(1_000_000),
    ] = None

    def run(
        self, models: Sequence[Path], device: str = "auto", batch_size: int | None = None
    ) -> list[dict[str, Any]]:
        """Perplexities."""
        from regard.devices import device_named
        from regard.evaluation.perplexity import documents_of, perplexity
        from regard.models.folder import load_model

        assert self.text is not None
        documents, results = documents_of(self.text), []
        for path in models:
            folder, model = load_model(path, device_named(device))
            found = perplexity(model, folder.tokenizers.target, documents, self.stride, self.memory)
            results.append({"name": str(path), **found.row()})
        return results

    def notices(self, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """A pseudo-perplexity is not comparable."""
        if len(results) > 1 and any(result["pseudo"] for result in results):
            yield (
                "A masked model sees what comes after a token, too: that is its pseudo-perplexity, "
                "which is not comparable with the perplexity of other models."
            )


@dataclass(frozen=True)
class LabelOptions(EvaluationOptions):
    """What tests with labels have in common."""

    uses = ("batch_size", "picture")
    worst: _Worst = 0

    @property
    @abstractmethod
    def format(self) -> LabelFormat:
        """How the file is read."""

    def reports(
        self, models: Sequence[Path], device: str, batch_size: int | None, notice: Notice
    ) -> list[LabelReport]:
        """How good the labels are that each model gives."""
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
            "the labels' column, by its name in CoNLL-U or its number; unset: that of the model's "
            "training text, upos in other CoNLL-U, the last elsewhere"
        ),
    ] = None

    @property
    def format(self) -> LabelFormat:
        """Columns."""
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
    header: Annotated[bool | None, Doc("whether the first line names the columns; unset: look")] = (
        None
    )

    @property
    def format(self) -> LabelFormat:
        """Label, tab, text."""
        from regard.data.label_files import LabelFormat

        return LabelFormat("labelled", header=self.header)


EVALUATION_OPTIONS: list[type[EvaluationOptions]] = [
    TranslationsOptions,
    TextOptions,
    TaggedOptions,
    LabelledOptions,
]


def select_evaluation(given: Mapping[str, Any]) -> EvaluationOptions:
    """The test that some options name; options of other tests are refused."""
    return select(EVALUATION_OPTIONS, given, "tests")
