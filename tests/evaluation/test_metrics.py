"""Metrics match sacrebleu."""

from __future__ import annotations

import pytest
import sacrebleu

from regard.errors import ConfigError
from regard.evaluation.metrics import MetricConfig, bleu, evaluate, exact_match

HYPOTHESES = ["the cat sat on the mat .", "a Dog runs fast"]
REFERENCES = ["the cat is on the mat .", "a dog runs very fast"]


def test_metrics_and_signatures_match_sacrebleu() -> None:
    results = {r.name: r for r in evaluate(HYPOTHESES, [REFERENCES], MetricConfig())}
    assert results["BLEU"].value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert results["chrF2"].value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert results["TER"].value == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in results["BLEU"].signature
    assert "case:mixed" in results["BLEU"].signature


def test_lowercase_changes_scores_and_signature() -> None:
    cased, lower = (evaluate(HYPOTHESES, [REFERENCES], MetricConfig(lc)) for lc in (False, True))
    assert lower[0].value > cased[0].value
    assert "case:lc" in lower[0].signature


def test_unavailable_tokenizers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.tokenizers import tokenizer_ja_mecab

    with pytest.raises(ConfigError, match="no tokenizer 'klingon'"):
        MetricConfig(tokenize="klingon").bleu()
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)  # as if not installed
    with pytest.raises(ConfigError, match=r"is not available: .* another --tokenize"):
        MetricConfig(tokenize="ja-mecab").bleu()


def test_bleu_and_exact_match_limits() -> None:
    assert round(bleu(REFERENCES, REFERENCES), 6) == 100
    assert exact_match(HYPOTHESES, REFERENCES) == 0
    assert exact_match(["a", "b"], ["a", "c"]) == 0.5
