"""The programs of docs/guides/python.md that use trained models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import regard
from docs.generated import DOCS
from labelled import write_labelled_store, write_tagged_store
from regard.data.store import Store
from regard.errors import ConfigError
from regard.pipelines.translator import Translator
from toys import write_model_folder, write_text_store


@pytest.fixture
def runs(tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models with random weights, where the guide has its own."""
    text = write_text_store(tmp_path)
    for name in ("ende", "seed1", "seed2"):
        write_model_folder(tmp_path / "runs" / name, reversal_store)
    for name, kind in (("gpt", "causal"), ("bert", "masked")):
        write_model_folder(tmp_path / "runs" / name, text, kind=kind)
    labels = {"tagger": write_tagged_store, "classifier": write_labelled_store}
    for kind, write in labels.items():
        (tmp_path / kind).mkdir()
        write_model_folder(tmp_path / "runs" / kind, write(tmp_path / kind), kind=kind)
    (tmp_path / "test.en").write_text("a b c\n\nd e\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


@pytest.mark.usefixtures("runs")
def test_from_python(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "guides" / "python.md").read_text(encoding="utf-8")
    section = page.split("## Pipelines of trained models\n")[1]
    programs = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    names: dict[str, Any] = {}
    for program in programs:
        exec(program, names)
    assert len(programs) == 3
    assert len(names["best"].alternatives) == 2
    assert names["best"].attention.cross.ndim == 4
    assert names["result"].prompt == "In the beginning"
    assert capsys.readouterr().out
    assert "[MASK]" not in names["filled"].best
    assert len(names["filled"].blanks[0]) == 5
    assert len(names["vectors"]) == 2


def test_language_model_is_not_loaded_as_translator(runs: Path) -> None:
    for name, task in (("gpt", "language modeling"), ("tagger", "tagging")):
        message = f"a model for {task} .* does not translate.*regard.load.* generate, .* tag"
        with pytest.raises(ConfigError, match=message):
            Translator.load(runs / name)


def test_package_exports_the_public_api() -> None:
    pipelines = {"Classifier", "Embedder", "Generator", "MaskFiller", "Tagger", "Translator"}
    functions = {"load", "prepare", "register_model", "register_task", "train", "tune"}
    others = {"RegardError", "Run", "TuningResult", "__version__", "attention", "models", "tasks"}
    assert {*dir(regard)} == pipelines | functions | others
