"""Sizes that people ask for by name, each with the training that suits it."""

from __future__ import annotations

from typing import Any

Preset = dict[str, Any]
# What running text is trained with: no smoothing, since perplexity is what counts.
_TEXT: Preset = {
    "label_smoothing": 0.0,
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "schedule": "cosine",
    "checkpoint_every": 500,
}
# What labels are trained with: how many are right is what counts.
_LABELS: Preset = {**_TEXT, "warmup_steps": 300, "checkpoint_every": 250, "best_by": "accuracy"}
# Tens of thousands of pairs. Chosen on Multi30k (docs/log.md)
_FEW_PAIRS: Preset = {"learning_rate": 4e-3, "warmup_steps": 2000, "average_last": 5}


def _model(
    kind: str, width: int, heads: int, feedforward_width: int, dropout: float, **others: Any
) -> Preset:
    """A model of attention blocks, pre-norm unless others say so."""
    sizes = {"width": width, "heads": heads, "feedforward_width": feedforward_width}
    return {"kind": kind, **sizes, "dropout": dropout, "norm_order": "pre", **others}


def _both_stacks(layers: int) -> Preset:
    return {"encoder_layers": layers, "decoder_layers": layers}


def _tiny_text(
    kind: str, dropout: float, rate: float, warmup: int, steps: int, **others: Any
) -> Preset:
    """One stack that two CPU cores can train on a megabyte or so of running text, in minutes."""
    training = {**_TEXT, "learning_rate": rate, "warmup_steps": warmup, "max_steps": steps}
    return {
        "model": _model(kind, 128, 4, 512, dropout, layers=4, **others),
        "data": {"batch_tokens": 2048},
        "training": training,
    }


def _tiny_labels(kind: str, rate: float, steps: int, **others: Any) -> Preset:
    """The same for some ten thousand sentences or texts with labels."""
    return {
        "model": _model(kind, 128, 4, 256, 0.3, layers=2, positions="rotary", **others),
        "data": {"batch_tokens": 2048},
        "training": {**_LABELS, "learning_rate": rate, "max_steps": steps},
    }


_PAIRS: dict[str, Preset] = {
    # trains on two CPU cores
    "tiny": {
        "model": _model("transformer", 128, 4, 256, 0.3, **_both_stacks(4)),
        "training": _FEW_PAIRS,
    },
    # 100,000 to a million pairs; an hour on a small GPU
    "small": {
        "model": _model("transformer", 256, 4, 1024, 0.1, **_both_stacks(6)),
        "data": {"batch_tokens": 8192},
        "training": {"learning_rate": 1e-3, "warmup_steps": 2000},
    },
    # the paper's two models
    "base": {
        "model": _model("transformer", 512, 8, 2048, 0.1, norm_order="post"),
        "data": {"batch_tokens": 25000},
        "training": {"max_steps": 100_000, "warmup_steps": 4000},
    },
    "big": {
        "model": _model("transformer", 1024, 16, 4096, 0.3, norm_order="post"),
        "data": {"batch_tokens": 25000},
        "training": {"max_steps": 300_000, "warmup_steps": 4000},
    },
    # by what was before the Transformer
    "recurrent": {
        "model": {
            "kind": "recurrent",
            "width": 256,
            "layers": 2,
            "dropout": 0.3,
            "attention": {"score": "additive"},
        },
        "training": {**_FEW_PAIRS, "learning_rate": 2e-3, "warmup_steps": 500},
    },
    "convolutional": {
        "model": {
            "kind": "convolutional",
            "width": 256,
            "dropout": 0.2,
            "encoder_layers": 4,
            "decoder_layers": 3,
        },
        "training": {**_FEW_PAIRS, "learning_rate": 2e-3, "warmup_steps": 1000},
    },
    # all words at once, for text that a teacher wrote
    "ctc": {
        "model": {
            **_model("nonautoregressive", 128, 4, 512, 0.1, **_both_stacks(4)),
            "lengths": "ctc",
            "positional_attention": False,
        },
        "data": {"batch_tokens": 8192},
        "training": {
            **_FEW_PAIRS,
            "learning_rate": 3e-3,
            "glancing": 0.5,
            "label_smoothing": 0.01,
            "best_by": "bleu",
        },
    },
    # in one stack, which reads source and target as one row
    "unilm-tiny": {
        "model": _model("unilm", 128, 4, 256, 0.3, layers=8, positions="rotary"),
        "training": _FEW_PAIRS,
    },
}
_ROTARY_GPT: Preset = {"positions": "rotary", "activation": "gelu_tanh"}
_RUNNING_TEXT: dict[str, Preset] = {
    "gpt-tiny": _tiny_text("causal", 0.2, 3e-3, 200, 2000, max_positions=128, **_ROTARY_GPT),
    # some ten megabytes and more; an hour on a small GPU
    "gpt-small": {
        "model": _model("causal", 384, 6, 1536, 0.2, layers=6, max_positions=256, **_ROTARY_GPT),
        "data": {"batch_tokens": 16384},
        "training": {**_TEXT, "learning_rate": 1e-3, "warmup_steps": 500, "max_steps": 10_000},
    },
    # for words that are hidden
    "bert-tiny": _tiny_text(
        *("masked", 0.1, 2e-3, 300, 4000),
        **{**_ROTARY_GPT, "activation": "gelu"},
        max_positions=128,
    ),
    # in streams, with a memory
    "xl-tiny": _tiny_text(
        *("xl", 0.2, 3e-3, 200, 2000), max_positions=64, memory=64, activation="gelu_tanh"
    ),
    # for words in any order
    "xlnet-tiny": _tiny_text("permuted", 0.1, 2e-3, 300, 4000, max_positions=128, memory=64),
}
_LABELLED: dict[str, Preset] = {
    "tagger-tiny": _tiny_labels("tagger", 3e-3, 3000, feedforward="convolution"),
    "classifier-tiny": _tiny_labels("classifier", 1e-3, 5000),
}
PRESETS = {**_PAIRS, **_RUNNING_TEXT, **_LABELLED}


def names_of_presets() -> str:
    """All presets by what they read: "tiny, small; of running text: gpt-tiny"."""
    return (
        f"{', '.join(_PAIRS)}; of running text: {', '.join(_RUNNING_TEXT)}; of labels: "
        f"{', '.join(_LABELLED)}"
    )


# What suits a model that knows something already.
FINE_TUNING: Preset = {
    "training": {
        "learning_rate": 2e-4,
        "warmup_steps": 200,
        "max_steps": 2000,
        "checkpoint_every": 200,
    }
}
# What suits a new head on such a model.
FINE_TUNING_LABELS: Preset = {
    "data": {"batch_tokens": 2048},
    "training": {
        **_LABELS,
        **FINE_TUNING["training"],
        "weight_decay": 0.01,
        "schedule": "linear",
    },
}
# Adapters begin at nothing and are few: they take ten times the rate.
ADAPTING: Preset = {"training": {"learning_rate": 2e-3}}
