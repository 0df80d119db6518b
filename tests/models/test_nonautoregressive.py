"""Copies follow fertilities, no sentence sees its batch, every form trains and resumes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.attention.multihead import AttentionRecord
from regard.config import build
from regard.data.batch import Batch, FertilityBatch
from regard.data.fertilities import write_fertilities
from regard.data.loader import Loader
from regard.data.pairs import joined, with_ends
from regard.data.ragged import Lengths
from regard.data.shapes import Shape
from regard.data.store import Store
from regard.errors import ConfigError, DataError
from regard.layers.decoder import DecoderBlock
from regard.models.folder import WEIGHTS, as_today, read_tensors
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.tasks import TASKS
from regard.tasks.nonautoregressive_translation import NonAutoregressiveObjective
from regard.tasks.recipes import checked
from regard.training.config import RunConfig, TrainingConfig
from regard.training.losses import Loss
from regard.training.metrics_log import read_metrics
from toys import PARALLEL, altered, parallel_model, run, sentences, some_run, write_reversal_store


@pytest.fixture(scope="module")
def aligned_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Lines and their reversals: each letter stands for one."""
    store = write_reversal_store(tmp_path_factory.mktemp("aligned"), valid=True)
    for name in ("train", "valid"):
        lengths = store.part(name).source.lengths()
        write_fertilities(store.folder, name, [np.ones(length, np.int64) for length in lengths])
    return store


def some_pairs(count: int, seed: int = 0) -> tuple[list[list[int]], list[list[int]], list[Any]]:
    """Sources, targets, and fertilities that fit both."""
    draw = random.Random(seed)
    sources = sentences(count, seed=seed)
    counts = [[draw.randrange(4) for _ in source] for source in sources]
    for own in counts:
        own[0] += 1  # no target is empty
    targets = [[draw.randrange(4, 40) for _ in range(sum(own))] for own in counts]
    return sources, targets, counts


def batch_of(sources: Any, targets: Any, counts: Any) -> FertilityBatch:
    counts = joined(counts, last=0)
    return FertilityBatch(with_ends(sources), with_ends(targets), fertilities=counts)


def loss_of(model: NonAutoregressive, batch: Batch, r_drop: float = 0.0) -> Loss:
    """The loss of a batch in training; with R-Drop, of two passes."""
    config = TrainingConfig(label_smoothing=0.1, r_drop=r_drop)
    return NonAutoregressiveObjective(model, config)(model, batch)


@given(st.lists(st.lists(st.tuples(st.integers(4, 9), st.integers(0, 5)), min_size=1), min_size=1))
def test_copies_follow_fertilities(pairs: list[list[tuple[int, int]]]) -> None:
    sources = [[token for token, _ in pair] for pair in pairs]
    counts = [[count for _, count in pair] for pair in pairs]
    expected = [[token for token, count in pair for _ in range(count)] for pair in pairs]
    source, target = with_ends(sources), with_ends(expected)
    copies = source.copied(joined(counts, last=0), target.without_ends().lengths)
    assert copies.tokens.tolist() == [token for line in expected for token in line]
    assert copies.lengths.lengths.tolist() == [sum(own) for own in counts]


@pytest.mark.parametrize("form", PARALLEL)
def test_a_batch_is_its_sentences(form: str) -> None:
    model, pairs = parallel_model(0, **PARALLEL[form]), some_pairs(7)
    together = model.projection(model(batch_of(*pairs)).hidden)
    alone = [
        model.projection(model(batch_of([s], [t], [c])).hidden)
        for s, t, c in zip(*pairs, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=0)


@pytest.mark.parametrize("lengths", ["fertility", "ctc"])
def test_no_position_attends_to_itself_under_a_diagonal_mask(lengths: str) -> None:
    model = parallel_model(0, lengths=lengths, self_attention_mask="diagonal")
    sources = [[5], [6, 7], *sentences(5, seed=1)]
    counts = [[1 for _ in source] for source in sources]
    record = AttentionRecord()
    hidden = model(batch_of(sources, sources, counts), record).hidden
    assert hidden.isfinite().all()
    assert len(record.decoder) == len(model.decoder.blocks)
    for weights in record.decoder:
        assert not weights.diagonal(dim1=-2, dim2=-1).any()
        for source, own in zip(sources, weights, strict=True):
            positions = len(source) if lengths == "fertility" else 2 * len(source) + 2
            sums = own[:, :positions].sum(-1)  # a single position attends nowhere
            torch.testing.assert_close(sums, torch.full_like(sums, positions > 1))


def test_self_attention_is_the_masked_softmax() -> None:
    model, lengths = parallel_model(0, self_attention_mask="diagonal"), Lengths.of([1, 2, 6])
    block = model.decoder.blocks[0]
    assert isinstance(block, DecoderBlock)
    x = torch.randn(lengths.total, model.config.width, requires_grad=True)
    found = block.attention(x, lengths, causal=False)
    results = []
    for own in x.split([1, 2, 6]):
        parts = block.attention.projected(own, torch.arange(len(own)))
        q, k, v = (part.transpose(0, 1) for part in parts)  # (H, T, d)
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.eye(len(own), dtype=torch.bool), -torch.inf)
        weights = scores.softmax(-1) if len(own) > 1 else torch.zeros_like(scores)
        results.append(block.attention.combine((weights @ v).transpose(0, 1).flatten(1)))
    torch.testing.assert_close(found, torch.cat(results), atol=1e-5, rtol=1e-4)
    (gradient,) = torch.autograd.grad(found.square().sum(), x)
    (expected,) = torch.autograd.grad(torch.cat(results).square().sum(), x)
    torch.testing.assert_close(gradient, expected, atol=1e-3, rtol=1e-3)


