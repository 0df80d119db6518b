"""Translation and scoring with annotated terms: texts are annotated, missing terms reported."""

from __future__ import annotations

import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regard
from annotated import write_annotated_store
from cli.commands import Command
from cli.commands import regard as command
from pipelines.test_text_constraints import constraints_of, model_text
from regard.config import build
from regard.data.store import Store
from regard.decoding.config import DistillConfig
from regard.errors import ConfigError, DataError, ModelError
from regard.markup.words import token_starts
from regard.models.folder import WEIGHTS, ModelFolder
from regard.pipelines.distill import refuse_unsuitable_teacher
from regard.pipelines.text_constraints import text_constraints
from toys import write_model_folder

__all__ = ["command"]  # a fixture

TEXTS = ["a b c", "d b", "", "c e\n\nb b", '"b"']
ANNOTATED = [
    "a<term> b<trans> qz</term> c",
    "d<term> b<trans> qz</term>",
    "",
    "c e\n\n<term> b<trans> qz</term><term> b<trans> qz</term>",
    '"<term>b<trans> qz</term>"',
]
GLOSSARY = {"b": ["qz", "rz"]}
SETTINGS: dict[str, Any] = {"retry": False}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_annotated_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    return write_model_folder(tmp_path_factory.mktemp("model"), store)


