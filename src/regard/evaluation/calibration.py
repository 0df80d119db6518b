"""Calibrate the confidences of a model or an ensemble on validation data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Unpack

from regard.data.calibration import (
    FORMAT,
    Calibration,
    CurvePair,
    PlattScaling,
    weights_digest,
)
from regard.decoding.config import SearchKeywords
from regard.decoding.text_config import DirectionConfig
from regard.errors import DataError
from regard.evaluation.correctness import kept_words
from regard.evaluation.reliability import calibration_curve, fit_platt_scaling
from regard.foreign_models import describe_exported_model
from regard.notices import Notice
from regard.pipelines.directions import select_direction
from regard.pipelines.text_search import Translation
from regard.pipelines.translator import Translator
from regard.text.words import word_spans

_MIN_WORDS = 100  # for two parameters
_ANY_DIRECTION = DirectionConfig()


def calibrate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    batch_size: int | None = None,
    notice: Notice = lambda text: None,
    direction: DirectionConfig = _ANY_DIRECTION,
    **keywords: Unpack[SearchKeywords],
) -> Calibration:
    """Translate the sources, and fit the calibration of words and of next-token probabilities.

    `direction` is that of the data, for a model of several directions. `keywords` are settings of
    the search: those with which the model will translate.
    """
    translator.calibration = None
    translations = translator.translate(
        sources, confidence=True, batch_size=batch_size, **asdict(direction), **keywords
    )
    outcomes = [*map(correct_words, translations, references)]
    probabilities = [[word.confidence for word in each.words or []] for each in translations]
    scaling = _fit(probabilities, outcomes)
    words, sentences = _curves(probabilities, outcomes, scaling)
    temperature, tokens = None, None
    if reason := _without_logits(translator.paths):
        notice(f"The temperature of next-token probabilities is not fitted: {reason}.")
    else:
        selected = select_direction(translator.text, direction)
        tagged = [*map(selected.tagged, sources)]
        temperature, tokens = _calibrate_tokens(translator, tagged, references)
    digest = weights_digest(*translator.paths)
    return Calibration(FORMAT, digest, scaling, words, sentences, temperature, tokens)


def _without_logits(folders: Sequence[Path]) -> str | None:
    """Why there are no logits of these models; None if there are."""
    if any(map(describe_exported_model, folders)):
        return "exports have no logits"
    return "ensembles average probabilities and have no logits" if len(folders) > 1 else None


def correct_words(translation: Translation, reference: str) -> list[bool]:
    """For each word of a translation with confidences, whether the reference confirms it."""
    words = [word.text for word in translation.words or []]
    return kept_words(words, [reference[start:end] for start, end in word_spans(reference)])


def _fit(
    probabilities: Sequence[Sequence[float]], outcomes: Sequence[Sequence[bool]]
) -> PlattScaling:
    """The scaling of the words of all sentences."""
    flat = [*chain.from_iterable(probabilities)]
    if len(flat) < _MIN_WORDS:
        raise DataError(
            f"The translations of the validation data have {len(flat)} words, too few for "
            f"calibration. Give at least {_MIN_WORDS}, better several thousand."
        )
    return fit_platt_scaling(flat, [*chain.from_iterable(outcomes)])


def _curves(
    probabilities: Sequence[Sequence[float]],
    outcomes: Sequence[Sequence[bool]],
    scaling: PlattScaling,
) -> tuple[CurvePair, CurvePair]:
    """The calibration curves of words, and of the fraction of correct words per sentence."""
    scaled = [[*map(scaling, row)] for row in probabilities]
    pairs = [
        (
            calibration_curve([*chain.from_iterable(rows)], [*chain.from_iterable(outcomes)]),
            calibration_curve(_means(rows), _means(outcomes)),
        )
        for rows in (probabilities, scaled)
    ]
    words, sentences = zip(*pairs, strict=True)
    return CurvePair(*words), CurvePair(*sentences)


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each row that is not empty."""
    return [sum(row) / len(row) for row in rows if row]


def _calibrate_tokens(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> tuple[float, CurvePair]:
    """The temperature of next-token probabilities, on the pairs that fit into the model."""
    from regard.evaluation.token_calibration import calibrate_tokens  # imports PyTorch

    [model] = translator.models
    tokenizers, limit = translator.text.tokenizers, model.max_length
    sides = tokenizers.source.encode_all(sources), tokenizers.target.encode_all(references)
    fitting = [
        pair
        for pair in zip(*sides, strict=True)
        if all(pair) and (limit is None or max(map(len, pair)) < limit)
    ]
    return calibrate_tokens(model, fitting)
