"""A pair as one row, under each of its masks."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch

from regard.data.batch import Batch, PrefixBatch
from regard.data.loader import Loader
from regard.data.prefetch import prefetched
from regard.data.prefix_rows import ObjectiveMixConfig, as_rows, from_left_to_right
from regard.data.ragged import Ragged
from regard.data.sampling import Position
from regard.errors import ConfigError
from regard.models.unilm import Unilm
from regard.tasks import TASKS
from toys import any_model, pairs, some_run, write_reversal_store

PAIRS = Batch(Ragged.of([[5, 6, 3], [7, 3]]), Ragged.of([[8, 9, 3], [10, 11, 12, 3]]))


def test_a_pair_is_a_row() -> None:
    found = as_rows(PAIRS, start=2)
    assert found.source.tokens.tolist() == [5, 6, 3, 2, 8, 9, 7, 3, 2, 10, 11, 12]
    assert found.target.tokens.tolist() == [0, 0, 0, 8, 9, 3, 0, 0, 10, 11, 12, 3]
    assert found.source.lengths.lengths.tolist() == [6, 6]
    assert found.prefixes.tolist() == [3, 2]
    assert found.target_tokens == 7


def test_from_left_to_right() -> None:
    found = from_left_to_right(PAIRS, start=2)
    assert found.target.tokens.tolist() == [6, 3, 0, 8, 9, 3, 3, 0, 10, 11, 12, 3]
    assert found.prefixes.tolist() == [0, 0]
    assert found.target_tokens == 10


@pytest.mark.parametrize("prefix", [0, 2, 5])
@torch.no_grad()
def test_who_sees_whom(prefix: int) -> None:
    model = any_model(2, kind="unilm")
    assert isinstance(model, Unilm)
    row = [5, 6, 7, 8, 9]

    def hidden(tokens: list[int]) -> torch.Tensor:
        text = Ragged.of([tokens])
        batch = PrefixBatch(text, text, prefixes=torch.tensor([prefix]))
        return model(batch).hidden

    before = hidden(row)
    for place in range(5):
        changed = [*row]
        changed[place] += 10
        moved = (hidden(changed) - before).abs().amax(-1) > 1e-5
        wanted = [query >= place or place < prefix for query in range(5)]
        assert moved.tolist() == wanted


def test_what_a_row_says_is_what_a_pair_says() -> None:
    model, batch = any_model(3, kind="unilm"), pairs(6)
    with torch.no_grad():
        one, other = model(batch), model(as_rows(batch, 2))
    torch.testing.assert_close(one.hidden, other.hidden)
    assert one.targets.tolist() == batch.target.tokens.tolist()


def test_masks_have_their_turns(tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=False)
    masks = {"prefix": 1.0, "left_to_right": 1.0, "bidirectional": 1.0}
    config = some_run(tmp_path / "run", store, {"kind": "unilm", "masks": masks})

    def some(workers: int = 0) -> list[PrefixBatch]:
        data = TASKS["prefix_language_modeling"].training_data(store, config)
        batches = islice(prefetched(Loader(data, 60, seed=1), Position(), workers), 60)
        return [batch for _, batch in batches if isinstance(batch, PrefixBatch)]

    asks = {"prefix": 0, "left_to_right": 0, "bidirectional": 0}
    assert len(some()) == 60
    for batch in some():
        assert batch.target_tokens == int((batch.target.tokens != 0).sum())
        lengths = batch.source.lengths.lengths
        whole, none = (batch.prefixes == lengths).all(), (batch.prefixes == 0).all()
        asks["bidirectional" if whole else "left_to_right" if none else "prefix"] += 1
    assert min(asks.values()) >= 10
    for one, other in zip(some(), some(2), strict=True):
        assert one.source.tokens.tolist() == other.source.tokens.tolist()
        assert one.prefixes.tolist() == other.prefixes.tolist()


def test_masks_that_are_never_used_are_refused() -> None:
    with pytest.raises(ConfigError, match="all 0; set one of them above 0"):
        ObjectiveMixConfig(prefix=0.0)
