"""Target replacement: new targets are stored, and everything else is unchanged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.corpora import prepare_corpora, prepare_pairs, some_pairs, texts_of
from regard.data.loader import DataConfig, Loader
from regard.data.pairs import PairDataset
from regard.data.sampling import Position
from regard.data.store import Store
from regard.data.target_replacement import TargetReplacement, replace_targets, select_target
from regard.text.subword_sampling import SubwordSampler

PAIRS = some_pairs(40)
ABOUT = {"origin": "a test"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("old") / "store"
    prepare_pairs(folder, PAIRS, some_pairs(5, seed=2))
    return Store(folder)


def with_targets(
    store: Store, out: Path, targets: list[str], *, mix: bool = False
) -> tuple[Store, TargetReplacement]:
    result = replace_targets(
        store, out, targets, teacher="a teacher", mix=mix, extra_fields={"distilled": ABOUT}
    )
    return Store(out), result


def test_targets_are_replaced_and_the_rest_is_kept(store: Store, tmp_path: Path) -> None:
    targets = [f"{target} Hund" for _, target in PAIRS]
    new, result = with_targets(store, tmp_path / "new", targets)
    assert result == TargetReplacement(len(PAIRS), {})
    assert texts_of(new) == [(pair[0], text) for pair, text in zip(PAIRS, targets, strict=True)]
    for name in ("tokenizer.model", "train.source.ids", "train.source.offsets"):
        assert (new.folder / name).read_bytes() == (store.folder / name).read_bytes()
    for path in store.folder.glob("valid.*"):
        assert (new.folder / path.name).read_bytes() == path.read_bytes()
    assert new.languages == store.languages
    assert new.fingerprint != store.fingerprint
    assert new.description["distilled"] == ABOUT
    [corpus] = new.part("train").corpora
    assert str(corpus) == "train.en written by a teacher"


def test_old_targets_give_the_same_fingerprint(store: Store, tmp_path: Path) -> None:
    new, _ = with_targets(store, tmp_path / "new", [target for _, target in PAIRS])
    assert new.fingerprint == store.fingerprint


def test_rejected_targets_keep_the_old_one(store: Store, tmp_path: Path) -> None:
    targets = [target for _, target in PAIRS]
    targets[:5] = ["", "  ", "x" * 1000, PAIRS[3][0], "Hund " * 30]
    new, result = with_targets(store, tmp_path / "new", targets)
    assert texts_of(new) == PAIRS
    assert result.pairs == len(PAIRS) - 5
    assert result.kept == {
        "empty": 2,
        "odd length ratio": 1,
        "target is a copy of the source": 1,
        "more than twice as long": 1,
    }
    issues = new.description["parts"]["train"]["found"]
    assert issues["empty: old target kept"] == 2


@pytest.mark.parametrize(
    ("text", "is_accepted"),
    [
        ("der Hund hat sprässsssen", False),
        ("die die die die Katze", False),
        ("eine frassierierier", True),
        ("eine frassierierierierier", False),
        ("der Hund – – – – ein Hund", False),
        ("die die die Katze", True),
        ("der Hund hat 10000 Katzen", True),
    ],
)
def test_repetitive_targets_are_rejected(store: Store, text: str, is_accepted: bool) -> None:
    source, old = (store.tokenizers.source.encode("a dog"), store.tokenizers.target.encode(text))
    target, reason = select_target(store.tokenizers, source, [*old, *old], text)
    assert (list(target) == list(old)) == is_accepted
    assert reason == (None if is_accepted else "repeats itself")


def test_mixed_pairs_are_corpora_of_their_own(tmp_path: Path) -> None:
    prepare_corpora(tmp_path / "old", ("", PAIRS[:30]), ("<bt>", PAIRS[30:]))
    old = Store(tmp_path / "old")
    new, _ = with_targets(old, tmp_path / "new", ["Haus und Haus"] * len(PAIRS), mix=True)
    corpora = new.part("train").corpora
    assert [(len(corpus), corpus.tag) for corpus in corpora] == [(30, ""), (10, "<bt>")] * 2
    assert texts_of(new)[len(PAIRS) :] == texts_of(old)
    assert {text for _, text in texts_of(new)[: len(PAIRS)]} == {"Haus und Haus"}
    assert texts_of(new)[35][0] == texts_of(old)[35][0] == f"<bt> {PAIRS[35][0]}"


def test_unchanged_pairs_are_not_added_by_mix(store: Store, tmp_path: Path) -> None:
    same = [target for _, target in PAIRS]
    new, _ = with_targets(store, tmp_path / "some", [*same[:5], "", *same[6:-1], "Haus"], mix=True)
    assert texts_of(new) == [*PAIRS[:-1], (PAIRS[-1][0], "Haus"), PAIRS[-1]]
    new, _ = with_targets(store, tmp_path / "none", same, mix=True)
    assert [len(corpus) for corpus in new.part("train").corpora] == [len(PAIRS), 0]
    assert texts_of(new) == PAIRS


def test_corpus_weights_apply_to_new_and_old_pairs(store: Store, tmp_path: Path) -> None:
    new, _ = with_targets(store, tmp_path / "new", ["Haus und Haus"] * len(PAIRS), mix=True)
    pairs = PairDataset.of(new, new.part("train"), DataConfig(corpus_weights=(2, 1)), seed=1)
    loader = Loader(pairs, 10**6, seed=1)
    _, batch = next(loader.batches(Position()))  # an epoch fits into one batch
    rows = batch.target.tokens.split(batch.target.lengths.lengths.tolist())
    texts = Counter(new.tokenizers.target.decode(row.tolist()) for row in rows)
    assert texts == Counter({"Haus und Haus": 2 * len(PAIRS)}) + Counter(
        target for _, target in PAIRS
    )


@settings(deadline=None, max_examples=30)
@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=20))
def test_subword_sampling_works_on_new_targets(
    store: Store, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    targets = [text, *(target for _, target in PAIRS[1:])]
    new, _ = with_targets(store, tmp_path_factory.mktemp("any") / "new", targets)
    text_in_store = texts_of(new)[0][1]
    assert text_in_store in (text, PAIRS[0][1])
    sampler = SubwordSampler(new.tokenizers.target, candidates=16, temperature=2.0)
    sampled = sampler.sample(new.part("train").target[0].tolist(), Random(1))
    assert new.tokenizers.target.decode(sampled) == text_in_store


def test_output_is_deterministic(store: Store, tmp_path: Path) -> None:
    targets = [target[::-1] for _, target in PAIRS]
    first, _ = with_targets(store, tmp_path / "one", targets, mix=True)
    second, _ = with_targets(store, tmp_path / "two", targets, mix=True)
    for path in first.folder.iterdir():
        assert path.read_bytes() == (second.folder / path.name).read_bytes()
