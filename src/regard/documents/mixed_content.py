"""Mixed content, text with elements in between, as text with numbered tags, and back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

from regard.documents.inline import InlineContent, nested_pairs
from regard.documents.xml_tree import Element


class Range(NamedTuple):
    """The start and the end of a range, which are elements of their own."""

    start: Element
    end: Element


class Repeatable(NamedTuple):
    """An element that stands for a character, and may be repeated."""

    element: Element


def add_mixed_content(
    content: InlineContent,
    container: Element,
    mark: Callable[[Element], tuple[str, bool] | None],
    add_child: Callable[[InlineContent, Element], None],
) -> None:
    """Add the text and the children of an element.

    `mark` is the name of a range and whether a child is its start, or None for other children.
    """
    children = [*container]
    ranges = nested_pairs([*map(mark, children)])
    ends = {end: start for start, end in ranges.items()}
    numbers: dict[int, int] = {}  # of open ranges, by the position of the start
    content.add_text(container.text or "")
    for position, child in enumerate(children):
        if position in ranges:
            numbers[position] = content.open(Range(child, children[ranges[position]]))
        elif position in ends:
            content.close(numbers.pop(ends[position]))
        else:
            add_child(content, child)
        content.add_text(child.tail or "")


def fill(element: Element, content: InlineContent, text: str) -> None:
    """Replace the content of an element by a text with the numbered tags of other content."""
    _clear(element)
    stack = [element]
    for event in content.events(text):
        item, parent = event.item, stack[-1]
        if event.kind == "text":
            _append_text(parent, event.text)
        elif isinstance(item, Range):
            _append(parent, item.start if event.kind == "open" else item.end)
        elif event.kind == "close":
            stack.pop()
        elif isinstance(item, Repeatable):
            _append(parent, deepcopy(item.element))
        else:
            _append(parent, item)
            if event.kind == "open":
                _clear(item)
                stack.append(item)


def _clear(element: Element) -> None:
    """Remove text and children."""
    element.text = None
    for child in [*element]:
        element.remove(child)


def _append(parent: Element, child: Element) -> None:
    child.tail = None
    parent.append(child)


def _append_text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text
