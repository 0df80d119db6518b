"""Every form of every kind of model trains, goes on where it stopped, is stored, and translates."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import regard
from regard.config import build, merged
from regard.data.store import Store
from regard.errors import ConfigError
from regard.models.folder import WEIGHTS, ModelFolder, read_tensors
from regard.models.transformer import TransformerConfig
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import EVERY_FORM, FORMS, altered, run, some_run


@pytest.mark.parametrize("form", EVERY_FORM)
def test_a_form_is_trained_stored_and_used(
    tmp_path: Path, unvalidated_store: Store, form: str
) -> None:
    model = EVERY_FORM[form]
    if form in FORMS:
        model = {"norm_order": "pre", **model}
    settings = {"max_steps": 12, "checkpoint_every": 4, "learning_rate": 0.02, "warmup_steps": 2}
    whole = some_run(tmp_path / "whole", unvalidated_store, model, **settings)
    run(whole, unvalidated_store)
    losses = [row["loss"] for row in read_metrics(tmp_path / "whole") if "loss" in row]
    assert losses[-1] < losses[0]

    part = altered(whole, out=str(tmp_path / "parts"), training={"max_steps": 7})
    run(part, unvalidated_store)
    run(altered(part, training={"max_steps": 12}), unvalidated_store)
    one, other = (read_tensors(tmp_path / name / WEIGHTS)[0] for name in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())

    assert ModelFolder.read(tmp_path / "whole").config == whole.model
    translator = regard.load(tmp_path / "whole")
    found = [t.text for t in translator.translate(["a b c", "d e"], beam_size=2)]
    assert found == [t.text for t in translator.translate(["a b c", "d e"], beam_size=2)]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"positions": "rotary", "key_width": 3}, "even key_width"),
        ({"positions": "relative", "attention": {"score": "dot"}}, "a score of its own"),
        ({"init": "t5"}, "attention.score=dot"),
        ({"attention": {"estimator": "reinforce"}}, "needs select=sampled"),
        ({"attention": {"score": "scaled dot"}}, "must be dot | scaled_dot"),
    ],
)
def test_what_cannot_go_together_is_refused_with_the_reason(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(TransformerConfig, merged({"width": 32, "heads": 4}, settings))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"kind": "recurrent", "width": 33}, "model.width is 33"),
        ({"kind": "recurrent", "memory": "none", "input_feeding": True}, "has no attention"),
        ({"kind": "recurrent", "cells": "gru"}, "did you mean model.cell?"),
        ({"kind": "recurrent", "heads": 4}, "model.heads does not exist"),
        ({"kind": "convolutional", "kernel": 4}, "take 3 or 5"),
        ({"kind": "recurent"}, "must be transformer | recurrent | convolutional"),
    ],
)
def test_each_kind_refuses_what_it_cannot_do(model: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(RunConfig, {"out": "nowhere", "model": model})
    assert reason in str(caught.value)
