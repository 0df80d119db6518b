"""BLEU, chrF and TER, by sacrebleu and with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import ConfigError
from regard.evaluation.summary import Result as Result

TOKENIZERS = tuple(BLEU.TOKENIZERS)
METRICS = ("bleu", "chrf", "ter")
TER_WORDS = 500  # in a line; a longer one may keep sacrebleu's search for shifts busy for minutes
# The lines of each reference translation, as sacrebleu takes them. A list, because a sequence of
# texts would pass for a sequence of sequences of texts.
References = list[list[str]]
LOWER_IS_BETTER = frozenset({"TER"})


@dataclass(frozen=True)
class Counting:
    """How words are cut and compared; what is said of one test set is all counted alike."""

    lowercase: bool = False
    tokenize: str = "13a"
    names: tuple[str, ...] = METRICS

    def metrics(self, *, quiet: bool = False) -> list[Metric]:
        """What `names` says; TER is always counted without case, and its signature says so."""
        made = {"bleu": lambda: self.bleu(quiet=quiet), "chrf": self.chrf, "ter": TER}
        return [made[name]() for name in self.names]

    def bleu(self, *, quiet: bool = False, effective_order: bool = False) -> BLEU:
        """BLEU; unless `quiet`, sacrebleu warns of text that looks already tokenized."""
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
                f"sacrebleu's tokenizer {self.tokenize!r} cannot be used here: {reason}. "
                "Install what it needs, or use another --tokenize."
            ) from None

    def chrf(self) -> CHRF:
        """The chrF2 of characters alone."""
        return CHRF(lowercase=self.lowercase)


def evaluate(hypotheses: Sequence[str], references: References, counting: Counting) -> list[Result]:
    """The metrics over a whole test set, of one or several references for each line."""
    results = []
    for metric in counting.metrics():
        score = metric.corpus_score(list(hypotheses), references)
        results.append(Result(score.name, score.score, str(metric.get_signature())))
    return results


def too_long_for_ter(texts: Sequence[Sequence[str]]) -> int | None:
    """The first line, counted from 1, that is too long for TER in any of these texts.

    A line of 500 words that are all out of order takes some 20 seconds; twice as many, twice as
    long at least.
    """
    for number, lines in enumerate(zip(*texts, strict=True), 1):
        if max(len(line.split()) for line in lines) > TER_WORDS:
            return number
    return None


def case_is_lost(hypotheses: Sequence[str], references: References) -> bool:
    """Whether hypotheses are all in lower case, and references are not."""
    return (
        any(text != text.upper() for text in hypotheses)  # some scripts have no case
        and all(text == text.lower() for text in hypotheses)
        and any(text != text.lower() for lines in references for text in lines)
    )


def case_hint(name: str) -> str:
    """A notice that the figures of a system are low because it writes lower case only."""
    return (
        f"{name} writes lower case only, and the references do not: each word with an upper-case "
        "letter counts as wrong. To count without case: --lowercase"
    )


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU alone, as the training loop watches it."""
    return float(BLEU(force=True).corpus_score(list(hypotheses), [list(references)]).score)


def sentence_bleu(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """BLEU of one sentence, in whatever pieces it comes."""
    return float(_plain_bleu().sentence_score(" ".join(hypothesis), [" ".join(reference)]).score)


@cache
def _plain_bleu() -> BLEU:
    """Which cuts no words, and counts no longer n-grams than a short sentence has."""
    return BLEU(tokenize="none", effective_order=True, force=True)


def exact_matches(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of hypotheses that are their reference, letter for letter."""
    equal = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return equal / len(references)
