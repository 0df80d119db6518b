"""Settings of attention, and the sizes that attention modules are built from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.positions import Layout
from regard.attention.relative import RelativeScore
from regard.attention.scores import Additive, Bilinear, ProjectedDot, Score, dot, scaled_dot
from regard.attention.select import Select, hard, sampled, soft, straight_through, with_log_probs
from regard.bounds import WEIGHT, Ge
from regard.config import Doc, Settings

ScoreName = Literal["dot", "scaled_dot", "additive", "bilinear", "scaled_bilinear", "projected_dot"]
PositionName = Literal["sinusoidal", "learned", "rotary", "relative", "none"]


@dataclass(frozen=True)
class AttentionConfig(Settings):
    """Score function and selection of attention."""

    score: Annotated[ScoreName, Doc("attention score function")] = "scaled_dot"
    select: Annotated[
        Literal["soft", "hard", "sampled"],
        Doc(
            "soft: weighted sum; hard: the value with the highest score; sampled: one value drawn "
            "by its weight in training"
        ),
    ] = "soft"
    estimator: Annotated[
        Literal["straight_through", "reinforce"], Doc("gradient estimator of sampled attention")
    ] = "straight_through"
    reinforce_weight: Annotated[
        float,
        Doc("weight of the REINFORCE term of the loss; large values add much noise"),
        Ge(0),
        WEIGHT,
    ] = 0.01

    def problems(self) -> Iterator[str]:
        """REINFORCE without sampling."""
        if self.estimator == "reinforce" and self.select != "sampled":
            yield f"estimator=reinforce requires select=sampled, not {self.select}"


@dataclass(frozen=True)
class AttentionShape:
    """The sizes and settings of an attention module."""

    d_model: int
    num_heads: int
    key_dim: int | None = None  # of a head; None: d_model / num_heads
    dropout: float = 0.0
    config: AttentionConfig = field(default_factory=AttentionConfig)
    positions: PositionName = "none"
    layout: Layout = "interleaved"  # of the sinusoids of relative positions
    max_distance: int | None = None  # relative positions are clipped to this distance
    bias: bool = True  # of the projections

    @property
    def head_dim(self) -> int:
        """The size of a head's queries and keys."""
        return self.key_dim or self.d_model // self.num_heads

    def make_score(self) -> Score:
        """A new score function; a parametric one has separate weights for each head."""
        num_heads, d = self.num_heads, self.head_dim
        scores: dict[ScoreName, Callable[[], Score]] = {
            "dot": lambda: dot,
            "scaled_dot": lambda: scaled_dot,
            "additive": lambda: Additive(d, d, d, num_heads),
            "bilinear": lambda: Bilinear(d, d, num_heads=num_heads),
            "scaled_bilinear": lambda: Bilinear(d, d, scaled=True, num_heads=num_heads),
            "projected_dot": lambda: ProjectedDot(d, d, d, num_heads),
        }
        return scores[self.config.score]()

    def make_self_attention_score(self) -> Score:
        """A new score function of self-attention, with relative positions if they are set."""
        if self.positions == "relative":
            return RelativeScore(
                self.num_heads, self.head_dim, layout=self.layout, max_distance=self.max_distance
            )
        return self.make_score()

    def make_select(self, *, training: bool, log_probs: list[Tensor] | None) -> Select:
        """The selection; with REINFORCE, log-probs of samples are appended to `log_probs`."""
        if self.config.select == "soft":
            return soft
        if not training:
            return hard
        if self.config.estimator == "reinforce":
            return with_log_probs(sampled(), [] if log_probs is None else log_probs)
        return straight_through(hard if self.config.select == "hard" else sampled())
