"""Presets: model sizes by name, with suitable training settings."""

from __future__ import annotations

from typing import Any

Preset = dict[str, Any]
# For language models: no label smoothing, which would worsen the perplexity.
_TEXT: Preset = {
    "label_smoothing": 0.0,
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "schedule": "cosine",
    "checkpoint_every": 500,
}
# For tagging and classification.
_LABELS: Preset = {**_TEXT, "warmup_steps": 300, "checkpoint_every": 250, "best_metric": "accuracy"}
# For tens of thousands of pairs; tuned on Multi30k (docs/results/log.md).
_FEW_PAIRS: Preset = {"learning_rate": 4e-3, "warmup_steps": 2000, "average_last": 5}


def _model(
    kind: str, d_model: int, num_heads: int, ffn_dim: int, dropout: float, **settings: Any
) -> Preset:
    """Settings of a Transformer model, pre-norm by default."""
    sizes = {"d_model": d_model, "num_heads": num_heads, "ffn_dim": ffn_dim}
    return {"kind": kind, **sizes, "dropout": dropout, "norm_order": "pre", **settings}


def _both_stacks(layers: int) -> Preset:
    return {"num_encoder_layers": layers, "num_decoder_layers": layers}


def _tiny_text(
    kind: str, dropout: float, rate: float, warmup: int, steps: int, **settings: Any
) -> Preset:
    """A language model for about a megabyte of text, trained on two CPU cores in minutes."""
    training = {**_TEXT, "learning_rate": rate, "warmup_steps": warmup, "max_steps": steps}
    return {
        "model": _model(kind, 128, 4, 512, dropout, num_layers=4, **settings),
        "data": {"batch_tokens": 2048},
        "training": training,
    }


def _tiny_labels(kind: str, rate: float, steps: int, **settings: Any) -> Preset:
    """A labelling model for about ten thousand sentences or texts."""
    return {
        "model": _model(
            kind, 128, 4, 256, 0.3, num_layers=2, positional_encoding="rotary", **settings
        ),
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
    # the models of Vaswani et al. (2017)
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
    # architectures before the Transformer
    "recurrent": {
        "model": {
            "kind": "recurrent",
            "d_model": 256,
            "num_layers": 2,
            "dropout": 0.3,
            "attention": {"score": "additive"},
        },
        "training": {**_FEW_PAIRS, "learning_rate": 2e-3, "warmup_steps": 500},
    },
    "convolutional": {
        "model": {
            "kind": "convolutional",
            "d_model": 256,
            "dropout": 0.2,
            "num_encoder_layers": 4,
            "num_decoder_layers": 3,
        },
        "training": {**_FEW_PAIRS, "learning_rate": 2e-3, "warmup_steps": 1000},
    },
    # non-autoregressive, for distilled data
    "ctc": {
        "model": {
            **_model("nonautoregressive", 128, 4, 512, 0.1, **_both_stacks(4)),
            "length_prediction": "ctc",
            "positional_attention": False,
        },
        "data": {"batch_tokens": 8192},
        "training": {
            **_FEW_PAIRS,
            "learning_rate": 3e-3,
            "glancing": 0.5,
            "label_smoothing": 0.01,
            "best_metric": "bleu",
        },
    },
    # a single stack that reads source and target as one sequence
    "unilm-tiny": {
        "model": _model("unilm", 128, 4, 256, 0.3, num_layers=8, positional_encoding="rotary"),
        "training": _FEW_PAIRS,
    },
}
_ROTARY_GPT: Preset = {"positional_encoding": "rotary", "activation": "gelu_tanh"}
_PLAIN_TEXT: dict[str, Preset] = {
    "gpt-tiny": _tiny_text("causal", 0.2, 3e-3, 200, 2000, max_positions=128, **_ROTARY_GPT),
    # ten megabytes of text or more; an hour on a small GPU
    "gpt-small": {
        "model": _model(
            "causal", 384, 6, 1536, 0.2, num_layers=6, max_positions=256, **_ROTARY_GPT
        ),
        "data": {"batch_tokens": 16384},
        "training": {**_TEXT, "learning_rate": 1e-3, "warmup_steps": 500, "max_steps": 10_000},
    },
    # the smallest model of Radford et al. (2019), GPT-2; billions of tokens, days on a large GPU
    "gpt-base": {
        "model": _model(
            *("causal", 768, 12, 3072, 0.1),
            num_layers=12,
            max_positions=1024,
            positional_encoding="learned",
            activation="gelu_tanh",
        ),
        "data": {"batch_tokens": 65536},
        "training": {**_TEXT, "learning_rate": 6e-4, "warmup_steps": 2000, "max_steps": 100_000},
    },
    # masked language model
    "bert-tiny": _tiny_text(
        *("masked", 0.1, 2e-3, 300, 4000),
        **{**_ROTARY_GPT, "activation": "gelu"},
        max_positions=128,
    ),
    # Transformer-XL, with segment recurrence
    "xl-tiny": _tiny_text(
        *("xl", 0.2, 3e-3, 200, 2000), max_positions=64, memory_length=64, activation="gelu_tanh"
    ),
    # permutation language model
    "xlnet-tiny": _tiny_text("permuted", 0.1, 2e-3, 300, 4000, max_positions=128, memory_length=64),
}
_LABELLED: dict[str, Preset] = {
    "tagger-tiny": _tiny_labels("tagger", 3e-3, 3000, ffn_type="convolution"),
    "classifier-tiny": _tiny_labels("classifier", 1e-3, 5000),
}
PRESETS = {**_PAIRS, **_PLAIN_TEXT, **_LABELLED}


def format_preset_names() -> str:
    """The names of all presets by content: "tiny, small; for plain text: gpt-tiny"."""
    return (
        f"{', '.join(_PAIRS)}; for plain text: {', '.join(_PLAIN_TEXT)}; for labels: "
        f"{', '.join(_LABELLED)}"
    )


# For fine-tuning a trained model.
FINE_TUNING: Preset = {
    "training": {
        "learning_rate": 2e-4,
        "warmup_steps": 200,
        "max_steps": 2000,
        "checkpoint_every": 200,
    }
}
# For fine-tuning with a new head.
FINE_TUNING_LABELS: Preset = {
    "data": {"batch_tokens": 2048},
    "training": {
        **_LABELS,
        **FINE_TUNING["training"],
        "weight_decay": 0.01,
        "schedule": "linear",
    },
}
# LoRA adapters start at zero and have few weights: they need ten times the learning rate.
LORA_FINE_TUNING: Preset = {"training": {"learning_rate": 2e-3}}
