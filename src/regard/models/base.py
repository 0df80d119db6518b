"""Base classes of models and of their settings."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from regard.attention.config import AttentionConfig
from regard.attention.multihead import AttentionRecorder
from regard.bounds import WIDTH, Ge, Le
from regard.config import Doc, Formerly, Settings
from regard.data.batch import Batch
from regard.data.model_text import DecodingFamily
from regard.data.ragged import Ragged
from regard.errors import ConfigError
from regard.layers.embedding import Embedding, Projection
from regard.models.protocol import Predictions, Vocabulary
from regard.text.special import SPECIAL

TRANSLATION_TASKS = ("translation", "nonautoregressive_translation", "prefix_language_modeling")


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The settings and capabilities of all kinds of models."""

    task: ClassVar[str] = "translation"  # its name in the registry of tasks
    autoregressive: ClassVar[bool] = True  # decodes token by token (`start`, `step`)
    has_memory: ClassVar[bool] = False  # segment recurrence: a batch continues the previous one
    embeds_text: ClassVar[bool] = False  # encodes a single text: it is a `TextEncoder`
    predicts_labels: ClassVar[bool] = False
    reusable_encoder: ClassVar[bool] = False  # can initialize models of other kinds
    has_attention_maps: ClassVar[bool] = True

    kind: Annotated[str, Doc("model architecture")] = ""
    d_model: Annotated[
        int, Doc("model dimension (hidden size)"), Ge(1), WIDTH, Formerly("width")
    ] = 512
    dropout: Annotated[float, Doc("dropout in the layers"), Ge(0), Le(0.99)] = 0.1
    embedding_dropout: Annotated[
        float | None, Doc("dropout of embeddings; default: as dropout"), Ge(0), Le(0.99)
    ] = None
    word_dropout: Annotated[
        float, Doc("probability of zeroing the embedding of an input token"), Ge(0), Le(0.99)
    ] = 0.0
    tied_embeddings: Annotated[
        Literal["all", "decoder", "none"],
        Doc(
            "share the embeddings of source, target and output (all), of target and output, or none"
        ),
    ] = "all"
    scale_embedding: Annotated[bool, Doc("multiply embeddings by sqrt(d_model)")] = True
    output_bias: Annotated[bool, Doc("bias in the output projection")] = False
    decoder_start_token: Annotated[
        Literal["bos", "eos", "pad"],
        Doc("first input token of the decoder"),
        Formerly("start_token", {"start": "bos", "end": "eos"}),
    ] = "bos"
    attention: AttentionConfig = field(default_factory=AttentionConfig)

    @property
    def translates(self) -> bool:
        """Whether it is a translation model."""
        return self.task in TRANSLATION_TASKS

    @property
    def decoding_family(self) -> DecodingFamily:
        """How it decodes, which determines the search settings that have an effect."""
        assert self.autoregressive
        return "autoregressive"

    @property
    def context(self) -> int | None:
        """The context length of models of plain or labelled text; None for models of pairs."""
        return None

    @property
    def decoder_start_id(self) -> int:
        """The id of the decoder start token, which language models also prepend to texts."""
        return int(getattr(SPECIAL, self.decoder_start_token))

    @property
    def cuda_graphs_unsupported_reason(self) -> str | None:
        """Why updates cannot be captured as CUDA graphs; None if they can."""
        return f"CUDA graphs are not supported for model kind {self.kind!r}"

    @property
    def position_limit(self) -> int | None:
        """The number of positions; None: unlimited."""
        return None

    def make_positions(self) -> nn.Module | None:
        """A new positional encoding that is added to embeddings; None: there is none."""
        return None

    @property
    def distributed_unsupported_reason(self) -> str | None:
        """Why it cannot be trained with several processes, and what to do; None if it can."""
        return None


