"""Packages that only an exchange needs: imported late, and missed with a remedy."""

from __future__ import annotations

from importlib.util import find_spec

from regard.errors import ConfigError


def need(*names: str, extra: str) -> None:
    """Say what to install if any of these packages is missing."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ConfigError(
            f"{' and '.join(missing)} {verb} needed for this, and not installed. "
            f"Install what belongs to it: pip install 'regard[{extra}]'"
        )
