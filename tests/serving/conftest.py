"""Servers that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.serving.batcher import Batcher  # noqa: F401  # fails early without the extra
from serving_process import STORED, ServerProcess, model_with_languages


@pytest.fixture(scope="session")
def languages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of English to German and back, with random weights."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "ende": model_with_languages(folder / "ende", "en", "de"),
        "deen": model_with_languages(folder / "deen", "de", "en", "recurrent"),
    }


@pytest.fixture(scope="session")
def server(languages: dict[str, Path]) -> Iterator[ServerProcess]:
    """A server with a model of each task."""
    others = [STORED / kind for kind in ("causal", "masked", "tagger", "classifier")]
    with ServerProcess([*languages.values(), *others]) as server:
        yield server
