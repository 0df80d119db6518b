"""Figures are sacrebleu's own."""

from __future__ import annotations

import pytest
import sacrebleu

from regard.errors import ConfigError
from regard.evaluation.metrics import Counting, bleu, evaluate, exact_matches

HYPOTHESES = ["the cat sat on the mat .", "a Dog runs fast"]
REFERENCES = ["the cat is on the mat .", "a dog runs very fast"]


def test_figures_and_signatures_are_sacrebleus() -> None:
    found = {r.name: r for r in evaluate(HYPOTHESES, [REFERENCES], Counting())}
    assert found["BLEU"].value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert found["chrF2"].value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert found["TER"].value == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in found["BLEU"].signature
    assert "case:mixed" in found["BLEU"].signature


def test_lower_casing_is_counted_and_signed() -> None:
    cased, lower = (evaluate(HYPOTHESES, [REFERENCES], Counting(lc)) for lc in (False, True))
    assert lower[0].value > cased[0].value
    assert "case:lc" in lower[0].signature


def test_a_tokenizer_that_cannot_be_used_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.tokenizers import tokenizer_ja_mecab

    with pytest.raises(ConfigError, match="no tokenizer 'klingon'"):
        Counting(tokenize="klingon").bleu()
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)  # as where it is not installed
    with pytest.raises(ConfigError, match=r"cannot be used here: .* another --tokenize"):
        Counting(tokenize="ja-mecab").bleu()


def test_extremes() -> None:
    assert round(bleu(REFERENCES, REFERENCES), 6) == 100
    assert exact_matches(HYPOTHESES, REFERENCES) == 0
    assert exact_matches(["a", "b"], ["a", "c"]) == 0.5
