"""Settings of the choice among candidate translations; does not import PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from regard.bounds import Ge, Le
from regard.config import Doc, Settings
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.modes import BEAM_SEARCH
from regard.errors import ConfigError

UtilityName = Literal["chrf", "bleu", "comet"]
ScoreType = Literal["log_prob", "expected_utility", "reranking_score"]


@dataclass(frozen=True)
class RankingConfig(Settings):
    """Settings of the choice among candidate translations."""

    mbr: Annotated[
        UtilityName | None,
        Doc(
            "minimum Bayes risk decoding: the translation is the candidate with the highest "
            "expected utility, its mean chrF, BLEU or COMET against all candidates"
        ),
    ] = None
    mbr_samples: Annotated[
        int,
        Doc(
            "MBR: number of samples that are the candidates; 0: the beam_size hypotheses of the "
            "search"
        ),
        Ge(0),
        Le(10_000),
    ] = 0
    comet_checkpoint: Annotated[
        Path | None, Doc("MBR: local checkpoint of the COMET model, with --mbr comet")
    ] = None

    rerank: Annotated[
        tuple[Path, ...],
        Doc(
            "rank the beam_size hypotheses of the search by the log-probs of this model as well: a "
            "right-to-left or reverse-direction model, or a language model; repeatable"
        ),
    ] = ()
    rerank_weight: Annotated[
        tuple[float, ...],
        Doc("weight of the log-prob per token of each model of rerank, in order; default: 1"),
        Ge(-100),
        Le(100),
    ] = ()

    def problems(self) -> Iterator[str]:
        """Settings of MBR require `mbr`, and weights models."""
        if self.mbr and self.rerank:
            yield "mbr and rerank exclude each other, since both choose the translation; use one"
        if len(self.rerank_weight) not in (0, len(self.rerank)):
            yield (
                f"rerank_weight has {len(self.rerank_weight)} values, but rerank has "
                f"{len(self.rerank)} models; give one for each, or none"
            )
        if self.mbr is None and self.mbr_samples:
            yield "mbr_samples has no effect without mbr; use --mbr chrf"
        if self.mbr_samples == 1:
            yield "mbr_samples is 1, which leaves no choice; use 2 or more"
        if self.mbr == "comet" and self.comet_checkpoint is None:
            yield "mbr=comet requires comet_checkpoint, the path of a checkpoint (model.ckpt)"
        if self.mbr != "comet" and self.comet_checkpoint is not None:
            yield "comet_checkpoint has no effect without mbr=comet; leave it out"

    @property
    def score_type(self) -> ScoreType:
        """What the scores of translations are."""
        if self.rerank:
            return "reranking_score"
        return "expected_utility" if self.mbr else "log_prob"

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each model of `rerank`."""
        return self.rerank_weight or (1.0,) * len(self.rerank)


class RankingKeywords(TypedDict, total=False):
    """The fields of `RankingConfig` as keyword arguments; a test checks that they are equal."""

    mbr: UtilityName | None
    mbr_samples: int
    comet_checkpoint: Path | None
    rerank: tuple[Path, ...]
    rerank_weight: tuple[float, ...]


def with_implied(search: SearchKeywords, ranking: RankingConfig) -> SearchKeywords:
    """The keywords of a search, with those that these settings imply."""
    return {**search, "sample": True} if ranking.mbr_samples else search


def candidate_count(search: SearchConfig, ranking: RankingConfig, mode: str) -> int:
    """The number of candidates per sentence in a decoding mode; raises an error if it is 1."""
    name = "rerank (--rerank)" if ranking.rerank else "mbr (--mbr)"
    if mode == "sampling" and not ranking.mbr_samples:
        raise ConfigError(
            "rerank (--rerank) ranks the hypotheses of beam search. Leave out --sample."
            if ranking.rerank
            else "mbr (--mbr) with sampling requires the number of samples. Use --mbr-samples 100 "
            "instead of --sample."
        )
    nbest = search.beam_size if mode in BEAM_SEARCH else search.candidates
    count = ranking.mbr_samples or nbest
    if count == 1:
        samples = "" if ranking.rerank else "--mbr-samples 100, "
        raise ConfigError(
            f"{name} has no candidates to choose from in {mode}. Use {samples}a --beam-size above "
            "1, or with a non-autoregressive model --candidates above 1."
        )
    if search.num_hypotheses > count:
        raise ConfigError(
            f"num_hypotheses is {search.num_hypotheses}, but there are only {count} candidates. "
            "Use a smaller --num-hypotheses."
        )
    return count