@pytest.fixture(scope="module")
def plain_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, trained without annotated terms."""
    plain = tmp_path_factory.mktemp("plain") / "model"
    model = ModelFolder.read(folder)
    statistics = replace(model.data_statistics, annotated_terms=0.0)
    replace(model, data_statistics=statistics).write(plain)
    shutil.copy(folder / WEIGHTS, plain)
    return plain


@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
@pytest.mark.parametrize("settings", [{}, {"beam_size": 1}, {"num_hypotheses": 2}])
def test_sources_are_annotated(folder: Path, backend: str, settings: dict[str, Any]) -> None:
    model = regard.load(folder, backend=backend)
    settings = {**SETTINGS, **settings}
    annotated = model.translate(TEXTS, glossary=GLOSSARY, glossary_method="annotated", **settings)
    expected = model.translate(ANNOTATED, **settings)
    assert [each.text for each in annotated] == [each.text for each in expected]
    assert [each.score for each in annotated] == [each.score for each in expected]
    assert [each.source for each in annotated] == TEXTS
    assert annotated[0].text != model.translate(TEXTS[:1], **settings)[0].text


def test_missing_terms_are_reported_or_searched_for(folder: Path) -> None:
    model, notices = regard.load(folder), list[str]()
    lacks = 'lacks "qz|rz" for "b"'
    annotated = model.translate(
        TEXTS, glossary=GLOSSARY, glossary_method="annotated", notice=notices.append, **SETTINGS
    )
    assert [each.warnings for each in annotated] == [[lacks], [lacks], [], [lacks], [lacks]]
    assert notices[0] == f"Line 1 has a translation that {lacks}."
    for method in ({}, {"glossary_method": "both"}):
        both = model.translate(TEXTS, glossary=GLOSSARY, **method, **SETTINGS)
        assert [each.warnings for each in both] == [[]] * len(TEXTS)
        for text, translation in zip(TEXTS, both, strict=True):
            terms = re.findall(r"(?<!\w)[qr]z(?!\w)", translation.text.lower())
            assert len(terms) >= text.count("b")
    again = model.translate(ANNOTATED, glossary=GLOSSARY, glossary_method="constrained", **SETTINGS)
    assert [each.text for each in both][:3] == [each.text for each in again][:3]


def test_forced_words_are_enforced_with_every_method(folder: Path) -> None:
    model = regard.load(folder)
    for method in ("constrained", "annotated", "both"):
        translations = model.translate(
            TEXTS[:2], glossary=GLOSSARY, glossary_method=method, force=["sz"], **SETTINGS
        )
        for each in translations:
            assert "sz" in each.text.lower().split()
            assert bool(each.warnings) == (method == "annotated")


def test_default_method_is_the_best_that_is_available(
    folder: Path, plain_folder: Path, tmp_path: Path
) -> None:
    def warnings(model: Any, **settings: Any) -> list[str]:
        return model.translate(["a b"], glossary=GLOSSARY, **SETTINGS, **settings)[0].warnings

    lacks = ['lacks "qz|rz" for "b"']
    model = regard.load(folder)
    assert warnings(model) == []
    assert warnings(model, sample=True) == lacks
    assert warnings(model, beam_groups=5) == lacks
    with pytest.raises(ConfigError, match=r"glossary .* has no effect in sampling; it is for"):
        warnings(model, sample=True, glossary_method="both")
    with pytest.raises(ConfigError, match=r"^force .* has no effect in sampling; it is for"):
        warnings(model, sample=True, force=["sz"])
    model.export(tmp_path / "exported", to="ctranslate2")
    exported = regard.load(tmp_path / "exported")
    assert warnings(exported) == lacks
    with pytest.raises(ModelError, match="has no weights for PyTorch"):
        warnings(exported, glossary_method="both")
    plain = regard.load(plain_folder)
    assert warnings(plain) == []
    for other in (plain, regard.load(folder, plain_folder)):
        with pytest.raises(ConfigError, match="was trained without annotated terms"):
            warnings(other, glossary_method="annotated")
    ensemble = regard.load(folder, folder)
    assert warnings(ensemble, glossary_method="annotated") == lacks


def test_nonautoregressive_models_use_annotated_terms(store: Store, tmp_path: Path) -> None:
    model = regard.load(
        write_model_folder(
            tmp_path / "ctc", store, kind="nonautoregressive", length_prediction="ctc"
        )
    )
    [annotated] = model.translate(TEXTS[:1], glossary=GLOSSARY)
    assert annotated.text == model.translate(ANNOTATED[:1])[0].text
    assert annotated.warnings == ['lacks "qz|rz" for "b"']


def test_scores_are_those_of_annotated_sources(folder: Path, plain_folder: Path) -> None:
    model = regard.load(folder)
    target = "az qz cz"
    [score] = model.score(["a b c"], [target], glossary=GLOSSARY)
    assert [score] == model.score(ANNOTATED[:1], [target])
    assert score != pytest.approx(model.score(["a b c"], [target])[0], abs=1e-5)
    with pytest.raises(ConfigError, match="no effect on the scores of this model"):
        regard.load(plain_folder).score(["a"], ["b"], glossary=GLOSSARY)


def test_rerankers_and_utilities_read_plain_sources(folder: Path, plain_folder: Path) -> None:
    model = regard.load(folder)
    annotated = [ANNOTATED[0], ANNOTATED[-1]]
    ids = model.text.tokenizers.source.encode_all(annotated)
    assert model.text.decode_sources(ids) == [TEXTS[0], TEXTS[-1]]
    assert regard.load(plain_folder).text.decode_sources(ids) == annotated
    settings: Any = {"num_hypotheses": 3, "beam_size": 3, **SETTINGS}
    method: Any = {"glossary": GLOSSARY, "glossary_method": "annotated"}
    nbest = model.translate(["a b c"], **settings, **method)[0]
    hypotheses = [nbest.text, *(other.text for other in nbest.alternatives)]
    scores = [nbest.score, *(other.score for other in nbest.alternatives)]
    plain_scores = regard.load(plain_folder).score(["a b c"] * 3, hypotheses)
    totals = [sum(pair) for pair in zip(scores, plain_scores, strict=True)]
    settings |= {"rerank": (plain_folder,), "rerank_weight": (1.0,)}
    [reranked] = model.translate(["a b c"], **settings, **method)
    assert reranked.score == pytest.approx(max(totals), abs=1e-4)


def test_tags_surround_the_words_of_annotated_terms(folder: Path) -> None:
    model = regard.load(folder)
    settings: Any = {"glossary": GLOSSARY, "glossary_method": "annotated", **SETTINGS}
    [plain] = model.translate(["a b c"], **settings)
    [marked] = model.translate(["<i>a b</i> <b>c</b>"], markup="html", **settings)
    assert re.sub("</?[ib]>", "", marked.text) == plain.text
    source = model.text.tokenizers.source
    ids = source.encode(ANNOTATED[0])
    tokens, starts = source.ids_to_tokens(ids), token_starts(source, ids, "a b c")
    first, last = tokens.index("<trans>"), tokens.index("</term>")
    assert {*starts[first : last + 1]} == {2}
    assert starts[last + 1] == 4


def test_terms_that_do_not_fit_are_not_annotated() -> None:
    constraints = text_constraints(
        {"glossary": {"b": "x", "c": "y"}}, model_text(0.5), "beam search"
    )
    assert constraints is not None
    assert constraints.method == "both"
    first, both = "a<term> b<trans> x</term> c", "a<term> b<trans> x</term><term> c<trans> y</term>"
    assert constraints.annotated("a b c", lambda text: True) == both
    assert constraints.annotated("a b c", lambda text: len(text) <= len(first)) == first
    assert constraints.annotated("a b c", lambda text: False) == "a b c"
    assert constraints.annotated(first, lambda text: True) == first  # contains marks
    copy = pickle.loads(pickle.dumps(constraints))
    assert copy.annotated("a b c", lambda text: True) == both
    assert constraints_of({"b": "x"}).annotated("a b", lambda text: True) == "a b"


def test_sources_are_no_longer_than_those_of_training(folder: Path) -> None:
    model = regard.load(folder)
    longest = model.text.data_statistics.longest_source
    encode = model.text.tokenizers.source.encode
    settings: Any = {"glossary_method": "annotated", **SETTINGS}
    text, glossary = "a b c", {"a": "z" * longest, "c": "qz"}
    [translation] = model.translate([text], glossary=glossary, **settings)
    assert translation.text == model.translate([text], **SETTINGS)[0].text
    reverse = {"a": "qz", "c": "z" * longest}
    [translation] = model.translate([text], glossary=reverse, **settings)
    annotated = "<term> a<trans> qz</term> b c"
    assert len(encode(annotated)) <= longest
    assert translation.text == model.translate([annotated], **SETTINGS)[0].text


def test_teachers_of_annotated_sources(folder: Path, plain_folder: Path, store: Store) -> None:
    config: Any = build(DistillConfig, {})
    refuse_unsuitable_teacher(regard.load(folder), store, config)
    with pytest.raises(ConfigError, match="but the teacher was trained without"):
        refuse_unsuitable_teacher(regard.load(plain_folder), store, config)


def test_errors(folder: Path) -> None:
    model = regard.load(folder)
    with pytest.raises(ConfigError, match=r"glossary_method .* has no effect without glossary"):
        model.translate(TEXTS, glossary_method="both")
    with pytest.raises(ConfigError, match="glossary_method"):
        model.translate(TEXTS, glossary=GLOSSARY, glossary_method="other")
    with pytest.raises(DataError, match="has the term '</term>'"):
        model.translate(TEXTS, glossary={"a": "</term>"})
    marks = model.translate(["a"], glossary={"a": "</term>"}, glossary_method="constrained")
    assert len(marks) == 1


def test_command(command: Command, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("b\tqz|rz\n")
    options = ["--glossary", file, "--glossary-method", "annotated", "--no-retry"]
    outcome = command("translate", folder, *options, stdin="a b c\n")
    assert outcome.out == command("translate", folder, "--no-retry", stdin=ANNOTATED[0]).out
    assert 'Line 1 has a translation that lacks "qz|rz" for "b".' in outcome.err
    source, target, annotated = (tmp_path / name for name in ("source", "target", "annotated"))
    source.write_text("a b c\n")
    annotated.write_text(ANNOTATED[0] + "\n")
    target.write_text(outcome.out)
    score = command("score", folder, "--source", source, "--target", target, "--glossary", file)
    assert score.out == command("score", folder, "--source", annotated, "--target", target).out
    assert "annotated terms" in command("show", "model", folder).out
