"""Language codes in use, as codes of language identification."""

from __future__ import annotations

import pytest

from regard.text.language_codes import base_language


@pytest.mark.parametrize(
    ("code", "base"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("zh-cn", "zh"),
        ("zh_Hant", "zh"),
        ("zho_Hans", "zh"),
        ("pt-BR", "pt"),
        ("deu", "de"),
        ("ger", "de"),
        ("nb", "no"),
        ("nn", "nn"),
        ("iw", "he"),
        ("arb_Arab", "ar"),
        ("yue", "yue"),  # without a code of two letters
        ("tlh", "tlh"),
        ("", ""),
    ],
)
def test_codes_have_no_script_and_two_letters(code: str, base: str) -> None:
    assert base_language(code) == base
