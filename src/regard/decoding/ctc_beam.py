"""What CTC finds likeliest to read, over all paths: a search over beginnings, place by place.

The likeliest path need not read as the likeliest sentence, which may have many paths. A beginning
is kept once, however it is written, with the chance of all its paths so far: of those that end in
a blank, after which its last word can be written anew, and of those that do not, where the same
word only goes on (Graves, 2012; Hannun et al., 2014, arXiv:1408.2873).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_UNLIKELY = 1e-4  # beside the likeliest word of a place, what is less likely is not tried


class Place(NamedTuple):
    """The chances at one place: of a blank, and of the likeliest words, best first."""

    blank: float
    words: Sequence[tuple[int, float]]

    def tried(self) -> list[tuple[int, float]]:
        """Words that are worth it."""
        least = _UNLIKELY * max(self.blank, self.words[0][1])
        return [(word, chance) for word, chance in self.words if chance > least]


def best_readings(places: Sequence[Place], beam_size: int) -> list[tuple[list[int], float]]:
    """The likeliest readings and their log-probabilities, best first."""
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}
    scale = 0.0  # the logarithm of what all chances were divided by, lest they vanish
    for place in places:
        possible = [item for item in _following(beams, place).items() if sum(item[1])]
        best = sorted(possible, key=lambda item: -sum(item[1]))[:beam_size]
        top = sum(best[0][1])
        scale += math.log(top)
        beams = {begun: (after / top, inside / top) for begun, (after, inside) in best}
    return [(list(begun), math.log(sum(chances)) + scale) for begun, chances in beams.items()]


def _following(
    beams: dict[tuple[int, ...], tuple[float, float]], place: Place
) -> dict[tuple[int, ...], list[float]]:
    """Every beginning one place later: its chance with a blank last, and without."""
    found: dict[tuple[int, ...], list[float]] = {}
    words = place.tried()
    for begun, (after, inside) in beams.items():
        both = after + inside
        stays = found.setdefault(begun, [0.0, 0.0])
        stays[0] += both * place.blank
        last = begun[-1] if begun else None
        for word, chance in words:
            goes_on = found.setdefault((*begun, word), [0.0, 0.0])
            if word == last:
                stays[1] += inside * chance
                goes_on[1] += after * chance
            else:
                goes_on[1] += both * chance
    return found
