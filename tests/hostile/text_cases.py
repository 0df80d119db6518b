"""Unexpected text in files and on standard input."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

from hostile.cases import Case, command_runner
from hostile.sandbox import Sandbox
from hostile.scenarios import Scenario

_MEGABYTE = 1 << 20
Text = Callable[[bytes, random.Random], bytes]


def _inserted(what: bytes) -> Text:
    """Something in the middle of a line."""

    def apply_change(text: bytes, draw: random.Random) -> bytes:
        place = draw.randrange(len(text) + 1)
        return text[:place] + what + text[place:]

    return apply_change


def _line(what: bytes) -> Text:
    """Something as a line of its own, so that other lines stay; one line makes way for it."""

    def apply_change(text: bytes, draw: random.Random) -> bytes:
        lines = text.split(b"\n")
        lines[draw.randrange(max(1, len(lines) - 1))] = what
        return b"\n".join(lines)

    return apply_change


CHANGES: dict[str, Text] = {
    "empty": lambda text, draw: b"",
    "one newline": lambda text, draw: b"\n",
    "blank lines": lambda text, draw: b"\n" * 3000,
    "spaces": lambda text, draw: b"   \t \n" * 20,
    "no newline at the end": lambda text, draw: text.rstrip(b"\n"),
    "crlf": lambda text, draw: text.replace(b"\n", b"\r\n"),
    "cr": lambda text, draw: text.replace(b"\n", b"\r"),
    "bom": lambda text, draw: b"\xef\xbb\xbf" + text,
    "utf-16": lambda text, draw: text.decode().encode("utf-16"),
    "latin-1": _inserted("café".encode("latin-1")),
    "nul": _inserted(b"\0"),
    "only nul": lambda text, draw: bytes(1000),
    "bytes": lambda text, draw: draw.randbytes(3000),
    "surrogate": _inserted(b"\xed\xa0\x80"),
    "overlong": _inserted(b"\xc0\xaf"),
    "tabs": lambda text, draw: text.replace(b" ", b"\t"),
    "controls": _inserted(bytes(range(1, 32))),
    "separators": _inserted("\u2028\u2029\x85\x0b\x0c".encode()),
    "emoji": _line("👩‍👩‍👧‍👦🏳️‍🌈 🙂".encode() * 20),
    "right to left": _line("مرحبا \u202eabc\u202c עולם".encode()),
    "combining": _line(("a" + "\u0301" * 2000).encode()),
    "private use": _line("\ue000\ufffe\U0010ffff▁▁▁".encode()),
    "markup": _line(b"[bold]x[/] <s> </s> <pad> <unk> [MASK] ||| {} %s \\n"),
    "long line": _line(b"a" * _MEGABYTE),
    "long line of words": _line(b"a b " * (_MEGABYTE // 8)),
    "long line of 字": _line("字".encode() * 200_000),
    "many words": _line(b"a " * 3000),
    "one more line": lambda text, draw: text + b"a b\n",
    "one line less": lambda text, draw: b"\n".join(text.split(b"\n")[1:]),
    "numbers": lambda text, draw: b"".join(b"%d\n" % (10**n) for n in range(200)),
    "gzip": lambda text, draw: b"\x1f\x8b\x08\0" + text,
}


def text_cases(scenarios: list[Scenario]) -> Iterator[Case]:
    """Each text file of a scenario, with each change."""
    for scenario in scenarios:
        for name in dict.fromkeys(need for need in scenario.needs if need.startswith("text/")):
            if name.endswith(".gz"):
                continue
            for what in CHANGES:
                prepare = partial(_change, name=name, what=what)
                run = command_runner(scenario, prepare=prepare)
                yield Case(f"text/{scenario.name}/{name}/{what}", f"{scenario.name}/{name}", run)


def _change(sandbox: Sandbox, draw: random.Random, *, name: str, what: str) -> None:
    path = sandbox.folder / name
    path.write_bytes(CHANGES[what](path.read_bytes(), draw))
