"""Settings of protected spans: wrong ones are explained together."""

from __future__ import annotations

from typing import Any

import pytest

from regard.config import build
from regard.decoding.protection_config import Protected, ProtectionConfig
from regard.decoding.text_config import TextConfig
from regard.errors import ConfigError
from regard.text.protected import SPAN_KINDS


def spans_of(text: str, **settings: Any) -> list[str]:
    finder = build(ProtectionConfig, settings).span_finder
    assert finder is not None
    return [text[span.inner_start : span.inner_end] for span in finder.find(text)]


def test_settings_select_what_is_found() -> None:
    text = "5 {a} b@c.de [[d e]] FOO"
    assert spans_of(text, protect=["all"]) == ["5", "{a}", "b@c.de"]
    assert spans_of(text, protect=["emails", "numbers"]) == ["5", "b@c.de"]
    assert spans_of(text, protect_pattern=["(?i)foo", "[ab]@"]) == ["b@", "FOO"]
    assert spans_of(text, protect_marks="[[ ]]") == ["d e"]
    assert Protected.__args__ == ("all", *SPAN_KINDS)  # type: ignore[attr-defined]


def test_nothing_is_protected_by_default() -> None:
    assert ProtectionConfig().span_finder is None
    assert not TextConfig().aligns
    assert TextConfig(protect=("urls",)).aligns


def test_wrong_settings() -> None:
    with pytest.raises(ConfigError) as error:
        build(TextConfig, {"protect_pattern": ["[a", "a*", "b"], "protect_marks": "[["})
    message = str(error.value)
    assert "--protect-pattern) is '[a', which is not a regular expression: unterminated" in message
    assert "--protect-pattern) is 'a*', which also matches the empty text" in message
    assert "--protect-marks) is '[[', but must be two marks separated by a space" in message
    with pytest.raises(ConfigError, match=r'protect.0. is "url"'):
        build(TextConfig, {"protect": ["url"]})
