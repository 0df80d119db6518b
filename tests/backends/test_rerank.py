"""Reranking: n-best lists are sorted by the sum of the log-probs of several models."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.store import Store
from regard.errors import ConfigError, ModelError
from regard.evaluation.perplexity import perplexity
from regard.models.folder import ModelFolder, load_model
from regard.pipelines.text_search import Translation
from regard.pipelines.translator import Translator
from toys import run, small_run, write_model_folder, write_text_store

LINES = ["a b c d e", "f g", "h i j a b", "c"]
SETTINGS: Any = {"beam_size": 6, "retry": False}


def edit(folder: Path, **changes: Any) -> Path:
    """A model folder with other fields in its `config.json`."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> dict[str, Path]:
    """A briefly trained model, the same from right to left, and others without training."""
    new = tmp_path_factory.mktemp
    forward, right_to_left = new("run") / "forward", new("right-to-left")
    run(small_run(forward, reversal_store, max_steps=60, checkpoint_every=60), reversal_store)
    description = ModelFolder.read(forward)
    tokenizers = description.tokenizers.with_reversed_target()
    replace(description, tokenizers=tokenizers).write(right_to_left)
    shutil.copy(forward / "model.safetensors", right_to_left)
    reverse, unknown = {"source": "yy", "target": "xx"}, {"source": None, "target": None}
    text = write_text_store(new("text"))
    return {
        "forward": forward,
        "right-to-left": right_to_left,
        "other": write_model_folder(new("other"), reversal_store, ffn_dim=32),
        "reverse": edit(write_model_folder(new("reverse"), reversal_store), languages=reverse),
        "language model": edit(
            write_model_folder(new("language-model"), text, kind="causal"),
            languages={"source": "yy", "target": "yy"},
        ),
        "other language": write_model_folder(new("other-language"), text, kind="causal"),
        "masked": write_model_folder(new("masked"), text, kind="masked"),
        "memory": write_model_folder(new("memory"), text, kind="xl"),
        "unknown": edit(write_model_folder(new("unknown"), reversal_store), languages=unknown),
        "other direction": edit(
            write_model_folder(new("other-direction"), reversal_store),
            languages={"source": "xx", "target": "zz"},
        ),
        "fertility": write_model_folder(new("nat"), reversal_store, kind="nonautoregressive"),
    }


@pytest.fixture(scope="module")
def translator(folders: dict[str, Path]) -> Translator:
    return regard.load(folders["forward"], device="cpu")


def ranked(translation: Translation) -> list[tuple[str, float]]:
    """All hypotheses of a translation, best first."""
    others = [(other.text, other.score) for other in translation.alternatives]
    return [(translation.text, translation.score), *others]


def reranker_score(path: Path, name: str, source: str, target: str) -> float:
    """The mean log-prob by the pipelines of the models."""
    if name == "language model":
        folder, model = load_model(path, torch.device("cpu"))
        return -math.log(perplexity(model, folder.tokenizers.target, [target]).per_token)
    pair = (target, source) if name == "reverse" else (source, target)
    [score] = load(path).score([pair[0]], [pair[1]])
    return score


@cache
def load(path: Path) -> Any:
    """A pipeline."""
    return regard.load(path, device="cpu")


@pytest.mark.parametrize(
    "names",
    [["other"], ["reverse"], ["right-to-left"], ["language model"], ["reverse", "language model"]],
    ids=" ".join,
)
def test_scores_are_weighted_sums(
    translator: Translator, folders: dict[str, Path], names: list[str]
) -> None:
    weights = [0.7, 2.5][: len(names)]
    nbests = translator.translate(LINES, num_hypotheses=6, **SETTINGS)
    rerank: Any = {"rerank": [folders[name] for name in names], "rerank_weight": weights}
    reranked = translator.translate(LINES, num_hypotheses=6, **rerank, **SETTINGS)
    best = translator.translate(LINES, **rerank, **SETTINGS)
    for source, nbest, result, first in zip(LINES, nbests, reranked, best, strict=True):
        expected = {
            text: score
            + sum(
                weight * reranker_score(folders[name], name, source, text)
                for name, weight in zip(names, weights, strict=True)
            )
            for text, score in ranked(nbest)
        }
        scores = [score for _, score in ranked(result)]
        assert scores == sorted(scores, reverse=True)
        for text, score in ranked(result):
            assert score == pytest.approx(expected[text], abs=1e-4)
        assert ranked(first) == [ranked(result)[0]]


