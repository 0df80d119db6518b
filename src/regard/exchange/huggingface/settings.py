"""Mapping of model settings to HuggingFace's, and unsupported settings.

Each kind of model has a table: regard's setting, HuggingFace's name, and HuggingFace's default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.config import Tree
from regard.exchange.requirements import unsupported_settings
from regard.layers.feedforward import Activation
from regard.models.stacks import BlockConfig

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
# The first of several names for an activation.
HF_ACTIVATIONS = {name: hf_name for hf_name, name in reversed(ACTIVATIONS.items())}
_NORM_EPS = 1e-5  # of norms whose norm_eps is None


@dataclass(frozen=True)
class SettingsMap:
    """The settings of a kind of model in HuggingFace."""

    shared: Mapping[str, tuple[str, Any]]  # HuggingFace's name and default by regard's name
    hf_only: Tree  # settings without an equivalent in regard, with their defaults

    @property
    def defaults(self) -> Tree:
        """HuggingFace's defaults of all settings."""
        return dict(self.shared.values()) | self.hf_only

    def from_hf(self, hf_config: Tree) -> Tree:
        """Convert HuggingFace's settings to regard's."""
        settings = {name: hf_config[hf_name] for name, (hf_name, _) in self.shared.items()}
        return settings | {"activation": ACTIVATIONS[settings["activation"]]}

    def to_hf(self, config: BlockConfig, model_type: str, architecture: str) -> Tree:
        """Convert regard's settings to HuggingFace's, with model_type and architectures."""
        settings = {hf_name: getattr(config, name) for name, (hf_name, _) in self.shared.items()}
        settings[self.shared["activation"][0]] = HF_ACTIVATIONS[config.activation]
        epsilon, _ = self.shared.get("norm_eps", (None, None))
        if epsilon is not None and settings[epsilon] is None:
            settings[epsilon] = _NORM_EPS
        head = {"architectures": [architecture], "model_type": model_type, "dtype": "float32"}
        return head | settings

    def import_problems(self, config: Tree, *known: str) -> Iterator[str]:
        """Yield unsupported settings; known: the supported model classes."""
        if config.get("architectures") not in (None, *([name] for name in known)):
            yield f"architectures is {config['architectures']}; supported: {', '.join(known)}"
        activation, heads, width = (
            self.shared[name][0] for name in ("activation", "num_heads", "d_model")
        )
        if config[activation] not in ACTIVATIONS:
            yield f"{activation} is {config[activation]}; supported: {', '.join(ACTIVATIONS)}"
        if config[width] % config[heads]:
            yield f"{heads} is {config[heads]}, which does not divide {width} {config[width]}"


def block_export_problems(
    config: BlockConfig, scores: Sequence[str] = ("scaled_dot",), **required: Any
) -> Iterator[str]:
    """Yield settings that HuggingFace does not support; required: the only value of a setting."""
    required = {"norm": "layer", "ffn_type": "linear", **required}
    supported = {name: [value] for name, value in required.items()}
    yield from unsupported_settings(config, {**supported, "attention.score": scores})
