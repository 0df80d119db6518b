"""Ensembles of models."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.store import Store
from regard.decoding.backend import Hypothesis
from regard.decoding.config import SearchConfig
from regard.decoding.score import score_pairs
from regard.decoding.search import search
from regard.decoding.wrappers import Ensemble, average_log_probs
from regard.errors import ConfigError, ModelError
from regard.models.folder import ModelFolder
from regard.pipelines.translator import Translator
from toys import TableModel, run, sentences, small_run, small_transformer, write_reversal_store

SEARCHES = {
    "greedy": SearchConfig(beam_size=1),
    "beam": SearchConfig(beam_size=4, num_hypotheses=4),
    "sample": SearchConfig(sample=True, num_hypotheses=2),
}


def assert_equal(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for left, right in zip(itertools.chain(*actual), itertools.chain(*expected), strict=True):
        assert left.tokens == right.tokens
        assert left.score == pytest.approx(right.score, abs=1e-5)


@pytest.mark.parametrize("config", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("copies", [2, 3])
def test_ensemble_of_copies_matches_the_model(config: SearchConfig, copies: int) -> None:
    model, source = small_transformer(), with_eos(sentences(8))
    together = search(Ensemble([model] * copies), source, config)
    assert_equal(together, search(model, source, config))


def test_step_averages_probabilities() -> None:
    torch.manual_seed(0)
    tables = [torch.randn(3, 5, 5) for _ in range(2)]
    models = [TableModel(table) for table in tables]
    source = with_eos([[4], [4]])
    ensemble = Ensemble(models)
    tokens, state = ensemble.first_tokens(2), ensemble.start(source)
    states = [model.start(source) for model in models]
    for _ in range(3):
        alone = [model.step(tokens, s).softmax(-1) for model, s in zip(models, states, strict=True)]
        log_probs = ensemble.step(tokens, state)
        torch.testing.assert_close(log_probs.exp(), (alone[0] + alone[1]) / 2)
        tokens = log_probs.argmax(-1)


def test_each_model_reads_its_own_start_token() -> None:
    model = small_transformer(decoder_start_token="pad")
    other = small_transformer(1, decoder_start_token="bos")
    source = with_eos(sentences(3))
    alone = [m.step(m.first_tokens(3), m.start(source)).log_softmax(-1) for m in (model, other)]
    for models, expected in (([model, other], alone), ([other, model], alone[::-1])):
        ensemble = Ensemble(models)
        log_probs = ensemble.step(ensemble.first_tokens(3), ensemble.start(source))
        torch.testing.assert_close(log_probs, average_log_probs(expected))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_score_of_an_ensemble_matches_its_search(beam_size: int) -> None:
    models = [small_transformer(0), small_transformer(1, d_model=16, num_heads=2)]
    source = with_eos(sentences(6))
    nbests = search(Ensemble(models), source, SearchConfig(beam_size=beam_size))
    batch = Batch(source, with_eos([nbest[0].tokens for nbest in nbests]))
    expected = score_pairs(models, batch)
    assert [nbest[0].score for nbest in nbests] == pytest.approx(expected, abs=1e-4)


# Folders.


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> list[Path]:
    """Two runs on the same data."""
    root = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        run(small_run(root / str(seed), reversal_store, seed=seed, max_steps=10), reversal_store)
    return [root / "1", root / "2"]


def test_ensemble_of_one_folder_twice_matches_the_folder(folders: list[Path]) -> None:
    texts = ["a b c", "d e f g", ""]
    alone = regard.load(folders[0], backend="torch").translate(texts, beam_size=3)
    twice = regard.load(folders[0], folders[0]).translate(texts, beam_size=3)
    assert [t.text for t in twice] == [t.text for t in alone]
    assert [t.score for t in twice] == pytest.approx([t.score for t in alone], abs=1e-5)


def test_the_order_of_the_folders_does_not_matter(folders: list[Path]) -> None:
    forward, backward = regard.load(*folders), regard.load(*folders[::-1])
    source, target = ["a b c", "d e"], ["c b a", "e d"]
    assert forward.score(source, target) == pytest.approx(backward.score(source, target), abs=1e-6)


def test_attention_maps_of_ensembles_are_refused(folders: list[Path]) -> None:
    with pytest.raises(ConfigError, match="Load a single model"):
        regard.load(*folders).translate(["a"], attention=True)


def test_other_tokenizers_are_refused(folders: list[Path], tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=False, tokenizer="char")
    run(small_run(tmp_path / "other", store, max_steps=5), store)
    with pytest.raises(ModelError, match="use different tokenizers"):
        Translator.load(folders[0], tmp_path / "other")


def test_another_direction_is_refused(folders: list[Path], tmp_path: Path) -> None:
    other = ModelFolder.read(folders[1])
    back = {"source": other.languages["target"], "target": other.languages["source"]}
    dataclasses.replace(other, languages=back).write(tmp_path)
    with pytest.raises(ModelError, match=r"translates yy to xx, but .* xx to yy"):
        Translator.load(folders[0], tmp_path)


@pytest.mark.parametrize("folders", [(), (["runs/a", "runs/b"],), (None,)])
def test_loading_no_folder_is_refused(folders: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match="No model folder to load"):
        Translator.load(*folders)
