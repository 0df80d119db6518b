"""CTranslate2 models: exported folders, and conversions of model folders in the cache.

This module does not import PyTorch, so that translation with them starts fast.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.backends.ctranslate2_backend import CTranslate2Backend
from regard.cache import add_entry, cached_entry
from regard.data.model_text import (
    CONFIG,
    ModelText,
    config_folder,
    read_description,
    weights_file,
)
from regard.decoding.runtime import Precision
from regard.errors import ConfigError, ModelError
from regard.exchange.ctranslate2_files import ctranslate2_folder
from regard.exchange.digests import verify_digests, write_digests
from regard.regular_files import file_digest, fingerprint
from regard.version import __version__

_KIND = "ctranslate2"  # of cache entries


def load_converted(
    path: Path, precision: str | None
) -> tuple[ModelText, CTranslate2Backend, str] | None:
    """An exported model, or one whose conversion is in the cache, and a notice with its name."""
    if not (path / CONFIG).is_file() and not (config_folder(path) / CONFIG).is_file():
        return None  # the caller explains what is wrong
    backend: CTranslate2Backend | None = None
    if ctranslate2_folder(path):
        text = ModelText.read(path)
        backend = load_exported(path, text, precision)
    elif precision in (None, "float32", "int8"):
        text = ModelText.read(path)
        backend = load_cached(path, text, "int8" if precision == "int8" else "float32")
    return None if backend is None else (text, backend, f"Backend: {backend}.")


def load_exported(path: Path, text: ModelText, precision: str | None) -> CTranslate2Backend:
    """A model that was exported to CTranslate2, in the precision of the export."""
    exported = ctranslate2_folder(path)
    assert exported is not None
    verify_digests(path)
    backend = CTranslate2Backend(exported, text.tokenizers)
    if precision not in (None, backend.precision):
        raise ConfigError(
            f"{path} was exported in {backend.precision}. Leave out --precision, or export it "
            f"again with --precision {precision}."
        )
    return backend


def load_cached(path: Path, text: ModelText, precision: Precision) -> CTranslate2Backend | None:
    """The conversion of a model folder in the cache; None if there is none, or it is damaged."""
    key = _cache_key(path, text, precision)
    entry = None if key is None else cached_entry(_KIND, key)
    if entry is None:
        return None
    try:
        verify_digests(entry)
        return CTranslate2Backend(entry, text.tokenizers, compute=precision)
    except ModelError:
        return None


def add_to_cache(
    path: Path, text: ModelText, precision: Precision, write: Callable[[Path], None]
) -> CTranslate2Backend | None:
    """Write the conversion of a model folder to the cache; None if that is impossible."""

    def write_with_digests(folder: Path) -> None:
        write(folder)
        write_digests(folder)

    key = _cache_key(path, text, precision)
    if key is None or add_entry(_KIND, key, write_with_digests) is None:
        return None
    return load_cached(path, text, precision)


def _cache_key(path: Path, text: ModelText, precision: str) -> str | None:
    """A fingerprint of model and versions; None for adapters, which depend on another model."""
    folder = config_folder(path)
    description, tree = read_description(folder)
    weights = weights_file(path)
    if description.adapter is not None or not weights.is_file():
        return None
    import ctranslate2

    versions = f"{__version__} {ctranslate2.__version__} {precision}"
    settings = repr(sorted(tree.items()))
    files = sorted(text.tokenizers.files().items())
    parts = [versions.encode(), settings.encode(), file_digest(weights).encode()]
    parts += [part for name, content in files for part in (name.encode(), content)]
    return fingerprint(parts)
