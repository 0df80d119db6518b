"""Words as sequences of subwords: their segmentations, and where a word ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

_SPACE = "▁"  # SentencePiece's symbol for a space
_MAX_SEGMENTATIONS = 256  # of a word; those with the fewest tokens
WITHOUT_SPACES = r"\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"  # Chinese and Japanese characters
_WITHOUT_SPACES = re.compile(f"[{WITHOUT_SPACES}]")
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_FIRST_NON_ASCII = 0x80  # bytes of other letters, for the most part


def segmentations(text: str, tokenizer: Tokenizer, *, inside: bool = False) -> list[list[int]]:
    """The segmentations of a text as ids, after a space or `inside` a word; fewest tokens first.

    There is only that of the tokenizer if the text contains characters that are encoded as bytes,
    and none if it contains unknown characters.
    """
    if tokenizer.in_text_order is not tokenizer:
        in_order = segmentations(text, tokenizer.in_text_order, inside=inside)
        return [ids[::-1] for ids in in_order]
    best = tokenizer.encode(text)
    if SPECIAL.unk in best:
        return []
    tokens = tokenizer.ids_to_tokens(best)
    if any(map(_BYTE.fullmatch, tokens)):
        return [best[1:] if inside and tokens[0] == _SPACE else best]
    surface = "".join(tokens)
    surface = surface.removeprefix(_SPACE) if inside else surface
    return _all_segmentations(surface, _ids_by_token(tokenizer), _longest_token(tokenizer))


def needs_boundary(letter: str) -> bool:
    """Whether a word that begins or ends with this character could be part of a longer one."""
    return letter.isalnum() and not _WITHOUT_SPACES.match(letter)


def continues_word(tokenizer: Tokenizer) -> list[bool]:
    """For each id, whether its token continues the word before it: not after a space, a letter."""
    tokens = tokenizer.ids_to_tokens(range(tokenizer.vocab_size))
    return [
        i > SPECIAL.eos and not starts_word and _begins_with_letter(token)
        for i, (token, starts_word) in enumerate(zip(tokens, tokenizer.word_starts(), strict=True))
    ]


def _begins_with_letter(token: str) -> bool:
    if _BYTE.fullmatch(token):
        value = int(token[3:5], 16)
        return value >= _FIRST_NON_ASCII or chr(value).isalnum()
    return needs_boundary(token.removeprefix("##")[:1])


@lru_cache(4)
def _ids_by_token(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of all tokens except special tokens and byte tokens."""
    tokens = tokenizer.ids_to_tokens(range(tokenizer.vocab_size))
    return {token: i for i, token in enumerate(tokens) if i > SPECIAL.eos and token[:3] != "<0x"}


@lru_cache(4)
def _longest_token(tokenizer: Tokenizer) -> int:
    """The number of characters of the longest token."""
    return max(map(len, _ids_by_token(tokenizer)), default=0)


def _all_segmentations(surface: str, ids: dict[str, int], longest: int) -> list[list[int]]:
    """Segmentations of a string into tokens, those with the fewest tokens first."""
    end = len(surface)
    counts = [*[0] * end, 1]  # bit n of a position: whether the rest can be n tokens

    def tokens_at(start: int) -> Iterator[tuple[int, int]]:
        """The end and id of each token at a position."""
        for stop in range(start + 1, min(start + longest, end) + 1):
            token = ids.get(surface[start:stop])
            if token is not None:
                yield stop, token

    for start in reversed(range(end)):
        for stop, _ in tokens_at(start):
            counts[start] |= counts[stop] << 1
    complete: list[list[int]] = []
    for count in range(1, counts[0].bit_length()):
        stack: list[tuple[int, list[int]]] = [(0, [])] if counts[0] >> count & 1 else []
        while stack:
            start, prefix = stack.pop()
            if start == end:
                complete.append(prefix)
                if len(complete) == _MAX_SEGMENTATIONS:
                    return complete
            missing = count - len(prefix) - 1
            stack += [
                (stop, [*prefix, token])
                for stop, token in tokens_at(start)
                if counts[stop] >> missing & 1
            ]
    return complete
