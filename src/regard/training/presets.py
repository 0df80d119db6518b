"""Sizes that people ask for by name, each with the training that suits it."""

from __future__ import annotations

from typing import Any

# What running text is trained with: no smoothing, since perplexity is what counts.
_TEXT: dict[str, Any] = {
    "label_smoothing": 0.0,
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "schedule": "cosine",
    "checkpoint_every": 500,
}
# What labels are trained with: how many are right is what counts.
_LABELS: dict[str, Any] = {
    "label_smoothing": 0.0,
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "schedule": "cosine",
    "warmup_steps": 300,
    "checkpoint_every": 250,
    "best_by": "accuracy",
}
# One stack that two CPU cores can train.
_TINY_STACK: dict[str, Any] = {
    "layers": 4,
    "width": 128,
    "heads": 4,
    "feedforward_width": 512,
    "norm_order": "pre",
}
_PAIRS: dict[str, dict[str, Any]] = {
    # tens of thousands of pairs; trains on two CPU cores. Chosen on Multi30k (docs/log.md)
    "tiny": {
        "model": {
            "kind": "transformer",
            "encoder_layers": 4,
            "decoder_layers": 4,
            "width": 128,
            "heads": 4,
            "feedforward_width": 256,
            "dropout": 0.3,
            "norm_order": "pre",
        },
        "training": {"learning_rate": 4e-3, "warmup_steps": 2000, "average_last": 5},
    },
    # 100,000 to a million pairs; an hour on a small GPU
    "small": {
        "model": {
            "kind": "transformer",
            "encoder_layers": 6,
            "decoder_layers": 6,
            "width": 256,
            "heads": 4,
            "feedforward_width": 1024,
            "dropout": 0.1,
            "norm_order": "pre",
        },
        "data": {"batch_tokens": 8192},
        "training": {"learning_rate": 1e-3, "warmup_steps": 2000},
    },
    # the paper's two models
    "base": {
        "model": {
            "kind": "transformer",
            "width": 512,
            "heads": 8,
            "feedforward_width": 2048,
            "dropout": 0.1,
        },
        "data": {"batch_tokens": 25000},
        "training": {"max_steps": 100_000, "warmup_steps": 4000},
    },
    "big": {
        "model": {
            "kind": "transformer",
            "width": 1024,
            "heads": 16,
            "feedforward_width": 4096,
            "dropout": 0.3,
        },
        "data": {"batch_tokens": 25000},
        "training": {"max_steps": 300_000, "warmup_steps": 4000},
    },
    # tens of thousands of pairs, as tiny, by what was before the Transformer
    "recurrent": {
        "model": {
            "kind": "recurrent",
            "width": 256,
            "layers": 2,
            "dropout": 0.3,
            "attention": {"score": "additive"},
        },
        "training": {"learning_rate": 2e-3, "warmup_steps": 500, "average_last": 5},
    },
    "convolutional": {
        "model": {
            "kind": "convolutional",
            "encoder_layers": 4,
            "decoder_layers": 3,
            "width": 256,
            "dropout": 0.2,
        },
        "training": {"learning_rate": 2e-3, "warmup_steps": 1000, "average_last": 5},
    },
    # the same, all words at once, for text that a teacher wrote
    "ctc": {
        "model": {
            "kind": "nonautoregressive",
            "lengths": "ctc",
            "encoder_layers": 4,
            "decoder_layers": 4,
            "width": 128,
            "heads": 4,
            "feedforward_width": 512,
            "dropout": 0.1,
            "norm_order": "pre",
            "positional_attention": False,
        },
        "data": {"batch_tokens": 8192},
        "training": {
            "learning_rate": 3e-3,
            "warmup_steps": 2000,
            "average_last": 5,
            "glancing": 0.5,
            "label_smoothing": 0.01,
            "best_by": "bleu",
        },
    },
    # the same in one stack, which reads source and target as one row
    "unilm-tiny": {
        "model": {
            "kind": "unilm",
            "layers": 8,
            "width": 128,
            "heads": 4,
            "feedforward_width": 256,
            "dropout": 0.3,
            "norm_order": "pre",
            "positions": "rotary",
        },
        "training": {"learning_rate": 4e-3, "warmup_steps": 2000, "average_last": 5},
    },
}
_RUNNING_TEXT: dict[str, dict[str, Any]] = {
    # running text: a megabyte or so, in minutes on two CPU cores
    "gpt-tiny": {
        "model": {
            "kind": "causal",
            **_TINY_STACK,
            "dropout": 0.2,
            "positions": "rotary",
            "activation": "gelu_tanh",
            "max_positions": 128,
        },
        "data": {"batch_tokens": 2048},
        "training": {**_TEXT, "learning_rate": 3e-3, "warmup_steps": 200, "max_steps": 2000},
    },
    # some ten megabytes and more; an hour on a small GPU
    "gpt-small": {
        "model": {
            "kind": "causal",
            "layers": 6,
            "width": 384,
            "heads": 6,
            "feedforward_width": 1536,
            "dropout": 0.2,
            "norm_order": "pre",
            "positions": "rotary",
            "activation": "gelu_tanh",
            "max_positions": 256,
        },
        "data": {"batch_tokens": 16384},
        "training": {**_TEXT, "learning_rate": 1e-3, "warmup_steps": 500, "max_steps": 10_000},
    },
    # the same text, for words that are hidden
    "bert-tiny": {
        "model": {
            "kind": "masked",
            **_TINY_STACK,
            "dropout": 0.1,
            "positions": "rotary",
            "activation": "gelu",
            "max_positions": 128,
        },
        "data": {"batch_tokens": 2048},
        "training": {**_TEXT, "learning_rate": 2e-3, "warmup_steps": 300, "max_steps": 4000},
    },
    # the same text in streams, with a memory
    "xl-tiny": {
        "model": {
            "kind": "xl",
            **_TINY_STACK,
            "dropout": 0.2,
            "activation": "gelu_tanh",
            "max_positions": 64,
            "memory": 64,
        },
        "data": {"batch_tokens": 2048},
        "training": {**_TEXT, "learning_rate": 3e-3, "warmup_steps": 200, "max_steps": 2000},
    },
    # the same for words in any order
    "xlnet-tiny": {
        "model": {
            "kind": "permuted",
            **_TINY_STACK,
            "dropout": 0.1,
            "max_positions": 128,
            "memory": 64,
        },
        "data": {"batch_tokens": 2048},
        "training": {**_TEXT, "learning_rate": 2e-3, "warmup_steps": 300, "max_steps": 4000},
    },
}
_LABELLED: dict[str, dict[str, Any]] = {
    # words with labels, some ten thousand sentences; minutes on two CPU cores
    "tagger-tiny": {
        "model": {
            "kind": "tagger",
            **_TINY_STACK,
            "layers": 2,
            "feedforward": "convolution",
            "feedforward_width": 256,
            "dropout": 0.3,
            "positions": "rotary",
        },
        "data": {"batch_tokens": 2048},
        "training": {**_LABELS, "learning_rate": 3e-3, "max_steps": 3000},
    },
    # texts with labels
    "classifier-tiny": {
        "model": {
            "kind": "classifier",
            **_TINY_STACK,
            "layers": 2,
            "feedforward_width": 256,
            "dropout": 0.3,
            "positions": "rotary",
        },
        "data": {"batch_tokens": 2048},
        "training": {**_LABELS, "learning_rate": 1e-3, "max_steps": 5000},
    },
}
PRESETS = {**_PAIRS, **_RUNNING_TEXT, **_LABELLED}


def names_of_presets() -> str:
    """All presets by what they read: "tiny, small; of running text: gpt-tiny"."""
    return (
        f"{', '.join(_PAIRS)}; of running text: {', '.join(_RUNNING_TEXT)}; of labels: "
        f"{', '.join(_LABELLED)}"
    )


# What suits a model that knows something already.
FINE_TUNING: dict[str, Any] = {
    "training": {
        "learning_rate": 2e-4,
        "warmup_steps": 200,
        "max_steps": 2000,
        "checkpoint_every": 200,
    }
}
# What suits a new head on such a model.
FINE_TUNING_LABELS: dict[str, Any] = {
    "data": {"batch_tokens": 2048},
    "training": {
        **_LABELS,
        **FINE_TUNING["training"],
        "weight_decay": 0.01,
        "schedule": "linear",
    },
}
# Adapters begin at nothing and are few: they take ten times the rate.
ADAPTING: dict[str, Any] = {"training": {"learning_rate": 2e-3}}
