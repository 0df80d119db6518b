"""Temperature sampling: how often data of different sizes is read.

With temperature T, a part of size n is read in proportion to n^(1/T): T = 1 keeps the proportions,
larger values favour small parts, and an infinite T would make all equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def temperature_rates(sizes: Sequence[float], temperature: float) -> list[float]:
    """How often each part is read, such that the total stays `sum(sizes)`.

    A part of size 0 is not read.
    """
    counts = np.asarray(sizes, dtype=np.float64)
    total, present = counts.sum(), counts > 0
    logs = np.log(counts, where=present, out=np.zeros_like(counts)) / temperature
    powers = np.where(present, np.exp(logs - logs.max(initial=0)), 0)
    shares = powers / max(powers.sum(), np.finfo(np.float64).tiny)
    rates = np.divide(shares * total, counts, where=present, out=np.zeros_like(counts))
    return [float(rate) for rate in rates]
