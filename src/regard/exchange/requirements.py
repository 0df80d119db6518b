"""Checks before a conversion: optional packages and unsupported settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from regard.errors import ConfigError, ModelError, format_problems
from regard.models.stacks import BlockConfig


def require_packages(*names: str, extra: str) -> None:
    """Raise an error with an install command if any of these packages is missing."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ConfigError(
            f"{' and '.join(missing)} {verb} required, but not installed. "
            f"Install with: pip install 'regard[{extra}]'"
        )


def unsupported_settings(
    config: BlockConfig, supported: Mapping[str, Sequence[Any]]
) -> Iterator[str]:
    """Yield a problem for each setting, by dotted name, that has none of its supported values."""
    for name, values in {"attention.select": ["soft"], **supported}.items():
        value = attrgetter(name)(config)
        if value not in values:
            *first, last = map(str, values)
            listed = f"{', '.join(first)} and {last}" if first else last
            yield f"model.{name} is {value}; supported: {listed}"
    if config.key_dim not in (None, config.d_model // config.num_heads):
        yield f"model.key_dim is {config.key_dim}; supported: d_model / num_heads"


def raise_problems(problems: Iterable[str], heading: str) -> None:
    """Raise one error with all problems, if there are any."""
    if listed := list(problems):
        raise ModelError(format_problems(listed, heading))
