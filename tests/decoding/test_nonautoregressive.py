"""Non-autoregressive decoding: fertilities, CTC, sampling and reranking by a teacher."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.backends.lazy_models import require_autoregressive
from regard.cuda_graphs import capture_stream
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.config import SearchConfig
from regard.decoding.forward_passes import CudaGraphPasses, EagerPasses, Forward, Shape
from regard.decoding.nonautoregressive import (
    choose_fertilities,
    decode_sentence,
    limit_fertilities,
    nonautoregressive_search,
)
from regard.decoding.score import score_pairs
from regard.errors import ConfigError
from regard.layers.ctc import BLANK
from regard.pipelines.translator import Translator
from toys import (
    NONAUTOREGRESSIVE_VARIANTS,
    nonautoregressive_model,
    sentences,
    small_transformer,
    write_model_folder,
)

COUNTS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=4)


@given(COUNTS, st.integers(1, 12))
def test_limited_fertilities_satisfy_the_limit(counts: list[list[int]], limit: int) -> None:
    source = with_eos([[4] * (len(sentence) - 1) for sentence in counts])
    row = torch.tensor([[count for sentence in counts for count in sentence]])
    config = SearchConfig(max_ratio=0.0, max_extra=limit + 1)
    limited = limit_fertilities(row, source, config)
    sums = source.lengths.sums(limited)[0].tolist()
    assert sums == [min(max(sum(sentence), 1), limit) for sentence in counts]
    parts = limited[0].split([len(sentence) for sentence in counts])
    for sentence, part in zip(counts, parts, strict=True):
        if 0 < sum(sentence) <= limit:
            assert part.tolist() == sentence
        elif sum(sentence) == 0:
            assert part.tolist() == [1] + [0] * (len(sentence) - 1)
        else:
            assert all(a <= b for a, b in zip(part.tolist(), sentence, strict=True))


def test_fertilities_sum_to_the_length_of_the_output() -> None:
    model = nonautoregressive_model(3)
    for line in sentences(10):
        source = with_eos([line])
        decoded = decode_sentence(model, source)
        [[hypothesis]] = nonautoregressive_search(model, source, SearchConfig())
        assert sum(decoded.fertilities) == len(decoded.tokens) == len(hypothesis.tokens)
        assert hypothesis.tokens == decoded.tokens
        positions = [[position] * n for position, n in enumerate(decoded.fertilities)]
        assert decoded.source_positions == list(itertools.chain(*positions))


def test_ctc_output_has_no_blanks_and_no_repetitions() -> None:
    model = nonautoregressive_model(3, length_prediction="ctc", copies=3)
    for line in sentences(10):
        source = with_eos([line])
        decoded = decode_sentence(model, source)
        [[hypothesis]] = nonautoregressive_search(model, source, SearchConfig())
        assert len(decoded.tokens) == 3 * (len(line) + 1)
        collapsed = [token for token, _ in itertools.groupby(decoded.tokens) if token != BLANK]
        assert hypothesis.tokens == collapsed


def test_argmax_and_average_fertilities() -> None:
    probabilities = torch.tensor([[0.4, 0.0, 0.3, 0.3], [0.1, 0.8, 0.1, 0.0]])
    source = with_eos([[4]])
    for name, expected in (("argmax", [0, 1]), ("average", [2, 1])):  # means of 1.5 and 1.0
        config = SearchConfig(fertility=name)  # type: ignore[arg-type]
        assert choose_fertilities(probabilities.log(), source, config).tolist() == [expected]


@pytest.mark.parametrize("lengths", ["fertility", "ctc"])
@pytest.mark.parametrize("candidates", [1, 6])
def test_search_does_not_depend_on_the_batch(lengths: str, candidates: int) -> None:
    model, teacher = nonautoregressive_model(2, length_prediction=lengths), small_transformer(5)
    lines, config = sentences(12), SearchConfig(candidates=candidates)
    together = nonautoregressive_search(model, with_eos(lines), config, teacher=teacher)
    for line, expected in zip(lines, together, strict=True):
        [actual] = nonautoregressive_search(model, with_eos([line]), config, teacher=teacher)
        assert [h.tokens for h in actual] == [h.tokens for h in expected]
        assert actual[0].score == pytest.approx(expected[0].score, abs=1e-4)


class PaddedPasses(EagerPasses):
    """Eager passes over rows padded to a few shapes, as for CUDA graphs."""

    def __init__(self, limit: int | None, device: torch.device | None = None) -> None:
        super().__init__(device or torch.device("cpu"))
        self._limit = limit

    def __call__(
        self, name: Hashable, forward: Forward, rows: Sequence[Ragged], *tensors: Tensor
    ) -> Tensor:
        shape = Shape.bucket(rows, self._limit)
        assert all(side.tokens % 16 == 0 for side in shape.sides)
        return forward(*shape.unpack(shape.pack(rows).to(self._device)), *tensors)


@pytest.mark.parametrize("variant", NONAUTOREGRESSIVE_VARIANTS)
def test_padded_passes_match_eager_passes(variant: str) -> None:
    settings = NONAUTOREGRESSIVE_VARIANTS[variant]
    model = nonautoregressive_model(2, **settings, max_positions=40)
    teacher = small_transformer(5)
    lines, config = sentences(11, longest=14), SearchConfig(candidates=5)
    eager = nonautoregressive_search(model, with_eos(lines), config, teacher=teacher)
    passes = PaddedPasses(model.max_length)
    padded = nonautoregressive_search(
        model, with_eos(lines), config, teacher=teacher, passes=passes
    )
    assert [[h.tokens for h in hypotheses] for hypotheses in padded] == [
        [h.tokens for h in hypotheses] for hypotheses in eager
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("variant", NONAUTOREGRESSIVE_VARIANTS)
@pytest.mark.parametrize("candidates", [1, 5])
def test_captured_passes_match_eager_passes(variant: str, candidates: int) -> None:
    gpu = torch.device("cuda", 0)
    model = nonautoregressive_model(2, **NONAUTOREGRESSIVE_VARIANTS[variant]).to(gpu).bfloat16()
    teacher, config = small_transformer(5).to(gpu).bfloat16(), SearchConfig(candidates=candidates)
    captured = CudaGraphPasses(gpu, model.max_length)
    for seed in range(6):  # the same shapes again and again
        source = with_eos(sentences(4, seed=seed))
        expected = nonautoregressive_search(
            model, source, config, teacher=teacher, passes=PaddedPasses(model.max_length, gpu)
        )
        with capture_stream(gpu):
            actual = nonautoregressive_search(
                model, source, config, teacher=teacher, passes=captured
            )
        assert actual == expected


def test_sampled_fertilities_depend_on_the_seed_only() -> None:
    model, source = nonautoregressive_model(2), with_eos(sentences(6))
    log_probs = (model.fertility or torch.nn.Identity())(model.encode(source)).log_softmax(-1)
    first, same, other = (
        choose_fertilities(log_probs, source, SearchConfig(candidates=8, seed=seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(first[0], log_probs.argmax(-1))  # the first row is not sampled
    assert len({tuple(row.tolist()) for row in first}) > 4
    fewer = choose_fertilities(log_probs, source, SearchConfig(candidates=4))
    assert torch.equal(fewer[0], first[0])


def test_sampled_fertilities_follow_their_probabilities() -> None:
    probabilities = torch.tensor([[0.5, 0.3, 0.2]]).repeat(2, 1)
    rows = choose_fertilities(probabilities.log(), with_eos([[4]]), SearchConfig(candidates=1000))
    frequencies = torch.bincount(rows[1:].flatten(), minlength=3) / rows[1:].numel()
    torch.testing.assert_close(frequencies, probabilities[0], atol=0.03, rtol=0)


def test_teacher_reranks_candidates() -> None:
    model, teacher, lines = nonautoregressive_model(2), small_transformer(5), sentences(5)
    config = SearchConfig(candidates=10, num_hypotheses=10)
    reranked = nonautoregressive_search(model, with_eos(lines), config, teacher=teacher)
    for line, hypotheses in zip(lines, reranked, strict=True):
        outputs = [h.tokens for h in hypotheses]
        batch = Batch(with_eos([line] * len(outputs)), with_eos(outputs))
        expected = score_pairs([teacher], batch)
        assert [h.score for h in hypotheses] == pytest.approx(expected, abs=1e-4)
        assert expected == sorted(expected, reverse=True)
        [first] = nonautoregressive_search(model, with_eos([line]), SearchConfig())
        assert first[0].tokens in outputs


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"sample": True}, "--candidates"),
        ({"min_length": 3}, "--min-length"),
        ({"num_hypotheses": 2}, "--num-hypotheses"),
        ({"candidates": 3}, "--teacher"),
    ],
)
def test_unsupported_settings_are_refused(settings: dict[str, int], remedy: str) -> None:
    config = SearchConfig(**settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=remedy):
        nonautoregressive_search(nonautoregressive_model(), with_eos([[4]]), config)


def test_candidates_of_ctc() -> None:
    model, teacher = nonautoregressive_model(2, length_prediction="ctc"), small_transformer(5)
    lines = sentences(5)
    config = SearchConfig(candidates=6, num_hypotheses=6)
    alone = nonautoregressive_search(model, with_eos(lines), config)
    reranked = nonautoregressive_search(model, with_eos(lines), config, teacher=teacher)
    for line, candidates, other in zip(lines, alone, reranked, strict=True):
        assert sorted(h.tokens for h in candidates) == sorted(h.tokens for h in other)
        own_scores = [h.score for h in candidates]
        assert own_scores == sorted(own_scores, reverse=True)
        batch = Batch(with_eos([line] * 6), with_eos([h.tokens for h in candidates]))
        log_probs = score_pairs([model], batch, length_penalty=0.0)
        for hypothesis, log_prob in zip(candidates, log_probs, strict=True):
            assert hypothesis.log_probability <= log_prob + 1e-3  # pruned paths are missing


def test_teacher_must_be_autoregressive() -> None:
    with pytest.raises(ConfigError, match="non-autoregressive"):
        require_autoregressive(nonautoregressive_model())


def test_translator_with_a_teacher(tmp_path: Path, reversal_store: Store) -> None:
    student = write_model_folder(tmp_path / "student", reversal_store, kind="nonautoregressive")
    teacher = write_model_folder(tmp_path / "teacher", reversal_store)
    translator = Translator.load(student, teacher=teacher)
    texts = ["a b c", "d e f g", ""]
    translations = translator.translate(texts, candidates=5, num_hypotheses=2)
    assert [t.text for t in translations] == [
        t.text for t in translator.translate(texts, candidates=5, num_hypotheses=2, batch_size=1)
    ]
    assert translator.translate(["a b c"])[0].alternatives == []
    with pytest.raises(ConfigError, match="teacher"):
        translator.score(["a b"], ["b a"])
    with pytest.raises(ConfigError, match="prefix"):
        translator.translate(["a b"], prefixes=["c"])
    with pytest.raises(ConfigError, match="Leave out --teacher"):
        Translator.load(teacher, teacher=teacher)
    with pytest.raises(ConfigError, match="ensemble"):
        Translator.load(teacher, student, backend="torch")


def test_score_of_ctc_is_the_total_over_paths(tmp_path: Path, reversal_store: Store) -> None:
    settings = {"kind": "nonautoregressive", "length_prediction": "ctc"}
    folder = write_model_folder(tmp_path / "ctc", reversal_store, **settings)
    translator = Translator.load(folder)
    [translation] = translator.translate(["a b c"])
    [score] = translator.score(["a b c"], [translation.text])
    assert score >= translation.score  # which is the log-prob of one path
