"""Parameter counts before models are built, and errors for what does not fit into memory."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from regard import machine
from regard.data.store import Store
from regard.decoding.backend import reduce_for_beams, refuse_large_search
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError
from regard.evaluation.metrics import MetricConfig
from regard.evaluation.significance import compare
from regard.models import ARCHITECTURES, count_parameters, new_model
from regard.models.protocol import Vocabulary
from regard.models.size import parameter_count, refuse_untrainable
from regard.models.transformer import Transformer, TransformerConfig
from regard.training import loop
from toys import new_folder, run, small_run

CPU = torch.device("cpu")


def drawn_settings(kind: str, random: Random) -> dict[str, Any]:
    """Random settings of small models that affect the parameter count."""
    width = random.choice([8, 16, 24])
    choices: dict[str, Any] = {
        "d_model": width,
        "num_heads": random.choice([1, 2, 4]),
        "ffn_dim": random.randint(1, 40),
        "ffn_type": random.choice(["linear", "gated", "convolution"]),
        "key_dim": random.choice([None, 2, 6]),
        "num_encoder_layers": random.randint(1, 5),
        "num_decoder_layers": random.randint(1, 5),
        "num_layers": random.randint(1, 5),
        "max_positions": random.randint(4, 40),
        "norm_order": random.choice(["pre", "post"]),
        "tied_embeddings": random.choice(["all", "decoder", "none"]),
        "output_bias": random.choice([True, False]),
        "kernel_size": random.choice([1, 3, 5]),
        "num_segments": random.randint(0, 3),
    }
    if kind in ("tagger", "classifier"):
        del choices["tied_embeddings"]
    if kind in ("unilm", "xl", "permuted"):
        del choices["ffn_type"]  # no convolutions there
    config_class, _ = ARCHITECTURES[kind]
    fields = config_class.__dataclass_fields__
    return {name: value for name, value in choices.items() if name in fields}


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_parameter_count_matches_the_built_model(kind: str) -> None:
    random = Random(kind)
    config_class, model_class = ARCHITECTURES[kind]
    for _ in range(4):
        config = config_class(**drawn_settings(kind, random))
        labels = ("a", "b") if config.predicts_labels else ()
        size = random.randint(10, 50)
        vocabulary = Vocabulary(size, size, True, labels)
        built = sum(weight.numel() for weight in model_class(config, vocabulary).parameters())
        assert parameter_count(model_class, config, vocabulary) == built


def test_parameter_count_does_not_use_the_random_generator() -> None:
    config, vocabulary = (
        TransformerConfig(d_model=8, num_heads=2, num_encoder_layers=2),
        Vocabulary(9, 9),
    )
    torch.manual_seed(3)
    state = torch.get_rng_state()
    parameter_count(Transformer, config, vocabulary)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_models_too_large_for_memory_raise_errors(kind: str) -> None:
    config_class, _ = ARCHITECTURES[kind]
    config = config_class(d_model=100_000)
    vocabulary = Vocabulary(8000, 8000, True, ("a", "b") if config.predicts_labels else ())
    with pytest.raises(ConfigError, match=r"parameters needs [\d,.]+ GB of memory, but this"):
        new_model(config, vocabulary)


def test_training_memory_includes_optimizer_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_limit", lambda: 16_000)
    refuse_untrainable(1000, 1000, CPU, averaged=False)
    with pytest.raises(ConfigError, match="Training 1,000 of 1,000 parameters needs"):
        refuse_untrainable(1000, 1000, CPU, averaged=True)
    refuse_untrainable(1000, 0, CPU, averaged=True)


def test_runs_too_large_for_memory_raise_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reversal_store: Store
) -> None:
    config = small_run(tmp_path / "run", reversal_store)
    vocabulary = new_folder(config.model, reversal_store).vocabulary
    fits = 16 * count_parameters(config.model, vocabulary)
    monkeypatch.setattr(machine, "memory_limit", lambda: fits - 1)
    monkeypatch.setattr(loop, "initialize_model", None)
    with pytest.raises(ConfigError, match=r"Training .* but this machine has"):
        run(config, reversal_store)
    assert not (tmp_path / "run").exists()


def test_searches_too_large_for_memory_raise_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_limit", lambda: 8 * 10 * 1000)
    refuse_large_search(SearchConfig(beam_size=10), 1, 1000, CPU)
    with pytest.raises(ConfigError, match="2 sentences with 10 beams and a vocabulary of 1,000"):
        refuse_large_search(SearchConfig(beam_size=10), 2, 1000, CPU)
    monkeypatch.setattr(machine, "memory_limit", lambda: None)  # nothing is known
    refuse_large_search(SearchConfig(beam_size=1000), 10**9, 1000, CPU)


def test_batch_size_is_reduced_for_many_beams() -> None:
    assert reduce_for_beams(256, SearchConfig(beam_size=8)) == 256
    assert reduce_for_beams(256, SearchConfig(beam_size=64)) == 32
    assert reduce_for_beams(4, SearchConfig(beam_size=1000)) == 1


def test_resamples_too_large_for_memory_raise_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_limit", lambda: 1000)
    with pytest.raises(ConfigError, match="A bootstrap of 1,000 resamples of 2 sentences needs"):
        compare(["a", "b"], ["a", "b"], [["a", "b"]], MetricConfig(), resamples=1000)


def test_machine_memory() -> None:
    actual = machine.memory_limit()
    assert actual is not None
    assert 2**28 < actual < 2**50


def test_cgroup_memory_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    most = machine.memory_limit()
    (tmp_path / "memory.max").write_text("123456\n")
    assert machine.memory_limit() == 123456
    assert most != 123456
