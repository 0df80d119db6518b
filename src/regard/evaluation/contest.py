"""Trained models side by side: how good, how large, how fast, and how far back they learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from regard.data.loader import with_ends
from regard.data.ragged import Batch
from regard.decoding.speed import sentences_per_second
from regard.decoding.translator import Translator
from regard.evaluation.analysis import LengthBucket, by_length
from regard.evaluation.metrics import Counting
from regard.evaluation.reach import reach


@dataclass(frozen=True)
class Test:
    """What all models are asked to do; the first `one_by_one` sentences also by themselves."""

    sources: Sequence[str]
    references: Sequence[str]
    counting: Counting
    beam_size: int
    batch_size: int
    one_by_one: int


@dataclass(frozen=True)
class Quality:
    """How good a model is."""

    bleu: float
    signature: str
    by_length: list[LengthBucket]


@dataclass(frozen=True)
class Speed:
    """Sentences a second."""

    one_by_one: float
    in_batches: float


@dataclass(frozen=True)
class Compared:
    """What is known of a model in the end; `reach` is empty if it was not asked for."""

    name: str
    kind: str
    parameters: int
    quality: Quality
    speed: Speed
    reach: list[float]


class Entrant:
    """A model that takes part."""

    def __init__(self, name: str, translator: Translator) -> None:
        self.name = name
        self.kind = translator.folder.config.kind
        self.parameters = sum(weights.numel() for weights in translator.models[0].parameters())
        self._translator = translator

    def quality(self, test: Test) -> Quality:
        """Translate the test set and count."""
        found = self._translator.translate(
            test.sources, beam_size=test.beam_size, batch_size=test.batch_size, scores=False
        )
        texts = [translation.text for translation in found]
        bleu = test.counting.bleu(quiet=True)
        score = bleu.corpus_score(texts, [list(test.references)]).score
        lengths = by_length(texts, test.references, test.counting)
        return Quality(score, str(bleu.get_signature()), lengths)

    def speed(self, test: Test) -> Speed:
        """One after the other, and all in batches."""
        return Speed(
            *(
                sentences_per_second(
                    self._translator, texts, beam_size=test.beam_size, batch_size=size
                )
                for texts, size in (
                    (test.sources[: test.one_by_one], 1),
                    (test.sources, test.batch_size),
                )
            )
        )

    def reach(self, test: Test, sentences: int) -> list[float]:
        """The gradient that reaches the first word from each place, in the mean over sentences.

        Places that less than a tenth of the sentences have are left out.
        """
        if not sentences:
            return []
        tokenizers = self._translator.folder.tokenizers
        pairs = Batch(
            with_ends(tokenizers.source.encode_all(test.sources[:sentences])),
            with_ends(tokenizers.target.encode_all(test.references[:sentences])),
        )
        model = self._translator.models[0]
        found = reach(model, pairs.to(model.device)).sum(0).cpu()
        count = pairs.target.lengths.mask.sum(0)
        return (found / count)[10 * count >= len(pairs.target.lengths)].tolist()


def compare(
    entrants: Sequence[Entrant], test: Test, *, rounds: int, gradients: int
) -> list[Compared]:
    """All models; `gradients` says how many sentences are looked at for `reach`."""
    qualities = [one.quality(test) for one in entrants]
    return [
        Compared(one.name, one.kind, one.parameters, quality, speed, one.reach(test, gradients))
        for one, quality, speed in zip(
            entrants, qualities, race(entrants, test, rounds), strict=True
        )
    ]


def race(entrants: Sequence[Entrant], test: Test, rounds: int) -> list[Speed]:
    """The median speed of each over rounds in which they take turns.

    What else a machine does falls on all alike; one round before them warms up and is not counted.
    """
    found = [[one.speed(test) for one in entrants] for _ in range(rounds + 1)][1:]
    return [
        Speed(median(s.one_by_one for s in own), median(s.in_batches for s in own))
        for own in zip(*found, strict=True)
    ]
