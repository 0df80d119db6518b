"""The text side of a model folder: tokenizers, languages and data statistics.

This is all that encoding and decoding of texts need of a model. The module does not import PyTorch,
so that worker processes and other inference backends start fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from regard.config import Doc, Formerly, Ge, Le, Settings, Tree
from regard.data.content import Languages, Vocabulary
from regard.data.directions import DirectionStatistics, format_directions
from regard.data.document_context import NO_CONTEXT, DocumentContext
from regard.errors import ModelError
from regard.foreign_models import describe_foreign_model
from regard.schema import JsonReader
from regard.settings_tree import to_tree
from regard.text.config import TokenizerConfig
from regard.text.folder import load_verified_tokenizers
from regard.text.special import SPECIAL, SpecialTokens
from regard.text.term_marks import strip_annotations
from regard.text.tokenizer import Tokenizers

FORMAT = 1
CONFIG, WEIGHTS, AVERAGE = "config.json", "model.safetensors", "average.safetensors"
READER = JsonReader(ModelError, "Copy the whole folder again, or update regard.")
DecodingFamily = Literal["autoregressive", "fertilities", "ctc"]


@dataclass(frozen=True)
class DataStatistics(Settings):
    """Statistics of the data that a model was trained on."""

    longest_source: Annotated[
        int, Doc("length of the longest training source sentence in subwords"), Ge(0), Le(2**31 - 1)
    ]
    several_sentences: Annotated[
        float, Doc("fraction of training lines with more than one sentence"), Ge(0), Le(1)
    ]
    column: Annotated[str | None, Doc("CoNLL-U column of the labels")] = None
    texts: Annotated[int, Doc("number of texts per label"), Ge(0), Le(2)] = 1
    annotated_terms: Annotated[
        float, Doc("fraction of training pairs with annotated terms"), Ge(0), Le(1)
    ] = 0.0


@dataclass(frozen=True)
class Description(Settings):
    """The fields of `config.json`."""

    format: int
    model: dict[str, Any]  # depends on its `kind`
    vocabulary: Vocabulary
    tokenizer: TokenizerConfig
    special_tokens: SpecialTokens
    languages: Languages
    data_statistics: Annotated[DataStatistics, Formerly("seen")]
    tokenizer_fingerprint: str | None = None  # missing in folders of earlier versions
    adapter: dict[str, Any] | None = None
    directions: tuple[DirectionStatistics, ...] = ()
    document_context: DocumentContext = NO_CONTEXT


@dataclass(frozen=True)
class ModelText:
    """The content of a model folder that concerns text."""

    vocabulary: Vocabulary
    tokenizers: Tokenizers
    languages: dict[str, str | None]
    data_statistics: DataStatistics
    # Of a model whose sources begin with a target tag; none: the model has one direction.
    directions: tuple[DirectionStatistics, ...] = field(default=(), kw_only=True)
    document_context: DocumentContext = field(default=NO_CONTEXT, kw_only=True)

    @staticmethod
    def read(folder: Path) -> ModelText:
        """Read the text side of a model folder, or of a checkpoint."""
        folder = config_folder(folder)
        return text_side(folder, *read_description(folder))

    @property
    def direction(self) -> str:
        """The translation direction, such as "en to de", or the directions, as "en-de, de-en"."""
        if self.directions:
            return format_directions(each.direction for each in self.directions)
        return " to ".join(self.languages[side] or "?" for side in ("source", "target"))

    def decode_sources(self, sources: Sequence[Sequence[int]]) -> list[str]:
        """The texts of sources, without the translations of annotated terms."""
        texts = self.tokenizers.source.decode_all(sources)
        return [*map(strip_annotations, texts)] if self.data_statistics.annotated_terms else texts

    def mismatched_side(self, languages: Mapping[str, str | None]) -> str | None:
        """The first side whose language differs from that in `languages`, if both are known."""
        for side, name in self.languages.items():
            if name and languages[side] and name != languages[side]:
                return side
        return None


def read_description(folder: Path) -> tuple[Description, Tree]:
    """The validated description of a model folder, and the JSON tree of the file."""
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        other = describe_foreign_model(folder)
        raise ModelError(
            other or f"There is no model folder {folder}: it {problem}. Check the path."
        )
    path = folder / CONFIG
    if not path.is_file():
        raise ModelError(
            describe_foreign_model(folder)
            or f"{folder} is not a model folder: it has no {CONFIG}. "
            "Give a folder that `regard train --out` wrote."
        )
    tree = READER.read_object(path)
    if "format" not in tree and (other := describe_foreign_model(folder, tree)):
        raise ModelError(other)
    READER.refuse_other_format(tree, path, FORMAT)
    return READER.build(Description, tree, path, notify=False), tree  # `model_config` notifies


def text_side(folder: Path, description: Description, tree: Tree) -> ModelText:
    """The text side of a folder with this description; raises an error if its files differ."""
    if description.special_tokens != SPECIAL:
        raise ModelError(
            f"{folder / CONFIG}: special_tokens differ from this version's. Update regard."
        )
    text = ModelText(
        description.vocabulary,
        load_verified_tokenizers(folder, description.tokenizer, tree),
        to_tree(description.languages),
        description.data_statistics,
        directions=description.directions,
        document_context=description.document_context,
    )
    sizes = text.tokenizers.source.vocab_size, text.tokenizers.target.vocab_size
    if sizes != (text.vocabulary.source, text.vocabulary.target):
        raise ModelError(
            f"The tokenizer in {folder} belongs to another model: it has {sizes[0]} subwords, "
            f"not {text.vocabulary.source}. Copy the whole folder again."
        )
    return text


def config_folder(folder: Path) -> Path:
    """The folder with `config.json`; for a checkpoint, that of its run."""
    run = folder.parent.parent
    is_checkpoint = folder.parent.name == "checkpoints" and (run / CONFIG).is_file()
    return run if is_checkpoint else folder


def weights_file(folder: Path) -> Path:
    """The weights for inference: the moving average of a checkpoint, if any, else its weights."""
    average = folder / AVERAGE
    return average if average.is_file() else folder / WEIGHTS
