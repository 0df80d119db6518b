"""The settings of a training run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from regard.bounds import COUNT, LAYERS, SEED, WEIGHT, Ge, Le, Lt
from regard.config import Doc, Formerly, Settings
from regard.data.loader import DataConfig
from regard.devices import Precision
from regard.layers.adapters import LoraConfig
from regard.models import MODEL_CONFIGS
from regard.models.base import ModelConfig
from regard.models.transformer import TransformerConfig
from regard.settings_tree import to_tree
from regard.training.foreign_names import FOREIGN_NAMES
from regard.training.parameter_groups import Part
from regard.training.tracking_config import TrackingConfig

ScheduleName = Literal["inverse_sqrt", "cosine", "linear", "constant"]


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """Training: optimizer, learning rate, losses, checkpoints and validation."""

    seed: Annotated[
        int, Doc("random seed of initialization, dropout and data order"), Ge(0), SEED
    ] = 1
    max_steps: Annotated[int, Doc("number of updates"), Ge(1), COUNT] = 20000
    gradient_accumulation_steps: Annotated[
        int, Doc("batches per update"), Ge(1), Le(100_000), Formerly("accumulate")
    ] = 1
    optimizer: Annotated[
        Literal["adam", "adamw"], Doc("optimizer; adamw has decoupled weight decay")
    ] = "adam"
    learning_rate: Annotated[
        float | None,
        Doc("peak learning rate; default: (d_model * warmup_steps)^-0.5 (Vaswani et al., 2017)"),
        Ge(0),
        Le(100),
    ] = None
    schedule: Annotated[ScheduleName, Doc("learning rate schedule after linear warm-up")] = (
        "inverse_sqrt"
    )
    warmup_steps: Annotated[int, Doc("number of warm-up updates"), Ge(1), COUNT] = 4000
    decay_steps: Annotated[
        int,
        Doc("cosine, linear: update at which the learning rate reaches 0; 0: max_steps"),
        Ge(0),
        COUNT,
    ] = 0
    adam_beta1: Annotated[
        float, Doc("decay rate of Adam's first moment"), Ge(0), Lt(1), Formerly("beta1")
    ] = 0.9
    adam_beta2: Annotated[
        float, Doc("decay rate of Adam's second moment"), Ge(0), Lt(1), Formerly("beta2")
    ] = 0.98
    adam_epsilon: Annotated[
        float, Doc("epsilon of Adam, for numerical stability"), Ge(0), Le(1), Formerly("epsilon")
    ] = 1e-9
    weight_decay: Annotated[
        float,
        Doc("weight decay of matrices; norms and biases are exempt"),
        Ge(0),
        Le(100),
    ] = 0.0
    layer_decay: Annotated[
        float,
        Doc(
            "layer-wise learning rate decay: factor per layer, from the top down to the embeddings"
        ),
        Ge(0),
        Le(1),
    ] = 1.0
    freeze: Annotated[tuple[Part, ...], Doc("parts of the model to freeze")] = ()
    freeze_layers: Annotated[
        int,
        Doc("number of first layers of encoder and decoder to freeze"),
        Ge(0),
        LAYERS,
        Formerly("freeze_blocks"),
    ] = 0
    lora: LoraConfig = field(default_factory=LoraConfig)
    max_grad_norm: Annotated[
        float,
        Doc("maximum gradient norm; 0 disables clipping"),
        Ge(0),
        COUNT,
        Formerly("clip_norm"),
    ] = 1.0
    label_smoothing: Annotated[
        float, Doc("label smoothing: probability mass spread over all tokens"), Ge(0), Le(0.99)
    ] = 0.1
    r_drop: Annotated[
        float,
        Doc("weight of the R-Drop term, the KL divergence of two dropout passes; 0 disables it"),
        Ge(0),
        WEIGHT,
    ] = 0.0
    glancing: Annotated[
        float,
        Doc(
            "nonautoregressive: glancing ratio at the first update: target tokens revealed per "
            "wrong prediction; 0 disables glancing"
        ),
        Ge(0),
        Le(1),
    ] = 0.0
    glancing_end: Annotated[
        float, Doc("glancing ratio at the last update; linear in between"), Ge(0), Le(1)
    ] = 0.3
    fertility_weight: Annotated[
        float, Doc("nonautoregressive: weight of the fertility loss"), Ge(0), WEIGHT
    ] = 1.0
    next_sentence_weight: Annotated[
        float, Doc("masked: weight of the next-sentence loss"), Ge(0), WEIGHT
    ] = 1.0
    word_distillation: Annotated[
        float,
        Doc("weight of word-level distillation (`regard distill --distributions`) in the loss"),
        Ge(0),
        Le(1),
    ] = 0.0
    teacher: Annotated[
        str | None,
        Doc("nonautoregressive: model folder of an autoregressive teacher, which scores outputs"),
    ] = None
    teacher_weight: Annotated[
        float, Doc("weight of the teacher's risk in the loss"), Ge(0), Le(1)
    ] = 0.25
    ema_decay: Annotated[
        float,
        Doc(
            "decay of the exponential moving average of weights, which is validated; 0 disables it"
        ),
        Ge(0),
        Le(0.999999),
    ] = 0.0
    precision: Annotated[
        Precision,
        Doc("precision of matrix products; auto: bfloat16 on GPUs and on CPUs that support it"),
    ] = "auto"
    cuda_graphs: Annotated[
        bool | None,
        Doc("capture updates in CUDA graphs, one per batch shape; default: if supported"),
        Formerly("replay"),
    ] = None
    compile: Annotated[
        bool, Doc("compile the blocks with torch.compile; takes about half a minute")
    ] = False
    checkpoint_every: Annotated[
        int, Doc("updates between checkpoints and validations"), Ge(1), COUNT
    ] = 1000
    keep_checkpoints: Annotated[int, Doc("number of last checkpoints to keep"), Ge(1), COUNT] = 5
    average_last: Annotated[
        int, Doc("validate and export the average of this many last checkpoints"), Ge(1), Le(1000)
    ] = 1
    average_best: Annotated[
        int,
        Doc("export the average of this many checkpoints with the best validation metric"),
        Ge(1),
        Le(1000),
    ] = 1
    validate_bleu: Annotated[
        bool, Doc("compute BLEU on the validation set, with greedy search")
    ] = True
    best_metric: Annotated[
        str,
        Doc("validation metric of the best model: loss, bleu (translation), accuracy (labels)"),
        Formerly("best_by"),
    ] = "loss"
    patience: Annotated[
        int,
        Doc("validations without improvement until early stopping; 0 disables it"),
        Ge(0),
        COUNT,
    ] = 0
    log_every: Annotated[
        int, Doc("updates between rows of the metrics log (metrics.jsonl)"), Ge(1), COUNT
    ] = 20
    tensorboard: Annotated[bool, Doc("write TensorBoard logs")] = True

    def problems(self) -> Iterator[str]:
        """Contradictions between training settings."""
        if self.best_metric == "bleu" and not self.validate_bleu:
            yield "best_metric is bleu, which requires validate_bleu=true"
        if self.average_last > 1 and self.average_best > 1:
            yield "average_last and average_best are mutually exclusive; set one of them to 1"
        if self.average_last > self.keep_checkpoints:
            yield (
                f"average_last is {self.average_last}, but must be at most keep_checkpoints "
                f"({self.keep_checkpoints})"
            )
        if self.lora.rank and (self.freeze or self.freeze_layers):
            yield "lora.rank freezes all weights but adapters; leave out freeze and freeze_layers"


@dataclass(frozen=True)
class RunConfig(Settings):
    """The settings of a run: data, model, training and output folder."""

    foreign_names: ClassVar = FOREIGN_NAMES

    out: Annotated[str, Doc("run folder, relative to the working directory")]
    init_from: Annotated[
        str | None, Doc("model folder for initialization (fine-tuning); default: random weights")
    ] = None
    data: DataConfig = field(default_factory=DataConfig)
    model: Annotated[ModelConfig, MODEL_CONFIGS] = field(default_factory=TransformerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)

    def problems(self) -> Iterator[str]:
        """Contradictions between settings in any task; see also `Task.problems`."""
        model = to_tree(self.model)
        if self.training.lora.rank and self.init_from is None:
            yield (
                "training.lora.rank requires a base model; use --from, or `init_from` in a recipe"
            )
        if self.training.r_drop and not any(model[name] for name in model if "dropout" in name):
            yield (
                "training.r_drop requires dropout, and all dropouts of the model are 0; set "
                "model.dropout, or training.r_drop=0"
            )


def base_model_path(init_from: str, out: str) -> Path:
    """The base model of a run; the run folder if it is resumed and the base model is missing."""
    base, run = Path(init_from), Path(out)
    return run if not base.exists() and any(run.glob("checkpoints/*")) else base
