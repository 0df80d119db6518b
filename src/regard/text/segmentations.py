"""Segmentations of a word into subwords: all that the vocabulary allows, not only the best one."""

from __future__ import annotations

import heapq

from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

_SPACE = "▁"  # SentencePiece's symbol for a space
_MAX_SEGMENTATIONS = 256  # of a word; those with the fewest tokens


def segmentations(text: str, tokenizer: Tokenizer, *, inside: bool = False) -> list[list[int]]:
    """The segmentations of a text as ids, after a space or `inside` a word; fewest tokens first.

    There is only that of the tokenizer if the text contains characters that are encoded as bytes,
    and none if it contains unknown characters.
    """
    best = tokenizer.encode(text)
    if SPECIAL.unk in best:
        return []
    tokens = tokenizer.ids_to_tokens(best)
    if any(token.startswith("<0x") and len(token) == 6 for token in tokens):
        return [best[1:] if inside and tokens[0] == _SPACE else best]
    surface = "".join(tokens)
    surface = surface.removeprefix(_SPACE) if inside else surface
    return _all_segmentations(surface, _ids_by_token(tokenizer))


def _ids_by_token(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of all tokens except special tokens and byte tokens."""
    tokens = tokenizer.ids_to_tokens(range(tokenizer.vocab_size))
    return {token: i for i, token in enumerate(tokens) if i > SPECIAL.eos and token[:3] != "<0x"}


def _all_segmentations(surface: str, ids: dict[str, int]) -> list[list[int]]:
    """Segmentations of a string into tokens, by best-first search for the fewest tokens."""
    end = len(surface)
    fewest: list[float] = [*[float("inf")] * end, 0.0]  # tokens from a position to the end
    for start in reversed(range(end)):
        lengths = (fewest[stop] for stop in range(start + 1, end + 1) if surface[start:stop] in ids)
        fewest[start] = 1 + min(lengths, default=float("inf"))
    queue: list[tuple[float, int, list[int]]] = [(fewest[0], 0, [])]
    complete: list[list[int]] = []
    while queue and queue[0][0] < float("inf") and len(complete) < _MAX_SEGMENTATIONS:
        _, start, prefix = heapq.heappop(queue)
        if start == end:
            complete.append(prefix)
            continue
        for stop in range(start + 1, end + 1):
            token = ids.get(surface[start:stop])
            if token is not None and fewest[stop] < float("inf"):
                total = len(prefix) + 1 + fewest[stop]
                heapq.heappush(queue, (total, stop, [*prefix, token]))
    return complete
