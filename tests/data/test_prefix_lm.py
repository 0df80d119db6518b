"""Batches of prefix language models, with each attention mask."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch

from regard.data.batch import Batch, PrefixBatch
from regard.data.loader import Loader
from regard.data.prefetch import prefetch_batches
from regard.data.prefix_lm import ObjectiveMixConfig, to_causal_batch, to_prefix_batch
from regard.data.ragged import Ragged
from regard.data.sampling import Position
from regard.errors import ConfigError
from regard.models.unilm import Unilm
from regard.tasks import TASKS
from toys import pairs, random_model, some_run, write_reversal_store

PAIRS = Batch(Ragged.of([[5, 6, 3], [7, 3]]), Ragged.of([[8, 9, 3], [10, 11, 12, 3]]))


def test_prefix_batch() -> None:
    batch = to_prefix_batch(PAIRS, bos=2)
    assert batch.source.tokens.tolist() == [5, 6, 3, 2, 8, 9, 7, 3, 2, 10, 11, 12]
    assert batch.target.tokens.tolist() == [0, 0, 0, 8, 9, 3, 0, 0, 10, 11, 12, 3]
    assert batch.source.lengths.lengths.tolist() == [6, 6]
    assert batch.prefixes.tolist() == [3, 2]
    assert batch.target_tokens == 7


def test_causal_batch() -> None:
    batch = to_causal_batch(PAIRS, bos=2)
    assert batch.target.tokens.tolist() == [6, 3, 0, 8, 9, 3, 3, 0, 10, 11, 12, 3]
    assert batch.prefixes.tolist() == [0, 0]
    assert batch.target_tokens == 10


@pytest.mark.parametrize("prefix", [0, 2, 5])
@torch.no_grad()
def test_prefix_attention_mask(prefix: int) -> None:
    model = random_model(2, kind="unilm")
    assert isinstance(model, Unilm)
    row = [5, 6, 7, 8, 9]

    def hidden(tokens: list[int]) -> torch.Tensor:
        text = Ragged.of([tokens])
        batch = PrefixBatch(text, text, prefixes=torch.tensor([prefix]))
        return model(batch).hidden

    before = hidden(row)
    for position in range(5):
        changed = [*row]
        changed[position] += 10
        moved = (hidden(changed) - before).abs().amax(-1) > 1e-5
        expected = [query >= position or position < prefix for query in range(5)]
        assert moved.tolist() == expected


def test_model_gives_the_same_output_for_pairs_and_rows() -> None:
    model, batch = random_model(3, kind="unilm"), pairs(6)
    with torch.no_grad():
        from_pairs, from_rows = model(batch), model(to_prefix_batch(batch, 2))
    torch.testing.assert_close(from_pairs.hidden, from_rows.hidden)
    assert from_pairs.targets.tolist() == batch.target.tokens.tolist()


def test_objectives_are_mixed(tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=False)
    masks = {"prefix": 1.0, "left_to_right": 1.0, "bidirectional": 1.0}
    config = some_run(tmp_path / "run", store, {"kind": "unilm", "masks": masks})

    def some(workers: int = 0) -> list[PrefixBatch]:
        data = TASKS["prefix_language_modeling"].training_data(store, config)
        batches = islice(prefetch_batches(Loader(data, 60, seed=1), Position(), workers), 60)
        return [batch for _, batch in batches if isinstance(batch, PrefixBatch)]

    counts = {"prefix": 0, "left_to_right": 0, "bidirectional": 0}
    assert len(some()) == 60
    for batch in some():
        assert batch.target_tokens == int((batch.target.tokens != 0).sum())
        lengths = batch.source.lengths.lengths
        whole, none = (batch.prefixes == lengths).all(), (batch.prefixes == 0).all()
        counts["bidirectional" if whole else "left_to_right" if none else "prefix"] += 1
    assert min(counts.values()) >= 10
    for expected, actual in zip(some(), some(2), strict=True):
        assert actual.source.tokens.tolist() == expected.source.tokens.tolist()
        assert actual.prefixes.tolist() == expected.prefixes.tolist()


def test_objective_mix_without_weights_is_rejected() -> None:
    with pytest.raises(ConfigError, match="all 0; set one of them above 0"):
        ObjectiveMixConfig(prefix=0.0)
