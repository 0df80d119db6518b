"""Small models, batches and corpora that several tests use."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.cache import Some
from regard.config import as_tree, build, merged
from regard.data.batch import Batch, FertilityBatch
from regard.data.doctor import DoctorConfig
from regard.data.loader import validation_batches
from regard.data.pair_files import Files, PairReader
from regard.data.pairs import with_ends
from regard.data.prefix_rows import as_rows
from regard.data.prepare import prepare
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.data.text_files import TextReader
from regard.models import ARCHITECTURES, new_model
from regard.models.base import AutoregressiveModel, Model, ModelConfig
from regard.models.folder import WEIGHTS, ModelFolder, weights_of, write_tensors
from regard.models.language import LanguageConfig
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer
from regard.tasks import Task, task_of
from regard.tasks.recipes import checked
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from regard.training.begin import begun
from regard.training.config import RunConfig
from regard.training.loop import train
from regard.training.task import Validation

WORDS = 40
# Small sizes of each kind of model.
SIZES: dict[str, dict[str, Any]] = {
    "transformer": {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "width": 32,
        "heads": 4,
        "feedforward_width": 48,
    },
    "recurrent": {"width": 32, "layers": 2},
    "convolutional": {"width": 32, "encoder_layers": 3, "decoder_layers": 2},
    "nonautoregressive": {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "width": 32,
        "heads": 4,
        "feedforward_width": 48,
        "max_fertility": 4,
    },
    "causal": {"layers": 2, "width": 32, "heads": 4, "feedforward_width": 48},
    "masked": {"layers": 2, "width": 32, "heads": 4, "feedforward_width": 48},
    "unilm": {"layers": 2, "width": 32, "heads": 4, "feedforward_width": 48},
    "xl": {"layers": 2, "width": 32, "heads": 4, "feedforward_width": 48},
    "permuted": {"layers": 2, "width": 32, "heads": 4, "feedforward_width": 48},
}
# So much that words differ in their scores, so little that these are no huge numbers.
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
# Sizes for a few quick updates.
TINY: dict[str, dict[str, Any]] = {
    "transformer": {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "width": 16,
        "heads": 2,
        "feedforward_width": 24,
    },
    "recurrent": {"width": 16, "layers": 1},
    "convolutional": {"width": 16, "encoder_layers": 1, "decoder_layers": 1},
    "nonautoregressive": {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "width": 16,
        "heads": 2,
        "feedforward_width": 24,
    },
    **{
        kind: {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 24}
        for kind in ("causal", "masked", "unilm", "xl", "permuted", "tagger", "classifier")
    },
}
# Every form that a Transformer can take; what holds for one must hold for all.
FORMS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm_order": "pre"},
    "learned positions": {"positions": "learned"},
    "narrow keys": {"key_width": 3},
    "RMS norm": {"norm": "rms", "norm_order": "pre"},
    "batch norm": {"norm": "batch"},
    "gated": {"feedforward": "gated", "activation": "silu"},
    "convolutions": {"feedforward": "convolution"},
    "rotary": {"positions": "rotary"},
    "relative": {"positions": "relative"},
    "no positions": {"positions": "none"},
    "T5's beginning": {"attention": {"score": "dot"}, "init": "t5"},
    "dot": {"attention": {"score": "dot"}},
    "additive": {"attention": {"score": "additive"}},
    "bilinear": {"attention": {"score": "bilinear"}},
    "scaled bilinear": {"attention": {"score": "scaled_bilinear"}, "key_width": 5},
    "projected dot": {"attention": {"score": "projected_dot"}},
    "hard": {"attention": {"select": "hard"}},
    "sampled": {"attention": {"select": "sampled"}},
    "REINFORCE": {"attention": {"select": "sampled", "estimator": "reinforce"}},
    "three tables": {"tied_embeddings": "none", "output_bias": True},
}
RECURRENT: dict[str, dict[str, Any]] = {
    "LSTM": {},
    "GRU": {"cell": "gru"},
    "Elman": {"cell": "elman", "layers": 1},
    "LSTM, forwards": {"bidirectional": False},
    "LSTM without attention": {"memory": "none"},
    "GRU without attention": {"cell": "gru", "memory": "none", "layers": 3},
    "LSTM, projected": {"memory": "projected", "tied_embeddings": "none", "output_bias": True},
    "LSTM, fed": {"input_feeding": True},
    "GRU, fed, projected": {"cell": "gru", "input_feeding": True, "memory": "projected"},
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
CONVOLUTIONAL: dict[str, dict[str, Any]] = {
    "convolutional": {},
    "kernel of 5": {"kernel": 5},
    "kernel of 1": {"kernel": 1},
    "convolutional, sinusoidal": {"positions": "sinusoidal"},
    "convolutional, no positions": {"positions": "none"},
    "convolutional, additive": {"attention": {"score": "additive"}, "tied_embeddings": "decoder"},
    "convolutional, hard": {"attention": {"select": "hard"}},
    "convolutional, REINFORCE": {"attention": {"select": "sampled", "estimator": "reinforce"}},
}
UNILM: dict[str, dict[str, Any]] = {
    "UniLM": {},
    "UniLM, learned, pre-norm": {"positions": "learned", "norm_order": "pre"},
    "UniLM, rotary, gated": {"positions": "rotary", "feedforward": "gated"},
    "UniLM, additive": {"attention": {"score": "additive"}, "tied_embeddings": "none"},
}
# Every form of every kind that writes word by word.
EVERY_FORM: dict[str, dict[str, Any]] = {
    **FORMS,
    **{name: {"kind": "recurrent", **form} for name, form in RECURRENT.items()},
    **{name: {"kind": "convolutional", **form} for name, form in CONVOLUTIONAL.items()},
    **{name: {"kind": "unilm", **form} for name, form in UNILM.items()},
}
# Those that write all words at once.
PARALLEL: dict[str, dict[str, Any]] = {
    "fertilities": {},
    "fertilities, post-norm, no places": {"norm_order": "post", "positional_attention": False},
    "fertilities, learned positions": {"positions": "learned", "tied_embeddings": "none"},
    "fertilities, no mask": {"self_attention_mask": "none"},
    "CTC": {"lengths": "ctc"},
    "CTC of 3, rotary": {"lengths": "ctc", "copies": 3, "positions": "rotary"},
    "CTC, relative, gated": {"lengths": "ctc", "positions": "relative", "feedforward": "gated"},
    "CTC, no mask, relative": {
        "lengths": "ctc",
        "self_attention_mask": "none",
        "positions": "relative",
    },
    "CTC, convolutions": {"lengths": "ctc", "feedforward": "convolution"},
}


def small_model(seed: int = 0, **changes: Any) -> Transformer:
    """A Transformer with random weights that are far from uniform, in evaluation mode."""
    model = some_model(seed, **changes)
    assert isinstance(model, Transformer)
    return model


def some_model(seed: int = 0, *, kind: str = "transformer", **changes: Any) -> AutoregressiveModel:
    """The same of any kind that writes word by word."""
    model = any_model(seed, kind=kind, **changes)
    assert isinstance(model, AutoregressiveModel)
    return model


def parallel_model(seed: int = 0, **changes: Any) -> NonAutoregressive:
    """The same of the kind that writes all words at once."""
    model = any_model(seed, kind="nonautoregressive", **changes)
    assert isinstance(model, NonAutoregressive)
    return model


def any_model(seed: int, *, kind: str, **changes: Any) -> Model:
    """The same of any kind."""
    torch.manual_seed(seed)
    shape, _ = ARCHITECTURES[kind]
    model = new_model(
        build(shape, {**SIZES[kind], "dropout": 0.0, **changes}), Vocabulary(WORDS, WORDS)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * NOISE[kind])
        if changes.get("norm") == "batch":  # whose statistics should be those of its weights
            for number in range(30):
                model.train()(pairs(20, seed=number))
    return model.eval()


def sentences(count: int, *, seed: int = 0, longest: int = 9) -> list[list[int]]:
    """Random sentences of unequal length."""
    draw = random.Random(seed)
    return [
        [draw.randrange(4, WORDS) for _ in range(draw.randint(1, longest))] for _ in range(count)
    ]


def pairs(count: int, *, seed: int = 0) -> Batch:
    """A batch of random pairs."""
    source, target = sentences(count, seed=seed), sentences(count, seed=seed + 1)
    return Batch(with_ends(source), with_ends(target))


def fertile(batch: Batch) -> FertilityBatch:
    """The same pairs, the first token of each source standing for all words of the target."""
    source, words = batch.source.lengths, batch.target.lengths.lengths - 1
    counts = torch.zeros(source.total, dtype=torch.long)
    counts[source.positions == 0] = words
    return FertilityBatch(batch.source, batch.target, batch.filler, fertilities=counts)


def read_by(kind: str, batch: Batch) -> Batch:
    """The same pairs as a kind of model reads them; of running text, the targets alone."""
    if kind == "unilm":
        return as_rows(batch, SPECIAL.start)
    if kind == "causal":
        return Batch(batch.target.shifted_right(SPECIAL.start), batch.target)
    if kind == "masked":
        tokens, hidden = batch.target.tokens, batch.target.lengths.positions % 3 == 0
        read, wanted = tokens.masked_fill(hidden, 1), tokens.masked_fill(~hidden, SPECIAL.pad)
        lengths, filler = batch.target.lengths, int((~hidden).sum())
        return Batch(Ragged(read, lengths), Ragged(wanted, lengths), filler)
    return batch


@dataclass
class TableState:
    """All that a table model remembers: how many tokens were read."""

    sources: Tensor
    length: int

    def reach(self, places: int, *, exact: bool) -> None:
        assert places == self.length + 1
        assert exact

    def reorder(self, parents: Tensor) -> None:
        assert len(parents) == len(self.sources)

    def select(self, sentences: Some) -> TableState:
        return TableState(self.sources[sentences], self.length)


class TableModel:
    """A model that anybody can follow by hand: the next word depends on place and last word only.

    `table[place, last word]` holds the logits of the next word; a source moves the places.
    """

    can_be_recorded = False
    start_can_be_recorded = False

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> TableState:
        return TableState(source.tokens[source.lengths.offsets[:-1].long()], 0)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        return torch.full((sentences, beams), 2)

    def step(self, tokens: Tensor, state: TableState) -> Tensor:
        places = (state.length + state.sources) % len(self.table)
        state.length += 1
        return self.table[places[:, None], tokens]

    def log_probability(self, first: int, tokens: Sequence[int]) -> float:
        """Of a sentence with its end mark, by the definition."""
        total, last = 0.0, 2
        for place, token in enumerate(tokens):
            row = self.table[(place + first) % len(self.table), last].log_softmax(-1)
            total, last = total + float(row[token]), token
        return total


def write_reversal_store(folder: Path, *, valid: bool, tokenizer: str = "word") -> Store:
    """Lines of a few letters and the same letters backwards, prepared."""
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
        PairReader(files, DoctorConfig(skip_copied=False)),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": tokenizer, "vocab_size": 300}),
        languages=("xx", "yy"),
    )
    return Store(folder / "prepared")


def write_text_store(folder: Path) -> Store:
    """Documents of letters in the order of the alphabet, from a letter on, prepared."""
    draw = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz" * 2
    documents = []
    for _ in range(160):
        begin, length = draw.randrange(26), draw.randint(2, 20)
        words = letters[begin : begin + length]
        cut = draw.randint(1, length - 1)
        documents.append(" ".join(words[:cut]) + "\n" + " ".join(words[cut:]) + "\n\n")
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
    """The settings of a run of a few quick steps, with dropout."""
    return some_run(out, store, {}, **training)


def some_run(out: Path, store: Store, model: dict[str, Any], **training: Any) -> RunConfig:
    """The same with a model of any form."""
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
    return checked(build(RunConfig, merged(tree, {"model": model, "training": training})))


def altered(config: RunConfig, **changes: Any) -> RunConfig:
    """The same settings but for some, given as nested dictionaries."""
    return checked(build(RunConfig, merged(as_tree(config), changes)))


class Silent:
    """A watcher that only remembers."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.began_at: int | None = None

    def begin(self, step: int, max_steps: int, about: str) -> None:
        self.began_at = step

    def step(self, step: int) -> None:
        pass

    def row(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def run(
    config: RunConfig,
    store: Store,
    *,
    watcher: Silent | None = None,
    bleu: Callable[[Model], float] | None = None,
) -> Silent:
    """Train on the CPU, optionally with another BLEU; the watcher of the run."""
    watcher, task = watcher or Silent(), task_of(config.model)
    task = scored_by(bleu, task) if bleu else task
    train(config, store, task, torch.device("cpu"), watcher=watcher)
    return watcher


def scored_by(bleu: Callable[[Model], float], task: Task) -> Task:
    """The same task with another BLEU in its validation."""
    scored = copy.copy(task)
    vars(scored)["scorer"] = lambda store, config: lambda model: {"bleu": bleu(model)}
    return scored


def new_folder(config: ModelConfig, store: Store) -> ModelFolder:
    """The description of a model that will be trained on a store."""
    return task_of(config).new_folder(config, store)


def begun_on(config: RunConfig, store: Store) -> tuple[ModelFolder, Model]:
    """The description and the weights of a run's model before its first update."""
    return begun(config, new_folder(config.model, store))


def validated(model: Model, store: Store, config: RunConfig) -> Validation:
    """The loss of a model on the validation part of a store."""
    task = task_of(config.model)
    batches = validation_batches(task.validation_data(store, config), config.data.batch_tokens)
    return task.validate(model, batches, config)


def wayward_bleu(model: Model) -> float:
    """A figure that rises and falls without reason, but is the same for the same weights."""
    return sum(float(weights.detach().double().sum()) for weights in model.parameters()) * 1e4 % 1


def write_model_folder(folder: Path, store: Store, **changes: Any) -> Path:
    """A model folder with random weights that end a sentence now and then."""
    torch.manual_seed(3)
    kind = changes.get("kind", "transformer")
    shape, _ = ARCHITECTURES[kind]
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    if issubclass(shape, LanguageConfig):
        layers = {"layers": 1}
    sizes = {**layers, "width": 32, "heads": 2, "feedforward_width": 48}
    config = build(shape, {**sizes, **changes})
    description = new_folder(config, store)
    write_tensors(folder / WEIGHTS, weights_of(description.model()), {})
    description.write(folder)
    return folder
