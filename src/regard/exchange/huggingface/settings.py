"""Settings of models under HuggingFace's names, and what those settings cannot express.

Each kind of model has a table: our setting, what they call it, and their default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.config import Tree
from regard.layers.feedforward import Activation
from regard.models.folder import ModelFolder, Training
from regard.models.language import LanguageConfig
from regard.models.protocol import Vocabulary
from regard.models.stacks import BlockConfig
from regard.text.tokenizer import Tokenizers

Names = Mapping[str, tuple[str, Any]]
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


def defaults_of(names: Names) -> Tree:
    """Return the values of their settings where a file does not have them."""
    return dict(names.values())


def our_settings(theirs: Tree, names: Names) -> Tree:
    """Return our settings for theirs."""
    settings = {ours: theirs[name] for ours, (name, _) in names.items()}
    return settings | {"activation": ACTIVATIONS[settings["activation"]]}


def their_settings(config: BlockConfig, names: Names, model_type: str, architecture: str) -> Tree:
    """Return their settings for ours, with the type and the class of the model."""
    settings = {name: getattr(config, ours) for ours, (name, _) in names.items()}
    settings[names["activation"][0]] = THEIR_ACTIVATIONS[config.activation]
    epsilon, _ = names.get("norm_epsilon", (None, None))
    if epsilon is not None and settings[epsilon] is None:
        settings[epsilon] = _EPSILON
    head = {"architectures": [architecture], "model_type": model_type, "dtype": "float32"}
    return head | settings


def obstacles_in_theirs(config: Tree, names: Names, known: Sequence[str]) -> Iterator[str]:
    """Yield what no model of ours can have, for a model of one of the known classes."""
    if config.get("architectures") not in (None, *([name] for name in known)):
        yield f"architectures is {config['architectures']}; known: {', '.join(known)}"
    activation, heads, width = (names[ours][0] for ours in ("activation", "heads", "width"))
    if config[activation] not in ACTIVATIONS:
        yield f"{activation} is {config[activation]}; known: {', '.join(ACTIVATIONS)}"
    if config[width] % config[heads]:
        yield f"{heads} is {config[heads]}, which does not divide {width} {config[width]}"


def obstacles_in_ours(
    config: BlockConfig, scores: Sequence[str] = ("scaled_dot",), **wanted: Any
) -> Iterator[str]:
    """Yield what no model of theirs can have; wanted: the only value of a setting."""
    for name, only in {"norm": "layer", "feedforward": "linear", **wanted}.items():
        if getattr(config, name) != only:
            yield f"model.{name} is {getattr(config, name)}; it knows {only}"
    if config.attention.score not in scores:
        known = " and ".join(scores)
        yield f"model.attention.score is {config.attention.score}; it knows {known}"
    if config.attention.select != "soft":
        yield f"model.attention.select is {config.attention.select}; it knows soft"
    if config.key_width not in (None, config.width // config.heads):
        yield f"model.key_width is {config.key_width}; it knows keys as wide as values"


def description_of(
    config: LanguageConfig, tokenizers: Tokenizers, labels: Sequence[str] = (), texts: int = 1
) -> ModelFolder:
    """Return the description of an imported model of one language."""
    ids = tokenizers.target.vocab_size
    return ModelFolder(
        config,
        Vocabulary(ids, ids, labels=tuple(labels)),
        tokenizers,
        {"source": None, "target": None},
        Training(config.max_positions, several_sentences=1.0, texts=texts),
    )
