"""One model learns to reverse and to copy, by the target language, and validates each."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from directions import DIRECTIONS, toy_lines, write_directions_store
from regard.data.pairs import pairs_by_direction
from regard.evaluation.metrics import bleu
from regard.training.metrics_log import read_metrics
from toys import run, some_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    store = write_directions_store(folder, (800, 800, 800), longest=4)
    model = {"d_model": 64, "num_heads": 4, "ffn_dim": 128, "norm_order": "pre", "dropout": 0.0}
    training = {"max_steps": 400, "checkpoint_every": 200, "warmup_steps": 40, "log_every": 70}
    settings = {"learning_rate": 5e-3, "label_smoothing": 0.0, "best_metric": "bleu"}
    config = some_run(folder / "out", store, model, **training, **settings)
    run(config, store)
    return folder


def test_the_target_tag_selects_the_translation(trained: Path) -> None:
    model = regard.load(trained / "out", device="cpu")
    lines = toy_lines(100, seed=99, longest=4)
    for direction, convert in DIRECTIONS.items():
        translations = model.translate(lines, target_lang=direction.target, beam_size=1)
        right = sum(t.text == convert(line) for t, line in zip(translations, lines, strict=True))
        assert right >= 75, (direction, right)


def test_metrics_of_each_direction_and_their_mean_are_logged(trained: Path) -> None:
    rows = [row for row in read_metrics(trained / "out") if "valid_loss" in row]
    names = [str(direction) for direction in DIRECTIONS]
    for row in rows:
        for metric in ("bleu", "valid_loss"):
            parts = [row[f"{metric}_{name}"] for name in names]
            assert row[metric] == pytest.approx(sum(parts) / 3)
    assert rows[-1]["bleu"] > rows[0]["bleu"]


def test_validation_equals_a_reference(trained: Path) -> None:
    """BLEU and loss, computed from the texts of each direction."""
    model = regard.load(trained / "out", device="cpu", backend="torch", precision="float32")
    best = max(
        (row for row in read_metrics(trained / "out") if "bleu" in row),
        key=lambda row: float(row["bleu"]),
    )
    for direction in DIRECTIONS:
        sources, targets = (
            (trained / f"valid.{direction}.{side}").read_text().splitlines() for side in "st"
        )
        languages = {"source_lang": direction.source, "target_lang": direction.target}
        results = model.translate(sources, beam_size=1, retry=False, **languages)
        score = bleu([result.text for result in results], targets)
        assert best[f"bleu_{direction}"] == pytest.approx(score, abs=0.01)
        scores = model.score(sources, targets, length_penalty=0.0, **languages)
        tokens = sum(len(target.split()) + 1 for target in targets)
        assert best[f"valid_loss_{direction}"] == pytest.approx(-sum(scores) / tokens, rel=0.02)


def test_every_pair_belongs_to_one_direction(trained: Path) -> None:
    from regard.data.store import Store

    part = Store(trained / "prepared").part("train")
    indices = [i for pairs in pairs_by_direction(part.corpora).values() for i in pairs.tolist()]
    assert sorted(indices) == [*range(len(part))]