class Model(nn.Module):
    """Base class of all models."""

    config: ModelConfig
    projection: Projection

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary

    @abstractmethod
    def forward(self, batch: Batch, recorder: AttentionRecorder | None = None) -> Predictions:
        """Predictions of the targets of a batch."""

    @property
    def max_length(self) -> int | None:
        """The maximum sentence length; None: unlimited."""
        return self.config.position_limit

    forward_capturable: ClassVar[bool] = True  # `forward` does not synchronize with the device

    @property
    def blocks(self) -> list[nn.Module]:
        """The modules to compile: the blocks of all stacks."""
        return [b for stack in self.modules() if isinstance(stack, nn.ModuleList) for b in stack]

    @property
    def scoring_unsupported_reason(self) -> str | None:
        """Why it cannot score a given translation, and what to do; None if it can."""
        return None

    def copied(self) -> Self:
        """A copy of the model."""
        # `to` makes the weights of recurrent layers contiguous again, as cuDNN expects.
        return copy.deepcopy(self).to(self.device)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def record_attention(self, batch: Batch) -> AttentionRecorder:
        """The attention maps of a forward pass."""
        recorder = AttentionRecorder()
        self(batch, recorder)
        return recorder

    def sampling_recorder(self, recorder: AttentionRecorder | None) -> AttentionRecorder | None:
        """The recorder of a pass: with REINFORCE, log-probs of samples must be recorded."""
        if recorder is None and self.training and self.config.attention.estimator == "reinforce":
            return AttentionRecorder(with_weights=False)
        return recorder

    def selection_log_probs(self, recorder: AttentionRecorder | None) -> Tensor | None:
        """The weighted log-prob of the sampled selections of each sentence. (B,)"""
        if recorder is None or not recorder.selection_log_probs:
            return None
        layers = [layer.flatten(1).sum(1) for layer in recorder.selection_log_probs]
        return self.config.attention.reinforce_weight * torch.stack(layers).sum(0)

    def predictions(
        self, hidden: Tensor, target: Ragged, recorder: AttentionRecorder | None
    ) -> Predictions:
        """Predictions of all target tokens, with the log-probs of sampled selections."""
        log_probs = self.selection_log_probs(recorder)
        return Predictions(hidden, target.tokens, self.projection, target.lengths, log_probs)

    def new_projection(self, table: nn.Embedding) -> Projection:
        """A new output projection, which shares the embedding table if they are tied."""
        if self.config.tied_embeddings == "none":
            table = self.new_table(self.vocabulary.target)
        return Projection(table.weight, bias=self.config.output_bias)

    def new_table(self, size: int) -> nn.Embedding:
        """A new embedding table."""
        return nn.Embedding(size, self.config.d_model)

    def new_embedding(self, table: nn.Embedding) -> Embedding:
        """A new embedding layer over a table."""
        config = self.config
        dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        return Embedding(
            table,
            config.make_positions(),
            scale=config.d_model**0.5 if config.scale_embedding else 1.0,
            dropout=dropout,
            word_dropout=config.word_dropout,
        )


class PairModel(Model):
    """A sequence-to-sequence model, with embeddings of source and target."""

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
                "model.tied_embeddings=all requires a joint vocabulary, but source and target have "
                "separate vocabularies. Set model.tied_embeddings=decoder, or prepare the data "
                "with --joint."
            )
        return self.source_embedding.table

    def encode(self, source: Ragged, recorder: AttentionRecorder | None = None) -> Any:
        """The encoder output of all source tokens. (N, D)"""
        return self.encoder(self.source_embedding.embed(source), source.lengths, recorder)


class AutoregressiveModel(Model):
    """A model that decodes token by token; searches only need this interface."""

    # Whether steps can be captured as CUDA graphs: a captured step reads and writes the same
    # tensors each time, so the state must change in place, in `step` and in `reorder`.
    step_capturable: bool = False
    start_capturable: bool = False  # the same for `start`, for all sources of a shape

    @abstractmethod
    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> Any:
        """The initial state of a search, with a cache for `capacity` tokens of each beam."""

    @abstractmethod
    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """Next-token logits after one token per beam: (B, W) -> (B, W, V); updates the state."""

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The decoder start token of each beam. (B, W)"""
        return torch.full((sentences, beams), self.decoder_start_id, device=self.device)

    @property
    def decoder_start_id(self) -> int:
        """The id of the first input token of the decoder."""
        return self.config.decoder_start_id


class EncoderDecoder(PairModel, AutoregressiveModel):
    """An autoregressive encoder-decoder."""

    def forward(self, batch: Batch, recorder: AttentionRecorder | None = None) -> Predictions:
        """Hidden states of all target tokens, with teacher forcing."""
        recorder = self.sampling_recorder(recorder)
        encoder_output = self.encode(batch.source, recorder)
        inputs = batch.target.shifted_right(self.decoder_start_id)
        x = self.target_embedding.embed(inputs)
        hidden = self.decoder(x, inputs.lengths, encoder_output, batch.source.lengths, recorder)
        return self.predictions(hidden, batch.target, recorder)