def test_folders_without_the_setting_have_no_mask() -> None:
    """Models of before the setting attend to all positions."""
    old = {"kind": "nonautoregressive", "width": 64}
    assert build(NonAutoregressiveConfig, as_today(old)).self_attention_mask == "none"
    assert build(NonAutoregressiveConfig, {}).self_attention_mask == "diagonal"


@pytest.mark.parametrize("form", PARALLEL)
def test_the_loss_is_the_sum_over_sentences(form: str) -> None:
    model, pairs = parallel_model(0, **PARALLEL[form]), some_pairs(5)
    together = loss_of(model, batch_of(*pairs))
    alone = [loss_of(model, batch_of([s], [t], [c])) for s, t, c in zip(*pairs, strict=True)]
    for name in ("total", "nll"):
        expected = torch.stack([getattr(one, name) for one in alone]).sum()
        torch.testing.assert_close(getattr(together, name), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("form", PARALLEL)
def test_filler_changes_nothing(form: str) -> None:
    """What a GPU replays has sentences that nobody learns from."""

    def learned(batch: Batch) -> list[torch.Tensor]:
        model = parallel_model(0, **PARALLEL[form])
        loss = loss_of(model, batch)
        loss.total.backward()
        gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
        return [loss.total.detach(), loss.nll, *gradients]

    plain = batch_of(*some_pairs(7))
    shape = Shape.around(plain, 64, 128)
    filled = shape.unpacked(shape.packed(shape.filled(plain)))
    assert filled.target.lengths.total > plain.target.lengths.total
    for one, other in zip(learned(plain), learned(filled), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", PARALLEL)
def test_two_passes_without_dropout_are_one(form: str) -> None:
    model, batch = parallel_model(0, **PARALLEL[form]), batch_of(*some_pairs(5))
    once, twice = loss_of(model, batch), loss_of(model, batch, r_drop=5.0)
    torch.testing.assert_close(once.total, twice.total)
    torch.testing.assert_close(once.nll, twice.nll)


@pytest.mark.parametrize("form", PARALLEL)
@pytest.mark.parametrize("training", [{}, {"glancing": 0.5, "r_drop": 1.0}], ids=["plain", "all"])
def test_a_form_is_trained_resumed_stored_and_used(
    tmp_path: Path, aligned_store: Store, form: str, training: dict[str, Any]
) -> None:
    model = {"kind": "nonautoregressive", "norm_order": "pre", **PARALLEL[form]}
    settings = {"max_steps": 12, "checkpoint_every": 4, "learning_rate": 0.02, "warmup_steps": 2}
    whole = some_run(tmp_path / "whole", aligned_store, model, **settings, **training)
    run(whole, aligned_store)
    losses = [row["loss"] for row in read_metrics(tmp_path / "whole") if "loss" in row]
    assert losses[-1] < losses[0]
    part = altered(whole, out=str(tmp_path / "parts"))

    class KilledError(Exception):
        pass

    with pytest.raises(KilledError):
        run(part, aligned_store, watcher=_killing_at(7, KilledError))
    run(part, aligned_store)
    one, other = (read_tensors(tmp_path / name / WEIGHTS)[0] for name in ("whole", "parts"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())

    translator = regard.load(tmp_path / "whole")
    texts = ["a b c", "d e", "a b c d e f g", ""]
    found = translator.translate(texts)
    again = translator.translate(texts[::-1], batch_size=1)[::-1]
    assert [t.text for t in found] == [t.text for t in again]
    assert found[3].text == ""
    [seen] = translator.translate(["a b c"], attention=True)
    assert seen.attention is not None
    assert seen.attention.cross.shape[-1] == 4
    np.testing.assert_allclose(seen.attention.decoder.sum(-1), 1, atol=1e-5)


def _killing_at(step: int, error: type[Exception]) -> Any:
    from toys import Silent

    class Killing(Silent):
        def step(self, now: int) -> None:
            if now == step:
                raise error

    return Killing()


def test_fertilities_come_with_batches(tmp_path: Path, aligned_store: Store) -> None:
    from regard.data.prefetch import prefetched
    from regard.data.sampling import Position

    config = some_run(tmp_path, aligned_store, {"kind": "nonautoregressive"})
    task = TASKS["nonautoregressive_translation"]
    loader = Loader(task.training_data(aligned_store, config), 300, seed=1)
    _, first = next(loader.batches(Position()))
    assert isinstance(first, FertilityBatch)
    ends = first.source.tokens == 3
    assert torch.equal(first.fertilities, (~ends).long())
    _, same = next(prefetched(loader, Position(), workers=1))
    assert isinstance(same, FertilityBatch)
    assert torch.equal(same.fertilities, first.fertilities)


def test_what_cannot_be_is_refused_with_a_remedy(
    tmp_path: Path, reversal_store: Store, aligned_store: Store
) -> None:
    model = {"kind": "nonautoregressive"}
    with pytest.raises(DataError, match="regard align"):
        run(some_run(tmp_path / "one", reversal_store, model), reversal_store)
    unigram = write_reversal_store(_made(tmp_path / "text"), valid=False, tokenizer="unigram")
    sampling = altered(some_run(tmp_path / "two", unigram, model), data={"sampling_candidates": 8})
    with pytest.raises(ConfigError, match="sampling_candidates=1"):
        run(sampling, unigram)
    with pytest.raises(ConfigError, match=r"training\.glancing has no effect"):
        checked(build(RunConfig, {"out": "nowhere", "training": {"glancing": 0.5}}))
    attention = {"select": "sampled", "estimator": "reinforce"}
    with pytest.raises(ConfigError, match="reinforce"):
        build(NonAutoregressiveConfig, {"attention": attention})


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