def test_the_order_changes(translator: Translator, folders: dict[str, Path]) -> None:
    plain = translator.translate(LINES, **SETTINGS)
    strong: Any = {"rerank": [str(folders["reverse"])], "rerank_weight": (50.0,)}
    reranked = translator.translate(LINES, **strong, **SETTINGS)
    assert [part.text for part in plain] != [part.text for part in reranked]
    without: Any = {"rerank": [folders["reverse"]], "rerank_weight": (0.0,)}
    unchanged = translator.translate(LINES, **without, **SETTINGS)
    assert [part.text for part in plain] == [part.text for part in unchanged]


def test_candidates_of_ctranslate2(folders: dict[str, Path]) -> None:
    # With this patience, n-best lists are the same.
    rerank: Any = {"rerank": [folders["reverse"]], "patience": 1.0, **SETTINGS}
    first, second = (
        regard.load(folders["forward"], device="cpu", backend=backend).translate(LINES, **rerank)
        for backend in ("torch", "ctranslate2")
    )
    for result, other in zip(first, second, strict=True):
        assert result.text == other.text
        assert result.score == pytest.approx(other.score, abs=1e-3)


def test_a_right_to_left_model_alone(folders: dict[str, Path]) -> None:
    """Its weights are those of the forward model, so its output is the same in reverse order."""
    forward, backward = (
        regard.load(folders[name], device="cpu") for name in ("forward", "right-to-left")
    )
    pairs = [model.translate(LINES, **SETTINGS) for model in (forward, backward)]
    for first, second in zip(*pairs, strict=True):
        assert second.text.split() == first.text.split()[::-1]
        assert second.score == pytest.approx(first.score, abs=1e-5)
        [score] = backward.score([second.source], [second.text])
        assert score == pytest.approx(second.score, abs=1e-4)
    confidences: Any = {"confidence": True, **SETTINGS}
    both = [model.translate(LINES, **confidences) for model in (forward, backward)]
    for first, second in zip(*both, strict=True):
        expected = [(word.text, word.confidence) for word in reversed(first.words or [])]
        assert [word.text for word in second.words or []] == [text for text, _ in expected]
        for word, (_, confidence) in zip(second.words or [], expected, strict=True):
            assert word.confidence == pytest.approx(confidence, abs=1e-4)
    words = " ".join(pairs[1][0].text.split()[:2])
    [forbidden] = backward.translate(LINES[:1], forbid=[words], **SETTINGS)
    assert words not in forbidden.text


def test_a_right_to_left_model_has_no_forced_prefix(folders: dict[str, Path]) -> None:
    model = regard.load(folders["right-to-left"], device="cpu")
    with pytest.raises(ConfigError, match="right-to-left model, which generates the beginning"):
        model.translate(["a"], prefixes=["b"])
    with pytest.raises(ConfigError, match="right-to-left model, which generates the beginning"):
        model.translate_iterable(["a"], prefix="b")


def test_opposite_orders_cannot_form_an_ensemble(folders: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="opposite orders, so they cannot form an ensemble"):
        regard.load(folders["forward"], folders["right-to-left"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other language", "is a language model of xx, but the translations are in yy"),
        ("masked", "is a model for masked language modeling .* which cannot rerank"),
        ("memory", "is a model for language modeling .* which cannot rerank"),
        ("unknown", r"a direction is unknown: it translates \? to \?"),
        ("other direction", "translates xx to zz, so it cannot rerank translations from xx to yy"),
        ("fertility", "cannot rerank"),
    ],
)
def test_models_that_cannot_rerank(
    translator: Translator, folders: dict[str, Path], name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate(["a"], rerank=(folders[name],))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rerank_weight": (0.5,)}, "rerank_weight has 1 values, but rerank has 0 models"),
        ({"rerank": ("a", "b"), "rerank_weight": (1.0,)}, "give one for each"),
        ({"rerank": ("a",), "mbr": "chrf"}, "mbr and rerank exclude each other"),
        ({"rerank": ("a",), "sample": True}, "ranks the hypotheses of beam search"),
        ({"rerank": ("a",), "beam_size": 1}, "no candidates to choose from in greedy search"),
    ],
)
def test_settings_that_contradict_each_other(
    translator: Translator, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate(LINES, **settings)
