"""The settings of searches; importing them costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypedDict

from regard.bounds import COUNT, IDS, SEED, Ge, Le
from regard.config import Doc, Flag, Settings

EngineName = Literal["auto", "torch", "ctranslate2"]
MAX_TOKENS = Le(50_000)  # that follow a prompt
AtLimit = Literal["scored", "free", "cut"]
Fertility = Literal["argmax", "average"]
Precision = Literal["float32", "bfloat16", "int8"]
# What HuggingFace, fairseq, Marian, OpenNMT, Sockeye and CTranslate2 call these settings. A name
# from there is not accepted, since its meaning may differ a little; it is answered with ours.
LENGTH = "max_extra with max_ratio=0 (in `generate`: max_tokens)"
_THEIRS = {
    "beam_size": "beam beam_width beams n_beam num_beam num_beams",
    "top_beams": "n_best nbest nbest_size num_hypotheses num_return_sequences return_n_best",
    "length_penalty": "alpha beam_alpha len_penalty length_penalty_alpha lenpen normalize",
    "patience": "beam_search_stop early_stopping stop_early",
    "scores": "output_scores print_scores return_scores with_scores",
    "max_ratio": "max_len_a max_length_factor max_length_ratio",
    "max_extra": "max_len_b",
    LENGTH: "max_decoding_length max_len max_length max_new_tokens max_output_length "
    "max_target_length",
    "min_length": "min_decoding_length min_len min_new_tokens min_output_length",
    "sample": "do_sample output_sampling sampling",
    "temperature": "random_sampling_temp sampling_temperature softmax_temperature",
    "top_k": "random_sampling_topk sampling_topk topk",
    "top_p": "nucleus random_sampling_topp sampling_topp topp",
    "seed": "random_seed",
    "batch_size": "buffer_size max_batch_size mini_batch per_device_eval_batch_size",
    "prefixes": "forced_prefix prefix prefix_tokens target_prefix target_prefixes",
    "attention": "output_attentions replace_unknowns return_attention",
}
OTHER_NAMES = {theirs: (ours,) for ours, every in _THEIRS.items() for theirs in every.split()}


@dataclass(frozen=True)
class SearchConfig(Settings):
    """How translations are looked for."""

    also_called: ClassVar = OTHER_NAMES

    beam_size: Annotated[
        int, Doc("beginnings kept for each sentence; 1: greedy"), Ge(1), Le(1000)
    ] = 5
    top_beams: Annotated[
        int, Doc("translations that come back for each sentence"), Ge(1), Le(10_000)
    ] = 1
    length_penalty: Annotated[
        float, Doc("score = log-probability / length^this; larger favours longer"), Ge(0), Le(5)
    ] = 1.0
    patience: Annotated[
        float,
        Doc(
            "beam search: a sentence is done after beam_size times this finished translations, 1 "
            "or more, as in CTranslate2; 0: when no beam could win any more"
        ),
        Ge(0),
        Le(100),
    ] = 0.0
    scores: Annotated[
        bool, Doc("whether scores are told; without them, greedy search can be quicker")
    ] = True
    max_ratio: Annotated[float, Doc("tokens allowed for each source token"), Ge(0), Le(1000)] = 2.0
    max_extra: Annotated[int, Doc("tokens allowed beyond that"), Ge(1), Le(100_000)] = 20
    min_length: Annotated[
        int | None,
        Doc(
            "tokens before the end may be written; unset: 1 with patience, as in CTranslate2, "
            "otherwise 0"
        ),
        Ge(0),
        Le(100_000),
    ] = None
    at_limit: Annotated[
        AtLimit,
        Doc("an end at the limit is scored by the model, is free, or the text is cut without one"),
    ] = "scored"
    sample: Annotated[bool, Doc("draw at random instead of searching")] = False
    temperature: Annotated[
        float, Doc("sampling: above 1 more varied, below 1 less"), Ge(0.01), Le(100)
    ] = 1.0
    top_k: Annotated[int, Doc("sampling: among the k likeliest words; 0: all"), Ge(0), IDS] = 0
    top_p: Annotated[
        float, Doc("sampling: among the likeliest words of this total probability"), Ge(0), Le(1)
    ] = 1.0
    seed: Annotated[int, Doc("sampling and candidates: same seed, same draws"), Ge(0), SEED] = 1
    fertility: Annotated[
        Fertility,
        Doc("nonautoregressive: the likeliest number of words for each source token, or the mean"),
    ] = "argmax"
    candidates: Annotated[
        int,
        Doc(
            "nonautoregressive: outputs to choose from, by the teacher if there is one: all but "
            "the first have drawn fertilities; with CTC, the likeliest over all paths"
        ),
        Ge(1),
        Le(1000),
    ] = 1

    def problems(self) -> Iterator[str]:
        """No more can come back than was kept."""
        kept = max(self.beam_size, self.candidates)
        if self.top_beams > kept and not self.sample:
            yield f"top_beams is {self.top_beams}, and cannot exceed beam_size {kept}"
        if 0 < self.patience < 1:
            yield f"patience is {self.patience:g}, and must be 0, or 1 and more"

    @property
    def enough(self) -> int | None:
        """Finished translations with which a sentence is done; None: until no beam could win."""
        return int(self.beam_size * self.patience + 0.5) if self.patience else None

    @property
    def minimum(self) -> int:
        """Tokens before EOS; an empty translation would count as one of the finished ones."""
        if self.min_length is not None:
            return self.min_length
        return int(self.patience > 0 and self.beam_size > 1 and not self.sample)

    def limit(self, source_length: int, max_length: int | None = None) -> int:
        """How long a translation may get, the end marks of both sides counted."""
        limit = max(int(source_length * self.max_ratio) + self.max_extra, self.minimum + 1)
        return limit if max_length is None else min(limit, max_length)


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchConfig` as keyword arguments; a test keeps both the same."""

    beam_size: int
    top_beams: int
    length_penalty: float
    patience: float
    scores: bool
    max_ratio: float
    max_extra: int
    min_length: int | None
    at_limit: AtLimit
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int
    fertility: Fertility
    candidates: int


