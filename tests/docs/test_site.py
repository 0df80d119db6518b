"""The documentation site: built strictly, readable and searchable without a network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generated import DOCS, ROOT

# What users of other toolkits search for
SEARCHES = ["label smoothing", "CUDA graphs", "beam search", "KV cache", "learning-rate schedule"]
SEARCHES += ["positional encoding", "DDP", "CTC loss"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    command += ["--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_site_has_all_pages(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    assert pages <= {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}


def test_site_needs_no_network(site: Path) -> None:
    resource = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")
    for page in site.rglob("*.html"):
        assert resource.findall(page.read_text(encoding="utf-8")) == []


def test_search_works_from_the_file_system(site: Path) -> None:
    assert "assets/iframe-worker.js" in (site / "index.html").read_text(encoding="utf-8")
    script = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    entries = json.loads(script.removeprefix("var __index = "))["docs"]
    texts = [entry["text"] for entry in entries if entry["location"].startswith("start/find.html")]
    assert all(entry["boost"] > 1 for entry in entries if entry["text"] in texts)
    for words in SEARCHES:
        assert any(words in text for text in texts), words
