"""BLEU, chrF and TER, computed by sacrebleu and reported with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import ConfigError
from regard.evaluation.summary import MetricResult as MetricResult
from regard.text.language_codes import base_language

TOKENIZERS = tuple(BLEU.TOKENIZERS)
METRICS = ("bleu", "chrf", "ter")
TER_WORDS = 500  # per line; sacrebleu's shift search may take minutes for longer lines
# The lines of each reference translation, as in sacrebleu. A list, because a type checker accepts
# a sequence of strings as a sequence of sequences of strings.
References = list[list[str]]
# Languages that are written without spaces, by the tokenizer for their text.
_UNSPACED = {
    "zh": {"zh", "yue"},
    "char": {"ja", "th", "lo", "km", "my"},
}
LOWER_IS_BETTER = frozenset({"TER"})


@dataclass(frozen=True)
class MetricConfig:
    """Tokenization and case of the metrics, the same for all systems on a test set."""

    lowercase: bool = False
    tokenize: str = "13a"
    names: tuple[str, ...] = METRICS

    def metrics(self, *, quiet: bool = False) -> list[Metric]:
        """Create the metrics in `names`; TER is always case-insensitive, as its signature says."""
        factories = {"bleu": lambda: self.bleu(quiet=quiet), "chrf": self.chrf, "ter": TER}
        return [factories[name]() for name in self.names]

    def bleu(self, *, quiet: bool = False, effective_order: bool = False) -> BLEU:
        """Create the BLEU metric; unless `quiet`, sacrebleu warns about tokenized text."""
        if self.tokenize not in TOKENIZERS:
            raise ConfigError(
                f"sacrebleu has no tokenizer {self.tokenize!r}. Use one of {', '.join(TOKENIZERS)}."
            )
        try:
            return BLEU(
                lowercase=self.lowercase,
                tokenize=self.tokenize,
                force=quiet,
                effective_order=effective_order,
            )
        except (ImportError, RuntimeError, OSError) as error:  # a package or a download is missing
            reason = " ".join(str(error).split()).removesuffix(".")
            raise ConfigError(
                f"sacrebleu's tokenizer {self.tokenize!r} is not available: {reason}. "
                "Install its dependencies, or use another --tokenize."
            ) from None

    def chrf(self) -> CHRF:
        """Create the chrF2 metric, on characters only."""
        return CHRF(lowercase=self.lowercase)


def evaluate(
    hypotheses: Sequence[str], references: References, metric_config: MetricConfig
) -> list[MetricResult]:
    """Compute corpus-level metrics, with one or several references per line."""
    results = []
    for metric in metric_config.metrics():
        score = metric.corpus_score(list(hypotheses), references)
        results.append(MetricResult(score.name, score.score, str(metric.get_signature())))
    return results


def first_line_too_long_for_ter(texts: Sequence[Sequence[str]]) -> int | None:
    """Return the number, from 1, of the first line with more than TER_WORDS words in any text.

    A line of 500 words in random order takes about 20 seconds, one of 1000 at least twice as long.
    """
    for number, lines in enumerate(zip(*texts, strict=True), 1):
        if max(len(line.split()) for line in lines) > TER_WORDS:
            return number
    return None


def case_is_lost(hypotheses: Sequence[str], references: References) -> bool:
    """Whether all hypotheses are lowercase while the references are cased."""
    return (
        any(text != text.upper() for text in hypotheses)  # some scripts have no case
        and all(text == text.lower() for text in hypotheses)
        and any(text != text.lower() for lines in references for text in lines)
    )


def case_hint(name: str) -> str:
    """Return a notice that scores are low because a system's output is lowercase."""
    return (
        f"The output of {name} is lowercase, but the references are cased: every capitalized word "
        "counts as an error. Use --lowercase for case-insensitive metrics."
    )


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], language: str | None = None
) -> float:
    """Return corpus BLEU with the tokenization of a language, for validation during training."""
    metric = BLEU(force=True, tokenize=bleu_tokenizer(language))
    return float(metric.corpus_score(list(hypotheses), [list(references)]).score)


def bleu_tokenizer(language: str | None) -> str:
    """The tokenizer of sacrebleu, without further packages, for text in a language."""
    name = base_language(language or "")
    return next((tokenizer for tokenizer, codes in _UNSPACED.items() if name in codes), "13a")


def sentence_bleu(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """Return the sentence BLEU of tokens, without further tokenization."""
    metric = _untokenized_bleu()
    return float(metric.sentence_score(" ".join(hypothesis), [" ".join(reference)]).score)


@cache
def _untokenized_bleu() -> BLEU:
    """Create a BLEU metric that does not tokenize and uses the effective n-gram order."""
    return BLEU(tokenize="none", effective_order=True, force=True)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the fraction of hypotheses that equal their references."""
    equal = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return equal / len(references)
