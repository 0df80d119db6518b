"""Decoders as contestants: timed in their own processes, counted and compared here."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from contest import Round, Tree, UnableError
from peers.process import Worker, run
from regard.text.base import Tokenizer


class Judge(Protocol):
    """Knows how much translations count, and what is to be said of them."""

    def judged(self, written: Sequence[Any]) -> tuple[int, dict[str, float]]:
        """An amount of the contest's unit, and figures; raises `UnableError`."""
        ...


@dataclass(frozen=True)
class TextJudge:
    """Counts sentences, and compares them with what regard's own engine and people wrote."""

    tokenizer: Tokenizer
    expected: Sequence[str]
    references: Sequence[str]

    def judged(self, written: Sequence[Any]) -> tuple[int, dict[str, float]]:
        """Of lines or of ids, for all sentences or for the first ones."""
        from sacrebleu.metrics.bleu import BLEU

        texts = [one if isinstance(one, str) else self.tokenizer.decode(one) for one in written]
        same = sum(text == wanted for text, wanted in zip(texts, self.expected, strict=False))
        references = [*self.references[: len(texts)]]
        bleu = BLEU(lowercase=True, force=True).corpus_score(texts, [references])
        return len(texts), {"same": same / len(texts), "bleu": float(bleu.score)}


@dataclass(frozen=True)
class LengthJudge:
    """Counts tokens, all translations being of the same forced length."""

    length: int

    def judged(self, written: Sequence[Any]) -> tuple[int, dict[str, float]]:
        """Of ids; whether the last of the tokens is an end mark makes no difference."""
        if not all(self.length - 1 <= len(ids) <= self.length for ids in written):
            raise UnableError(f"not all of its translations have {self.length} tokens")
        return self.length * len(written), {}


class DecoderRun:
    """A decoder in a process of its own; loading is not counted."""

    def __init__(self, worker: Worker, judge: Judge, *, absence: str | None = None) -> None:
        self.name, self.rival = worker.name, worker.rival
        self._worker, self._judge, self._absence = worker, judge, absence

    def round(self) -> Round:
        """All sentences at once, or one after the other."""
        if self._absence is not None:
            raise UnableError(self._absence)
        return judged_round(self._worker.answer(), self._judge)

    def close(self) -> None:
        """Let its process go."""
        self._worker.close()


def judged_round(answer: Tree, judge: Judge) -> Round:
    """What a worker told, as a round."""
    seconds: list[float] = answer["seconds"]
    amount, figures = judge.judged(answer["written"])
    if len(seconds) > 1:
        centiles = statistics.quantiles(seconds, n=100, method="inclusive")
        figures |= {"p50": 1000 * centiles[49], "p99": 1000 * centiles[98]}
    return Round(amount, sum(seconds), answer["memory"], figures)


class CommandRun:
    """A command that translates a file, from its start to its end."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        rival: bool,
        text: Path,
        judge: Judge,
        log: Path,
        environment: Mapping[str, str],
        absence: str | None = None,
    ) -> None:
        self.name, self.rival = name, rival
        self._command, self._text, self._judge = command, text, judge
        self._log, self._environment, self._absence = log, environment, absence

    def round(self) -> Round:
        """Text in, text out."""
        if self._absence is not None:
            raise UnableError(self._absence)
        out = self._log.with_suffix(".out")
        with self._text.open() as source, out.open("w") as target:
            begin = time.perf_counter()
            memory = run(self._command, self._log, self._environment, stdin=source, stdout=target)
            seconds = time.perf_counter() - begin
        amount, figures = self._judge.judged(out.read_text(encoding="utf-8").splitlines())
        return Round(amount, seconds, memory, figures)
