"""Files of HuggingFace's folders, damaged: imported, or refused in a sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from exchange.languages import write_bert, write_gpt2
from exchange.marians import write_marian
from mutations import byte_mutations, json_mutations, outcomes, some
from regard.errors import ModelError
from regard.exchange.huggingface import import_folder

WRITERS: dict[str, Callable[[Path], Any]] = {
    "marian": write_marian,
    "gpt2": write_gpt2,
    "bert": write_bert,
}


@pytest.fixture(scope="module", params=WRITERS)
def theirs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs") / request.param
    folder.mkdir()
    WRITERS[request.param](folder)
    return folder


def test_any_folder_of_theirs_is_imported_or_refused(theirs: Path, tmp_path: Path) -> None:
    def read() -> None:
        shutil.rmtree(tmp_path / "ours", ignore_errors=True)
        import_folder(theirs, tmp_path / "ours")

    read()
    for path in sorted(theirs.glob("*.json")):
        text = path.read_text()
        if len(text) < 20_000:
            for _ in outcomes(path, some(json_mutations(text), 25), read):
                pass
        for _ in outcomes(path, byte_mutations(path.read_bytes(), 6), read):
            pass
    for path in [*theirs.glob("*.spm"), *theirs.glob("*.safetensors")]:
        for _ in outcomes(path, byte_mutations(path.read_bytes(), 8), read):
            pass


@pytest.mark.parametrize("name", ["../weights.safetensors", "/etc/passwd", "a/../../b", "", 3])
def test_shards_lie_in_the_folder(name: Any, tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs")
    weights = tmp_path / "theirs" / "model.safetensors"
    shutil.move(weights, tmp_path / "weights.safetensors")
    index = tmp_path / "theirs" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"wte.weight": name}}))
    with pytest.raises(ModelError, match=r"model\.safetensors\.index\.json"):
        import_folder(tmp_path / "theirs", tmp_path / "ours")
