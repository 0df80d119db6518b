"""The size of a model before it is built, and what cannot fit into memory."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from regard import memory
from regard.data.store import Store
from regard.decoding.config import SearchConfig
from regard.decoding.engine import fewer_with_beams, refuse_large_search
from regard.errors import ConfigError
from regard.evaluation.metrics import Counting
from regard.evaluation.significance import compare
from regard.models import ARCHITECTURES, new_model, size_of
from regard.models.protocol import Vocabulary
from regard.models.size import parameter_count, refuse_untrainable
from regard.models.transformer import Transformer, TransformerConfig
from regard.training import loop
from toys import new_folder, run, small_run

CPU = torch.device("cpu")


def drawn_settings(kind: str, random: Random) -> dict[str, Any]:
    """Settings of a kind that change its size, small enough to be built."""
    width = random.choice([8, 16, 24])
    choices: dict[str, Any] = {
        "width": width,
        "heads": random.choice([1, 2, 4]),
        "feedforward_width": random.randint(1, 40),
        "feedforward": random.choice(["linear", "gated", "convolution"]),
        "key_width": random.choice([None, 2, 6]),
        "encoder_layers": random.randint(1, 5),
        "decoder_layers": random.randint(1, 5),
        "layers": random.randint(1, 5),
        "max_positions": random.randint(4, 40),
        "norm_order": random.choice(["pre", "post"]),
        "tied_embeddings": random.choice(["all", "decoder", "none"]),
        "output_bias": random.choice([True, False]),
        "kernel": random.choice([1, 3, 5]),
        "segments": random.randint(0, 3),
    }
    if kind in ("tagger", "classifier"):
        del choices["tied_embeddings"]
    if kind in ("unilm", "xl", "permuted"):
        del choices["feedforward"]  # no convolutions there
    config_class, _ = ARCHITECTURES[kind]
    fields = config_class.__dataclass_fields__
    return {name: value for name, value in choices.items() if name in fields}


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_the_size_is_known_before_a_model_is_built(kind: str) -> None:
    random = Random(kind)
    config_class, model_class = ARCHITECTURES[kind]
    for _ in range(4):
        config = config_class(**drawn_settings(kind, random))
        labels = ("a", "b") if config.gives_labels else ()
        size = random.randint(10, 50)
        vocabulary = Vocabulary(size, size, True, labels)
        built = sum(weight.numel() for weight in model_class(config, vocabulary).parameters())
        assert parameter_count(model_class, config, vocabulary) == built


def test_to_ask_for_the_size_draws_nothing() -> None:
    config, vocabulary = TransformerConfig(width=8, heads=2, encoder_layers=2), Vocabulary(9, 9)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    parameter_count(Transformer, config, vocabulary)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_model_that_cannot_fit_is_refused_before_it_is_built(kind: str) -> None:
    config_class, _ = ARCHITECTURES[kind]
    config = config_class(width=100_000)
    vocabulary = Vocabulary(8000, 8000, True, ("a", "b") if config.gives_labels else ())
    with pytest.raises(ConfigError, match=r"parameters needs [\d,.]+ GB of memory, but this"):
        new_model(config, vocabulary)


def test_training_needs_more_than_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 16_000)
    refuse_untrainable(1000, 1000, CPU, averaged=False)
    with pytest.raises(ConfigError, match="Training 1,000 of 1,000 parameters needs"):
        refuse_untrainable(1000, 1000, CPU, averaged=True)
    refuse_untrainable(1000, 0, CPU, averaged=True)


def test_a_run_that_cannot_fit_is_refused_before_a_model_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reversal_store: Store
) -> None:
    config = small_run(tmp_path / "run", reversal_store)
    vocabulary = new_folder(config.model, reversal_store).vocabulary
    fits = 16 * size_of(config.model, vocabulary)
    monkeypatch.setattr(memory, "machine_memory", lambda: fits - 1)
    monkeypatch.setattr(loop, "begun", None)
    with pytest.raises(ConfigError, match=r"Training .* but this machine has"):
        run(config, reversal_store)
    assert not (tmp_path / "run").exists()


def test_a_search_that_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 8 * 10 * 1000)
    refuse_large_search(SearchConfig(beam_size=10), 1, 1000, CPU)
    with pytest.raises(ConfigError, match="2 sentences with 10 beams over a vocabulary of 1,000"):
        refuse_large_search(SearchConfig(beam_size=10), 2, 1000, CPU)
    monkeypatch.setattr(memory, "machine_memory", lambda: None)  # nothing is known
    refuse_large_search(SearchConfig(beam_size=1000), 10**9, 1000, CPU)


def test_more_beams_are_fewer_sentences() -> None:
    assert fewer_with_beams(256, SearchConfig(beam_size=8)) == 256
    assert fewer_with_beams(256, SearchConfig(beam_size=64)) == 32
    assert fewer_with_beams(4, SearchConfig(beam_size=1000)) == 1


def test_resamples_that_cannot_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 1000)
    with pytest.raises(ConfigError, match="A bootstrap of 1,000 resamples of 2 sentences needs"):
        compare(["a", "b"], ["a", "b"], [["a", "b"]], Counting(), resamples=1000)


def test_the_memory_of_this_machine_is_known() -> None:
    found = memory.machine_memory()
    assert found is not None
    assert 2**28 < found < 2**50


def test_limits_of_a_job_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    most = memory.machine_memory()
    (tmp_path / "memory.max").write_text("123456\n")
    assert memory.machine_memory() == 123456
    assert most != 123456
