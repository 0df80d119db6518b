"""Random translations of blocks, and the checks that hold for all of them."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

from regard.markup.block import Block
from regard.markup.restore import restore

TAG = re.compile(r"<!--.*?-->|<[^>]*>", re.DOTALL)


def tags(text: str) -> Counter[str]:
    """How often each tag and comment occurs."""
    return Counter(TAG.findall(text))


def source_of(parts: Sequence[str | Block]) -> str:
    """The text that was parsed."""
    return "".join(part if isinstance(part, str) else part.raw for part in parts)


def blocks_of(parts: Sequence[str | Block]) -> list[Block]:
    return [part for part in parts if isinstance(part, Block)]


def copy_words(parts: Sequence[str | Block], *, uppercase: bool = True) -> str:
    """Each block translated to its own words in uppercase, aligned to their sources."""
    result = ""
    for part in parts:
        if isinstance(part, str):
            result += part
            continue
        translation = part.text.upper() if uppercase else part.text
        assert len(translation) == len(part.text)
        result += restore(part, translation, [(i, i) for i in range(len(translation))])
    return result


def reverse_words(parts: Sequence[str | Block]) -> str:
    """Each block translated to its words in uppercase and reverse order."""
    result = ""
    for part in parts:
        if isinstance(part, str):
            result += part
            continue
        places = [match.start() for match in re.finditer(r"\S+", part.text)]
        words = part.text.upper().split(" ")
        order = [*range(len(words))][::-1]
        starts, translation = [], ""
        for index in order:
            starts.append(len(translation))
            translation += words[index] + " "
        links = [(start, places[index]) for start, index in zip(starts, order, strict=True)]
        result += restore(part, translation[:-1], links)
    return result


def translate_at_random(parts: Sequence[str | Block], draw: random.Random) -> str:
    """Some words of each block in any order, with new words, and any alignment."""
    result = ""
    for part in parts:
        if isinstance(part, str):
            result += part
            continue
        words = [*part.text.split(" "), "new<&", "*und*"]
        draw.shuffle(words)
        translation = " ".join(words[: draw.randint(0, len(words))])
        links = [
            (draw.randrange(len(translation)), draw.randrange(len(part.text)))
            for _ in range(draw.randint(0, 9) if translation else 0)
        ]
        result += restore(part, translation, links)
    return result
