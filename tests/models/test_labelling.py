"""Taggers and classifiers: what they learn, batched = alone, and the folder that holds them."""

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
from regard.data.labelled import ClassifiedCollate, TaggedCollate
from regard.data.ragged import Ragged
from regard.data.spelling import Speller
from regard.data.store import Store
from regard.decoding.labeller import Classifier, Tagger
from regard.errors import ConfigError, DataError, StoppedError
from regard.models import ARCHITECTURES, new_model
from regard.models.folder import load_model
from regard.models.labelling import LabelModel, inner_places, segments_of
from regard.models.protocol import Vocabulary
from regard.tasks.recipes import checked
from regard.tasks.tagging import LabelObjective
from regard.text.base import Tokenizer
from regard.training.config import RunConfig, TrainingConfig
from toys import altered, run, some_run, write_model_folder

LABELS = ["B-x", "I-x", "O"]
TAGGERS: dict[str, dict[str, Any]] = {
    "first": {},
    "last, convolutions": {"pooling": "last", "feedforward": "convolution"},
    "mean, CRF": {"pooling": "mean", "crf": True},
    "spelled": {"characters": 8},
}
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "mean": {},
    "BERT's": {"pooling": "first", "tanh_layer": True, "segments": 2, "positions": "learned"},
}
FORMS = {
    **{f"tagger, {name}": {"kind": "tagger", **form} for name, form in TAGGERS.items()},
    **{f"classifier, {name}": {"kind": "classifier", **f} for name, f in CLASSIFIERS.items()},
}


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_tagged_store(tmp_path_factory.mktemp("tagged"))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_labelled_store(tmp_path_factory.mktemp("labelled"))


