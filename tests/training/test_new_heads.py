"""A new head on a trained stack: what is taken over, what is new, and what does not fit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from labelled import columns, tagged_sentences, write_labelled_store, write_tagged_store
from regard.data.doctor import DoctorConfig
from regard.data.label_files import LabelFormat, LabelReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.decoding.labeller import Tagger
from regard.errors import ConfigError
from regard.models.folder import load_model, shown_weights, weights_of
from regard.tasks.recipes import run_config
from regard.training.config import RunConfig
from toys import begun_on, run, write_model_folder, write_text_store


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
        segments=2,
        positions="learned",
        activation="gelu",
        norm_epsilon=1e-12,
        scale_embedding=False,
    )


@pytest.fixture(scope="module")
def tagged(text: Store, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_tagged_store(tmp_path_factory.mktemp("tagged"), tokenizer=text.tokenizers)


def settings(origin: Path, store: Store, out: Path, *more: str) -> RunConfig:
    changes = {"out": str(out), "init_from": str(origin), "data": {"folder": str(store.folder)}}
    quick = ["training.max_steps=4", "training.tensorboard=false", *more]
    return run_config(None, preset=None, changes=changes, assignments=quick)


def stack(weights: dict[str, Any]) -> dict[str, Any]:
    return {n: w for n, w in weights.items() if n.startswith(("embedding.", "encoder."))}


def test_the_data_say_which_head(encoder: Path, text: Store, tagged: Store, tmp_path: Path) -> None:
    labelled = write_labelled_store(tmp_path, tokenizer=text.tokenizers)
    for store, kind in ((tagged, "tagger"), (labelled, "classifier")):
        config = settings(encoder, store, tmp_path / kind)
        assert config.model.kind == kind
        assert config.training.best_by == "accuracy"
        _, model = begun_on(config, store)
        own, old = stack(weights_of(model)), stack(shown_weights(encoder))
        assert own.keys() == old.keys()
        assert all(torch.equal(own[name], old[name]) for name in own)
        assert model.projection.weight.std() < 0.2 * config.model.width**-0.5  # not sure of any
    with pytest.raises(ConfigError, match=r"model\.kind=classifier reads texts"):
        begun_on(settings(encoder, tagged, tmp_path / "x", "model.kind=classifier"), tagged)


def test_a_tagger_with_other_labels_gets_a_new_head(
    encoder: Path, tagged: Store, tmp_path: Path
) -> None:
    run(settings(encoder, tagged, tmp_path / "one"), tagged)
    same = settings(tmp_path / "one", tagged, tmp_path / "same")
    _, model = begun_on(same, tagged)
    old = shown_weights(tmp_path / "one")
    assert all(torch.equal(w, old[name]) for name, w in weights_of(model).items())
    sentences = [[(w, label[:1]) for w, label in one] for one in tagged_sentences(40)]
    (tmp_path / "train").write_text(columns(sentences))
    prepare(
        LabelReader({"train": [tmp_path / "train"]}, LabelFormat("tagged"), DoctorConfig()),
        tmp_path / "other",
        tokenizer=tagged.tokenizers,
    )
    other = Store(tmp_path / "other")
    run(settings(tmp_path / "one", other, tmp_path / "two"), other)
    tagger = Tagger.load(tmp_path / "two")
    assert tagger.folder.vocabulary.labels == ("B", "I", "O")
    _, fresh = begun_on(settings(tmp_path / "one", other, tmp_path / "three"), other)
    own = stack(weights_of(fresh))
    assert all(torch.equal(own[name], old[name]) for name in own)


def test_what_does_not_fit_is_refused(
    encoder: Path, text: Store, tagged: Store, tmp_path: Path
) -> None:
    stranger = write_tagged_store(tmp_path)
    with pytest.raises(ConfigError, match="--tokenizer-from"):
        begun_on(settings(encoder, stranger, tmp_path / "run"), stranger)
    with pytest.raises(ConfigError, match=r"model\.layers: 1 -> 2"):
        begun_on(settings(encoder, tagged, tmp_path / "run", "model.layers=2"), tagged)
    causal = write_model_folder(tmp_path / "causal", text, kind="causal")
    with pytest.raises(ConfigError, match=r"model\.kind=causal reads running text"):
        begun_on(settings(causal, tagged, tmp_path / "run"), tagged)
    with pytest.raises(ConfigError, match=r"causal model, but model\.kind=tagger"):
        settings(causal, tagged, tmp_path / "run", "model.kind=tagger")


def test_a_run_goes_on_without_its_origin(text: Store, tagged: Store, tmp_path: Path) -> None:
    origin = write_model_folder(tmp_path / "origin", text, kind="masked")
    run(settings(origin, tagged, tmp_path / "run", "training.checkpoint_every=2"), tagged)
    origin.rename(tmp_path / "gone")
    more = ["training.checkpoint_every=2", "training.max_steps=6"]
    config = settings(origin, tagged, tmp_path / "run", *more)
    assert config.model.kind == "tagger"


def test_adapters_learn_below_a_new_head(encoder: Path, tagged: Store, tmp_path: Path) -> None:
    lora = ["training.lora.rank=2", "training.checkpoint_every=4", "training.schedule=constant"]
    run(settings(encoder, tagged, tmp_path / "lora", *lora), tagged)
    stored = shown_weights(tmp_path / "lora")
    assert {name.split(".")[0] for name in stored} == {"encoder", "projection"}
    assert all(".adapters." in name for name in stored if name.startswith("encoder."))
    _, model = load_model(tmp_path / "lora", torch.device("cpu"))
    loaded, old = weights_of(model), shown_weights(encoder)
    assert all(torch.equal(loaded[n], old[n]) for n in loaded if n.startswith("embedding."))
    assert any(not torch.equal(loaded[n], old[n]) for n in stack(loaded))
    longer = ["training.max_steps=8", *lora]
    shutil.copytree(tmp_path / "lora", tmp_path / "again")
    run(settings(encoder, tagged, tmp_path / "again", *longer), tagged)
    run(settings(encoder, tagged, tmp_path / "whole", *longer), tagged)
    whole, again = (shown_weights(tmp_path / name) for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
