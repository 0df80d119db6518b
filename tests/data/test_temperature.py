"""Temperature sampling: shares, and what weights of pairs and of tokenizer text make of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directions import DIRECTIONS, write_directions_store
from regard.data.content import Corpus
from regard.data.directions import Direction
from regard.data.loader import DataConfig, Loader
from regard.data.pair_files import LanguageBalance
from regard.data.pairs import PairDataset, pair_weights
from regard.data.sampling import Position
from regard.data.store import Store
from regard.data.temperature import temperature_rates

SIZES = st.lists(st.floats(1, 1e7), min_size=1, max_size=8)


@given(sizes=SIZES, temperature=st.floats(1, 1000))
def test_shares_are_proportional_to_a_power_of_the_size(
    sizes: list[float], temperature: float
) -> None:
    rates = temperature_rates(sizes, temperature)
    read = [rate * size for rate, size in zip(rates, sizes, strict=True)]
    expected = [size ** (1 / temperature) for size in sizes]
    assert sum(read) == pytest.approx(sum(sizes))
    assert [part / sum(read) for part in read] == pytest.approx(
        [part / sum(expected) for part in expected]
    )


@given(sizes=SIZES)
def test_temperature_1_reads_everything_once(sizes: list[float]) -> None:
    assert temperature_rates(sizes, 1.0) == pytest.approx([1.0] * len(sizes))


def test_empty_parts_are_not_read() -> None:
    assert temperature_rates([100, 0, 100], 5.0) == pytest.approx([1, 0, 1])
    assert temperature_rates([0, 0], 5.0) == [0, 0]
    assert temperature_rates([], 5.0) == []


def corpus(source: str, target: str, pairs: int) -> Corpus:
    return Corpus("a", "b", "", pairs, source, target)


def test_corpora_of_a_direction_share_its_rate_and_keep_their_weights() -> None:
    corpora = [corpus("en", "de", 600), corpus("zh", "en", 100), corpus("en", "de", 300)]
    weights = pair_weights(corpora, [1.0, 1.0, 0.5], temperature=2.0)
    assert weights is not None
    sums = [weights[:600].sum(), weights[600:700].sum(), weights[700:].sum()]
    total = 600 + 100 + 150
    share = 750**0.5 / (750**0.5 + 100**0.5)
    assert sum(sums) == pytest.approx(total)
    assert sums[0] + sums[2] == pytest.approx(total * share)
    assert weights[700] == pytest.approx(0.5 * weights[0])


def test_temperature_1_and_a_single_direction_need_no_weights() -> None:
    two = [corpus("en", "de", 10), corpus("de", "en", 20)]
    assert pair_weights(two, [], 1.0) is None
    assert pair_weights([two[0], two[0]], [], 5.0) is None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_directions_store(tmp_path_factory.mktemp("directions"), (400, 100, 25))


@pytest.mark.parametrize("temperature", [1.0, 2.0, 100.0])
def test_epochs_have_the_proportions_of_the_temperature(store: Store, temperature: float) -> None:
    part, config = store.part("train"), DataConfig(direction_temperature=temperature)
    loader = Loader(PairDataset.of(store, part, config, 1), 2000, seed=1)
    tags = {store.tokenizers.source.encode(f"<2{d.target}>")[0]: d.target for d in DIRECTIONS}
    counts: Counter[str] = Counter()
    epochs = 40
    for after, batch in loader.batches(Position()):
        first = batch.source.tokens[batch.source.lengths.offsets[:-1].long()]
        counts.update(tags[int(token)] for token in first)
        if after == Position(epochs, 0):
            break
    powers = [size ** (1 / temperature) for size in (400, 100, 25)]
    shares = dict(zip(("yy", "zz", "xx"), (p / sum(powers) for p in powers), strict=True))
    for target, share in shares.items():
        mean = counts[target] / epochs
        deviation = (525 / 4 / epochs) ** 0.5  # of a mean of Bernoulli variables, at most
        assert abs(mean - 525 * share) < 5 * deviation, (target, mean)


def test_position_determines_the_next_batches(store: Store) -> None:
    config = DataConfig(direction_temperature=5.0)
    dataset = PairDataset.of(store, store.part("train"), config, 1)
    loader = Loader(dataset, 500, seed=1)
    whole = [pair for pair, _ in zip(loader.batches(Position()), range(30), strict=False)]
    resumed = loader.batches(whole[12][0])
    for (after, batch), (again_after, again) in zip(whole[13:], resumed, strict=False):
        assert after == again_after
        assert np.array_equal(batch.source.tokens, again.source.tokens)


def test_languages_are_balanced_in_the_text_for_the_tokenizer() -> None:
    balance = LanguageBalance(temperature=2.0)
    for language, count in (("de", 400), ("en", 100), ("zh", 25)):
        for number in range(count):
            balance.count(language, f"{language} {number}")
            balance.count(language, f"{language} {number}")  # duplicates do not count
    balance.finish()
    weights = {name: int(balance.weighted(name, "x").split("\t")[1]) for name in ("de", "en", "zh")}
    totals = {"de": 400 * weights["de"], "en": 100 * weights["en"], "zh": 25 * weights["zh"]}
    assert min(weights.values()) == 10
    assert totals["de"] / totals["en"] == pytest.approx(2, rel=0.05)
    assert totals["en"] / totals["zh"] == pytest.approx(2, rel=0.05)


def test_small_languages_get_a_larger_part_of_the_vocabulary(tmp_path: Path) -> None:
    from regard.text.config import TokenizerConfig
    from regard.text.tokenizer import train_tokenizers

    def tokens(weight: int) -> int:
        lines = [f"{'ab cd ef gh'[i % 8 :]} word{i}\t10" for i in range(300)]
        lines += [f"αβγ δεζ ηθι κλμ ω{i}\t{weight}" for i in range(30)] * 2
        config = TokenizerConfig(vocab_size=330)
        tokenizer = train_tokenizers(lambda: lines, list, config, weighted=True).source
        return sum(any("α" <= c <= "ω" for c in t) for t in tokenizer.ids_to_tokens([*range(330)]))

    assert tokens(200) > tokens(10)
    assert Direction("a", "b").reverse == Direction("b", "a")
