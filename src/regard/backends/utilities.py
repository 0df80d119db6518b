"""Utilities for minimum Bayes risk decoding: sentence-level chrF and BLEU of all pairs of texts.

The values equal sacrebleu's sentence scores. Matching n-grams are counted for all pairs at once by
matrix products: the number of matches of two texts is the sum, over n-grams and k = 1, 2, ..., of
whether both contain the n-gram at least k times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.errors import ConfigError

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ids = NDArray[np.int64]
# Maps a source and n texts to their utilities, (n, n): of each as translation, against each.
Utility = Callable[[str, Sequence[str]], Floats]
_CHRF_ORDER, _CHRF_BETA = 6, 2.0
_BLEU_ORDER = 4
_MAX_CELLS = 1 << 25  # of a matrix of texts and n-grams: 128 MB


def chrf(source: str, texts: Sequence[str]) -> Floats:
    """The chrF2 of each text against each other, in percent. (n, n)"""
    characters = [[*map(ord, "".join(text.split()))] for text in texts]
    precision, recall, orders = np.zeros((3, len(texts), len(texts)))
    for matches, counts in ngram_matches(characters, _CHRF_ORDER):
        has_both = (counts > 0)[:, None] & (counts > 0)
        safe_counts = np.maximum(counts, 1)
        precision += np.where(has_both, matches / safe_counts[:, None], 0.0)
        recall += np.where(has_both, matches / safe_counts, 0.0)
        orders += has_both
    orders = np.maximum(orders, 1)
    precision, recall = precision / orders, recall / orders
    weighted = _CHRF_BETA**2 * precision + recall
    product = (1 + _CHRF_BETA**2) * precision * recall
    return 100 * np.divide(product, weighted, out=np.zeros_like(product), where=weighted > 0)


def make_bleu(target_language: str | None) -> Utility:
    """BLEU with sacrebleu's tokenizer for a language, exponential smoothing, effective order."""
    from sacrebleu.metrics.bleu import BLEU

    language = (target_language or "").partition("-")[0]
    try:
        tokenizer = BLEU(trg_lang=language, effective_order=True).tokenizer
    except (ImportError, RuntimeError) as error:  # MeCab is not installed
        raise ConfigError(
            f"sacrebleu's tokenizer for {language!r} is not available: "
            f"{' '.join(str(error).split())} Install its dependencies, or use --mbr chrf."
        ) from None
    return lambda source, texts: bleu([tokenizer(text.rstrip()).split() for text in texts])


def bleu(texts: Sequence[Sequence[str]]) -> Floats:
    """The sentence BLEU of each tokenized text against each other, in percent. (n, n)"""
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word, len(numbers)) for word in words] for words in texts]
    shape = len(texts), len(texts)
    log_precisions, smoothing = np.zeros(shape), np.zeros(shape)
    any_match = np.zeros(shape, bool)
    orders = np.zeros((len(texts), 1))
    for matches, counts in ngram_matches(rows, _BLEU_ORDER):
        totals = np.maximum(counts, 1)[:, None]
        exists = (counts > 0)[:, None]
        smoothing += exists & (matches == 0)
        # Each order without a match counts half as much as the one before.
        smoothed = np.where(matches > 0, matches, 0.5**smoothing)
        log_precisions += np.where(exists, np.log(smoothed / totals), 0.0)
        any_match |= matches > 0
        orders += exists
    lengths = np.array([len(row) for row in rows], np.float64)
    ratios = lengths / np.maximum(lengths, 1)[:, None]  # of reference to translation
    log_brevity_penalty = np.minimum(0.0, 1 - ratios)
    scores = 100 * np.exp(log_precisions / np.maximum(orders, 1) + log_brevity_penalty)
    return np.where(any_match, scores, 0.0)


def ngram_matches(rows: Sequence[Sequence[int]], longest: int) -> Iterator[tuple[Floats, Ids]]:
    """For each order up to `longest`: matches of all pairs of rows (n, n), n-grams per row (n,)."""
    lengths = np.array([len(row) for row in rows])
    tokens = np.zeros((len(rows), max(longest, *lengths)), np.int64)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    distinct, numbers = np.unique(tokens, return_inverse=True)
    tokens = ngrams = numbers.reshape(tokens.shape)
    for order in range(1, longest + 1):
        if order > 1:  # an n-gram is the one before and a token
            ngrams = ngrams[:, :-1] * len(distinct) + tokens[:, order - 1 :]
        counts = np.maximum(lengths - order + 1, 0)
        exists = np.arange(ngrams.shape[1]) < counts[:, None]
        _, numbers = np.unique(ngrams[exists], return_inverse=True)
        ngrams = np.zeros_like(ngrams)
        ngrams[exists] = numbers  # small numbers, so that longer n-grams cannot overflow
        yield _matches(exists.nonzero()[0], numbers, len(rows)), counts


def _matches(rows: Ids, ngrams: Ids, count: int) -> Floats:
    """The matches of all pairs of `count` rows, given the row and number of each n-gram."""
    matches = np.zeros((count, count), np.float32)
    size = ngrams.max(initial=0) + 1
    pairs, occurrences = np.unique(rows * size + ngrams, return_counts=True)
    level = 1
    while len(pairs):
        _, column, rows_with = np.unique(pairs % size, return_inverse=True, return_counts=True)
        row, is_shared = pairs // size, rows_with[column] > 1
        # Most of the longer n-grams are in one row only, which they match in full.
        matches.ravel()[:: count + 1] += np.bincount(row[~is_shared], minlength=count)
        _add_shared(matches, row[is_shared], column[is_shared])
        frequent = occurrences > level
        pairs, occurrences, level = pairs[frequent], occurrences[frequent], level + 1
    return matches.astype(np.float64)


def _add_shared(matches: Floats32, rows: Ids, ngrams: Ids) -> None:
    """Add the number of n-grams that each pair of rows shares, by blocks of n-grams."""
    order = np.argsort(ngrams, kind="stable")
    columns, column = np.unique(ngrams[order], return_inverse=True)
    rows, width = rows[order], max(1, _MAX_CELLS // len(matches))
    for start in range(0, len(columns), width):
        first, last = np.searchsorted(column, [start, start + width])
        contains = np.zeros((len(matches), min(width, len(columns) - start)), np.float32)
        contains[rows[first:last], column[first:last] - start] = 1
        matches += contains @ contains.T
