"""Damaged files of HuggingFace folders: imported, or refused with an error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from exchange.language_models import write_bert, write_gpt2
from exchange.marian_models import write_marian
from mutations import byte_mutations, json_mutations, outcomes, some
from regard.errors import ModelError
from regard.exchange.huggingface import import_folder

WRITERS: dict[str, Callable[[Path], Any]] = {
    "marian": write_marian,
    "gpt2": write_gpt2,
    "bert": write_bert,
}


@pytest.fixture(scope="module", params=WRITERS)
def hf_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf") / request.param
    folder.mkdir()
    WRITERS[request.param](folder)
    return folder


def test_damaged_files_are_imported_or_refused(hf_folder: Path, tmp_path: Path) -> None:
    def read() -> None:
        shutil.rmtree(tmp_path / "regard", ignore_errors=True)
        import_folder(hf_folder, tmp_path / "regard")

    read()
    for path in sorted(hf_folder.glob("*.json")):
        text = path.read_text()
        if len(text) < 20_000:
            for _ in outcomes(path, some(json_mutations(text), 25), read):
                pass
        for _ in outcomes(path, byte_mutations(path.read_bytes(), 6), read):
            pass
    for path in [*hf_folder.glob("*.spm"), *hf_folder.glob("*.safetensors")]:
        for _ in outcomes(path, byte_mutations(path.read_bytes(), 8), read):
            pass


@pytest.mark.parametrize("name", ["../weights.safetensors", "/etc/passwd", "a/../../b", "", 3])
def test_shards_outside_the_folder_are_refused(name: Any, tmp_path: Path) -> None:
    write_gpt2(tmp_path / "hf")
    weights = tmp_path / "hf" / "model.safetensors"
    shutil.move(weights, tmp_path / "weights.safetensors")
    index = tmp_path / "hf" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"wte.weight": name}}))
    with pytest.raises(ModelError, match=r"model\.safetensors\.index\.json"):
        import_folder(tmp_path / "hf", tmp_path / "regard")
