"""Several models as one."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.store import Store
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Hypothesis
from regard.decoding.score import scores
from regard.decoding.search import search
from regard.decoding.translator import Translator
from regard.decoding.wrappers import Ensemble, mean_probability
from regard.errors import ConfigError, ModelError
from regard.models.folder import ModelFolder
from toys import TableModel, run, sentences, small_model, small_run, write_reversal_store

SEARCHES = {
    "greedy": SearchConfig(beam_size=1),
    "beam": SearchConfig(beam_size=4, top_beams=4),
    "sample": SearchConfig(sample=True, top_beams=2),
}


def assert_equal(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)


@pytest.mark.parametrize("config", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("copies", [2, 3])
def test_one_model_several_times_is_that_model(config: SearchConfig, copies: int) -> None:
    model, source = small_model(), with_ends(sentences(8))
    together = search(Ensemble([model] * copies), source, config)
    assert_equal(together, search(model, source, config))


def test_a_step_gives_the_mean_of_probabilities() -> None:
    torch.manual_seed(0)
    tables = [torch.randn(3, 5, 5) for _ in range(2)]
    models = [TableModel(table) for table in tables]
    source = with_ends([[4], [4]])
    ensemble = Ensemble(models)
    tokens, state = ensemble.first_tokens(2), ensemble.start(source)
    own = [model.start(source) for model in models]
    for _ in range(3):
        alone = [model.step(tokens, s).softmax(-1) for model, s in zip(models, own, strict=True)]
        scored = ensemble.step(tokens, state)
        torch.testing.assert_close(scored.exp(), (alone[0] + alone[1]) / 2)
        tokens = scored.argmax(-1)


def test_each_model_begins_with_its_own_mark() -> None:
    model = small_model(start_token="pad")
    other = small_model(1, start_token="start")
    source = with_ends(sentences(3))
    own = [m.step(m.first_tokens(3), m.start(source)).log_softmax(-1) for m in (model, other)]
    for models, expected in (([model, other], own), ([other, model], own[::-1])):
        ensemble = Ensemble(models)
        scored = ensemble.step(ensemble.first_tokens(3), ensemble.start(source))
        torch.testing.assert_close(scored, mean_probability(expected))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_search_is_scored_as_given_translations_are(beam_size: int) -> None:
    models = [small_model(0), small_model(1, width=16, heads=2)]
    source = with_ends(sentences(6))
    found = search(Ensemble(models), source, SearchConfig(beam_size=beam_size))
    batch = Batch(source, with_ends([best[0].tokens for best in found]))
    given = scores(models, batch)
    assert [best[0].score for best in found] == pytest.approx(given, abs=1e-4)


# Folders.


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> list[Path]:
    """Two runs on the same data."""
    root = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        run(small_run(root / str(seed), reversal_store, seed=seed, max_steps=10), reversal_store)
    return [root / "1", root / "2"]


def test_one_folder_twice_is_that_folder(folders: list[Path]) -> None:
    texts = ["a b c", "d e f g", ""]
    alone = regard.load(folders[0], backend="torch").translate(texts, beam_size=3)
    twice = regard.load(folders[0], folders[0]).translate(texts, beam_size=3)
    assert [t.text for t in twice] == [t.text for t in alone]
    assert [t.score for t in twice] == pytest.approx([t.score for t in alone], abs=1e-5)


def test_the_order_of_the_folders_does_not_matter(folders: list[Path]) -> None:
    one, other = regard.load(*folders), regard.load(*folders[::-1])
    source, target = ["a b c", "d e"], ["c b a", "e d"]
    assert one.score(source, target) == pytest.approx(other.score(source, target), abs=1e-6)


def test_attention_is_one_models(folders: list[Path]) -> None:
    with pytest.raises(ConfigError, match="Load that one alone"):
        regard.load(*folders).translate(["a"], attention=True)


def test_other_tokenizers_are_refused(folders: list[Path], tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=False, tokenizer="char")
    run(small_run(tmp_path / "other", store, max_steps=5), store)
    with pytest.raises(ModelError, match="cuts text in another way"):
        Translator.load(folders[0], tmp_path / "other")


def test_another_direction_is_refused(folders: list[Path], tmp_path: Path) -> None:
    other = ModelFolder.read(folders[1])
    back = {"source": other.languages["target"], "target": other.languages["source"]}
    dataclasses.replace(other, languages=back).write(tmp_path)
    with pytest.raises(ModelError, match=r"translates yy to xx, and .* xx to yy"):
        Translator.load(folders[0], tmp_path)


@pytest.mark.parametrize("folders", [(), (["runs/a", "runs/b"],), (None,)])
def test_nothing_to_load_is_told(folders: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match="nothing to load"):
        Translator.load(*folders)
