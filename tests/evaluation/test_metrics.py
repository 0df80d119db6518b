"""Figures are sacrebleu's own."""

from __future__ import annotations

import sacrebleu

from regard.evaluation.metrics import bleu, evaluate, exact_matches

HYPOTHESES = ["the cat sat on the mat .", "a Dog runs fast"]
REFERENCES = ["the cat is on the mat .", "a dog runs very fast"]


def test_figures_and_signatures_are_sacrebleus() -> None:
    found = {r.name: r for r in evaluate(HYPOTHESES, REFERENCES, lowercase=False)}
    assert found["BLEU"].value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert found["chrF2"].value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert found["TER"].value == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in found["BLEU"].signature
    assert "case:mixed" in found["BLEU"].signature


def test_lower_casing_is_counted_and_signed() -> None:
    cased, lower = (evaluate(HYPOTHESES, REFERENCES, lowercase=lc) for lc in (False, True))
    assert lower[0].value > cased[0].value
    assert "case:lc" in lower[0].signature


def test_extremes() -> None:
    assert round(bleu(REFERENCES, REFERENCES), 6) == 100
    assert exact_matches(HYPOTHESES, REFERENCES) == 0
    assert exact_matches(["a", "b"], ["a", "c"]) == 0.5
