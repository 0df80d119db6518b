"""Tokenizers of right-to-left models: ids in reverse order, and the same texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import prepare
from regard.data.store import Store
from regard.errors import ConfigError
from regard.text.config import TokenizerConfig
from regard.text.folder import load_folder_tokenizers
from regard.text.segmentations import segmentations
from regard.text.subword_sampling import SubwordSampler
from regard.text.tokenizer import Tokenizers, train_tokenizers

LINES = ["the cat sat on the mat", "the dogs and the cats are here", "a mat for two dogs"] * 20


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    config = TokenizerConfig(vocab_size=300)
    return train_tokenizers(lambda: LINES, lambda: LINES, config)


@given(st.text(max_size=30))
def test_ids_are_reversed_and_texts_are_not(tokenizers: Tokenizers, text: str) -> None:
    target = tokenizers.with_reversed_target().target
    ids = tokenizers.target.encode(text)
    assert target.encode(text) == ids[::-1]
    assert target.decode(ids[::-1]) == tokenizers.target.decode(ids)
    nbest = [(row[::-1], score) for row, score in tokenizers.target.nbest_encode(text, 5)]
    assert target.nbest_encode(text, 5) == nbest


def test_the_source_stays_and_tokenizers_differ(tokenizers: Tokenizers) -> None:
    reversed_tokenizers = tokenizers.with_reversed_target()
    assert reversed_tokenizers.source.encode(LINES[0]) == tokenizers.source.encode(LINES[0])
    assert reversed_tokenizers != tokenizers
    assert reversed_tokenizers == reversed_tokenizers.with_reversed_target()
    assert reversed_tokenizers.files() == tokenizers.files()


def test_sampled_segmentations_are_those_of_the_text(tokenizers: Tokenizers) -> None:
    samplers = [
        SubwordSampler(each.target, candidates=8, temperature=2.0)
        for each in (tokenizers, tokenizers.with_reversed_target())
    ]
    samples = set()
    for seed in range(20):
        ids = tokenizers.target.encode(LINES[seed % 3])
        first = samplers[0].sample(ids, Random(seed))
        assert samplers[1].sample(ids[::-1], Random(seed)) == first[::-1]
        samples.add(tuple(first))
    assert len(samples) > 3  # there is more than one of each line


@pytest.mark.parametrize("inside", [False, True])
def test_segmentations_of_a_word_are_reversed(tokenizers: Tokenizers, inside: bool) -> None:
    target = tokenizers.with_reversed_target().target
    in_order = segmentations("cats", tokenizers.target, inside=inside)
    assert len(in_order) > 1
    assert segmentations("cats", target, inside=inside) == [ids[::-1] for ids in in_order]


@pytest.mark.parametrize("reuse", [False, True])
def test_prepared_folders(tmp_path: Path, reuse: bool) -> None:
    for side in ("source", "target"):
        (tmp_path / side).write_text(
            "\n".join(f"{side} {line} {n}" for n, line in enumerate(LINES))
        )
    files: Any = {name: tmp_path / name for name in ("source", "target")}
    plain = prepare(out=tmp_path / "plain", vocab_size=300, **files)
    settings: Any = {"tokenizer_from": tmp_path / "plain"} if reuse else {"vocab_size": 300}
    right_to_left = prepare(out=tmp_path / "reversed", reverse_target=True, **files, **settings)
    assert right_to_left.tokenizers == plain.tokenizers.with_reversed_target()
    assert load_folder_tokenizers(tmp_path / "reversed") == right_to_left.tokenizers
    assert Store(tmp_path / "reversed").tokenizers.config.reverse_target
    (source, target), expected = right_to_left.part("train").sides, plain.part("train").sides
    for number in range(len(LINES)):
        assert source[number].tolist() == expected[0][number].tolist()
        assert target[number].tolist() == expected[1][number].tolist()[::-1]


def test_text_without_a_target_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(LINES))
    with pytest.raises(ConfigError, match=r"reverse_target .* has no effect on plain text"):
        prepare(out=tmp_path / "out", text=tmp_path / "text", reverse_target=True)


def test_other_settings_are_fixed_by_an_existing_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be combined"):
        prepare(out=tmp_path / "out", tokenizer_from=tmp_path, reverse_target=True, vocab_size=300)


def test_the_setting_is_part_of_the_config(tokenizers: Tokenizers) -> None:
    expected = replace(tokenizers.config, reverse_target=True)
    assert tokenizers.with_reversed_target().config == expected
