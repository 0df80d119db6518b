"""Conversions to CTranslate2 in the cache, and translation with them without PyTorch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.cache import cache_entries
from regard.data.store import Store
from regard.errors import ModelError
from regard.models.folder import WEIGHTS, ModelFolder, load_model, named_weights, write_tensors
from regard.pipelines.translator import Translator
from toys import write_model_folder

TEXTS = ["a b c", "d e", "", "f g h i"]


@pytest.fixture
def model(tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_model_folder(tmp_path / "model", reversal_store)


def load(model: Path, precision: str = "float32") -> Translator:
    return Translator.load(model, device="cpu", backend="ctranslate2", precision=precision)


def texts_of(translator: Translator) -> list[str]:
    return [translation.text for translation in translator.translate(TEXTS, retry=False)]


def change_weights(model: Path) -> None:
    """Double all weights, as further training would change them."""
    folder = ModelFolder.read(model)
    _, network = load_model(model, torch.device("cpu"), folder)
    weights = {name: 2 * tensor for name, tensor in named_weights(network).items()}
    write_tensors(model / WEIGHTS, weights, folder.weights_metadata())


def test_conversion_is_cached_by_content(model: Path, tmp_path: Path) -> None:
    first = texts_of(load(model))
    [entry] = cache_entries()
    modified = entry.stat().st_ino
    assert texts_of(load(model)) == first
    assert [path.stat().st_ino for path in cache_entries()] == [modified]
    shutil.copytree(model, tmp_path / "copy")
    assert texts_of(load(tmp_path / "copy")) == first
    assert len(cache_entries()) == 1  # a copy has the same entry
    load(model, "int8")
    assert len(cache_entries()) == 2
    change_weights(model)
    load(model)
    assert len(cache_entries()) == 3


def test_damaged_entries_are_converted_again(model: Path) -> None:
    first = texts_of(load(model))
    [entry] = cache_entries()
    data = bytearray((entry / "model.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (entry / "model.bin").write_bytes(data)
    assert texts_of(load(model)) == first
    [again] = cache_entries()
    assert (again / "model.bin").read_bytes() != bytes(data)


def test_damaged_weights_are_reported_although_a_conversion_is_cached(model: Path) -> None:
    load(model)
    (model / WEIGHTS).write_bytes((model / WEIGHTS).read_bytes()[:-10])
    with pytest.raises(ModelError):
        load(model)


def test_models_load_without_a_writable_cache(model: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert texts_of(load(model)) == texts_of(Translator.load(model, device="cpu", backend="torch"))


def test_cached_models_translate_without_pytorch(model: Path) -> None:
    load(model)
    program = (
        "import sys\n"
        "from regard.pipelines.translator import Translator\n"
        f"translator = Translator.load({str(model)!r}, device='cpu', backend='ctranslate2')\n"
        f"print([t.text for t in translator.translate({TEXTS!r}, retry=False)])\n"
        "print('torch' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    translations, imported = output.stdout.splitlines()
    assert translations == str(texts_of(load(model)))
    assert imported == "False"
