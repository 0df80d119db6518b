"""Non-autoregressive decoding: all target tokens in one pass, with fertilities or CTC.

With fertilities, each candidate is the output for one row of fertilities: the most probable or the
mean ones, then sampled ones. With CTC, the candidate is the best path, or several candidates come
from prefix beam search. An autoregressive teacher reranks candidates (noisy parallel decoding).

Fertilities are chosen and sampled on the host; the device only runs forward passes. There is one
synchronization, or two with fertilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.attention.multihead import AttentionRecorder
from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.decoding.backend import (
    Hypothesis,
    finished_hypothesis,
    sort_by_score,
)
from regard.decoding.config import SearchConfig
from regard.decoding.ctc_beam_search import TopProbabilities, prefix_beam_search
from regard.decoding.forward_passes import EagerPasses
from regard.decoding.greedy import sample, sentence_generator
from regard.decoding.pair_batches import map_pairs_by_length
from regard.decoding.score import token_log_probs
from regard.errors import ConfigError
from regard.layers.ctc import BLANK, collapse_mask
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive, ensure_one_token
from regard.text.special import SPECIAL

_CHUNK = 16384  # positions whose logits are computed at once
_RERANK_BATCH_SIZE = 1024  # candidates that the teacher scores at once
_DROPPED = -1  # replaces blanks and repetitions of a CTC path
_CTC_TOP_K = 8  # most probable tokens per position that prefix beam search considers


@torch.inference_mode()
def nonautoregressive_search(
    model: NonAutoregressive,
    source: Ragged,
    config: SearchConfig,
    *,
    teacher: Model | None = None,
    passes: EagerPasses | None = None,
) -> list[list[Hypothesis]]:
    """`num_hypotheses` hypotheses per source sentence, best first."""
    refuse_unsupported_settings(model, config, teacher)
    source = source.to(torch.device("cpu"))
    passes = passes or EagerPasses(model.device)
    if model.fertility is not None:
        decode = _decode_with_fertilities
    else:
        decode = _ctc_beam_search if config.candidates > 1 else _ctc_best_path
    candidates = decode(model, source, config, passes)
    if teacher is not None and config.candidates > 1:
        candidates = _rerank(teacher, source, candidates, config, passes)
    return [hypotheses[: config.num_hypotheses] for hypotheses in candidates]


def refuse_unsupported_settings(
    model: NonAutoregressive, config: SearchConfig, teacher: Model | None
) -> None:
    """Raise a ConfigError for settings that need autoregressive decoding or a teacher."""
    if config.sample:
        raise ConfigError(
            "Non-autoregressive models do not support --sample. Leave it out, or use --candidates "
            "to sample several translations, which a --teacher reranks."
        )
    if config.min_length is not None:
        raise ConfigError(
            "Non-autoregressive models predict the target length. Leave out --min-length."
        )
    if model.fertility is None and config.fertility != "argmax":
        raise ConfigError("This model uses CTC and has no fertilities. Leave out --fertility.")
    if config.num_hypotheses > config.candidates:
        options = "--candidates" if model.fertility is None else "--candidates and --teacher"
        raise ConfigError(
            f"--num-hypotheses {config.num_hypotheses} exceeds the number of candidates per "
            f"sentence, {config.candidates}. Leave it out, or use {options}."
        )
    if config.candidates > 1 and model.fertility is not None and teacher is None:
        raise ConfigError(
            "--candidates requires --teacher, an autoregressive model that reranks them."
        )


def _ctc_best_path(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: EagerPasses
) -> list[list[Hypothesis]]:
    """The output of the most probable CTC path of each sentence."""

    def forward(row: Ragged) -> Tensor:
        upsampled = model.upsample(row)
        hidden = model.decode(upsampled, model.encode(row), row.lengths)
        path = best_tokens(model, hidden)
        path[:, 0].masked_fill_(~collapse_mask(path[:, 0], upsampled.lengths), _DROPPED)
        return path

    lengths = source.lengths.scaled(model.config.copies)
    hypotheses = _to_hypotheses(passes("best path", forward, [source]), lengths, config)
    return [[hypothesis] for hypothesis in hypotheses]


def _ctc_beam_search(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: EagerPasses
) -> list[list[Hypothesis]]:
    """The most probable outputs of each sentence, summed over all CTC paths."""

    def forward(row: Ragged) -> Tensor:
        upsampled = model.upsample(row)
        hidden = model.decode(upsampled, model.encode(row), row.lengths)
        table = torch.cat([_top_probabilities(model, part) for part in hidden.split(_CHUNK)])
        beams = prefix_beam_search(_pad(table, upsampled.lengths), config.candidates)
        return torch.cat([beams.log_probs[..., None], beams.lengths[..., None], beams.tokens], -1)

    table = passes(("beam search", config.candidates), forward, [source])[: len(source.lengths)]
    return [
        sort_by_score(
            _to_hypothesis(map(int, tokens[: int(length)]), log_prob, config)
            for log_prob, length, *tokens in beams
            if log_prob > -torch.inf
        )
        for beams in table.tolist()
    ]


def _top_probabilities(model: NonAutoregressive, hidden: Tensor) -> Tensor:
    """The probabilities of a blank and of the k best tokens, then their ids. (N, 1 + k + k)"""
    probabilities = model.projection(hidden).float().softmax(-1)
    blank = probabilities[:, BLANK, None].clone()
    for token in (SPECIAL.pad, SPECIAL.unk, SPECIAL.eos, BLANK):
        probabilities[:, token] = 0.0
    best = probabilities.topk(min(_CTC_TOP_K, probabilities.shape[1]), dim=1)
    return torch.cat([blank, best.values, best.indices.float()], 1).double()


def _pad(table: Tensor, lengths: Lengths) -> TopProbabilities:
    """The top probabilities of all positions as a padded batch; padding is blank."""
    rows = table.new_zeros(len(lengths) * lengths.longest, table.shape[1])
    rows[:, 0] = 1.0
    rows.index_copy_(0, lengths.sentence * lengths.longest + lengths.positions, table)
    rows = rows.view(len(lengths), lengths.longest, -1)
    blank, probabilities, tokens = rows.split([1, rows.shape[2] // 2, rows.shape[2] // 2], dim=2)
    return TopProbabilities(blank[..., 0], tokens.long(), probabilities)


def _decode_with_fertilities(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: EagerPasses
) -> list[list[Hypothesis]]:
    """The output for each row of fertilities, for each sentence."""
    assert model.fertility is not None
    predictor = model.fertility

    def encode(row: Ragged) -> Tensor:
        """Fertility logits and encoder output, concatenated. (N, classes + D)"""
        encoder_output = model.encode(row)
        return torch.cat([predictor(encoder_output), encoder_output], 1)

    encoded = passes("encode", encode, [source])
    classes = model.config.max_fertility + 1
    log_probs = encoded[: source.lengths.total, :classes].float().cpu().log_softmax(-1)
    counts = limit_fertilities(
        choose_fertilities(log_probs, source, config), source, config, model.max_length
    )
    candidates = len(counts)
    lengths = Lengths.of(source.lengths.sums(counts).flatten().tolist())
    copies = source.repeat(candidates).repeat_tokens(counts.flatten(), lengths)
    # All candidates of a sentence attend to the same encoder output.
    indices = Ragged(torch.arange(source.lengths.total), source.lengths).repeat(candidates)

    def decode(indices: Ragged, copies: Ragged, encoded: Tensor) -> Tensor:
        encoder_output = encoded[:, classes:].index_select(0, indices.tokens)
        return best_tokens(model, model.decode(copies, encoder_output, indices.lengths))

    output = passes("decode", decode, [indices, copies], encoded)
    hypotheses = _to_hypotheses(output, lengths, config)
    sentences = len(source.lengths)
    return [hypotheses[sentence::sentences] for sentence in range(sentences)]


def choose_fertilities(log_probs: Tensor, source: Ragged, config: SearchConfig) -> Tensor:
    """Rows of fertilities: first the most probable or the mean ones, then sampled ones.

    log_probs (N, classes) -> (candidates, N)
    """
    if config.fertility == "average":
        classes = torch.arange(log_probs.shape[1])
        first = (log_probs.exp() * classes).sum(-1).round().long()
    else:
        first = log_probs.argmax(-1)
    if config.candidates == 1:
        return first[None]
    # Generators are seeded by sentence, so that samples do not depend on the batch.
    count = config.candidates - 1
    parts = [
        sentence_generator(config.seed, 0, ids.tolist()).random((count, len(ids)))
        for ids in source.tokens.split(source.lengths.host.tolist())
    ]
    uniform = torch.from_numpy(np.concatenate(parts, 1))
    sampled = sample(log_probs.exp().repeat(count, 1), uniform.flatten()).view(uniform.shape)
    return torch.cat([first[None], sampled])


def limit_fertilities(
    rows: Tensor, source: Ragged, config: SearchConfig, max_length: int | None = None
) -> Tensor:
    """Fertilities whose sum is at most the sentence's length limit, and at least 1.

    rows (candidates, N) -> (candidates, N)
    """
    lengths = source.lengths
    limits = torch.tensor([config.limit(n, max_length) - 1 for n in lengths.host.tolist()])
    preceding = rows.cumsum(1) - rows
    preceding = preceding - preceding[:, lengths.offsets[:-1].long()][:, lengths.sentence]
    rows = rows.minimum((limits[lengths.sentence] - preceding).clamp(min=0))
    return ensure_one_token(rows, lengths)


def best_tokens(model: NonAutoregressive, hidden: Tensor) -> Tensor:
    """The best token of each position, except banned ones, and its log-prob. (N, D) -> (N, 2)"""
    banned = [SPECIAL.pad, SPECIAL.unk, SPECIAL.eos]
    banned += [] if model.fertility is None else [BLANK]
    parts = []
    for part in hidden.split(_CHUNK):
        logits = model.projection(part).float()
        normalizer = logits.logsumexp(-1)
        for token in banned:
            logits[:, token] = -torch.inf
        best, tokens = logits.max(-1)
        parts.append(torch.stack([tokens.double(), (best - normalizer).double()], 1))
    return torch.cat(parts)


def _to_hypotheses(output: Tensor, lengths: Lengths, config: SearchConfig) -> list[Hypothesis]:
    """The hypothesis of each sentence, from tokens and log-probs (N, 2)."""
    table = output[: lengths.total].cpu().numpy()  # waits for the device
    parts = np.split(table, np.cumsum(lengths.host.numpy())[:-1])
    return [
        _to_hypothesis(map(int, tokens[tokens != _DROPPED]), log_probs.sum(), config)
        for tokens, log_probs in (part.T for part in parts)
    ]


def _to_hypothesis(tokens: Iterable[int], log_prob: float, config: SearchConfig) -> Hypothesis:
    return finished_hypothesis([*tokens, SPECIAL.eos], float(log_prob), config.length_penalty)


def _rerank(
    teacher: Model,
    source: Ragged,
    candidates: Sequence[Sequence[Hypothesis]],
    config: SearchConfig,
    passes: EagerPasses,
) -> list[list[Hypothesis]]:
    """The distinct candidates of each sentence with the teacher's scores, best first."""
    sources = [ids.tolist()[:-1] for ids in source.tokens.split(source.lengths.host.tolist())]
    outputs = [
        (sentence, tokens)
        for sentence, hypotheses in enumerate(candidates)
        for tokens in dict.fromkeys(tuple(hypothesis.tokens) for hypothesis in hypotheses)
    ]

    def score_batch(batch: Batch) -> list[float]:
        lengths = batch.target.lengths
        log_probs = passes(
            "score", lambda *sides: token_log_probs(teacher, Batch(*sides)), batch.sides
        )
        sums: list[float] = lengths.sums(log_probs[: lengths.total].double().cpu()).tolist()
        return sums

    pairs = [(sources[sentence], tokens) for sentence, tokens in outputs]
    log_probs = map_pairs_by_length(pairs, torch.device("cpu"), _RERANK_BATCH_SIZE, score_batch)
    reranked: list[list[Hypothesis]] = [[] for _ in candidates]
    for (sentence, tokens), log_prob in zip(outputs, log_probs, strict=True):
        reranked[sentence].append(_to_hypothesis(tokens, log_prob, config))
    return [sort_by_score(hypotheses) for hypotheses in reranked]


