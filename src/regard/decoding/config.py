"""Settings of decoding and distillation; this module does not import PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypedDict

from regard.bounds import COUNT, IDS, SEED, Ge, Le
from regard.config import Doc, Flag, Formerly, Settings

MAX_TOKENS = Le(50_000)  # generated after a prompt
AtLimit = Literal["scored", "free", "cut"]
Fertility = Literal["argmax", "average"]
# Names of these settings in HuggingFace, fairseq, Marian, OpenNMT, Sockeye and CTranslate2. They
# are rejected with a hint, not accepted, since their meaning may differ slightly.
LENGTH = "max_extra with max_ratio=0 (in `generate`: max_tokens)"
_FOREIGN_NAMES_BY_SETTING = {
    "beam_size": "beam beam_width beams n_beam num_beam num_beams",
    "num_hypotheses": "n_best nbest nbest_size num_return_sequences return_n_best",
    "beam_groups": "diverse_beam_groups num_beam_groups",
    "diversity_penalty": "beam_search_diversity diverse_beam_strength diversity_strength",
    "length_penalty": "alpha beam_alpha len_penalty length_penalty_alpha lenpen normalize",
    "patience": "beam_search_stop early_stopping stop_early",
    "scores": "output_scores print_scores return_scores with_scores",
    "max_ratio": "max_len_a max_length_factor max_length_ratio",
    "max_extra": "max_len_b",
    LENGTH: "max_decoding_length max_len max_length max_new_tokens max_output_length "
    "max_target_length",
    "min_length": "min_decoding_length min_len min_new_tokens min_output_length",
    "min_ratio": "min_length_ratio",
    "no_repeat_ngram_size": "block_ngram_repeat ngram_repeat_block no_repeat_ngram",
    "repetition_penalty": "rep_penalty",
    "banned_sequences": "bad_words_ids suppress_sequences suppress_tokens",
    "forbid": "bad_words banned_words forbidden_words",
    "force": "constraints force_words force_words_ids forced_words",
    "glossary": "glossaries glossary_path terminology",
    "sample": "do_sample output_sampling sampling",
    "temperature": "random_sampling_temp sampling_temperature softmax_temperature",
    "top_k": "random_sampling_topk sampling_topk topk",
    "top_p": "nucleus random_sampling_topp sampling_topp topp",
    "seed": "random_seed",
    "batch_size": "buffer_size max_batch_size mini_batch per_device_eval_batch_size",
    "prefixes": "forced_prefix prefix prefix_tokens target_prefix target_prefixes",
    "attention": "output_attentions replace_unknowns return_attention",
}
FOREIGN_NAMES = {
    foreign: (setting,)
    for setting, names in _FOREIGN_NAMES_BY_SETTING.items()
    for foreign in names.split()
}


@dataclass(frozen=True)
class SearchConfig(Settings):
    """Settings of beam search, greedy search, sampling and non-autoregressive decoding."""

    foreign_names: ClassVar = FOREIGN_NAMES

    beam_size: Annotated[int, Doc("beam size; 1: greedy search"), Ge(1), Le(1000)] = 5
    num_hypotheses: Annotated[
        int,
        Doc("hypotheses returned per sentence (n-best)"),
        Ge(1),
        Le(10_000),
        Formerly("top_beams"),
    ] = 1
    beam_groups: Annotated[
        int,
        Doc(
            "diverse beam search: number of groups that the beams are divided into; beam_size is "
            "divisible by it"
        ),
        Ge(1),
        Le(1000),
    ] = 1
    diversity_penalty: Annotated[
        float,
        Doc(
            "diverse beam search: subtracted from the log-prob of a token for each beam of an "
            "earlier group with the same token at the same position"
        ),
        Ge(0),
        Le(100),
    ] = 0.5
    length_penalty: Annotated[
        float,
        Doc("alpha in score = log-prob / length^alpha; larger values favor longer outputs"),
        Ge(0),
        Le(5),
    ] = 1.0
    patience: Annotated[
        float,
        Doc(
            "beam search stops after beam_size * patience finished hypotheses (patience >= 1, as "
            "in CTranslate2); 0: when beam_size of them score higher than the best beam"
        ),
        Ge(0),
        Le(100),
    ] = 0.0
    scores: Annotated[bool, Doc("compute scores; greedy search can be faster without them")] = True
    max_ratio: Annotated[float, Doc("maximum target length per source token"), Ge(0), Le(1000)] = (
        2.0
    )
    max_extra: Annotated[int, Doc("added to the maximum target length"), Ge(1), Le(100_000)] = 20
    min_length: Annotated[
        int | None,
        Doc(
            "minimum number of tokens before EOS; default: 1 with patience, as in CTranslate2, "
            "otherwise 0"
        ),
        Ge(0),
        Le(100_000),
    ] = None
    min_ratio: Annotated[
        float,
        Doc("minimum target length per source token; unlike min_length, it does not change scores"),
        Ge(0),
        Le(1000),
    ] = 0.0
    no_repeat_ngram_size: Annotated[
        int,
        Doc("sequences of this many tokens occur once at most in a hypothesis; 0: no restriction"),
        Ge(0),
        Le(1000),
    ] = 0
    repetition_penalty: Annotated[
        float,
        Doc(
            "logits of tokens that the hypothesis contains are divided by this if they are "
            "positive, and multiplied if negative; 1: no penalty"
        ),
        Ge(0.01),
        Le(100),
    ] = 1.0
    banned_sequences: Annotated[
        tuple[tuple[int, ...], ...],
        Doc("sequences of token ids that no hypothesis contains"),
        Ge(0),
        IDS,
    ] = ()
    at_limit: Annotated[
        AtLimit,
        Doc(
            "EOS forced at the maximum length: scored by the model, free (log-prob 0), or cut "
            "(truncated without EOS)"
        ),
    ] = "scored"
    sample: Annotated[bool, Doc("sample instead of searching")] = False
    temperature: Annotated[float, Doc("sampling: softmax temperature"), Ge(0.01), Le(100)] = 1.0
    top_k: Annotated[
        int, Doc("sampling: only from the k most probable tokens; 0: all"), Ge(0), IDS
    ] = 0
    top_p: Annotated[
        float,
        Doc("sampling: only from the most probable tokens with this total probability (nucleus)"),
        Ge(0),
        Le(1),
    ] = 1.0
    epsilon_cutoff: Annotated[
        float, Doc("sampling: only tokens of at least this probability; 0: all"), Ge(0), Le(1)
    ] = 0.0
    seed: Annotated[int, Doc("random seed of sampling and of candidates"), Ge(0), SEED] = 1
    fertility: Annotated[
        Fertility,
        Doc("non-autoregressive: fertility of each source token, the most probable or the mean"),
    ] = "argmax"
    candidates: Annotated[
        int,
        Doc(
            "non-autoregressive: candidates per sentence, reranked by the teacher if there is one; "
            "with fertilities sampled (noisy parallel decoding), with CTC by prefix beam search"
        ),
        Ge(1),
        Le(1000),
    ] = 1

    def problems(self) -> Iterator[str]:
        """Beams suffice for `num_hypotheses` and fill groups; `patience` is 0 or at least 1."""
        beams = max(self.beam_size, self.candidates)
        if self.num_hypotheses > beams and not self.sample:
            yield (
                f"num_hypotheses is {self.num_hypotheses}, but must be at most beam_size ({beams})"
            )
        if self.beam_size % self.beam_groups and not self.sample:
            yield (
                f"beam_size is {self.beam_size}, but must be divisible by beam_groups "
                f"({self.beam_groups})"
            )
        if 0 < self.patience < 1:
            yield f"patience is {self.patience:g}, but must be 0, or at least 1"
        if not all(self.banned_sequences):
            yield "banned_sequences has an empty sequence; remove it"

    @property
    def has_penalties(self) -> bool:
        """Whether the tokens of a hypothesis restrict or penalize those that follow."""
        restricted = self.no_repeat_ngram_size > 0 or len(self.banned_sequences) > 0
        return restricted or self.repetition_penalty != 1 or self.min_ratio > 0

    @property
    def requires_torch(self) -> bool:
        """Whether only the PyTorch backend can search with these settings."""
        return self.sample or self.at_limit != "scored" or self.beam_groups > 1

    @property
    def group_size(self) -> int:
        """Beams of each group in diverse beam search."""
        return self.beam_size // self.beam_groups

    @property
    def max_finished(self) -> int | None:
        """Finished hypotheses after which beam search stops; None: search until no beam can win.

        In diverse beam search, those of a group.
        """
        return int(self.group_size * self.patience + 0.5) if self.patience else None

    @property
    def effective_min_length(self) -> int:
        """Minimum tokens before EOS; `patience` would count an empty hypothesis as finished."""
        if self.min_length is not None:
            return self.min_length
        return int(self.patience > 0 and self.beam_size > 1 and not self.sample)

    def minimum(self, source_length: int, limit: int) -> int:
        """Tokens before EOS that `min_ratio` requires; EOS is included in both lengths."""
        return max(0, min(int(source_length * self.min_ratio), limit) - 1)

    def limit(self, source_length: int, max_length: int | None = None, context: int = 0) -> int:
        """The maximum target length; EOS is included in both lengths.

        `context` is the length of document context, which only the result includes.
        """
        limit = int(source_length * self.max_ratio) + self.max_extra
        limit = context + max(limit, self.effective_min_length + 1)
        return limit if max_length is None else min(limit, max_length)


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchConfig` as keyword arguments; a test checks that they are equal."""

    beam_size: int
    num_hypotheses: int
    beam_groups: int
    diversity_penalty: float
    length_penalty: float
    patience: float
    scores: bool
    max_ratio: float
    max_extra: int
    min_length: int | None
    min_ratio: float
    no_repeat_ngram_size: int
    repetition_penalty: float
    banned_sequences: tuple[tuple[int, ...], ...]
    at_limit: AtLimit
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    epsilon_cutoff: float
    seed: int
    fertility: Fertility
    candidates: int