@dataclass(frozen=True)
class Runtime(Settings):
    """Where and how a model runs."""

    batch_size: Annotated[
        int | None,
        Doc("sentences that are processed at once; unset: what suits the backend"),
        Ge(1),
        Le(100_000),
    ] = None
    backend: Annotated[
        str,
        Doc(
            "what runs the model: torch, ctranslate2, or auto: CTranslate2 on a CPU, if it is "
            "installed and can run the model"
        ),
        Flag(formerly=("--engine",)),
    ] = "auto"
    precision: Annotated[
        str | None,
        Doc(
            "of the numbers: float32, bfloat16 (PyTorch) or int8 (CTranslate2); unset: bfloat16 on "
            "a GPU, float32 elsewhere, or as the model was exported"
        ),
    ] = None
    device: Annotated[
        str,
        Doc("where it runs: cpu, cuda, cuda:1 (the second GPU, and so on), or auto: a GPU if any"),
    ] = "auto"

    @property
    def loading(self) -> dict[str, Any]:
        """The keywords with which pipelines are loaded."""
        return {"device": self.device, "backend": self.backend, "precision": self.precision}


@dataclass(frozen=True)
class DistillConfig(Settings):
    """How a teacher's translations become training text."""

    search: SearchConfig = field(default_factory=SearchConfig)
    nearest: Annotated[
        bool, Doc("take what is nearest to the old target in the beam, instead of the likeliest")
    ] = False
    mix: Annotated[
        bool,
        Doc("keep the old pairs too where they differ, as corpora of their own after the new ones"),
    ] = False
    distributions: Annotated[
        int,
        Doc("keep so many of the teacher's likeliest words at each place of a target"),
        Ge(0),
        Le(1000),
    ] = 0
    portion: Annotated[
        int, Doc("sentences that are written at a time; a kill loses no more"), Ge(1), COUNT
    ] = 2000

    def problems(self) -> Iterator[str]:
        """What is nearest is chosen from a beam."""
        if self.nearest and self.search.beam_size == 1:
            yield "nearest chooses from a beam, and search.beam_size is 1; use --beam-size 5"
