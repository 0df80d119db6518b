"""How a model's attention scores and selects, and what follows from that for its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.positions import Layout
from regard.attention.relative import RelativeScore
from regard.attention.scores import Additive, Bilinear, ProjectedDot, Score, dot, scaled_dot
from regard.attention.select import Select, hard, recorded, sampled, soft, straight_through
from regard.bounds import WEIGHT, Ge
from regard.config import Doc, Settings

ScoreName = Literal["dot", "scaled_dot", "additive", "bilinear", "scaled_bilinear", "projected_dot"]
PositionName = Literal["sinusoidal", "learned", "rotary", "relative", "none"]


@dataclass(frozen=True)
class AttentionConfig(Settings):
    """How attention scores keys and selects among them."""

    score: Annotated[ScoreName, Doc("how well a key answers a query")] = "scaled_dot"
    select: Annotated[
        Literal["soft", "hard", "sampled"],
        Doc(
            "all values by their weights, the best alone, or one drawn by its weight (in training)"
        ),
    ] = "soft"
    estimator: Annotated[
        Literal["straight_through", "reinforce"], Doc("how drawn selections are learned")
    ] = "straight_through"
    reinforce_weight: Annotated[
        float,
        Doc("weight of REINFORCE beside the loss; more of it drowns the rest in noise"),
        Ge(0),
        WEIGHT,
    ] = 0.01

    def problems(self) -> Iterator[str]:
        """REINFORCE learns from what chance tries."""
        if self.estimator == "reinforce" and self.select != "sampled":
            yield f"estimator is reinforce, which needs select=sampled, not {self.select}"


@dataclass(frozen=True)
class AttentionShape:
    """What attention modules are built from."""

    width: int
    heads: int
    key_width: int | None = None  # of a head; None: width / heads
    dropout: float = 0.0
    config: AttentionConfig = field(default_factory=AttentionConfig)
    positions: PositionName = "none"
    layout: Layout = "interleaved"  # of the sinusoids of distances
    max_distance: int | None = None  # whatever is farther away counts as this far
    bias: bool = True  # in the projections

    @property
    def head_width(self) -> int:
        """The size of a head's queries and keys."""
        return self.key_width or self.width // self.heads

    def score(self) -> Score:
        """The score, with weights of its own for each head if it has any."""
        heads, d = self.heads, self.head_width
        scores: dict[ScoreName, Callable[[], Score]] = {
            "dot": lambda: dot,
            "scaled_dot": lambda: scaled_dot,
            "additive": lambda: Additive(d, d, d, heads),
            "bilinear": lambda: Bilinear(d, d, heads=heads),
            "scaled_bilinear": lambda: Bilinear(d, d, scaled=True, heads=heads),
            "projected_dot": lambda: ProjectedDot(d, d, d, heads),
        }
        return scores[self.config.score]()

    def score_within(self) -> Score:
        """The score among the tokens of one sentence, where distances can count."""
        if self.positions == "relative":
            return RelativeScore(
                self.heads, self.head_width, layout=self.layout, farthest=self.max_distance
            )
        return self.score()

    def select(self, *, training: bool, choices: list[Tensor] | None) -> Select:
        """The selection; `choices` is told how likely each drawn one was."""
        if self.config.select == "soft":
            return soft
        if not training:
            return hard
        if self.config.estimator == "reinforce":
            return recorded(sampled(), [] if choices is None else choices)
        return straight_through(hard if self.config.select == "hard" else sampled())
