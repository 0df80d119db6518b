"""benchmarks/search_quality.py compares searches and writes a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import search_quality
from regard.data.store import Store
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import TextConfig
from runner import read_results
from toys import write_model_folder


def with_languages(folder: Path, source: str, target: str) -> Path:
    path = folder / "config.json"
    languages = {"source": source, "target": target}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"languages": languages}))
    return folder


@pytest.mark.parametrize("method", search_quality.METHODS, ids=lambda method: method.name)
def test_settings_are_valid(method: search_quality.Method) -> None:
    for alternative in method.alternatives:
        settings: dict[str, Any] = {**method.settings, **alternative}
        fields = set(TextConfig.__dataclass_fields__)
        TextConfig(**{name: value for name, value in settings.items() if name in fields})
        rest = {name: value for name, value in settings.items() if name not in fields}
        SearchConfig(**rest)


def test_searches_are_compared_with_the_baseline(reversal_store: Store, tmp_path: Path) -> None:
    model = with_languages(write_model_folder(tmp_path / "model", reversal_store), "xx", "yy")
    reverse = with_languages(write_model_folder(tmp_path / "reverse", reversal_store), "yy", "xx")
    (tmp_path / "source").write_text("a b c\nd e\nf g h i\n")
    (tmp_path / "reference").write_text("c b a\ne d\ni h g f\n")
    sides = ("source", "reference", "valid-source", "valid-reference")
    files = [
        part
        for side in sides
        for part in (f"--{side}", str(tmp_path / side.removeprefix("valid-")))
    ]
    results = tmp_path / "results.json"
    search_quality.main(
        [
            *[str(model), "--corpus", "letters", *files, "--results", str(results)],
            *["--reverse", str(reverse), "--ensemble", str(model), "--methods"],
            *["MBR chrF, 20 diverse beams", "reranking by reverse direction"],
            *["reranking by language model", "ensemble, beam 4"],
        ]
    )
    rows = {row["method"]: row for row in read_results(results)}
    assert set(rows) == {
        *("beam 4", "MBR chrF, 20 diverse beams"),
        *("reranking by reverse direction", "ensemble, beam 4"),
    }
    assert set(rows["beam 4"]["p_values"].values()) == {1.0}
    assert rows["ensemble, beam 4"]["scores"] == rows["beam 4"]["scores"]  # of the same model
    assert rows["ensemble, beam 4"]["models"] == 2
    assert rows["MBR chrF, 20 diverse beams"]["chosen"]["beam_groups"] in (5, 10)
    assert len(rows["reranking by reverse direction"]["chosen"]["rerank_weight"]) == 1
    lines = search_quality.table([*rows.values()]).splitlines()
    assert lines[0] == "#### letters"
    assert lines[4].startswith("| beam 4 | ")
    assert "| weights " in lines[6]
    assert lines[7].startswith("| ensemble, beam 4 (2 models) | ")
