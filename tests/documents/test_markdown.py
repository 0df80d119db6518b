"""Markdown documents."""

from __future__ import annotations

from documents.samples import MARKDOWN
from documents.translations import document_of, reverse, translated


def test_text_is_translated_and_all_else_is_copied() -> None:
    expected = (
        MARKDOWN.replace("A *big* dog", "A *BIG* DOG")
        .replace("See [the cat][1] and", "SEE [THE CAT][1] AND")
        .replace("- one dog\n- two dogs", "- ONE DOG\n- TWO DOGS")
        .replace("a dog |", "A DOG |")
        .replace("| cell | x |", "| CELL | X |")
    )
    assert translated(MARKDOWN, "md").decode() == expected


def test_links_depend_on_definitions_elsewhere() -> None:
    source = "See [the cat][1] here.\n\n[1]: x\n"
    assert translated(source, "md", reverse).decode() == "HERE. [CAT THE][1] SEE\n\n[1]: x\n"
    source = "See [the cat] here.\n\n[the cat]: x\n"  # the text is the label
    assert translated(source, "md", reverse).decode() == "HERE. [the cat] SEE\n\n[the cat]: x\n"


def test_lines_are_numbered() -> None:
    document = document_of(MARKDOWN, "md")
    lines = MARKDOWN.splitlines()
    assert [text.text.split()[0] in lines[text.number - 1] for text in document.texts] == [True] * 7
