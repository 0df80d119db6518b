"""Toy models, batches, corpora and run settings for the tests."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.cache import Indices
from regard.config import build
from regard.data.batch import Batch, FertilityBatch
from regard.data.filters import CorpusFilterConfig
from regard.data.loader import validation_batches
from regard.data.pair_files import Files, PairReader
from regard.data.pairs import with_eos
from regard.data.plain_text_files import TextReader
from regard.data.prefix_lm import to_prefix_batch
from regard.data.prepare import prepare
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.models import ARCHITECTURES, new_model
from regard.models.base import AutoregressiveModel, Model, ModelConfig
from regard.models.folder import WEIGHTS, ModelFolder, named_weights, write_tensors
from regard.models.language import LanguageConfig
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer
from regard.settings_tree import merge_trees, to_tree
from regard.tasks import Task, task_of
from regard.tasks.recipes import validate_run_config
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from regard.training.config import RunConfig
from regard.training.initialization import initialize_model
from regard.training.loop import train
from regard.training.task import Validation

VOCABULARY_SIZE = 40
# Small sizes for each model kind.
SIZES: dict[str, dict[str, Any]] = {
    "transformer": {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_model": 32,
        "num_heads": 4,
        "ffn_dim": 48,
    },
    "recurrent": {"d_model": 32, "num_layers": 2},
    "convolutional": {"d_model": 32, "num_encoder_layers": 3, "num_decoder_layers": 2},
    "nonautoregressive": {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_model": 32,
        "num_heads": 4,
        "ffn_dim": 48,
        "max_fertility": 4,
    },
    "causal": {"num_layers": 2, "d_model": 32, "num_heads": 4, "ffn_dim": 48},
    "masked": {"num_layers": 2, "d_model": 32, "num_heads": 4, "ffn_dim": 48},
    "unilm": {"num_layers": 2, "d_model": 32, "num_heads": 4, "ffn_dim": 48},
    "xl": {"num_layers": 2, "d_model": 32, "num_heads": 4, "ffn_dim": 48},
    "permuted": {"num_layers": 2, "d_model": 32, "num_heads": 4, "ffn_dim": 48},
}
# Standard deviation of noise on the weights: enough for the scores of tokens to differ clearly.
NOISE = {
    "transformer": 0.1,
    "recurrent": 0.15,
    "convolutional": 0.01,
    "nonautoregressive": 0.1,
    "causal": 0.1,
    "masked": 0.1,
    "unilm": 0.1,
    "xl": 0.1,
    "permuted": 0.1,
}
# Tiny sizes for a few quick updates.
TINY: dict[str, dict[str, Any]] = {
    "transformer": {
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "d_model": 16,
        "num_heads": 2,
        "ffn_dim": 24,
    },
    "recurrent": {"d_model": 16, "num_layers": 1},
    "convolutional": {"d_model": 16, "num_encoder_layers": 1, "num_decoder_layers": 1},
    "nonautoregressive": {
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "d_model": 16,
        "num_heads": 2,
        "ffn_dim": 24,
    },
    **{
        kind: {"num_layers": 1, "d_model": 16, "num_heads": 2, "ffn_dim": 24}
        for kind in ("causal", "masked", "unilm", "xl", "permuted", "tagger", "classifier")
    },
}
# Variants of the Transformer, which share tests.
TRANSFORMER_VARIANTS: dict[str, dict[str, Any]] = {
    "vanilla": {},
    "pre-norm": {"norm_order": "pre"},
    "learned positions": {"positional_encoding": "learned"},
    "narrow keys": {"key_dim": 3},
    "RMS norm": {"norm": "rms", "norm_order": "pre"},
    "batch norm": {"norm": "batch"},
    "gated": {"ffn_type": "gated", "activation": "silu"},
    "convolutions": {"ffn_type": "convolution"},
    "rotary": {"positional_encoding": "rotary"},
    "relative": {"positional_encoding": "relative"},
    "no positions": {"positional_encoding": "none"},
    "T5 initialization": {"attention": {"score": "dot"}, "init": "t5"},
    "dot": {"attention": {"score": "dot"}},
    "additive": {"attention": {"score": "additive"}},
    "bilinear": {"attention": {"score": "bilinear"}},
    "scaled bilinear": {"attention": {"score": "scaled_bilinear"}, "key_dim": 5},
    "projected dot": {"attention": {"score": "projected_dot"}},
    "hard": {"attention": {"select": "hard"}},
    "sampled": {"attention": {"select": "sampled"}},
    "REINFORCE": {"attention": {"select": "sampled", "estimator": "reinforce"}},
    "three tables": {"tied_embeddings": "none", "output_bias": True},
}
RECURRENT_VARIANTS: dict[str, dict[str, Any]] = {
    "LSTM": {},
    "GRU": {"cell": "gru"},
    "Elman": {"cell": "elman", "num_layers": 1},
    "LSTM, forwards": {"bidirectional": False},
    "LSTM without attention": {"cross_attention": "none"},
    "GRU without attention": {"cell": "gru", "cross_attention": "none", "num_layers": 3},
    "LSTM, projected": {
        "cross_attention": "projected",
        "tied_embeddings": "none",
        "output_bias": True,
    },
    "LSTM, fed": {"input_feeding": True},
    "GRU, fed, projected": {"cell": "gru", "input_feeding": True, "cross_attention": "projected"},
    "LSTM, dot": {"attention": {"score": "dot"}},
    "LSTM, additive": {"attention": {"score": "additive"}},
    "Elman, bilinear, fed": {
        "cell": "elman",
        "input_feeding": True,
        "attention": {"score": "bilinear"},
    },
    "LSTM, scaled bilinear": {"attention": {"score": "scaled_bilinear"}},
    "LSTM, projected dot": {"attention": {"score": "projected_dot"}},
    "LSTM, hard": {"attention": {"select": "hard"}},
    "LSTM, sampled, fed": {"attention": {"select": "sampled"}, "input_feeding": True},
    "GRU, REINFORCE": {"cell": "gru", "attention": {"select": "sampled", "estimator": "reinforce"}},
    "LSTM, REINFORCE, fed": {
        "attention": {"select": "sampled", "estimator": "reinforce"},
        "input_feeding": True,
    },
}
CONVOLUTIONAL_VARIANTS: dict[str, dict[str, Any]] = {
    "convolutional": {},
    "kernel of 5": {"kernel_size": 5},
    "kernel of 1": {"kernel_size": 1},
    "convolutional, sinusoidal": {"positional_encoding": "sinusoidal"},
    "convolutional, no positions": {"positional_encoding": "none"},
    "convolutional, additive": {"attention": {"score": "additive"}, "tied_embeddings": "decoder"},
    "convolutional, hard": {"attention": {"select": "hard"}},
    "convolutional, REINFORCE": {"attention": {"select": "sampled", "estimator": "reinforce"}},
}
UNILM_VARIANTS: dict[str, dict[str, Any]] = {
    "UniLM": {},
    "UniLM, learned, pre-norm": {"positional_encoding": "learned", "norm_order": "pre"},
    "UniLM, rotary, gated": {"positional_encoding": "rotary", "ffn_type": "gated"},
    "UniLM, additive": {"attention": {"score": "additive"}, "tied_embeddings": "none"},
}
# Variants of all autoregressive translation models.
AUTOREGRESSIVE_VARIANTS: dict[str, dict[str, Any]] = {
    **TRANSFORMER_VARIANTS,
    **{name: {"kind": "recurrent", **changes} for name, changes in RECURRENT_VARIANTS.items()},
    **{
        name: {"kind": "convolutional", **changes}
        for name, changes in CONVOLUTIONAL_VARIANTS.items()
    },
    **{name: {"kind": "unilm", **changes} for name, changes in UNILM_VARIANTS.items()},
}
# Variants of the non-autoregressive model.
NONAUTOREGRESSIVE_VARIANTS: dict[str, dict[str, Any]] = {
    "fertilities": {},
    "fertilities, post-norm, no positional attention": {
        "norm_order": "post",
        "positional_attention": False,
    },
    "fertilities, learned positions": {"positional_encoding": "learned", "tied_embeddings": "none"},
    "fertilities, no mask": {"self_attention_mask": "none"},
    "CTC": {"length_prediction": "ctc"},
    "CTC of 3, rotary": {"length_prediction": "ctc", "copies": 3, "positional_encoding": "rotary"},
    "CTC, relative, gated": {
        "length_prediction": "ctc",
        "positional_encoding": "relative",
        "ffn_type": "gated",
    },
    "CTC, no mask, relative": {
        "length_prediction": "ctc",
        "self_attention_mask": "none",
        "positional_encoding": "relative",
    },
    "CTC, convolutions": {"length_prediction": "ctc", "ffn_type": "convolution"},
}


def small_transformer(seed: int = 0, **changes: Any) -> Transformer:
    """A Transformer with random weights that are far from uniform, in evaluation mode."""
    model = autoregressive_model(seed, **changes)
    assert isinstance(model, Transformer)
    return model


def autoregressive_model(
    seed: int = 0, *, kind: str = "transformer", **changes: Any
) -> AutoregressiveModel:
    """Like `small_transformer`, for any autoregressive translation model."""
    model = random_model(seed, kind=kind, **changes)
    assert isinstance(model, AutoregressiveModel)
    return model


def nonautoregressive_model(seed: int = 0, **changes: Any) -> NonAutoregressive:
    """Like `small_transformer`, for the non-autoregressive model."""
    model = random_model(seed, kind="nonautoregressive", **changes)
    assert isinstance(model, NonAutoregressive)
    return model


def random_model(seed: int, *, kind: str, **changes: Any) -> Model:
    """Like `small_transformer`, for any model kind."""
    torch.manual_seed(seed)
    shape, _ = ARCHITECTURES[kind]
    model = new_model(
        build(shape, {**SIZES[kind], "dropout": 0.0, **changes}),
        Vocabulary(VOCABULARY_SIZE, VOCABULARY_SIZE),
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * NOISE[kind])
        if changes.get("norm") == "batch":  # estimates its running statistics
            for number in range(30):
                model.train()(pairs(20, seed=number))
    return model.eval()


def sentences(count: int, *, seed: int = 0, longest: int = 9) -> list[list[int]]:
    """Random token sequences of various lengths."""
    draw = random.Random(seed)
    return [
        [draw.randrange(4, VOCABULARY_SIZE) for _ in range(draw.randint(1, longest))]
        for _ in range(count)
    ]


def pairs(count: int, *, seed: int = 0) -> Batch:
    """A batch of random pairs."""
    source, target = sentences(count, seed=seed), sentences(count, seed=seed + 1)
    return Batch(with_eos(source), with_eos(target))


def add_fertilities(batch: Batch) -> FertilityBatch:
    """The same pairs; the first source token has the fertility of the whole target."""
    source, target_lengths = batch.source.lengths, batch.target.lengths.lengths - 1
    counts = torch.zeros(source.total, dtype=torch.long)
    counts[source.positions == 0] = target_lengths
    return FertilityBatch(batch.source, batch.target, batch.filler, fertilities=counts)


def batch_for_kind(kind: str, batch: Batch) -> Batch:
    """The pairs as a batch for a model kind; for language models, only the targets."""
    if kind == "unilm":
        return to_prefix_batch(batch, SPECIAL.bos)
    if kind == "causal":
        return Batch(batch.target.shifted_right(SPECIAL.bos), batch.target)
    if kind == "masked":
        tokens, masked = batch.target.tokens, batch.target.lengths.positions % 3 == 0
        inputs, labels = tokens.masked_fill(masked, 1), tokens.masked_fill(~masked, SPECIAL.pad)
        lengths, filler = batch.target.lengths, int((~masked).sum())
        return Batch(Ragged(inputs, lengths), Ragged(labels, lengths), filler)
    return batch


@dataclass
class TableState:
    """The state of a `TableModel`: the number of tokens read."""

    sources: Tensor
    length: int

    def reserve(self, length: int, *, exact: bool) -> None:
        assert length == self.length + 1
        assert exact

    def reorder(self, parents: Tensor) -> None:
        assert len(parents) == len(self.sources)

    def select(self, sentences: Indices) -> TableState:
        return TableState(self.sources[sentences], self.length)


class TableModel:
    """A model simple enough to check by hand: logits depend on position and last token only.

    `table[position, last token]` holds the next-token logits; the source shifts the positions.
    """

    step_capturable = False
    start_capturable = False

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> TableState:
        return TableState(source.tokens[source.lengths.offsets[:-1].long()], 0)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        return torch.full((sentences, beams), 2)

    def step(self, tokens: Tensor, state: TableState) -> Tensor:
        places = (state.length + state.sources) % len(self.table)
        state.length += 1
        return self.table[places[:, None], tokens]

    def log_probability(self, first: int, tokens: Sequence[int]) -> float:
        """Log-probability of a sequence that ends with EOS, by definition."""
        total, last = 0.0, 2
        for position, token in enumerate(tokens):
            row = self.table[(position + first) % len(self.table), last].log_softmax(-1)
            total, last = total + float(row[token]), token
        return total


def write_reversal_store(folder: Path, *, valid: bool, tokenizer: str = "word") -> Store:
    """Prepare lines of a few letters, whose targets are the letters in reverse order."""
    draw = random.Random(5)
    lines = [" ".join(draw.choices("abcdefghij", k=draw.randint(2, 7))) for _ in range(400)]
    parts = {"train": lines[:350], "valid": lines[350:]} if valid else {"train": lines}
    files = {}
    for name, part in parts.items():
        source, target = folder / f"{name}.source", folder / f"{name}.target"
        source.write_text("".join(line + "\n" for line in part))
        target.write_text("".join(line[::-1] + "\n" for line in part))
        files[name] = [Files(source, target)]
    prepare(
        PairReader(files, CorpusFilterConfig(skip_copied=False)),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": tokenizer, "vocab_size": 300}),
        languages=("xx", "yy"),
    )
    return Store(folder / "prepared")


def write_text_store(folder: Path) -> Store:
    """Prepare documents of letters in alphabetical order, each from a random letter on."""
    draw = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz" * 2
    documents = []
    for _ in range(160):
        start, length = draw.randrange(26), draw.randint(2, 20)
        words = letters[start : start + length]
        split = draw.randint(1, length - 1)
        documents.append(" ".join(words[:split]) + "\n" + " ".join(words[split:]) + "\n\n")
    (folder / "train.txt").write_text("".join(documents[:140]))
    (folder / "valid.txt").write_text("".join(documents[140:]))
    prepare(
        TextReader({name: [folder / f"{name}.txt"] for name in ("train", "valid")}),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300}),
        languages=("xx", "xx"),
    )
    return Store(folder / "prepared")


def small_run(out: Path, store: Store, **training: Any) -> RunConfig:
    """Settings of a Transformer run of a few quick steps, with dropout."""
    return some_run(out, store, {}, **training)


def some_run(out: Path, store: Store, model: dict[str, Any], **training: Any) -> RunConfig:
    """Like `small_run`, with changed model settings."""
    tree = {
        "out": str(out),
        "data": {"folder": str(store.folder), "batch_tokens": 300},
        "model": {**TINY[model.get("kind", "transformer")], "dropout": 0.2},
        "training": {
            "max_steps": 20,
            "warmup_steps": 5,
            "learning_rate": 0.01,
            "checkpoint_every": 5,
            "log_every": 4,
            "tensorboard": False,
        },
    }
    return validate_run_config(
        build(RunConfig, merge_trees(tree, {"model": model, "training": training}))
    )


def altered(config: RunConfig, **changes: Any) -> RunConfig:
    """The settings with changes given as nested dictionaries."""
    return validate_run_config(build(RunConfig, merge_trees(to_tree(config), changes)))


class CollectingCallback:
    """A training callback that collects the logged rows."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.first_step: int | None = None

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        self.first_step = step

    def on_step_end(self, step: int) -> None:
        pass

    def on_log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def run(
    config: RunConfig,
    store: Store,
    *,
    callback: CollectingCallback | None = None,
    bleu: Callable[[Model], float] | None = None,
) -> CollectingCallback:
    """Train on the CPU, optionally with another BLEU function; returns the callback."""
    callback, task = callback or CollectingCallback(), task_of(config.model)
    task = with_bleu(bleu, task) if bleu else task
    train(config, store, task, torch.device("cpu"), callback=callback)
    return callback


