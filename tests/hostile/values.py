"""Values of options, settings and paths: at bounds, beyond them, and of other types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NOT_UTF8 = "caf\udce9"  # the byte E9, as Python decodes it
WHOLE_NUMBERS = (
    *("0", "1", "2", "3", "-1", "7", "1000", "10000", "1000000", "1000000000"),
    *(str(10**18), str(2**31), str(2**63 - 1), str(2**63), str(2**64), str(2**70), str(-(2**70))),
    *("1" * 5000, "1.5", "1e3", "0x10", "1_000", " 3", "३", "nan", "inf", "x", "", "true", "none"),
)
NUMBERS = (
    *("0", "-0.0", "0.5", "1", "-1", "2.5", "1000", "1e9", "1e18", "1e300", "1e-300", "1e309"),
    *("inf", "-inf", "nan", "1,5", "1_0", "x", "", "0x10", "true", "none", "1" * 400),
)
TEXTS = (
    *("", " ", "-", "--", "x", "0", "None", "auto", "cpu", "../x", "a\nb", "\t", "é", "字", "🙂"),
    *(
        "a" * 10_000,
        _NOT_UTF8,
        "%s",
        "{}",
        "$HOME",
        "\x1b[31m",
        "[bold]",
        "\u202e",
        "a,b",
        ",",
        "=",
    ),
)
CHOICES = ("", "X", "torch", "ctranslate2", "float64", "int8", "cuda:99", "cuda", "mps", "json")
PATHS = (
    *("", ".", "..", "/", "nowhere", "nowhere/below", "/dev/null", "/dev/full", "/dev/stdin"),
    *("/proc/self/mem", "/etc/passwd/x", "a" * 250, "a" * 5000, "b/" * 3000, _NOT_UTF8, "a\nb"),
    *(" ", "-", "字/é", "~/x", "x" * 200 + "/y", "folder", "file", "loop", "dangling", "private"),
)


def around(low: float | None, high: float | None, *, whole: bool) -> Iterable[str]:
    """Values at two bounds, and just inside and outside of them."""
    for bound in (low, high):
        if bound is None:
            continue
        step: float = 1 if whole else max(abs(bound), 1) * 1e-6
        for value in (bound - step, bound, bound + step):
            yield str(int(value)) if whole else repr(float(value))


def settings_of(kind: Any, low: float | None, high: float | None) -> Iterable[str]:
    """Values of a setting of a type, as TOML or invalid TOML."""
    if kind is int:
        return (*around(low, high, whole=True), *WHOLE_NUMBERS)
    if kind is float:
        return (*around(low, high, whole=False), *NUMBERS)
    if kind is bool:
        return ("true", "false", "1", "0", "yes", '"true"', "", "none", "[true]")
    others = ("[]", "{}", "[[1]]", "1979-05-27", '"unfinished', "[1, 'x']", "[1e309]", "[-1]")
    return (*others, "[1000000000000]", *TEXTS)
