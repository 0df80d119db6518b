"""COMET as a utility, with a stand-in for the package: each text is encoded once."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.backends.comet_utility import load_comet
from regard.errors import ConfigError, ModelError

CPU = torch.device("cpu")
# As much of the package as is used: a score that depends on all three texts.
METRICS = """
import torch

class Encoder:
    def prepare_sample(self, texts):
        longest = max(map(len, texts)) + 1
        ids = torch.zeros(len(texts), longest, dtype=torch.long)
        for row, text in zip(ids, texts):
            row[: len(text)] = torch.tensor([*map(ord, text)])
        return {"input_ids": ids, "attention_mask": ids > 0, "lengths": None}

class ReferencelessRegression:
    pass

class RegressionMetric:
    encoder = Encoder()
    encoded = 0

    def to(self, device):
        return self

    def eval(self):
        return self

    def get_sentence_embedding(self, input_ids, attention_mask):
        RegressionMetric.encoded += len(input_ids)
        sums = (input_ids * attention_mask).sum(1, keepdim=True).float()
        return torch.cat([sums, attention_mask.sum(1, keepdim=True).float()], 1)

    def estimate(self, source, translation, reference):
        scores = source[:, 0] + 3 * translation[:, 0] - reference[:, 1] * translation[:, 1]
        return {"score": scores}
"""
LOADING = """
from comet.models import ReferencelessRegression, RegressionMetric

def load_from_checkpoint(path, local_files_only):
    assert local_files_only
    if "damaged" in path:
        raise Exception("hparams.yaml is missing")
    return ReferencelessRegression() if "qe" in path else RegressionMetric()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with checkpoints, and the stand-in on the path of modules."""
    (tmp_path / "comet").mkdir()
    (tmp_path / "comet/models.py").write_text(METRICS)
    (tmp_path / "comet/__init__.py").write_text(LOADING)
    for name in ("model.ckpt", "qe.ckpt", "damaged.ckpt"):
        (tmp_path / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("comet", "comet.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    load_comet.cache_clear()
    return tmp_path


def test_all_pairs_are_scored(package: Path) -> None:
    utility = load_comet(package / "model.ckpt", CPU)
    texts = [f"text {number}" * (number % 3 + 1) for number in range(70)]
    sums = [sum(map(ord, text)) for text in texts]
    expected = [
        [sum(map(ord, "a source")) + 3 * total - len(reference) * len(text) for reference in texts]
        for total, text in zip(sums, texts, strict=True)
    ]
    assert np.array_equal(utility("a source", texts), expected)
    assert sys.modules["comet.models"].RegressionMetric.encoded == 71


def test_models_that_cannot_be_used(package: Path) -> None:
    with pytest.raises(ConfigError, match="no COMET checkpoint"):
        load_comet(package / "missing.ckpt", CPU)
    with pytest.raises(ConfigError, match="not a COMET regression model with references"):
        load_comet(package / "qe.ckpt", CPU)
    with pytest.raises(ModelError, match=r"hparams\.yaml is missing"):
        load_comet(package / "damaged.ckpt", CPU)


def test_the_package_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.backends.comet_utility.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install unbabel-comet, or use --mbr chrf"):
        load_comet(tmp_path / "a.ckpt", CPU)
