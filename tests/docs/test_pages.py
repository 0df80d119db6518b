"""The worked pages: their code runs, and prints what they say that it prints."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from docs.generated import DOCS

# Each in all its languages.
PAGES = {
    name: [DOCS / "concepts" / name, DOCS / "zh" / name]
    for name in ("attention.md", "rnn-to-attention.md", "masks.md")
}
EXAMPLES = {"attention.md": 50, "rnn-to-attention.md": 20, "masks.md": 40}  # at least
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def code(page: Path) -> str:
    """All ```python blocks, one after the other; each line stays where it is."""
    text = page.read_text(encoding="utf-8")
    blocks = [match.span(1) for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]
    inside = [any(begin <= at < end for begin, end in blocks) for at in range(len(text))]
    return "".join(
        c if is_code or c == "\n" else "" for c, is_code in zip(text, inside, strict=True)
    )


@pytest.fixture
def page_state() -> Iterator[None]:
    """A page says how tensors are printed, and draws random numbers."""
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_printoptions(profile="default")


@pytest.mark.usefixtures("page_state")
@pytest.mark.parametrize("name", PAGES)
def test_code_prints_the_documented_output(name: str) -> None:
    page = PAGES[name][0]
    test = doctest.DocTestParser().get_doctest(code(page), {}, page.name, str(page), 0)
    assert len(test.examples) > EXAMPLES[name]
    output: list[str] = []
    results = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=output.append)
    assert results.failed == 0, "".join(output)


@pytest.mark.parametrize("name", PAGES)
def test_all_languages_have_the_same_code(name: str) -> None:
    first, *others = [code(page).split("\n") for page in PAGES[name]]
    for other in others:
        assert [line for line in other if line] == [line for line in first if line]


@pytest.mark.parametrize("page", PAGES["attention.md"], ids=lambda path: path.parent.name)
def test_generated_sections_have_markers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in ("variants", "lengths"):
        begin = f"<!-- {name}: made by benchmarks/{name}.py --write -->"
        assert text.count(begin) == text.count(f"<!-- /{name} -->") == 1
        assert text.index(begin) < text.index(f"<!-- /{name} -->")


def test_pictures_are_small_and_shown() -> None:
    name, readmes = "non-autoregressive.md", sorted(DOCS.parent.glob("README*.md"))
    everywhere = {**PAGES, name: sorted(DOCS.rglob(name)), "README": readmes}
    everywhere["serve.md"] = [DOCS / "guides" / "serve.md"]
    texts = {name: [page.read_text("utf-8") for page in everywhere[name]] for name in everywhere}
    pictures = sorted((DOCS / "pictures").glob("*.png"))
    assert 0 < len(pictures) <= 15
    for picture in pictures:
        assert picture.stat().st_size < 60_000
        is_shown = [
            all(f"pictures/{picture.name})" in text for text in texts[name]) for name in texts
        ]
        assert any(is_shown), picture
