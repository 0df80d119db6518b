"""The settings of a whole run, and how they are put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from regard.bounds import COUNT, LAYERS, SEED, WEIGHT, Ge, Le, Lt
from regard.config import Doc, Settings, as_tree
from regard.data.loader import DataConfig
from regard.devices import Precision
from regard.layers.adapters import LoraConfig
from regard.models import SHAPES
from regard.models.base import ModelConfig
from regard.models.transformer import TransformerConfig
from regard.training.other_names import OTHER_NAMES
from regard.training.parts import Part

ScheduleName = Literal["inverse_sqrt", "cosine", "linear", "constant"]


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """How a model is trained."""

    seed: Annotated[int, Doc("same seed, same run"), Ge(0), SEED] = 1
    max_steps: Annotated[int, Doc("updates in all"), Ge(1), COUNT] = 20000
    accumulate: Annotated[int, Doc("batches in one update"), Ge(1), Le(100_000)] = 1
    optimizer: Annotated[Literal["adam", "adamw"], Doc("adamw decouples weight decay")] = "adam"
    learning_rate: Annotated[
        float | None,
        Doc("the peak; unset: the paper's (width * warmup_steps)^-0.5"),
        Ge(0),
        Le(100),
    ] = None
    schedule: Annotated[ScheduleName, Doc("what follows the linear warm-up")] = "inverse_sqrt"
    warmup_steps: Annotated[int, Doc("updates until the peak"), Ge(1), COUNT] = 4000
    decay_steps: Annotated[
        int, Doc("cosine, linear: updates until zero; 0: max_steps"), Ge(0), COUNT
    ] = 0
    beta1: Annotated[float, Doc("Adam's memory of gradients"), Ge(0), Lt(1)] = 0.9
    beta2: Annotated[float, Doc("Adam's memory of their squares"), Ge(0), Lt(1)] = 0.98
    epsilon: Annotated[float, Doc("Adam's guard against division by zero"), Ge(0), Le(1)] = 1e-9
    weight_decay: Annotated[
        float,
        Doc("pull of the matrices towards zero; norms and biases are left alone"),
        Ge(0),
        Le(100),
    ] = 0.0
    layer_decay: Annotated[
        float,
        Doc("a block's rate is that of the block above times this; embeddings are the lowest"),
        Ge(0),
        Le(1),
    ] = 1.0
    freeze: Annotated[tuple[Part, ...], Doc("parts of the model that do not learn")] = ()
    freeze_blocks: Annotated[
        int, Doc("so many first blocks of encoder and decoder do not learn"), Ge(0), LAYERS
    ] = 0
    lora: LoraConfig = field(default_factory=LoraConfig)
    clip_norm: Annotated[float, Doc("longest gradient; 0: any"), Ge(0), COUNT] = 1.0
    label_smoothing: Annotated[
        float, Doc("share of the target spread over all words"), Ge(0), Le(0.99)
    ] = 0.1
    r_drop: Annotated[
        float,
        Doc("weight of the divergence between two passes with unlike dropout; 0: one pass"),
        Ge(0),
        WEIGHT,
    ] = 0.0
    glancing: Annotated[
        float,
        Doc(
            "nonautoregressive: share of what a first pass has wrong that the second is shown, at "
            "first; 0: one pass"
        ),
        Ge(0),
        Le(1),
    ] = 0.0
    glancing_end: Annotated[
        float, Doc("the same at the last update; it changes evenly"), Ge(0), Le(1)
    ] = 0.3
    fertility_weight: Annotated[
        float, Doc("nonautoregressive: weight of the fertilities beside the words"), Ge(0), WEIGHT
    ] = 1.0
    next_sentence_weight: Annotated[
        float, Doc("masked: weight of the next-sentence objective beside the words"), Ge(0), WEIGHT
    ] = 1.0
    word_distillation: Annotated[
        float,
        Doc("share of the teacher's distributions (`regard distill --distributions`) in the loss"),
        Ge(0),
        Le(1),
    ] = 0.0
    teacher: Annotated[
        str | None, Doc("nonautoregressive: a model folder that judges what is written")
    ] = None
    teacher_weight: Annotated[
        float, Doc("share of its judgement in the loss, fertilities included"), Ge(0), Le(1)
    ] = 0.25
    ema_decay: Annotated[
        float,
        Doc("memory of a moving average of the weights, validated in their place; 0: none"),
        Ge(0),
        Le(0.999999),
    ] = 0.0
    precision: Annotated[
        Precision,
        Doc("of the products; auto: bfloat16 where it is faster, on a GPU and on newer CPUs"),
    ] = "auto"
    replay: Annotated[
        bool | None,
        Doc("record a GPU's work for each shape of batch and replay it; unset: where it pays"),
    ] = None
    compile: Annotated[
        bool, Doc("let PyTorch compile the blocks: half a minute at the start, faster from then on")
    ] = False
    checkpoint_every: Annotated[
        int, Doc("updates between checkpoints and validations"), Ge(1), COUNT
    ] = 1000
    keep_checkpoints: Annotated[int, Doc("how many of the last stay on disk"), Ge(1), COUNT] = 5
    average_last: Annotated[
        int, Doc("validate and publish the mean of so many last checkpoints"), Ge(1), Le(1000)
    ] = 1
    average_best: Annotated[
        int,
        Doc("publish the mean of so many checkpoints that validate best, each by itself"),
        Ge(1),
        Le(1000),
    ] = 1
    validate_bleu: Annotated[bool, Doc("also translate the validation set, greedily")] = True
    best_by: Annotated[
        str,
        Doc(
            "the validation metric that is to improve: loss, bleu (translation), accuracy (labels)"
        ),
    ] = "loss"
    patience: Annotated[
        int, Doc("stop after so many validations without improvement; 0: never"), Ge(0), COUNT
    ] = 0
    log_every: Annotated[int, Doc("updates between rows of metrics.jsonl"), Ge(1), COUNT] = 20
    tensorboard: Annotated[bool, Doc("write curves for TensorBoard too")] = True

    def problems(self) -> Iterator[str]:
        """What contradicts what."""
        if self.best_by == "bleu" and not self.validate_bleu:
            yield "best_by is bleu, which needs validate_bleu=true"
        if self.average_last > 1 and self.average_best > 1:
            yield "average_last and average_best are two ways to choose; set one of them to 1"
        if self.average_last > self.keep_checkpoints:
            yield (
                f"average_last is {self.average_last}, more than the keep_checkpoints "
                f"{self.keep_checkpoints} that stay on disk"
            )
        if self.lora.rank and (self.freeze or self.freeze_blocks):
            yield "lora.rank freezes all but adapters; leave out freeze and freeze_blocks"


@dataclass(frozen=True)
class RunConfig(Settings):
    """A recipe: what is read, what is trained, how, and where the result goes."""

    also_called: ClassVar = OTHER_NAMES

    out: Annotated[str, Doc("the run folder, relative to the working directory")]
    init_from: Annotated[
        str | None, Doc("a model folder to begin with, instead of random weights")
    ] = None
    data: DataConfig = field(default_factory=DataConfig)
    model: Annotated[ModelConfig, SHAPES] = field(default_factory=TransformerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def problems(self) -> Iterator[str]:
        """What contradicts what in any task; see also `Task.problems`."""
        model = as_tree(self.model)
        if self.training.lora.rank and self.init_from is None:
            yield (
                "training.lora.rank adapts a trained model; name it with --from, or `init_from` in "
                "a recipe"
            )
        if self.training.r_drop and not any(model[name] for name in model if "dropout" in name):
            yield (
                "training.r_drop compares two passes with unlike dropout, and no dropout of the "
                "model is above 0; set model.dropout, or training.r_drop=0"
            )


def origin_of(init_from: str, out: str) -> Path:
    """The model that a run begins with; once it is under way, its own folder will do."""
    origin, own = Path(init_from), Path(out)
    return own if not origin.exists() and any(own.glob("checkpoints/*")) else origin
