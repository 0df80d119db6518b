"""Non-autoregressive models: copies, masks, losses, training and resumption."""

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
from regard.attention.multihead import AttentionRecorder
from regard.config import build
from regard.data.batch import Batch, FertilityBatch
from regard.data.fertilities import write_fertilities
from regard.data.loader import Loader
from regard.data.pairs import concatenate_rows, with_eos
from regard.data.ragged import Lengths
from regard.data.shapes import BatchShape
from regard.data.store import Store
from regard.errors import ConfigError, DataError
from regard.layers.decoder import DecoderBlock
from regard.models.folder import WEIGHTS, read_tensors, upgrade_settings
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.tasks import TASKS
from regard.tasks.nonautoregressive_translation import NonAutoregressiveObjective
from regard.tasks.recipes import validate_run_config
from regard.training.config import RunConfig, TrainingConfig
from regard.training.losses import Loss
from regard.training.metrics_log import read_metrics
from toys import (
    NONAUTOREGRESSIVE_VARIANTS,
    altered,
    nonautoregressive_model,
    run,
    sentences,
    some_run,
    write_reversal_store,
)


@pytest.fixture(scope="module")
def aligned_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Lines and their reversals, with fertility 1 for each letter."""
    store = write_reversal_store(tmp_path_factory.mktemp("aligned"), valid=True)
    for name in ("train", "valid"):
        lengths = store.part(name).source.lengths()
        write_fertilities(store.folder, name, [np.ones(length, np.int64) for length in lengths])
    return store


def random_pairs(count: int, seed: int = 0) -> tuple[list[list[int]], list[list[int]], list[Any]]:
    """Random sources, targets and matching fertilities."""
    draw = random.Random(seed)
    sources = sentences(count, seed=seed)
    counts = [[draw.randrange(4) for _ in source] for source in sources]
    for fertilities in counts:
        fertilities[0] += 1  # no target is empty
    targets = [[draw.randrange(4, 40) for _ in range(sum(fertilities))] for fertilities in counts]
    return sources, targets, counts


def batch_of(sources: Any, targets: Any, counts: Any) -> FertilityBatch:
    counts = concatenate_rows(counts, last=0)
    return FertilityBatch(with_eos(sources), with_eos(targets), fertilities=counts)


def loss_of(model: NonAutoregressive, batch: Batch, r_drop: float = 0.0) -> Loss:
    """The training loss of a batch; with R-Drop, of two passes."""
    config = TrainingConfig(label_smoothing=0.1, r_drop=r_drop)
    return NonAutoregressiveObjective(model, config)(model, batch)


@given(st.lists(st.lists(st.tuples(st.integers(4, 9), st.integers(0, 5)), min_size=1), min_size=1))
def test_copies_follow_fertilities(pairs: list[list[tuple[int, int]]]) -> None:
    sources = [[token for token, _ in pair] for pair in pairs]
    counts = [[count for _, count in pair] for pair in pairs]
    expected = [[token for token, count in pair for _ in range(count)] for pair in pairs]
    source, target = with_eos(sources), with_eos(expected)
    copies = source.repeat_tokens(concatenate_rows(counts, last=0), target.without_eos().lengths)
    assert copies.tokens.tolist() == [token for line in expected for token in line]
    assert copies.lengths.lengths.tolist() == [sum(fertilities) for fertilities in counts]


@pytest.mark.parametrize("variant", NONAUTOREGRESSIVE_VARIANTS)
def test_predictions_do_not_depend_on_the_batch(variant: str) -> None:
    model, pairs = (
        nonautoregressive_model(0, **NONAUTOREGRESSIVE_VARIANTS[variant]),
        random_pairs(7),
    )
    together = model.projection(model(batch_of(*pairs)).hidden)
    separate = [
        model.projection(model(batch_of([s], [t], [c])).hidden)
        for s, t, c in zip(*pairs, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(separate), atol=1e-5, rtol=0)


@pytest.mark.parametrize("lengths", ["fertility", "ctc"])
def test_diagonal_mask_prevents_self_attention(lengths: str) -> None:
    model = nonautoregressive_model(0, length_prediction=lengths, self_attention_mask="diagonal")
    sources = [[5], [6, 7], *sentences(5, seed=1)]
    counts = [[1 for _ in source] for source in sources]
    recorder = AttentionRecorder()
    hidden = model(batch_of(sources, sources, counts), recorder).hidden
    assert hidden.isfinite().all()
    assert len(recorder.decoder) == len(model.decoder.blocks)
    for weights in recorder.decoder:
        assert not weights.diagonal(dim1=-2, dim2=-1).any()
        for source, maps in zip(sources, weights, strict=True):
            positions = len(source) if lengths == "fertility" else 2 * len(source) + 2
            sums = maps[:, :positions].sum(-1)  # a single position attends nowhere
            torch.testing.assert_close(sums, torch.full_like(sums, positions > 1))


def test_self_attention_matches_masked_softmax() -> None:
    model, lengths = (
        nonautoregressive_model(0, self_attention_mask="diagonal"),
        Lengths.of([1, 2, 6]),
    )
    block = model.decoder.blocks[0]
    assert isinstance(block, DecoderBlock)
    x = torch.randn(lengths.total, model.config.d_model, requires_grad=True)
    actual = block.attention(x, lengths, causal=False)
    results = []
    for sentence in x.split([1, 2, 6]):
        parts = block.attention.project_qkv(sentence, torch.arange(len(sentence)))
        q, k, v = (part.transpose(0, 1) for part in parts)  # (H, T, d)
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.eye(len(sentence), dtype=torch.bool), -torch.inf)
        weights = scores.softmax(-1) if len(sentence) > 1 else torch.zeros_like(scores)
        results.append(block.attention.combine((weights @ v).transpose(0, 1).flatten(1)))
    torch.testing.assert_close(actual, torch.cat(results), atol=1e-5, rtol=1e-4)
    (gradient,) = torch.autograd.grad(actual.square().sum(), x)
    (expected,) = torch.autograd.grad(torch.cat(results).square().sum(), x)
    torch.testing.assert_close(gradient, expected, atol=1e-3, rtol=1e-3)


def test_folders_without_self_attention_mask() -> None:
    """Models of earlier versions attend to all positions."""
    old = {"kind": "nonautoregressive", "d_model": 64}
    assert build(NonAutoregressiveConfig, upgrade_settings(old)).self_attention_mask == "none"
    assert build(NonAutoregressiveConfig, {}).self_attention_mask == "diagonal"


@pytest.mark.parametrize("variant", NONAUTOREGRESSIVE_VARIANTS)
def test_loss_is_a_sum_over_sentences(variant: str) -> None:
    model, pairs = (
        nonautoregressive_model(0, **NONAUTOREGRESSIVE_VARIANTS[variant]),
        random_pairs(5),
    )
    together = loss_of(model, batch_of(*pairs))
    separate = [loss_of(model, batch_of([s], [t], [c])) for s, t, c in zip(*pairs, strict=True)]
    for name in ("total", "nll"):
        expected = torch.stack([getattr(sentence_loss, name) for sentence_loss in separate]).sum()
        torch.testing.assert_close(getattr(together, name), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("variant", NONAUTOREGRESSIVE_VARIANTS)
def test_filler_has_no_effect(variant: str) -> None:
    """Batches of CUDA graphs have filler sentences."""

    def learned(batch: Batch) -> list[torch.Tensor]:
        model = nonautoregressive_model(0, **NONAUTOREGRESSIVE_VARIANTS[variant])
        loss = loss_of(model, batch)
        loss.total.backward()
        gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
        return [loss.total.detach(), loss.nll, *gradients]

    batch = batch_of(*random_pairs(7))
    shape = BatchShape.bucket(batch, 64, 128)
    filled = shape.unpack(shape.pack(shape.filled(batch)))
    assert filled.target.lengths.total > batch.target.lengths.total
    for expected, actual in zip(learned(batch), learned(filled), strict=True):
        torch.testing.assert_close(expected, actual, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", NONAUTOREGRESSIVE_VARIANTS)
def test_r_drop_without_dropout_has_no_effect(variant: str) -> None:
    model, batch = (
        nonautoregressive_model(0, **NONAUTOREGRESSIVE_VARIANTS[variant]),
        batch_of(*random_pairs(5)),
    )
    once, twice = loss_of(model, batch), loss_of(model, batch, r_drop=5.0)
    torch.testing.assert_close(once.total, twice.total)
    torch.testing.assert_close(once.nll, twice.nll)


@pytest.mark.parametrize("variant", NONAUTOREGRESSIVE_VARIANTS)
@pytest.mark.parametrize("training", [{}, {"glancing": 0.5, "r_drop": 1.0}], ids=["plain", "all"])
def test_variants_train_resume_load_and_translate(
    tmp_path: Path, aligned_store: Store, variant: str, training: dict[str, Any]
) -> None:
    model = {
        "kind": "nonautoregressive",
        "norm_order": "pre",
        **NONAUTOREGRESSIVE_VARIANTS[variant],
    }
    settings = {"max_steps": 12, "checkpoint_every": 4, "learning_rate": 0.02, "warmup_steps": 2}
    whole = some_run(tmp_path / "whole", aligned_store, model, **settings, **training)
    run(whole, aligned_store)
    losses = [row["loss"] for row in read_metrics(tmp_path / "whole") if "loss" in row]
    assert losses[-1] < losses[0]
    parts = altered(whole, out=str(tmp_path / "parts"))

    class KilledError(Exception):
        pass

    with pytest.raises(KilledError):
        run(parts, aligned_store, callback=_killing_at(7, KilledError))
    run(parts, aligned_store)
    expected, actual = (read_tensors(tmp_path / name / WEIGHTS)[0] for name in ("whole", "parts"))
    assert all(torch.equal(tensor, actual[name]) for name, tensor in expected.items())

    translator = regard.load(tmp_path / "whole")
    texts = ["a b c", "d e", "a b c d e f g", ""]
    translations = translator.translate(texts)
    reversed_translations = translator.translate(texts[::-1], batch_size=1)[::-1]
    assert [t.text for t in translations] == [t.text for t in reversed_translations]
    assert translations[3].text == ""
    [translation] = translator.translate(["a b c"], attention=True)
    assert translation.attention is not None
    assert translation.attention.cross.shape[-1] == 4
    np.testing.assert_allclose(translation.attention.decoder.sum(-1), 1, atol=1e-5)


def _killing_at(step: int, error: type[Exception]) -> Any:
    from toys import CollectingCallback

    class Killing(CollectingCallback):
        def on_step_end(self, now: int) -> None:
            if now == step:
                raise error

    return Killing()


def test_batches_have_fertilities(tmp_path: Path, aligned_store: Store) -> None:
    from regard.data.prefetch import prefetch_batches
    from regard.data.sampling import Position

    config = some_run(tmp_path, aligned_store, {"kind": "nonautoregressive"})
    task = TASKS["nonautoregressive_translation"]
    loader = Loader(task.training_data(aligned_store, config), 300, seed=1)
    _, first = next(loader.batches(Position()))
    assert isinstance(first, FertilityBatch)
    ends = first.source.tokens == 3
    assert torch.equal(first.fertilities, (~ends).long())
    _, same = next(prefetch_batches(loader, Position(), workers=1))
    assert isinstance(same, FertilityBatch)
    assert torch.equal(same.fertilities, first.fertilities)


def test_unsupported_settings_raise_errors(
    tmp_path: Path, reversal_store: Store, aligned_store: Store
) -> None:
    model = {"kind": "nonautoregressive"}
    with pytest.raises(DataError, match="regard align"):
        run(some_run(tmp_path / "one", reversal_store, model), reversal_store)
    unigram = write_reversal_store(
        _make_folder(tmp_path / "text"), valid=False, tokenizer="unigram"
    )
    sampling = altered(some_run(tmp_path / "two", unigram, model), data={"subword_nbest_size": 8})
    with pytest.raises(ConfigError, match="subword_nbest_size=1"):
        run(sampling, unigram)
    with pytest.raises(ConfigError, match=r"training\.glancing has no effect"):
        validate_run_config(build(RunConfig, {"out": "nowhere", "training": {"glancing": 0.5}}))
    attention = {"select": "sampled", "estimator": "reinforce"}
    with pytest.raises(ConfigError, match="reinforce"):
        build(NonAutoregressiveConfig, {"attention": attention})


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