def with_bleu(bleu: Callable[[Model], float], task: Task) -> Task:
    """The task with another BLEU function in its validation."""
    changed = copy.copy(task)
    vars(changed)["scorer"] = lambda store, config: lambda model: {"bleu": bleu(model)}
    return changed


def new_folder(config: ModelConfig, store: Store) -> ModelFolder:
    """The description of a model that will be trained on a store."""
    return task_of(config).new_folder(config, store)


def initialize_for(config: RunConfig, store: Store) -> tuple[ModelFolder, Model]:
    """The description of a run's model, and the model before its first update."""
    return initialize_model(config, new_folder(config.model, store))


def validated(model: Model, store: Store, config: RunConfig) -> Validation:
    """The loss of a model on the validation part of a store."""
    task = task_of(config.model)
    batches = validation_batches(task.validation_data(store, config), config.data.batch_tokens)
    return task.validate(model, batches, config)


def pseudorandom_bleu(model: Model) -> float:
    """A pseudorandom number that depends only on the weights."""
    return sum(float(weights.detach().double().sum()) for weights in model.parameters()) * 1e4 % 1


def write_model_folder(folder: Path, store: Store, **changes: Any) -> Path:
    """A model folder with random weights, whose outputs end with EOS at various lengths."""
    torch.manual_seed(3)
    kind = changes.get("kind", "transformer")
    shape, _ = ARCHITECTURES[kind]
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    if issubclass(shape, LanguageConfig):
        layers = {"num_layers": 1}
    sizes = {**layers, "d_model": 32, "num_heads": 2, "ffn_dim": 48}
    config = build(shape, {**sizes, **changes})
    description = new_folder(config, store)
    write_tensors(folder / WEIGHTS, named_weights(description.model()), {})
    description.write(folder)
    return folder
