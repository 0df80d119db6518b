"""Compare trained models: BLEU, parameters, decoding speed, and gradients at the first token."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Unpack, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.decoding.config import SearchKeywords
from regard.decoding.modes import effective_settings
from regard.evaluation.analysis import LengthBucket, bleu_by_length
from regard.evaluation.metrics import MetricConfig, case_is_lost
from regard.models.base import Model, PairModel
from regard.models.protocol import Predictions
from regard.pipelines.translator import Translator


@dataclass(frozen=True)
class TestSetup:
    """The test set and the search settings, the same for all models.

    The speed at batch size 1 is measured on the first `latency_sentences` sentences.
    """

    sources: Sequence[str]
    references: list[str]
    metric_config: MetricConfig
    beam_size: int
    batch_size: int
    latency_sentences: int


@dataclass(frozen=True)
class Quality:
    """BLEU of a model, of the whole test set and by length."""

    bleu: float
    signature: str
    by_length: list[LengthBucket]
    case_is_lost: bool = False  # lowercase hypotheses, cased references


@dataclass(frozen=True)
class Speed:
    """Sentences per second."""

    one_by_one: float  # batch size 1
    in_batches: float


@dataclass(frozen=True)
class GradientNorms:
    """Norm of the loss gradient at the first source token, by target position.

    Averaged over sentences. Positions that fewer than a tenth of the sentences have are left out.
    """

    before: list[float]  # training: with initial weights
    after: list[float]


@dataclass(frozen=True)
class ComparisonResult:
    """All measurements of a model."""

    name: str
    kind: str
    parameters: int
    quality: Quality
    speed: Speed
    reach: GradientNorms | None


class ComparedModel:
    """A trained model and its measurements."""

    def __init__(self, name: str, translator: Translator) -> None:
        self.name = name
        self.kind = translator.folder.config.kind
        self.parameters = sum(weights.numel() for weights in translator.models[0].parameters())
        self._translator = translator

    def quality(self, test: TestSetup) -> Quality:
        """Translate the test set and compute BLEU."""
        translations = self._translator.translate(
            test.sources, batch_size=test.batch_size, **self._search(test)
        )
        texts = [translation.text for translation in translations]
        bleu = test.metric_config.bleu(quiet=True)
        score = bleu.corpus_score(texts, [test.references]).score
        buckets = bleu_by_length(texts, [test.references], test.metric_config)
        lost = not test.metric_config.lowercase and case_is_lost(texts, [test.references])
        return Quality(score, str(bleu.get_signature()), buckets, lost)

    def speed(self, test: TestSetup) -> Speed:
        """Measure the decoding speed at batch size 1 and in batches."""
        speed = partial(sentences_per_second, self._translator, **self._search(test))
        first = test.sources[: test.latency_sentences]
        return Speed(speed(first, batch_size=1), speed(test.sources, batch_size=test.batch_size))

    def _search(self, test: TestSetup) -> SearchKeywords:
        """Search settings, without those that have no effect for this model kind."""
        keywords = SearchKeywords(beam_size=test.beam_size, scores=False)
        return effective_settings(keywords, self._translator.decoding_family)

    def gradient_norms(self, test: TestSetup, sentences: int) -> GradientNorms | None:
        """Compute `GradientNorms` on the first sentences; None if 0 or for other tasks."""
        folder, trained = self._translator.folder, self._translator.models[0]
        if not sentences or trained.config.task != "translation":
            return None
        pairs = Batch(
            with_eos(folder.tokenizers.source.encode_all(test.sources[:sentences])),
            with_eos(folder.tokenizers.target.encode_all(test.references[:sentences])),
        ).to(trained.device)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            untrained = folder.model().to(trained.device).eval()
        count = pairs.target.lengths.mask.sum(0)
        is_frequent = 10 * count >= len(pairs.target.lengths)
        before, after = (
            (first_token_gradients(model, pairs).sum(0) / count)[is_frequent].tolist()
            for model in (untrained, trained)
        )
        return GradientNorms(before, after)


def compare(
    models: Sequence[ComparedModel], test: TestSetup, *, rounds: int, gradients: int
) -> list[ComparisonResult]:
    """Measure all models; `gradients` is the number of sentences for `gradient_norms`."""
    qualities = [model.quality(test) for model in models]
    speeds = measure_speeds(models, test, rounds)
    return [
        ComparisonResult(
            model.name,
            model.kind,
            model.parameters,
            quality,
            speed,
            reach=model.gradient_norms(test, gradients),
        )
        for model, quality, speed in zip(models, qualities, speeds, strict=True)
    ]


def measure_speeds(models: Sequence[ComparedModel], test: TestSetup, rounds: int) -> list[Speed]:
    """Return the median speed of each model over several rounds, after a warm-up round.

    Models alternate within a round, so that other load on the machine affects all of them.
    """
    measured = [[model.speed(test) for model in models] for _ in range(rounds + 1)][1:]
    return [
        Speed(median(s.one_by_one for s in speeds), median(s.in_batches for s in speeds))
        for speeds in zip(*measured, strict=True)
    ]


def first_token_gradients(model: Model, batch: Batch) -> Tensor:
    """Return gradient norms at the first source token, (B, T), for all target positions; 0 padded.

        r_t = || d loss_t / d e_1 ||        loss_t = -log p(y_t | y_<t, x)

    e_1 is the embedding of the first source token. With attention, the
    gradient passes directly through the encoder output; if the decoder only gets the encoder's last
    state, it passes through all intermediate states. The effect is clearest in untrained models: in
    a trained model the norm also depends on which target positions are related to that token.
    """
    assert not model.training
    # cuDNN's recurrence has a backward pass in training only, and dropout with it.
    with _source_embeddings(model) as embeddings, torch.backends.cudnn.flags(enabled=False):
        predictions = model(batch)
        hidden_gradients = _hidden_gradients(predictions)
        positions = batch.target.lengths.positions
        first = batch.source.lengths.offsets[:-1].long()
        norms = []
        for position in range(batch.target.lengths.longest):
            selected = hidden_gradients * (positions == position)[:, None]
            # Sentences are independent, so the gradient of a sum is that of each.
            [gradient] = torch.autograd.grad(
                predictions.hidden, embeddings, selected, retain_graph=True
            )
            norms.append(gradient[first].norm(dim=-1))
    return torch.stack(norms, 1)


def _hidden_gradients(predictions: Predictions) -> Tensor:
    """Return the gradient of each token's loss at its hidden state. (N, D)"""
    hidden = predictions.hidden.detach().requires_grad_()
    loss = F.cross_entropy(predictions.project(hidden), predictions.targets, reduction="sum")
    [gradient] = torch.autograd.grad(loss, hidden)
    return gradient


@contextmanager
def _source_embeddings(model: Model) -> Iterator[list[Tensor]]:
    """Collect the source embeddings of the next forward pass: one (N, D)."""
    outputs: list[Tensor] = []
    embedding = cast(PairModel, model).source_embedding
    hook = embedding.register_forward_hook(lambda *call: outputs.append(call[-1]))
    try:
        yield outputs
    finally:
        hook.remove()


def sentences_per_second(
    translator: Translator,
    texts: Sequence[str],
    *,
    batch_size: int,
    **keywords: Unpack[SearchKeywords],
) -> float:
    """The translation speed; each text is a sentence, and batches of 1 run sequentially."""
    calls = [[text] for text in texts] if batch_size == 1 else [texts]
    start = time.perf_counter()
    for call in calls:
        translator.translate(call, batch_size=batch_size, **keywords)
    return len(texts) / (time.perf_counter() - start)
