"""Runners of decoders: each decoder is timed in its own process and evaluated here."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from comparison import Round, Tree, UnavailableError
from peers.process import Worker, run_command
from regard.text.base import Tokenizer


class Evaluator(Protocol):
    """Computes the amount of work in translations, and metrics of them."""

    def evaluate(self, translations: Sequence[Any]) -> tuple[int, dict[str, float]]:
        """The amount in the comparison's unit, and metrics; raises `UnavailableError`."""
        ...


@dataclass(frozen=True)
class TextEvaluator:
    """Counts sentences, and compares them with regard's PyTorch backend and with references."""

    tokenizer: Tokenizer
    expected: Sequence[str]
    references: Sequence[str]

    def evaluate(self, translations: Sequence[Any]) -> tuple[int, dict[str, float]]:
        """Evaluate lines or ids of all sentences, or of the first ones."""
        from sacrebleu.metrics.bleu import BLEU

        decode = self.tokenizer.decode
        texts = [text if isinstance(text, str) else decode(text) for text in translations]
        same = sum(text == expected for text, expected in zip(texts, self.expected, strict=False))
        references = [*self.references[: len(texts)]]
        bleu = BLEU(lowercase=True, force=True).corpus_score(texts, [references])
        return len(texts), {"same": same / len(texts), "bleu": float(bleu.score)}


@dataclass(frozen=True)
class LengthEvaluator:
    """Counts the tokens of translations of a forced length."""

    length: int

    def evaluate(self, translations: Sequence[Any]) -> tuple[int, dict[str, float]]:
        """Evaluate ids, with or without EOS as the last token."""
        if not all(self.length - 1 <= len(ids) <= self.length for ids in translations):
            raise UnavailableError(f"not all translations have {self.length} tokens")
        return self.length * len(translations), {}


class DecoderRunner:
    """Runs a decoder in a worker process; loading is not timed."""

    def __init__(self, worker: Worker, evaluator: Evaluator, *, problem: str | None = None) -> None:
        self.name, self.is_peer = worker.name, worker.is_peer
        self._worker, self._evaluator, self._problem = worker, evaluator, problem

    def round(self) -> Round:
        """Translate the task's sentences once."""
        if self._problem is not None:
            raise UnavailableError(self._problem)
        return evaluate_round(self._worker.request_round(), self._evaluator)

    def close(self) -> None:
        """End the worker process."""
        self._worker.close()


def evaluate_round(response: Tree, evaluator: Evaluator) -> Round:
    """The round that a worker's response describes."""
    seconds: list[float] = response["seconds"]
    amount, metrics = evaluator.evaluate(response["translations"])
    if len(seconds) > 1:
        percentiles = statistics.quantiles(seconds, n=100, method="inclusive")
        metrics |= {"p50": 1000 * percentiles[49], "p99": 1000 * percentiles[98]}
    return Round(amount, sum(seconds), response["memory"], metrics)


class CommandRunner:
    """Runs a command that translates a file; the whole process is timed."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        is_peer: bool,
        text: Path,
        evaluator: Evaluator,
        log: Path,
        environment: Mapping[str, str],
        problem: str | None = None,
    ) -> None:
        self.name, self.is_peer = name, is_peer
        self._command, self._text, self._evaluator = command, text, evaluator
        self._log, self._environment, self._problem = log, environment, problem

    def round(self) -> Round:
        """Translate the text once."""
        if self._problem is not None:
            raise UnavailableError(self._problem)
        out = self._log.with_suffix(".out")
        with self._text.open() as source, out.open("w") as target:
            begin = time.perf_counter()
            memory = run_command(
                self._command, self._log, self._environment, stdin=source, stdout=target
            )
            seconds = time.perf_counter() - begin
        amount, metrics = self._evaluator.evaluate(out.read_text(encoding="utf-8").splitlines())
        return Round(amount, seconds, memory, metrics)
