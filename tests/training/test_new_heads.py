"""Fine-tuning a trained encoder with a new head."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from labelled import columns, tagged_sentences, write_labelled_store, write_tagged_store
from regard.data.filters import CorpusFilterConfig
from regard.data.label_files import LabelFormat, LabelReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.errors import ConfigError
from regard.models.folder import inference_weights, load_model, named_weights
from regard.pipelines.labelling import Tagger
from regard.tasks.recipes import build_run_config
from regard.training.config import RunConfig
from toys import initialize_for, run, write_model_folder, write_text_store


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def encoder(text: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model, as BERT is."""
    folder = tmp_path_factory.mktemp("encoder")
    return write_model_folder(
        folder,
        text,
        kind="masked",
        num_segments=2,
        positional_encoding="learned",
        activation="gelu",
        norm_eps=1e-12,
        scale_embedding=False,
    )


@pytest.fixture(scope="module")
def tagged(text: Store, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_tagged_store(tmp_path_factory.mktemp("tagged"), tokenizer=text.tokenizers)


def settings(base: Path, store: Store, out: Path, *assignments: str) -> RunConfig:
    changes = {"out": str(out), "init_from": str(base), "data": {"folder": str(store.folder)}}
    all_assignments = ["training.max_steps=4", "training.tensorboard=false", *assignments]
    return build_run_config(None, preset=None, changes=changes, assignments=all_assignments)


def stack(weights: dict[str, Any]) -> dict[str, Any]:
    return {n: w for n, w in weights.items() if n.startswith(("embedding.", "encoder."))}


def test_head_depends_on_the_data(
    encoder: Path, text: Store, tagged: Store, tmp_path: Path
) -> None:
    labelled = write_labelled_store(tmp_path, tokenizer=text.tokenizers)
    for store, kind in ((tagged, "tagger"), (labelled, "classifier")):
        config = settings(encoder, store, tmp_path / kind)
        assert config.model.kind == kind
        assert config.training.best_metric == "accuracy"
        _, model = initialize_for(config, store)
        weights, old = stack(named_weights(model)), stack(inference_weights(encoder))
        assert weights.keys() == old.keys()
        assert all(torch.equal(weights[name], old[name]) for name in weights)
        assert (
            model.projection.weight.std() < 0.2 * config.model.d_model**-0.5
        )  # small, so that labels start equally likely
    with pytest.raises(ConfigError, match=r"model\.kind=classifier requires texts"):
        initialize_for(settings(encoder, tagged, tmp_path / "x", "model.kind=classifier"), tagged)


def test_tagger_with_other_labels_gets_a_new_head(
    encoder: Path, tagged: Store, tmp_path: Path
) -> None:
    run(settings(encoder, tagged, tmp_path / "one"), tagged)
    same = settings(tmp_path / "one", tagged, tmp_path / "same")
    _, model = initialize_for(same, tagged)
    old = inference_weights(tmp_path / "one")
    assert all(torch.equal(w, old[name]) for name, w in named_weights(model).items())
    sentences = [[(w, label[:1]) for w, label in sentence] for sentence in tagged_sentences(40)]
    (tmp_path / "train").write_text(columns(sentences))
    prepare(
        LabelReader({"train": [tmp_path / "train"]}, LabelFormat("tagged"), CorpusFilterConfig()),
        tmp_path / "other",
        tokenizer=tagged.tokenizers,
    )
    other = Store(tmp_path / "other")
    run(settings(tmp_path / "one", other, tmp_path / "two"), other)
    tagger = Tagger.load(tmp_path / "two")
    assert tagger.folder.vocabulary.labels == ("B", "I", "O")
    _, fresh = initialize_for(settings(tmp_path / "one", other, tmp_path / "three"), other)
    encoder_weights = stack(named_weights(fresh))
    assert all(torch.equal(encoder_weights[name], old[name]) for name in encoder_weights)


def test_incompatible_base_models_are_refused(
    encoder: Path, text: Store, tagged: Store, tmp_path: Path
) -> None:
    other_store = write_tagged_store(tmp_path)
    with pytest.raises(ConfigError, match="--tokenizer-from"):
        initialize_for(settings(encoder, other_store, tmp_path / "run"), other_store)
    with pytest.raises(ConfigError, match=r"model\.num_layers: 1 -> 2"):
        initialize_for(settings(encoder, tagged, tmp_path / "run", "model.num_layers=2"), tagged)
    causal = write_model_folder(tmp_path / "causal", text, kind="causal")
    with pytest.raises(ConfigError, match=r"model\.kind=causal requires plain text"):
        initialize_for(settings(causal, tagged, tmp_path / "run"), tagged)
    with pytest.raises(ConfigError, match=r"kind 'causal', but model\.kind=tagger"):
        settings(causal, tagged, tmp_path / "run", "model.kind=tagger")


def test_run_is_resumed_without_its_base_model(text: Store, tagged: Store, tmp_path: Path) -> None:
    base = write_model_folder(tmp_path / "base", text, kind="masked")
    run(settings(base, tagged, tmp_path / "run", "training.checkpoint_every=2"), tagged)
    base.rename(tmp_path / "gone")
    more = ["training.checkpoint_every=2", "training.max_steps=6"]
    config = settings(base, tagged, tmp_path / "run", *more)
    assert config.model.kind == "tagger"


def test_adapters_are_trained_with_a_new_head(encoder: Path, tagged: Store, tmp_path: Path) -> None:
    lora = ["training.lora.rank=2", "training.checkpoint_every=4", "training.schedule=constant"]
    run(settings(encoder, tagged, tmp_path / "lora", *lora), tagged)
    stored = inference_weights(tmp_path / "lora")
    assert {name.split(".")[0] for name in stored} == {"encoder", "projection"}
    assert all(".adapters." in name for name in stored if name.startswith("encoder."))
    _, model = load_model(tmp_path / "lora", torch.device("cpu"))
    loaded, old = named_weights(model), inference_weights(encoder)
    assert all(torch.equal(loaded[n], old[n]) for n in loaded if n.startswith("embedding."))
    assert any(not torch.equal(loaded[n], old[n]) for n in stack(loaded))
    longer = ["training.max_steps=8", *lora]
    shutil.copytree(tmp_path / "lora", tmp_path / "again")
    run(settings(encoder, tagged, tmp_path / "again", *longer), tagged)
    run(settings(encoder, tagged, tmp_path / "whole", *longer), tagged)
    whole, again = (inference_weights(tmp_path / name) for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
