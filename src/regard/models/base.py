"""What every kind of model has: some settings, tables of words, and how others deal with it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from regard.attention.config import AttentionConfig
from regard.attention.multihead import AttentionRecord
from regard.bounds import WIDTH, Ge, Le
from regard.config import Doc, Settings
from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.errors import ConfigError
from regard.layers.embedding import Embedding, Projection
from regard.models.protocol import Predictions, Vocabulary
from regard.text.special import SPECIAL

_TRANSLATION = ("translation", "nonautoregressive_translation", "prefix_language_modeling")


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The settings that every kind of model has, and what it declares of itself."""

    task: ClassVar[str] = "translation"  # by its name in the registry of tasks
    autoregressive: ClassVar[bool] = True  # writes one token after another (`start`, `step`)
    has_memory: ClassVar[bool] = False  # segment recurrence: a batch continues the one before
    embeds_text: ClassVar[bool] = False  # its stack reads a text by itself (`text_row`, `read`)
    gives_labels: ClassVar[bool] = False
    shares_stack: ClassVar[bool] = False  # a model of another kind may start from its stack
    has_attention_maps: ClassVar[bool] = True

    kind: Annotated[str, Doc("which model")] = ""
    width: Annotated[int, Doc("size of a token's vector"), Ge(1), WIDTH] = 512
    dropout: Annotated[float, Doc("inside the layers"), Ge(0), Le(0.99)] = 0.1
    embedding_dropout: Annotated[
        float | None, Doc("on embeddings; unset: as `dropout`"), Ge(0), Le(0.99)
    ] = None
    word_dropout: Annotated[
        float, Doc("share of source and target words that are not read"), Ge(0), Le(0.99)
    ] = 0.0
    tied_embeddings: Annotated[
        Literal["all", "decoder", "none"],
        Doc("one table for source, target and output; for target and output; or three tables"),
    ] = "all"
    scale_embedding: Annotated[bool, Doc("multiply embeddings by sqrt(width)")] = True
    output_bias: Annotated[bool, Doc("a bias for each word of the output")] = False
    start_token: Annotated[
        Literal["start", "end", "pad"], Doc("the mark that the decoder reads first")
    ] = "start"
    attention: AttentionConfig = field(default_factory=AttentionConfig)

    @property
    def translates(self) -> bool:
        """Whether it is for pairs of sentences, and loaded as a translator."""
        return self.task in _TRANSLATION

    @property
    def context(self) -> int | None:
        """Tokens that are read at once, of running or labelled text; None: it reads pairs."""
        return None

    @property
    def start_mark(self) -> int:
        """BOS: the token before what is written, or before a text."""
        return int(getattr(SPECIAL, self.start_token))

    @property
    def obstacle_to_capture(self) -> str | None:
        """Why updates cannot be captured as CUDA graphs; None: they can."""
        return f"CUDA graphs are not supported for model kind {self.kind!r}"

    @property
    def places(self) -> int | None:
        """How many there are positions for; None: any number."""
        return None

    def new_positions(self) -> nn.Module | None:
        """What tells embeddings where they stand, new for each table; None: nothing does."""
        return None

    @property
    def obstacle_to_sharding(self) -> str | None:
        """Why several ranks cannot train it together, and what to do; None: they can."""
        return None