def model_of(form: str) -> LabelModel:
    torch.manual_seed(1)
    kind, changes = FORMS[form]["kind"], FORMS[form]
    sizes = {"layers": 2, "width": 16, "heads": 2, "feedforward_width": 24, "dropout": 0.0}
    model = new_model(
        build(ARCHITECTURES[kind][0], {**sizes, **changes}), Vocabulary(40, 40, True, tuple(LABELS))
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    assert isinstance(model, LabelModel)
    return model.eval()


class Letters:
    """Stands for a tokenizer whose subwords are letters."""

    def decode(self, ids: tuple[int, ...]) -> str:
        return "".join(chr(ord("a") + i) for i in ids)


SPELLER = Speller(cast(Tokenizer, Letters()))


def batch_of(
    model: LabelModel, rows: list[list[list[int]]], labels: list[list[int]] | None = None
) -> Batch:
    config = model.config
    if config.kind == "tagger":
        return TaggedCollate(config.start_mark, SPELLER)(rows, labels)
    return ClassifiedCollate(config.start_mark, config.max_positions)(rows, labels)


def examples(kind: str) -> list[list[list[int]]]:
    if kind == "tagger":
        return [[[5], [6, 7], [8, 9, 10]], [[11, 12]], [[5, 6], [7]]]
    return [[[5, 6, 7]], [[8], [9, 10, 11]], [[12, 13, 14, 15], [5]]]


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_no_example_sees_another(form: str) -> None:
    model = model_of(form)
    rows = examples(model.config.kind)
    together = model(batch_of(model, rows))
    alone = [model(batch_of(model, [row])) for row in rows]
    for what in (model.scores, model.probabilities, model.chosen):
        apart = torch.cat([what(one) for one in alone])
        torch.testing.assert_close(what(together), apart, rtol=1e-4, atol=1e-5)
    sums = model.probabilities(together).sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_the_loss_is_that_of_the_probabilities(form: str) -> None:
    model = model_of(form)
    rows = examples(model.config.kind)
    sizes = [len(row) if model.config.kind == "tagger" else 1 for row in rows]
    for choice in range(3):  # what spans allow, whatever the form
        wanted = [[[3, 1, 2], [1, 2, 2], [3, 3, 1]][choice][:size] for size in sizes]
        batch = batch_of(model, rows, wanted)
        predictions = model(batch)
        assert predictions.targets.tolist() == [label for row in wanted for label in row]
        nll = 0.0
        for row, labels in zip(rows, wanted, strict=True):
            alone = model(batch_of(model, [row]))
            if model.chain is None:
                logs = model.projection(alone.hidden).log_softmax(-1)
                nll -= float(logs[range(len(labels)), labels].sum())
            else:
                nll -= path_probability(model, alone, labels)
        loss = LabelObjective(TrainingConfig()).loss(predictions, batch)
        assert float(loss.nll) == pytest.approx(nll, rel=1e-4)


def path_probability(model: LabelModel, predictions: Any, labels: list[int]) -> float:
    """The log-probability of a path among all legal ones, each scored by itself."""
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


def test_segments_and_places() -> None:
    text = Ragged.of([[2, 5, 3, 6, 7, 3], [2, 8, 3]])
    assert segments_of(text).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert inner_places(text.lengths).tolist() == [1, 2, 3, 4, 7]


@pytest.fixture(scope="module")
def taggers(tagged: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tagger]:
    """Trained ones, with and without a CRF."""
    found = {}
    for name, form in (("softmax", {"feedforward": "convolution"}), ("CRF", {"crf": True})):
        out = tmp_path_factory.mktemp("run") / "run"
        more = {"max_steps": 120, "checkpoint_every": 60, "label_smoothing": 0.0}
        config = some_run(out, tagged, {**TAGGER, **form}, best_by="accuracy", **more)
        run(config, tagged)
        found[name] = Tagger.load(out)
    return found


def test_one_string_is_no_list(taggers: dict[str, Tagger]) -> None:
    with pytest.raises(ConfigError, match="A list of texts is needed"):
        taggers["softmax"].tag("the run")


@pytest.mark.parametrize("name", ["softmax", "CRF"])
def test_a_tagger_learns_a_grammar(name: str, taggers: dict[str, Tagger]) -> None:
    sentences = tagged_sentences(80, seed=3)
    found = taggers[name].tag([" ".join(word for word, _ in one) for one in sentences])
    wanted = [label for sentence in sentences for _, label in sentence]
    given = [label for one in found for label in one.labels]
    assert sum(map(str.__eq__, given, wanted)) >= 0.98 * len(wanted)
    probabilities = [value for one in found for value in one.probabilities]
    assert len(probabilities) == len(wanted)
    assert sum(probabilities) >= 0.9 * len(wanted)
    alone = [taggers[name].tag([one.words])[0] for one in found[:9]]
    for one, other in zip(found, alone, strict=False):
        assert one.labels == other.labels
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_any_words_are_labelled(taggers: dict[str, Tagger]) -> None:
    tagger = taggers["CRF"]
    sentences = [["may", "smith"] * 400, [], ["\u200b"], ["zz" * 900, "the", "dog"]]
    found = tagger.tag(sentences, batch_size=1)
    assert [len(one.labels) for one in found] == [800, 0, 1, 3]
    assert first_illegal(found[0].labels[:200]) is None
    assert tagger.tag([]) == []


@pytest.mark.parametrize("pairs", [False, True])
def test_a_classifier_learns(pairs: bool, tmp_path: Path) -> None:
    store = write_labelled_store(tmp_path, pairs=pairs)
    form = {**CLASSIFIER, "segments": 2 if pairs else 0, "pooling": "first" if pairs else "mean"}
    more = {"label_smoothing": 0.0, "best_by": "accuracy", "learning_rate": 0.005}
    config = some_run(tmp_path / "run", store, form, max_steps=150, checkpoint_every=50, **more)
    seen = run(config, store)
    accuracies = [row["accuracy"] for row in seen.rows if "accuracy" in row]
    assert max(accuracies) >= 0.95
    classifier = Classifier.load(tmp_path / "run")
    rows = opinions(60, seed=3, pairs=pairs)
    found = classifier.classify([texts for _, *texts in rows])
    right = [one.label == row[0] for one, row in zip(found, rows, strict=True)]
    assert sum(right) >= 54
    for one, (_, *texts) in zip(found[:9], rows, strict=False):
        (alone,) = classifier.classify([texts])
        assert alone.label == one.label
        assert alone.probabilities == pytest.approx(one.probabilities, abs=1e-5)
        assert one.probability == max(one.probabilities.values())
        assert sum(one.probabilities.values()) == pytest.approx(1.0, abs=1e-5)


def test_texts_that_are_empty_or_too_many(labelled: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model", labelled, kind="classifier", max_positions=8)
    classifier = Classifier.load(folder)
    assert len(classifier.classify(["", "good " * 50])) == 2
    with pytest.raises(DataError, match="Text 2"):
        classifier.classify(["one", ["one", "two", "three"]])


def test_a_folder_holds_the_labels(tagged: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model", tagged, kind="tagger", crf=True)
    described, model = load_model(folder, torch.device("cpu"))
    assert described.vocabulary.labels == tagged.vocabulary.labels
    assert isinstance(model, LabelModel)
    words = ["the", "run", "in", "new", "york"]
    assert Tagger.load(folder).tag([words]) == Tagger.load(folder).tag([words])
    with pytest.raises(ConfigError, match=r"only a model for classification labels texts"):
        Classifier.load(folder)


def test_what_does_not_go_together(tagged: Store, labelled: Store, tmp_path: Path) -> None:
    for kind, store, told in (
        ("classifier", tagged, "words with labels.*--labelled"),
        ("tagger", labelled, "texts with labels.*--tagged"),
        ("masked", tagged, "--text"),
    ):
        with pytest.raises(ConfigError, match=told):
            write_model_folder(tmp_path / kind, store, kind=kind)
    tree = {"out": "run", "model": {"kind": "tagger", "crf": True}}
    with pytest.raises(ConfigError, match=r"training\.label_smoothing=0"):
        checked(build(RunConfig, tree))
    for kind, figure in (("tagger", "bleu"), ("transformer", "accuracy")):
        wrong = {"out": "run", "model": {"kind": kind}, "training": {"best_by": figure}}
        with pytest.raises(ConfigError, match="best_by"):
            checked(build(RunConfig, wrong))


@pytest.mark.parametrize("kind", ["tagger", "classifier"])
def test_stopped_is_uninterrupted(
    kind: str, tagged: Store, labelled: Store, tmp_path: Path
) -> None:
    store = tagged if kind == "tagger" else labelled
    more = {"crf": True, "characters": 8} if kind == "tagger" else {}
    form = {"kind": kind, "word_dropout": 0.1, **more}
    methods = {"label_smoothing": 0.0, "ema_decay": 0.8, "best_by": "accuracy", "average_last": 2}
    whole = some_run(tmp_path / "whole", store, form, **methods)
    parts = some_run(tmp_path / "parts", store, form, **methods)
    if kind == "tagger":
        cuts = {"sampling_candidates": 4, "workers": 1}
        whole, parts = altered(whole, data=cuts), altered(parts, data=cuts)
    run(whole, store)
    with pytest.raises(StoppedError):
        run(parts, store, watcher=Interrupting(8, signal.SIGTERM))
    run(parts, store)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
