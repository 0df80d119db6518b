"""Every model variant can be trained, resumed, stored and used for translation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import regard
from regard.config import build
from regard.data.store import Store
from regard.errors import ConfigError
from regard.models.folder import WEIGHTS, ModelFolder, read_tensors
from regard.models.transformer import TransformerConfig
from regard.settings_tree import merge_trees
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import AUTOREGRESSIVE_VARIANTS, TRANSFORMER_VARIANTS, altered, run, some_run


@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_variant_is_trained_resumed_stored_and_used(
    tmp_path: Path, unvalidated_store: Store, variant: str
) -> None:
    model = AUTOREGRESSIVE_VARIANTS[variant]
    if variant in TRANSFORMER_VARIANTS:
        model = {"norm_order": "pre", **model}
    settings = {"max_steps": 12, "checkpoint_every": 4, "learning_rate": 0.02, "warmup_steps": 2}
    whole = some_run(tmp_path / "whole", unvalidated_store, model, **settings)
    run(whole, unvalidated_store)
    losses = [row["loss"] for row in read_metrics(tmp_path / "whole") if "loss" in row]
    assert losses[-1] < losses[0]

    part = altered(whole, out=str(tmp_path / "parts"), training={"max_steps": 7})
    run(part, unvalidated_store)
    run(altered(part, training={"max_steps": 12}), unvalidated_store)
    whole_weights, part_weights = (
        read_tensors(tmp_path / name / WEIGHTS)[0] for name in ("whole", "parts")
    )
    assert whole_weights.keys() == part_weights.keys()
    assert all(torch.equal(tensor, part_weights[name]) for name, tensor in whole_weights.items())

    assert ModelFolder.read(tmp_path / "whole").config == whole.model
    translator = regard.load(tmp_path / "whole")
    texts = [t.text for t in translator.translate(["a b c", "d e"], beam_size=2)]
    assert texts == [t.text for t in translator.translate(["a b c", "d e"], beam_size=2)]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"positional_encoding": "rotary", "key_dim": 3}, "an even key_dim"),
        (
            {"positional_encoding": "relative", "attention": {"score": "dot"}},
            "requires attention.score=scaled_dot",
        ),
        ({"init": "t5"}, "attention.score=dot"),
        ({"attention": {"estimator": "reinforce"}}, "requires select=sampled"),
        ({"attention": {"score": "scaled dot"}}, "must be dot | scaled_dot"),
    ],
)
def test_contradicting_settings_are_refused_with_the_reason(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(TransformerConfig, merge_trees({"d_model": 32, "num_heads": 4}, settings))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"kind": "recurrent", "d_model": 33}, "model.d_model is 33"),
        (
            {"kind": "recurrent", "cross_attention": "none", "input_feeding": True},
            "requires attention",
        ),
        ({"kind": "recurrent", "cells": "gru"}, "did you mean model.cell?"),
        ({"kind": "recurrent", "num_heads": 4}, "model.num_heads does not exist"),
        ({"kind": "convolutional", "kernel_size": 4}, "set kernel_size=3 or kernel_size=5"),
        ({"kind": "recurent"}, "must be transformer | recurrent | convolutional"),
    ],
)
def test_unsupported_settings_of_a_kind_are_refused(model: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(RunConfig, {"out": "nowhere", "model": model})
    assert reason in str(caught.value)
