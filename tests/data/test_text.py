"""Running text: prepared, cut into pieces, made into batches."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from regard.data.ahead import ahead
from regard.data.loader import DataConfig
from regard.data.pieces import cut
from regard.data.prepare_text import prepare_text
from regard.data.rows import Rows
from regard.data.sampling import Position, Share
from regard.data.store import Store
from regard.data.text_loader import TextLoader, text_in_order
from regard.data.text_rows import TextTask
from regard.errors import ConfigError, DataError
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from toys import write_text_store

CAUSAL = TextTask("causal", 6)
START = Position()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


def test_blank_lines_end_documents(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("\n\nfirst line\nsecond line\n\n\nalone\n")
    with gzip.open(tmp_path / "two", "wt") as file:
        file.write("\ufeffanother\r\nwith an end")
    config = TokenizerConfig(kind="char", vocab_size=300)
    prepare_text(
        {"train": [tmp_path / "one", tmp_path / "two"]}, tmp_path / "out", tokenizer=config
    )
    store = Store(tmp_path / "out")
    text, tokenizer = store.text("train"), store.tokenizers.source
    found = [text.documents[number].tolist() for number in range(len(text.documents))]
    wanted = ["first line\nsecond line", "alone", "another\nwith an end"]
    assert [tokenizer.decode_lines(ids) for ids in found] == wanted
    assert found == [[*tokenizer.encode_lines(document), SPECIAL.end] for document in wanted]
    assert len(text.lines) == 5
    assert store.content == "text"


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"fine\n\xff\n")
    (tmp_path / "empty").write_text("\n\n")
    files = [tmp_path / name for name in ("bad", "empty", "missing")]
    with pytest.raises(DataError) as error:
        prepare_text({"train": files}, tmp_path / "out", tokenizer=TokenizerConfig())
    for part in ("bad, line 2", "empty cannot be used", "missing"):
        assert part in str(error.value)


def test_a_text_is_no_pairs(store: Store) -> None:
    with pytest.raises(DataError, match="running text"):
        store.part("train")
    with pytest.raises(ConfigError, match="--source and --target"):
        store.refuse_other_content("pairs", "transformer")
    with pytest.raises(ConfigError, match=r"data\.weights"):
        TextLoader(store, DataConfig(weights=(2.0,)), CAUSAL, seed=1)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_pieces_are_all_of_a_text_once(seed: int | None) -> None:
    lengths = [1, 6, 7, 40, 3, 12]
    ids = np.arange(sum(lengths))
    documents = Rows(ids, np.cumsum([0, *lengths]))
    draw = None if seed is None else np.random.default_rng(seed)
    pieces = cut(documents, 6, draw)
    assert (
        np.concatenate([ids[b:e] for b, e in zip(pieces.begins, pieces.ends, strict=True)]).tolist()
        == ids.tolist()
    )
    assert pieces.lengths().max() <= 6
    assert pieces.lengths().min() >= 1
    assert pieces.begins[pieces.firsts].tolist() == np.cumsum([0, *lengths])[:-1].tolist()


def test_an_epoch_reads_every_token_once_after_the_one_before_it(store: Store) -> None:
    text = store.text("train")
    ids = text.documents.flat()
    loader = TextLoader(store, DataConfig(batch_tokens=30), CAUSAL, seed=1)
    seen: list[int] = []
    followers: list[tuple[int, int]] = []
    for after, batch in loader.batches(Position()):
        seen += batch.target.tokens.tolist()
        followers += zip(batch.source.tokens.tolist(), batch.target.tokens.tolist(), strict=True)
        assert batch.source.lengths is batch.target.lengths
        assert batch.target_tokens == batch.target.lengths.total <= 30
        if after.epoch == 1:
            break
    assert sorted(seen) == sorted(ids.tolist())
    shifted = np.where(np.roll(ids, 1) == SPECIAL.end, SPECIAL.start, np.roll(ids, 1))
    assert sorted(followers) == sorted(zip(shifted.tolist(), ids.tolist(), strict=True))


def test_batches_depend_on_seed_and_epoch_alone(store: Store) -> None:
    def some(seed: int, position: Position = START, workers: int = 0) -> list[list[int]]:
        loader = TextLoader(store, DataConfig(batch_tokens=30), CAUSAL, seed=seed)
        made = islice(ahead(loader, position, workers), 40)
        return [batch.target.tokens.tolist() for _, batch in made]

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert some(1, Position(0, 5))[:35] == some(1)[5:]
    assert some(1, workers=2) == some(1)


def test_shares_make_up_a_batch(store: Store) -> None:
    config = DataConfig(batch_tokens=30)
    whole = TextLoader(store, config, CAUSAL, seed=1)
    shares = [TextLoader(store, config, CAUSAL, seed=1, share=Share(n, 2)) for n in (0, 1)]
    rows = zip(*(islice(one.batches(Position()), 20) for one in (whole, *shares)), strict=True)
    for (_, batch), (_, left), (_, right) in rows:
        parts = [
            token
            for part in (left, right)
            if not part.filler
            for token in part.target.tokens.tolist()
        ]
        assert sorted(parts) == sorted(batch.target.tokens.tolist())


def test_validation_reads_everything(store: Store) -> None:
    text = store.text("valid")
    batches = list(text_in_order(store, DataConfig(batch_tokens=30), CAUSAL))
    found = sorted(token for batch in batches for token in batch.target.tokens.tolist())
    assert found == sorted(text.documents.flat().tolist())
