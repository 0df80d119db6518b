"""Markup is taken out of texts and put back into their translations by a trained model."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import regard
from markup.markup_cases import tags
from regard.data.store import Store
from regard.errors import ConfigError, DataError
from regard.pipelines.markup import MarkupStep, alignment_or_diagonal
from regard.pipelines.translator import Translator
from toys import run, small_run, some_run


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Translator:
    """A model that was briefly trained to reverse letters."""
    out = tmp_path_factory.mktemp("run") / "reversal"
    run(small_run(out, reversal_store, max_steps=60, checkpoint_every=60), reversal_store)
    return regard.load(out, precision="float32")


def without_tags(text: str) -> list[str]:
    return re.sub("<[^>]*>", " ", text).split()


HTML = [
    "<b>a</b> b <i>c d</i>",
    "a b c",
    "<p>a <br> b</p> <ul><li>c d<li><em>e f</em></ul>",
    "<!-- nothing --> <hr> 12",
    "",
    '<div class="x">a b <a href="?q=1&amp;r">c</a></div>',
]


@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
def test_text_is_translated_and_markup_is_kept(backend: str, translator: Translator) -> None:
    model = regard.load(translator.paths[0], backend=backend, device="cpu")
    translations = model.translate(HTML, markup="html")
    plain = model.translate(["a b c d", "a b c", "a b", "c d", "e f"])
    assert [t.source for t in translations] == HTML
    for source, translation in zip(HTML, translations, strict=True):
        assert tags(translation.text) == tags(source)
    assert without_tags(translations[0].text) == plain[0].text.split()
    assert translations[1].text == plain[1].text
    words = [word for text in plain[2:] for word in text.text.split()]
    assert sorted(without_tags(translations[2].text)) == sorted(words)
    assert translations[3].text == HTML[3]


def test_alternatives_have_markup_and_scores_are_those_of_plain_text(
    translator: Translator,
) -> None:
    [marked] = translator.translate(["<b>a</b> b <i>c</i>"], markup="html", num_hypotheses=3)
    [plain] = translator.translate(["a b c"], num_hypotheses=3)
    assert marked.score == plain.score
    for with_tags, without in zip(marked.alternatives, plain.alternatives, strict=True):
        assert tags(with_tags.text) == tags(marked.source)
        assert without_tags(with_tags.text) == without.text.split()
        assert with_tags.score == without.score


@pytest.mark.parametrize(
    ("markup", "text", "kept"),
    [
        ("markdown", "# **a** b\n\n- c `x`\n", r"[#*`x-]+|\n"),
        ("xml", "<p>a <b>b</b></p><p>c</p>", r"<[^>]*>"),
    ],
)
def test_markup_languages(markup: Any, text: str, kept: str, translator: Translator) -> None:
    [translation] = translator.translate([text], markup=markup)
    assert sorted(re.findall(kept, translation.text)) == sorted(re.findall(kept, text))


def test_streams_render_in_workers(translator: Translator) -> None:
    expected = [translation.text for translation in translator.translate(HTML, markup="html")]
    streamed = translator.translate_iterable(HTML, markup="html", window=2)
    assert [translation.text for translation in streamed] == expected
    step = MarkupStep("html", (), translator.text.tokenizers)
    assert pickle.loads(pickle.dumps(step)).prepare("<b>x</b>")[0] == "x"


def test_tags_whose_content_is_not_translated(translator: Translator) -> None:
    texts = ["a <q>b c</q> d", "a <code>b c</code> d"]
    for names in (("q",), ("q", "code")):
        first, second = translator.translate(texts, markup="html", ignore_tags=names)
        assert "<q>b c</q>" in first.text
        assert ("<code>b c</code>" in second.text) == ("code" in names)


def test_errors(translator: Translator) -> None:
    with pytest.raises(ConfigError, match=r"ignore_tags .* has no effect without markup"):
        translator.translate(["a"], ignore_tags=("b",))
    with pytest.raises(ConfigError, match=r"markup is .tex."):
        translator.translate(["a"], markup="tex")  # type: ignore[arg-type]
    texts, message = ["<a/>", "<a></b>"], "Text 2: not well-formed XML at line 1, column 6: mism"
    with pytest.raises(DataError, match=message):
        translator.translate(texts, markup="xml")
    with pytest.raises(DataError, match=message):
        [*translator.translate_iterable(texts, markup="xml")]


def test_without_an_alignment_positions_are_proportional() -> None:
    assert alignment_or_diagonal(None, 4, 2) == [0, 0, 1, 1]
    assert alignment_or_diagonal(None, 2, 4) == [0, 2]
    assert alignment_or_diagonal([3, 1], 2, 4) == [3, 1]


def test_models_without_attention_translate_markup(reversal_store: Store, tmp_path: Path) -> None:
    model = {"kind": "recurrent", "cross_attention": "none"}
    run(some_run(tmp_path / "run", reversal_store, model, max_steps=2), reversal_store)
    [translation] = regard.load(tmp_path / "run").translate(["a <b>b</b> c"], markup="html")
    assert tags(translation.text) == tags("<b></b>")