class Model(nn.Module):
    """What reads tokens and scores words; each kind adds its tables, and what lies between."""

    config: ModelConfig
    projection: Projection

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary

    @abstractmethod
    def forward(self, batch: Batch, record: AttentionRecord | None = None) -> Predictions:
        """What it says of the targets of a batch."""

    @property
    def max_length(self) -> int | None:
        """The longest sentence that the positions allow; None: any."""
        return self.config.places

    pass_can_be_captured: ClassVar[bool] = True  # `forward` needs no number from the device

    @property
    def blocks(self) -> list[nn.Module]:
        """What is worth compiling: the blocks of all stacks."""
        return [b for stack in self.modules() if isinstance(stack, nn.ModuleList) for b in stack]

    @property
    def obstacle_to_score(self) -> str | None:
        """Why a given translation has no score, and what to do; None: it has one."""
        return None

    def copied(self) -> Self:
        """Another model with the same weights."""
        # `to` moves nothing, but lays the weights of recurrent layers end to end, as cuDNN likes.
        return copy.deepcopy(self).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    def attention_record(self, batch: Batch) -> AttentionRecord:
        """The attention weights of one pass over a batch."""
        record = AttentionRecord()
        self(batch, record)
        return record

    def recorder(self, record: AttentionRecord | None) -> AttentionRecord | None:
        """Whoever has to note what is drawn in this pass, if anybody has."""
        if record is None and self.training and self.config.attention.estimator == "reinforce":
            return AttentionRecord(with_weights=False)
        return record

    def choices(self, record: AttentionRecord | None) -> Tensor | None:
        """How likely what was drawn for each sentence was, as much as that shall count. (B,)"""
        if record is None or not record.choices:
            return None
        chances = torch.stack([layer.flatten(1).sum(1) for layer in record.choices]).sum(0)
        return self.config.attention.reinforce_weight * chances

    def predictions(
        self, hidden: Tensor, target: Ragged, record: AttentionRecord | None
    ) -> Predictions:
        """A prediction of each target token, and what was drawn on the way."""
        choices = self.choices(record)
        return Predictions(hidden, target.tokens, self.projection, target.lengths, choices)

    def new_projection(self, table: nn.Embedding) -> Projection:
        """The scores of words, from the table of what is written or weights of their own."""
        if self.config.tied_embeddings == "none":
            table = self.new_table(self.vocabulary.target)
        return Projection(table.weight, bias=self.config.output_bias)

    def new_table(self, size: int) -> nn.Embedding:
        """A vector for each of so many words."""
        return nn.Embedding(size, self.config.width)

    def new_embedding(self, table: nn.Embedding) -> Embedding:
        """What words of a table become before the first layer."""
        config = self.config
        dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        return Embedding(
            table,
            config.new_positions(),
            scale=config.width**0.5 if config.scale_embedding else 1.0,
            dropout=dropout,
            word_dropout=config.word_dropout,
        )


class PairModel(Model):
    """A model that turns one sentence into another: it has tables for both."""

    encoder: nn.Module
    decoder: nn.Module

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.source_embedding = self.new_embedding(self.new_table(vocabulary.source))
        self.target_embedding = self.new_embedding(self._target_table())

    def _target_table(self) -> nn.Embedding:
        if self.config.tied_embeddings != "all":
            return self.new_table(self.vocabulary.target)
        if not self.vocabulary.joint or self.vocabulary.source != self.vocabulary.target:
            raise ConfigError(
                "model.tied_embeddings=all shares one table between source and target, but they "
                "have separate vocabularies. Set model.tied_embeddings=decoder, or prepare the "
                "data with --joint."
            )
        return self.source_embedding.table

    def encode(self, source: Ragged, record: AttentionRecord | None = None) -> Any:
        """What the decoder looks at: a vector for each source token. (N, D)"""
        return self.encoder(self.source_embedding.of(source), source.lengths, record)


class AutoregressiveModel(Model):
    """A model that writes one token after another; every search needs these, and no more."""

    # Whether steps can be captured as CUDA graphs: a captured step reads and writes the same
    # tensors each time, so the state must change in place, in `step` and in `reorder`.
    can_be_recorded: bool = False
    start_can_be_recorded: bool = False  # the same of a start, for all sources of a shape

    @abstractmethod
    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> Any:
        """A state for the source sentences, with room for so many beams and tokens of each."""

    @abstractmethod
    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V); the state moves on."""

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The start mark for each beam. (B, W)"""
        return torch.full((sentences, beams), self.start_mark, device=self.device)

    @property
    def start_mark(self) -> int:
        """The token that the decoder reads first."""
        return self.config.start_mark


class EncoderDecoder(PairModel, AutoregressiveModel):
    """A decoder that looks at what the encoder made of the source."""

    def forward(self, batch: Batch, record: AttentionRecord | None = None) -> Predictions:
        """Hidden states for every target token, each knowing the source and what came before."""
        record = self.recorder(record)
        memory = self.encode(batch.source, record)
        inputs = batch.target.shifted_right(self.start_mark)
        x = self.target_embedding.of(inputs)
        hidden = self.decoder(x, inputs.lengths, memory, batch.source.lengths, record)
        return self.predictions(hidden, batch.target, record)
