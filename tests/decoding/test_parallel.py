"""All words at once: lengths follow fertilities, draws follow seeds, the teacher keeps the best."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.choice import word_by_word
from regard.decoding.config import SearchConfig
from regard.decoding.parallel import fertilities, limited, parallel_search, written_at_once
from regard.decoding.passes import CudaGraphPasses, EagerPasses, Shape, Work
from regard.decoding.score import scores
from regard.decoding.translator import Translator
from regard.errors import ConfigError
from regard.layers.ctc import BLANK
from regard.recording import recordable
from toys import PARALLEL, parallel_model, sentences, small_model, write_model_folder

COUNTS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=4)


@given(COUNTS, st.integers(1, 12))
def test_limited_fertilities_keep_their_order_and_the_limit(
    counts: list[list[int]], limit: int
) -> None:
    source = with_ends([[4] * (len(own) - 1) for own in counts])
    row = torch.tensor([[count for own in counts for count in own]])
    config = SearchConfig(max_ratio=0.0, max_extra=limit + 1)
    found = limited(row, source, config)
    sums = source.lengths.sums(found)[0].tolist()
    assert sums == [min(max(sum(own), 1), limit) for own in counts]
    for own, kept in zip(counts, found[0].split([len(own) for own in counts]), strict=True):
        if 0 < sum(own) <= limit:
            assert kept.tolist() == own
        elif sum(own) == 0:
            assert kept.tolist() == [1] + [0] * (len(own) - 1)
        else:
            assert all(a <= b for a, b in zip(kept.tolist(), own, strict=True))


def test_fertilities_sum_to_the_length_of_the_output() -> None:
    model = parallel_model(3)
    for line in sentences(10):
        source = with_ends([line])
        seen = written_at_once(model, source)
        [[found]] = parallel_search(model, source, SearchConfig())
        assert sum(seen.fertilities) == len(seen.words) == len(found.tokens)
        assert found.tokens == seen.words
        copies = [[place] * count for place, count in enumerate(seen.fertilities)]
        assert seen.origins == [place for several in copies for place in several]


def test_what_ctc_reads_has_no_blanks_and_no_repetitions() -> None:
    model = parallel_model(3, lengths="ctc", copies=3)
    for line in sentences(10):
        source = with_ends([line])
        seen = written_at_once(model, source)
        [[found]] = parallel_search(model, source, SearchConfig())
        assert len(seen.words) == 3 * (len(line) + 1)
        assert found.tokens == [word for word, _ in itertools.groupby(seen.words) if word != BLANK]


def test_argmax_and_average_are_what_they_say() -> None:
    probabilities = torch.tensor([[0.4, 0.0, 0.3, 0.3], [0.1, 0.8, 0.1, 0.0]])
    source = with_ends([[4]])
    for name, expected in (("argmax", [0, 1]), ("average", [2, 1])):  # means of 1.5 and 1.0
        config = SearchConfig(fertility=name)  # type: ignore[arg-type]
        assert fertilities(probabilities.log(), source, config).tolist() == [expected]


@pytest.mark.parametrize("lengths", ["fertility", "ctc"])
@pytest.mark.parametrize("candidates", [1, 6])
def test_batched_is_single(lengths: str, candidates: int) -> None:
    model, teacher = parallel_model(2, lengths=lengths), small_model(5)
    lines, config = sentences(12), SearchConfig(candidates=candidates)
    together = parallel_search(model, with_ends(lines), config, teacher=teacher)
    for line, expected in zip(lines, together, strict=True):
        [found] = parallel_search(model, with_ends([line]), config, teacher=teacher)
        assert [h.tokens for h in found] == [h.tokens for h in expected]
        assert found[0].score == pytest.approx(expected[0].score, abs=1e-4)


class FilledPasses(EagerPasses):
    """As recordings are made: over rows that are filled up to a few shapes."""

    def __init__(self, limit: int | None, device: torch.device | None = None) -> None:
        super().__init__(device or torch.device("cpu"))
        self._limit = limit

    def __call__(
        self, name: Hashable, work: Work, rows: Sequence[Ragged], *tensors: Tensor
    ) -> Tensor:
        shape = Shape.around(rows, self._limit)
        assert all(side.tokens % 16 == 0 for side in shape.sides)
        return work(*shape.unpacked(shape.packed(rows).to(self._device)), *tensors)


@pytest.mark.parametrize("form", PARALLEL)
def test_filled_rows_are_plain_ones(form: str) -> None:
    model, teacher = parallel_model(2, **PARALLEL[form], max_positions=40), small_model(5)
    lines, config = sentences(11, longest=14), SearchConfig(candidates=5)
    plain = parallel_search(model, with_ends(lines), config, teacher=teacher)
    passes = FilledPasses(model.max_length)
    found = parallel_search(model, with_ends(lines), config, teacher=teacher, passes=passes)
    assert [[h.tokens for h in several] for several in found] == [
        [h.tokens for h in several] for several in plain
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("form", PARALLEL)
@pytest.mark.parametrize("candidates", [1, 5])
def test_recorded_passes_are_plain_ones(form: str, candidates: int) -> None:
    gpu = torch.device("cuda", 0)
    model = parallel_model(2, **PARALLEL[form]).to(gpu).bfloat16()
    teacher, config = small_model(5).to(gpu).bfloat16(), SearchConfig(candidates=candidates)
    recorded = CudaGraphPasses(gpu, model.max_length)
    for seed in range(6):  # the same shapes again and again
        source = with_ends(sentences(4, seed=seed))
        plain = parallel_search(
            model, source, config, teacher=teacher, passes=FilledPasses(model.max_length, gpu)
        )
        with recordable(gpu):
            found = parallel_search(model, source, config, teacher=teacher, passes=recorded)
        assert found == plain


def test_draws_follow_the_seed() -> None:
    model, source = parallel_model(2), with_ends(sentences(6))
    log_probs = (model.fertility or torch.nn.Identity())(model.encode(source)).log_softmax(-1)
    one, same, other = (
        fertilities(log_probs, source, SearchConfig(candidates=8, seed=seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(one[0], log_probs.argmax(-1))  # the first is not drawn
    assert len({tuple(row.tolist()) for row in one}) > 4
    more = fertilities(log_probs, source, SearchConfig(candidates=4))
    assert torch.equal(more[0], one[0])


def test_drawn_fertilities_follow_their_probabilities() -> None:
    probabilities = torch.tensor([[0.5, 0.3, 0.2]]).repeat(2, 1)
    rows = fertilities(probabilities.log(), with_ends([[4]]), SearchConfig(candidates=1000))
    shares = torch.bincount(rows[1:].flatten(), minlength=3) / rows[1:].numel()
    torch.testing.assert_close(shares, probabilities[0], atol=0.03, rtol=0)


def test_the_teacher_keeps_what_it_finds_best() -> None:
    model, teacher, lines = parallel_model(2), small_model(5), sentences(5)
    config = SearchConfig(candidates=10, top_beams=10)
    found = parallel_search(model, with_ends(lines), config, teacher=teacher)
    for line, several in zip(lines, found, strict=True):
        outputs = [h.tokens for h in several]
        batch = Batch(with_ends([line] * len(outputs)), with_ends(outputs))
        told = scores([teacher], batch)
        assert [h.score for h in several] == pytest.approx(told, abs=1e-4)
        assert told == sorted(told, reverse=True)
        [first] = parallel_search(model, with_ends([line]), SearchConfig())
        assert first[0].tokens in outputs


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"sample": True}, "--candidates"),
        ({"min_length": 3}, "--min-length"),
        ({"top_beams": 2}, "--top-beams"),
        ({"candidates": 3}, "--teacher"),
    ],
)
def test_what_needs_steps_is_refused(settings: dict[str, int], remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        parallel_search(parallel_model(), with_ends([[4]]), SearchConfig(**settings))  # type: ignore[arg-type]


def test_ctc_has_several_readings() -> None:
    model, teacher, lines = parallel_model(2, lengths="ctc"), small_model(5), sentences(5)
    config = SearchConfig(candidates=6, top_beams=6)
    alone = parallel_search(model, with_ends(lines), config)
    judged = parallel_search(model, with_ends(lines), config, teacher=teacher)
    for line, own, other in zip(lines, alone, judged, strict=True):
        assert sorted(h.tokens for h in own) == sorted(h.tokens for h in other)
        assert [h.score for h in own] == sorted((h.score for h in own), reverse=True)
        batch = Batch(with_ends([line] * 6), with_ends([h.tokens for h in own]))
        likely = scores([model], batch, length_penalty=0.0)
        for one, whole in zip(own, likely, strict=True):
            assert one.log_probability <= whole + 1e-3  # what was not tried is missing


def test_a_teacher_writes_word_by_word() -> None:
    with pytest.raises(ConfigError, match="all words at once"):
        word_by_word(parallel_model())


def test_a_folder_translates_with_its_teacher(tmp_path: Path, reversal_store: Store) -> None:
    student = write_model_folder(tmp_path / "student", reversal_store, kind="nonautoregressive")
    teacher = write_model_folder(tmp_path / "teacher", reversal_store)
    translator = Translator.load(student, teacher=teacher)
    texts = ["a b c", "d e f g", ""]
    found = translator.translate(texts, candidates=5, top_beams=2)
    assert [t.text for t in found] == [
        t.text for t in translator.translate(texts, candidates=5, top_beams=2, batch_size=1)
    ]
    assert translator.translate(["a b c"])[0].alternatives == []
    with pytest.raises(ConfigError, match="teacher"):
        translator.score(["a b"], ["b a"])
    with pytest.raises(ConfigError, match="prefix"):
        translator.translate(["a b"], prefixes=["c"])
    with pytest.raises(ConfigError, match="needs no teacher"):
        Translator.load(teacher, teacher=teacher)
    with pytest.raises(ConfigError, match="ensemble"):
        Translator.load(teacher, student, backend="torch")


def test_score_of_ctc_is_its_likelihood(tmp_path: Path, reversal_store: Store) -> None:
    settings = {"kind": "nonautoregressive", "lengths": "ctc"}
    folder = write_model_folder(tmp_path / "ctc", reversal_store, **settings)
    translator = Translator.load(folder)
    [found] = translator.translate(["a b c"])
    [score] = translator.score(["a b c"], [found.text])
    assert score >= found.score  # the search counts one of its paths