@dataclass(frozen=True)
class DistillConfig(Settings):
    """Settings of sequence-level knowledge distillation."""

    search: SearchConfig = field(default_factory=SearchConfig)
    select: Annotated[
        Literal["best-score", "best-bleu"],
        Doc(
            "hypothesis of the beam that becomes the target: the one with the best model score, or "
            "with the best sentence BLEU against the original target (sequence-level interpolation)"
        ),
        Flag(formerly=("--nearest=best-bleu",)),
    ] = "best-score"
    mix: Annotated[
        bool,
        Doc(
            "also keep the original pairs where they differ, as separate corpora after the new ones"
        ),
    ] = False
    distributions: Annotated[
        int,
        Doc(
            "tokens whose teacher probabilities are stored at each target position, for word-level "
            "distillation; 0 stores none"
        ),
        Ge(0),
        Le(1000),
    ] = 0
    chunk_size: Annotated[
        int,
        Doc("sentences per chunk; translation resumes after the last finished chunk"),
        Ge(1),
        COUNT,
        Flag(formerly=("--portion",)),
    ] = 2000

    def problems(self) -> Iterator[str]:
        """Selection needs several hypotheses."""
        if self.select == "best-bleu" and self.search.beam_size == 1:
            yield "select=best-bleu requires search.beam_size above 1; use --beam-size 5"
