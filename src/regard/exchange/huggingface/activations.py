"""What activations are called here and there."""

from __future__ import annotations

from regard.layers.feedforward import Activation

OURS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "silu": "silu",
    "swish": "silu",
}
THEIRS: dict[Activation, str] = {"relu": "relu", "gelu": "gelu", "silu": "silu"}
