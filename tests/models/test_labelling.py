"""Taggers and classifiers: losses, training, folders and resumption."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from equivalence.test_resume import Interrupting, assert_same_run
from labelled import (
    CLASSIFIER,
    TAGGER,
    first_illegal,
    opinions,
    tagged_sentences,
    write_labelled_store,
    write_tagged_store,
)
from regard.config import build
from regard.data.batch import Batch
from regard.data.byte_features import ByteFeatures
from regard.data.labelled import ClassifiedCollate, TaggedCollate
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.errors import ConfigError, DataError, StoppedError
from regard.models import ARCHITECTURES, new_model
from regard.models.folder import load_model
from regard.models.labelling import LabelModel, compute_segment_ids, inner_positions
from regard.models.protocol import Vocabulary
from regard.pipelines.labelling import Classifier, Tagger
from regard.tasks.recipes import validate_run_config
from regard.tasks.tagging import LabelObjective
from regard.text.base import Tokenizer
from regard.training.config import RunConfig, TrainingConfig
from toys import altered, run, some_run, write_model_folder

LABELS = ["B-x", "I-x", "O"]
TAGGERS: dict[str, dict[str, Any]] = {
    "first": {},
    "last, convolutions": {"pooling": "last", "ffn_type": "convolution"},
    "mean, CRF": {"pooling": "mean", "crf": True},
    "byte features": {"char_embedding_dim": 8},
}
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "mean": {},
    "BERT's": {
        "pooling": "first",
        "tanh_layer": True,
        "num_segments": 2,
        "positional_encoding": "learned",
    },
}
VARIANTS = {
    **{f"tagger, {name}": {"kind": "tagger", **variant} for name, variant in TAGGERS.items()},
    **{f"classifier, {name}": {"kind": "classifier", **f} for name, f in CLASSIFIERS.items()},
}


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_tagged_store(tmp_path_factory.mktemp("tagged"))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_labelled_store(tmp_path_factory.mktemp("labelled"))


def make_model(variant: str) -> LabelModel:
    torch.manual_seed(1)
    kind, changes = VARIANTS[variant]["kind"], VARIANTS[variant]
    sizes = {"num_layers": 2, "d_model": 16, "num_heads": 2, "ffn_dim": 24, "dropout": 0.0}
    model = new_model(
        build(ARCHITECTURES[kind][0], {**sizes, **changes}), Vocabulary(40, 40, True, tuple(LABELS))
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    assert isinstance(model, LabelModel)
    return model.eval()


class Letters:
    """A stub of a tokenizer whose subwords are letters."""

    def decode(self, ids: tuple[int, ...]) -> str:
        return "".join(chr(ord("a") + i) for i in ids)


BYTE_FEATURES = ByteFeatures(cast(Tokenizer, Letters()))


def batch_of(
    model: LabelModel, rows: list[list[list[int]]], labels: list[list[int]] | None = None
) -> Batch:
    config = model.config
    if config.kind == "tagger":
        return TaggedCollate(config.decoder_start_id, BYTE_FEATURES)(rows, labels)
    return ClassifiedCollate(config.decoder_start_id, config.max_positions)(rows, labels)


def examples(kind: str) -> list[list[list[int]]]:
    if kind == "tagger":
        return [[[5], [6, 7], [8, 9, 10]], [[11, 12]], [[5, 6], [7]]]
    return [[[5, 6, 7]], [[8], [9, 10, 11]], [[12, 13, 14, 15], [5]]]


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_predictions_do_not_depend_on_the_batch(variant: str) -> None:
    model = make_model(variant)
    rows = examples(model.config.kind)
    together = model(batch_of(model, rows))
    separate = [model(batch_of(model, [row])) for row in rows]
    for what in (model.scores, model.probabilities, model.predict_labels):
        apart = torch.cat([what(prediction) for prediction in separate])
        torch.testing.assert_close(what(together), apart, rtol=1e-4, atol=1e-5)
    sums = model.probabilities(together).sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_loss_matches_the_probabilities(variant: str) -> None:
    model = make_model(variant)
    rows = examples(model.config.kind)
    sizes = [len(row) if model.config.kind == "tagger" else 1 for row in rows]
    for choice in range(3):  # valid IOB labels
        expected = [[[3, 1, 2], [1, 2, 2], [3, 3, 1]][choice][:size] for size in sizes]
        batch = batch_of(model, rows, expected)
        predictions = model(batch)
        assert predictions.targets.tolist() == [label for row in expected for label in row]
        nll = 0.0
        for row, labels in zip(rows, expected, strict=True):
            separate = model(batch_of(model, [row]))
            if model.chain is None:
                logs = model.projection(separate.hidden).log_softmax(-1)
                nll -= float(logs[range(len(labels)), labels].sum())
            else:
                nll -= path_probability(model, separate, labels)
        loss = LabelObjective(TrainingConfig()).loss(predictions, batch)
        assert float(loss.nll) == pytest.approx(nll, rel=1e-4)


def path_probability(model: LabelModel, predictions: Any, labels: list[int]) -> float:
    """The log-probability of a path, by enumerating all valid paths."""
    chain, scores = model.chain, model.scores(predictions)
    assert chain is not None

    def score(path: tuple[int, ...]) -> float:
        total = chain.begin[path[0]] + chain.end[path[-1]] + scores[range(len(path)), path].sum()
        return float(total + sum(chain.follow[pair] for pair in itertools.pairwise(path)))

    paths = itertools.product(range(3), repeat=len(labels))
    legal = [path for path in paths if first_illegal([LABELS[i] for i in path]) is None]
    assert legal
    partition = torch.tensor([score(path) for path in legal]).logsumexp(0)
    return score(tuple(label - 1 for label in labels)) - float(partition)


def test_segments_and_inner_positions() -> None:
    text = Ragged.of([[2, 5, 3, 6, 7, 3], [2, 8, 3]])
    assert compute_segment_ids(text).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert inner_positions(text.lengths).tolist() == [1, 2, 3, 4, 7]


@pytest.fixture(scope="module")
def taggers(tagged: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tagger]:
    """Trained taggers with and without a CRF."""
    taggers_by_name = {}
    for name, variant in (("softmax", {"ffn_type": "convolution"}), ("CRF", {"crf": True})):
        out = tmp_path_factory.mktemp("run") / "run"
        more = {"max_steps": 120, "checkpoint_every": 60, "label_smoothing": 0.0}
        config = some_run(out, tagged, {**TAGGER, **variant}, best_metric="accuracy", **more)
        run(config, tagged)
        taggers_by_name[name] = Tagger.load(out)
    return taggers_by_name


def test_a_string_instead_of_a_list_raises_an_error(taggers: dict[str, Tagger]) -> None:
    with pytest.raises(ConfigError, match="A list of texts is required"):
        taggers["softmax"].tag("the run")


@pytest.mark.parametrize("name", ["softmax", "CRF"])
def test_tagger_learns_a_grammar(name: str, taggers: dict[str, Tagger]) -> None:
    sentences = tagged_sentences(80, seed=3)
    predictions = taggers[name].tag(
        [" ".join(word for word, _ in sentence) for sentence in sentences]
    )
    expected = [label for sentence in sentences for _, label in sentence]
    actual = [label for prediction in predictions for label in prediction.labels]
    assert sum(map(str.__eq__, actual, expected)) >= 0.98 * len(expected)
    probabilities = [value for prediction in predictions for value in prediction.probabilities]
    assert len(probabilities) == len(expected)
    assert sum(probabilities) >= 0.9 * len(expected)
    separate = [taggers[name].tag([prediction.words])[0] for prediction in predictions[:9]]
    for prediction, single in zip(predictions, separate, strict=False):
        assert prediction.labels == single.labels
        assert prediction.probabilities == pytest.approx(single.probabilities, abs=1e-5)


def test_unusual_words_are_labelled(taggers: dict[str, Tagger]) -> None:
    tagger = taggers["CRF"]
    sentences = [["may", "smith"] * 400, [], ["\u200b"], ["zz" * 900, "the", "dog"]]
    predictions = tagger.tag(sentences, batch_size=1)
    assert [len(prediction.labels) for prediction in predictions] == [800, 0, 1, 3]
    assert first_illegal(predictions[0].labels[:200]) is None
    assert tagger.tag([]) == []


@pytest.mark.parametrize("pairs", [False, True])
def test_classifier_learns(pairs: bool, tmp_path: Path) -> None:
    store = write_labelled_store(tmp_path, pairs=pairs)
    variant = {
        **CLASSIFIER,
        "num_segments": 2 if pairs else 0,
        "pooling": "first" if pairs else "mean",
    }
    more = {"label_smoothing": 0.0, "best_metric": "accuracy", "learning_rate": 0.005}
    config = some_run(tmp_path / "run", store, variant, max_steps=150, checkpoint_every=50, **more)
    watcher = run(config, store)
    accuracies = [row["accuracy"] for row in watcher.rows if "accuracy" in row]
    assert max(accuracies) >= 0.95
    classifier = Classifier.load(tmp_path / "run")
    rows = opinions(60, seed=3, pairs=pairs)
    predictions = classifier.classify([texts for _, *texts in rows])
    correct = [
        prediction.label == row[0] for prediction, row in zip(predictions, rows, strict=True)
    ]
    assert sum(correct) >= 54
    for prediction, (_, *texts) in zip(predictions[:9], rows, strict=False):
        (separate,) = classifier.classify([texts])
        assert separate.label == prediction.label
        assert separate.probabilities == pytest.approx(prediction.probabilities, abs=1e-5)
        assert prediction.probability == max(prediction.probabilities.values())
        assert sum(prediction.probabilities.values()) == pytest.approx(1.0, abs=1e-5)


def test_empty_texts_and_too_many_texts(labelled: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model", labelled, kind="classifier", max_positions=8)
    classifier = Classifier.load(folder)
    assert len(classifier.classify(["", "good " * 50])) == 2
    with pytest.raises(DataError, match="Text 2"):
        classifier.classify(["one", ["one", "two", "three"]])


def test_folder_stores_labels(tagged: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model", tagged, kind="tagger", crf=True)
    described, model = load_model(folder, torch.device("cpu"))
    assert described.vocabulary.labels == tagged.vocabulary.labels
    assert isinstance(model, LabelModel)
    words = ["the", "run", "in", "new", "york"]
    assert Tagger.load(folder).tag([words]) == Tagger.load(folder).tag([words])
    with pytest.raises(ConfigError, match=r"only a model for classification labels texts"):
        Classifier.load(folder)


def test_incompatible_settings_and_data_raise_errors(
    tagged: Store, labelled: Store, tmp_path: Path
) -> None:
    for kind, store, message in (
        ("classifier", tagged, "words with labels.*--labelled"),
        ("tagger", labelled, "texts with labels.*--tagged"),
        ("masked", tagged, "--text"),
    ):
        with pytest.raises(ConfigError, match=message):
            write_model_folder(tmp_path / kind, store, kind=kind)
    tree = {"out": "run", "model": {"kind": "tagger", "crf": True}}
    with pytest.raises(ConfigError, match=r"training\.label_smoothing=0"):
        validate_run_config(build(RunConfig, tree))
    for kind, figure in (("tagger", "bleu"), ("transformer", "accuracy")):
        wrong = {"out": "run", "model": {"kind": kind}, "training": {"best_metric": figure}}
        with pytest.raises(ConfigError, match="best_metric"):
            validate_run_config(build(RunConfig, wrong))


@pytest.mark.parametrize("kind", ["tagger", "classifier"])
def test_resumed_run_matches_uninterrupted_run(
    kind: str, tagged: Store, labelled: Store, tmp_path: Path
) -> None:
    store = tagged if kind == "tagger" else labelled
    more = {"crf": True, "char_embedding_dim": 8} if kind == "tagger" else {}
    variant = {"kind": kind, "word_dropout": 0.1, **more}
    methods = {
        "label_smoothing": 0.0,
        "ema_decay": 0.8,
        "best_metric": "accuracy",
        "average_last": 2,
    }
    whole = some_run(tmp_path / "whole", store, variant, **methods)
    parts = some_run(tmp_path / "parts", store, variant, **methods)
    if kind == "tagger":
        cuts = {"subword_nbest_size": 4, "num_workers": 1}
        whole, parts = altered(whole, data=cuts), altered(parts, data=cuts)
    run(whole, store)
    with pytest.raises(StoppedError):
        run(parts, store, callback=Interrupting(8, signal.SIGTERM))
    run(parts, store)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
