"""Settings of models under HuggingFace's names, and what those settings cannot express.

Each kind of model has a table: our setting, what they call it, and their default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.config import Tree
from regard.exchange.requirements import unknown_settings
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
# Of several names for one activation, the first.
THEIR_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
_EPSILON = 1e-5  # of our norms, where a setting is unset


@dataclass(frozen=True)
class SettingNames:
    """The settings of a kind of model: ours by what they call them, and what only theirs has."""

    shared: Mapping[str, tuple[str, Any]]  # ours: their name and default
    more: Tree  # further settings of theirs, with their defaults

    @property
    def defaults(self) -> Tree:
        """The values of their settings where a file does not have them."""
        return dict(self.shared.values()) | self.more

    def ours(self, theirs: Tree) -> Tree:
        """Return our settings for theirs."""
        settings = {ours: theirs[name] for ours, (name, _) in self.shared.items()}
        return settings | {"activation": ACTIVATIONS[settings["activation"]]}

    def theirs(self, config: BlockConfig, model_type: str, architecture: str) -> Tree:
        """Return their settings for ours, with the type and the class of the model."""
        settings = {name: getattr(config, ours) for ours, (name, _) in self.shared.items()}
        settings[self.shared["activation"][0]] = THEIR_ACTIVATIONS[config.activation]
        epsilon, _ = self.shared.get("norm_epsilon", (None, None))
        if epsilon is not None and settings[epsilon] is None:
            settings[epsilon] = _EPSILON
        head = {"architectures": [architecture], "model_type": model_type, "dtype": "float32"}
        return head | settings

    def obstacles(self, config: Tree, *known: str) -> Iterator[str]:
        """Yield what no model of ours can have, for a model of one of the known classes."""
        if config.get("architectures") not in (None, *([name] for name in known)):
            yield f"architectures is {config['architectures']}; known: {', '.join(known)}"
        activation, heads, width = (self.shared[x][0] for x in ("activation", "heads", "width"))
        if config[activation] not in ACTIVATIONS:
            yield f"{activation} is {config[activation]}; known: {', '.join(ACTIVATIONS)}"
        if config[width] % config[heads]:
            yield f"{heads} is {config[heads]}, which does not divide {width} {config[width]}"


def obstacles_in_ours(
    config: BlockConfig, scores: Sequence[str] = ("scaled_dot",), **wanted: Any
) -> Iterator[str]:
    """Yield what no model of theirs can have; wanted: the only value of a setting."""
    only = {"norm": "layer", "feedforward": "linear", **wanted}
    known = {name: [value] for name, value in only.items()}
    yield from unknown_settings(config, {**known, "attention.score": scores})