@dataclass(frozen=True)
class DecodedSentence:
    """The decoder's output at each position for one sentence, before CTC collapsing."""

    fertilities: list[int]  # of each source token; with CTC, its number of copies
    source_positions: list[int]  # the source token that each decoder input is a copy of
    tokens: list[int]
    emitted: list[bool]  # False for blanks and repetitions of CTC


@torch.inference_mode()
def decode_sentence(
    model: NonAutoregressive, source: Ragged, recorder: AttentionRecorder | None = None
) -> DecodedSentence:
    """Decode a single sentence with the most probable fertilities, for inspection."""
    row, config = source.to(model.device), SearchConfig()
    encoder_output = model.encode(row, recorder)
    counts = torch.full_like(source.tokens, model.config.copies)
    if model.fertility is not None:
        log_probs = model.fertility(encoder_output).float().log_softmax(-1).cpu()
        (counts,) = limit_fertilities(
            choose_fertilities(log_probs, source, config), source, config, model.max_length
        )
    copies = source.repeat_tokens(counts, Lengths.of([int(counts.sum())]))
    hidden = model.decode(copies.to(model.device), encoder_output, row.lengths, recorder)
    tokens = best_tokens(model, hidden)[:, 0].long().cpu()
    emitted = torch.ones_like(tokens, dtype=torch.bool)
    if model.fertility is None:
        emitted = collapse_mask(tokens, copies.lengths)
    positions = torch.arange(len(counts)).repeat_interleave(counts)
    return DecodedSentence(counts.tolist(), positions.tolist(), tokens.tolist(), emitted.tolist())
