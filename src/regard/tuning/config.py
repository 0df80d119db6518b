"""Settings of a hyperparameter search; this module imports no heavy dependencies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from regard.bounds import SEED, Ge, Le
from regard.config import Doc, Settings

PrunerName = Literal["median", "hyperband", "none"]
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}  # in seconds
_DURATION = re.compile("".join(rf"(?:(\d{{1,9}}){unit})?" for unit in _UNITS))


@dataclass(frozen=True)
class TuneConfig(Settings):
    """Hyperparameter search: number of trials, pruning, limits."""

    trials: Annotated[
        int, Doc("number of trials, including those of earlier calls"), Ge(1), Le(100_000)
    ] = 20
    parallel: Annotated[
        int, Doc("trials that this machine trains at the same time"), Ge(1), Le(256)
    ] = 1
    metric: Annotated[
        str | None,
        Doc(
            "validation metric to optimize: loss, bleu (translation), accuracy (labels); default: "
            "training.best_metric"
        ),
    ] = None
    pruner: Annotated[
        PrunerName,
        Doc("stop trials early whose validation metric is worse than that of others so far"),
    ] = "median"
    timeout: Annotated[
        str | None,
        Doc("stop after this time, such as 90m or 1h30m; unfinished trials are saved"),
    ] = None
    seed: Annotated[int, Doc("random seed of the choice of settings"), Ge(0), SEED] = 1
    keep: Annotated[
        int, Doc("number of best trials whose weights are kept"), Ge(1), Le(100_000)
    ] = 3

    def problems(self) -> Iterator[str]:
        """The duration is understood."""
        if self.timeout is not None and not parse_duration(self.timeout):
            yield f"timeout is {self.timeout!r}, but must be a duration such as 90m or 1h30m"


def parse_duration(text: str) -> int | None:
    """The seconds of a duration such as 1h30m; None if it is not one."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    return sum(int(n or 0) * unit for n, unit in zip(match.groups(), _UNITS.values(), strict=True))
