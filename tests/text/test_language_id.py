"""Language identification: among all languages, among some, and against an expected one."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.text import language_codes, language_id
from regard.text.language_id import LanguageIdentifier, LanguageVerifier, supported_languages

SENTENCES = {
    "en": "The children are waiting in front of the old house.",
    "de": "Die Kinder warten vor dem alten Haus auf ihre Mutter.",
    "fr": "Les enfants attendent leur mère devant la vieille maison.",
    "es": "Los niños esperan a su madre delante de la casa vieja.",
    "zh": "孩子们在老房子前面等他们的母亲。",
    "ru": "Дети ждут свою мать перед старым домом.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_are_identified_among_all_languages(language: str) -> None:
    identified = LanguageIdentifier().identify(SENTENCES[language])
    assert identified.language == language
    assert 0.5 < identified.probability <= 1


def test_languages_are_named_as_the_caller_does() -> None:
    identifier = LanguageIdentifier(["eng", "de-AT", "zh_Hans"])
    languages = [identifier.identify(SENTENCES[code]).language for code in ("en", "de", "zh")]
    assert languages == ["eng", "de-AT", "zh_Hans"]


def test_only_the_given_languages_are_identified() -> None:
    assert LanguageIdentifier(["de", "ru"]).identify(SENTENCES["en"]).language == "de"
    # The selection of one identifier does not change another one.
    assert LanguageIdentifier().identify(SENTENCES["en"]).language == "en"


def test_short_words_need_few_candidates() -> None:
    pairs = [("Danke", "de"), ("thanks", "en"), ("Guten Morgen", "de"), ("good night", "en")]
    identifier = LanguageIdentifier(["de", "en"])
    assert [identifier.identify(text).language for text, _ in pairs] == [code for _, code in pairs]


def test_probabilities_add_up_to_1_over_the_candidates() -> None:
    # With two candidates, the probability of the better one is at least one half.
    for text in SENTENCES.values():
        assert 0.5 <= LanguageIdentifier(["de", "en"]).identify(text).probability <= 1


@settings(max_examples=50)
@given(st.text(max_size=100))
def test_any_text_has_a_language(text: str) -> None:
    identifier, verifier = LanguageIdentifier(["de", "en"]), LanguageVerifier("de")
    assert identifier.identify(text).language in ("de", "en")
    assert 0 <= verifier.probability(text) <= 1


def test_verifier_compares_with_the_most_probable_other_language() -> None:
    """The reference is the ranking of all languages by the package."""
    ranking = dict(language_id._load_model().rank(SENTENCES["de"]))
    for language in ("en", "nl", "zh"):
        expected = ranking[language] / (ranking[language] + ranking["de"])
        assert LanguageVerifier(language).probability(SENTENCES["de"]) == pytest.approx(expected)
    assert LanguageVerifier("deu").probability(SENTENCES["de"]) == 1


@pytest.mark.parametrize("text", ["12:30", "3,14159", "https://example.org/a?b=1", "", "..."])
def test_text_in_no_language_is_not_in_another_one(text: str) -> None:
    assert LanguageVerifier("en").probability(text) > 0.2


def test_all_codes_of_two_letters_are_supported() -> None:
    assert {*language_codes._TWO_LETTERS.values()} <= {*supported_languages()}
    assert not {*language_codes._TWO_LETTERS} & {*supported_languages()}


@pytest.mark.parametrize("code", ["tlh", "", "zxx"])
def test_unsupported_languages_are_refused(code: str) -> None:
    message = f"The language '{code}' cannot be identified. Supported are ace, af, am, .*zh, zu,"
    for make in (LanguageVerifier, lambda code: LanguageIdentifier(["en", code])):
        with pytest.raises(ConfigError, match=message):
            make(code)


def test_variants_of_a_language_are_refused() -> None:
    message = "zh-cn and zh-tw are the same language to language identification"
    with pytest.raises(ConfigError, match=message):
        LanguageIdentifier(["en", "zh-cn", "zh-tw"])


def test_missing_package_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    language_id._load_model.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(ConfigError, match=r"pip install 'regard\[langid\]'"):
        LanguageVerifier("en")


def test_captions_are_verified(multi30k: Path) -> None:
    for language, other in (("de", "en"), ("en", "de")):
        lines = (multi30k / f"val.{language}").read_text(encoding="utf-8").splitlines()
        lines = random.Random(1).sample(lines, 300)
        verifier, wrong = LanguageVerifier(language), LanguageVerifier(other)
        assert all(verifier.probability(line) >= 0.1 for line in lines)
        assert sum(wrong.probability(line) < 0.1 for line in lines) >= 298
