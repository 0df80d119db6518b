"""Trained models side by side: how good, how large, how fast, and how far back they learn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.decoding.config import SearchKeywords
from regard.decoding.effect import effective
from regard.decoding.translator import Translator, sentences_per_second
from regard.evaluation.analysis import LengthBucket, by_length
from regard.evaluation.metrics import Counting, case_is_lost
from regard.models.base import Model, PairModel
from regard.models.protocol import Predictions


@dataclass(frozen=True)
class Test:
    """What all models are asked to do; the first `one_by_one` sentences also by themselves."""

    sources: Sequence[str]
    references: list[str]
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
    case_is_lost: bool = False  # lower case only, against references with upper case


@dataclass(frozen=True)
class Speed:
    """Sentences a second."""

    one_by_one: float
    in_batches: float


@dataclass(frozen=True)
class Reach:
    """The gradient that reaches the first word from each place, in the mean over sentences.

    Places that less than a tenth of the sentences have are left out.
    """

    before: list[float]  # any training, with weights as they begin
    after: list[float]


@dataclass(frozen=True)
class Compared:
    """What is known of a model in the end."""

    name: str
    kind: str
    parameters: int
    quality: Quality
    speed: Speed
    reach: Reach | None


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
            test.sources, batch_size=test.batch_size, **self._search(test)
        )
        texts = [translation.text for translation in found]
        bleu = test.counting.bleu(quiet=True)
        score = bleu.corpus_score(texts, [test.references]).score
        lengths = by_length(texts, [test.references], test.counting)
        lost = not test.counting.lowercase and case_is_lost(texts, [test.references])
        return Quality(score, str(bleu.get_signature()), lengths, lost)

    def speed(self, test: Test) -> Speed:
        """One after the other, and all in batches."""
        speed = partial(sentences_per_second, self._translator, **self._search(test))
        few = test.sources[: test.one_by_one]
        return Speed(speed(few, batch_size=1), speed(test.sources, batch_size=test.batch_size))

    def _search(self, test: Test) -> SearchKeywords:
        """Beams, for models that have any."""
        keywords = SearchKeywords(beam_size=test.beam_size, scores=False)
        return effective(keywords, self._translator.folder.config)

    def reach(self, test: Test, sentences: int) -> Reach | None:
        """Of the first sentences; None if there are none, or no words that follow from a source."""
        folder, trained = self._translator.folder, self._translator.models[0]
        if not sentences or trained.config.task != "translation":
            return None
        pairs = Batch(
            with_ends(folder.tokenizers.source.encode_all(test.sources[:sentences])),
            with_ends(folder.tokenizers.target.encode_all(test.references[:sentences])),
        ).to(trained.device)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            new = folder.model().to(trained.device).eval()
        count = pairs.target.lengths.mask.sum(0)
        kept = 10 * count >= len(pairs.target.lengths)
        before, after = ((reach(model, pairs).sum(0) / count)[kept] for model in (new, trained))
        return Reach(before.tolist(), after.tolist())


def compare(
    entrants: Sequence[Entrant], test: Test, *, rounds: int, gradients: int
) -> list[Compared]:
    """All models; `gradients` says how many sentences are looked at for `reach`."""
    qualities = [one.quality(test) for one in entrants]
    speeds = race(entrants, test, rounds)
    return [
        Compared(one.name, one.kind, one.parameters, quality, speed, one.reach(test, gradients))
        for one, quality, speed in zip(entrants, qualities, speeds, strict=True)
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


def reach(model: Model, batch: Batch) -> Tensor:
    """R of all places of a batch's targets, (B, T), 0 after their ends.

        r_t = || d loss_t / d e_1 ||        loss_t = -log p(y_t | y_<t, x)

    e_1 is the embedding of the first source word. What a model says at place t can teach it as much
    about that word as arrives there: through all states in between where the last state is all that
    a decoder knows, straight from the encoder output where there is attention. That is seen before
    training; a trained model also knows which places have nothing to do with the first word.
    """
    assert not model.training
    # cuDNN's recurrence has a backward pass in training only, and dropout with it.
    with _embedded(model) as seen, torch.backends.cudnn.flags(enabled=False):
        said = model(batch)
        at_hidden = _at_hidden(said)
        places, first = batch.target.lengths.positions, batch.source.lengths.offsets[:-1].long()
        found = []
        for place in range(batch.target.lengths.longest):
            here = at_hidden * (places == place)[:, None]
            # Sentences do not see each other, so the gradient of a sum is that of each.
            [gradient] = torch.autograd.grad(said.hidden, seen, here, retain_graph=True)
            found.append(gradient[first].norm(dim=-1))
    return torch.stack(found, 1)


def _at_hidden(said: Predictions) -> Tensor:
    """The gradient of each word's loss at its own hidden state. (N, D)"""
    hidden = said.hidden.detach().requires_grad_()
    loss = F.cross_entropy(said.project(hidden), said.targets, reduction="sum")
    [gradient] = torch.autograd.grad(loss, hidden)
    return gradient


@contextmanager
def _embedded(model: Model) -> Iterator[list[Tensor]]:
    """The embeddings of the source words of the next forward pass: one (N, D)."""
    seen: list[Tensor] = []
    embedding = cast(PairModel, model).source_embedding
    hook = embedding.register_forward_hook(lambda *call: seen.append(call[-1]))
    try:
        yield seen
    finally:
        hook.remove()
