"""What another program needs: packages that are imported late, and models that it can express."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from regard.errors import ConfigError, ModelError, one_message
from regard.models.stacks import BlockConfig


def need(*names: str, extra: str) -> None:
    """Raise an error that says what to install if any of these packages is missing."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ConfigError(
            f"{' and '.join(missing)} {verb} needed for this, and not installed. "
            f"Install what belongs to it: pip install 'regard[{extra}]'"
        )


def unknown_settings(config: BlockConfig, known: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Yield each setting that is none of the known values of its dotted name."""
    for name, values in {"attention.select": ["soft"], **known}.items():
        value = attrgetter(name)(config)
        if value not in values:
            *first, last = map(str, values)
            listed = f"{', '.join(first)} and {last}" if first else last
            yield f"model.{name} is {value}; it knows {listed}"
    if config.key_width not in (None, config.width // config.heads):
        yield f"model.key_width is {config.key_width}; it knows keys as wide as values"


def refuse(obstacles: Iterable[str], heading: str) -> None:
    """Raise all obstacles at once, if there are any."""
    if problems := list(obstacles):
        raise ModelError(one_message(problems, heading))
