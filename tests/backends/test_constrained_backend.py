"""Sentences whose translation lacks a term are searched again; others keep their translation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import regard
from exchange.backend_models import run_search
from regard.backends.constrained_backend import ConstrainedBackend
from regard.config import settings_of
from regard.data.glossary import GlossarySource
from regard.data.store import Store
from regard.decoding.backend import (
    BatchLimit,
    Hypothesis,
    IdPair,
    Request,
    SearchResult,
    search_requests,
)
from regard.decoding.config import SearchConfig
from regard.decoding.constraint_config import ConstraintConfig, ConstraintKeywords
from regard.decoding.token_constraints import TokenConstraint
from regard.errors import ConfigError, ModelError
from regard.pipelines.translator import Translator
from toys import write_model_folder

TEXTS = ["a b c", "d e", "", "f g h i j. a b", "j j"]
FLAG = "case-sensitive"  # no capital letters at the beginning
GLOSSARY = [("b", "x|y", FLAG), ("e", "e", FLAG), ("j", "j i", FLAG)]
NAME = '"T"'


class Copying:
    """Copies sources; if it is constrained, it adds what its request requires, or fails."""

    max_length: int | None = None
    device = None
    window = 100

    def __init__(self, *, constrained: bool = False, fails: bool = False) -> None:
        self.constrained, self.fails = constrained, fails
        self.searched: list[Request] = []

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        return BatchLimit(2)

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        requests = [request for batch in batches for request in batch]
        self.searched += requests
        for number, request in enumerate(requests):
            source, constraints = request.source, request.constraints
            added = [token for each in constraints for ids in each.sequences for token in ids]
            tokens = [*source, *added] if self.constrained else source
            nbests = [] if self.fails and constraints else [Hypothesis(tokens, -3.0, -1.0)]
            if config.num_hypotheses == 2:
                nbests += [Hypothesis([*source, 8], -6.0, -2.0) for _ in nbests]
            yield SearchResult(number, nbests)

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        raise AssertionError("not requested")


def results(
    inner: Copying, constrained: Copying, *constraints: TokenConstraint, **settings: Any
) -> list[Hypothesis]:
    """The hypotheses of one request with these constraints, and one without."""
    backend = ConstrainedBackend(inner, lambda: constrained, [False] * 99)
    requests = [Request([5, 6], [], constraints=constraints), Request([7], [])]
    nbests = dict(search_requests(backend, requests, SearchConfig(**settings), None))
    assert nbests[1][0].tokens == [7]
    return nbests[0]


def test_satisfied_requests_are_not_searched_again() -> None:
    inner, constrained = Copying(), Copying(constrained=True)
    [best] = results(inner, constrained, TokenConstraint(((6,),), name=NAME))
    assert (best.tokens, best.warnings) == ([5, 6], ())
    assert not any(request.constraints for request in inner.searched)
    assert constrained.searched == []
    [best] = results(Copying(), constrained, TokenConstraint(((8,),), name=NAME))
    assert (best.tokens, best.warnings) == ([5, 6, 8], ())
    assert [request.source for request in constrained.searched] == [[5, 6]]


def test_warnings_say_what_a_translation_lacks() -> None:
    fits, too_long = TokenConstraint(((8,),), name=NAME), TokenConstraint(((9,) * 30,), name='"L"')
    impossible = TokenConstraint((), name='"I"')
    constrained = Copying(constrained=True)
    [best] = results(Copying(), constrained, too_long, fits, impossible)
    assert best.tokens == [5, 6, 8]
    assert best.warnings == (
        'lacks "L", which does not fit into the maximum length',
        'lacks "I", which the vocabulary cannot express',
    )
    [best] = results(Copying(), Copying(constrained=True, fails=True), fits)
    assert (best.tokens, best.warnings) == ([5, 6], (f"lacks {NAME}",))


def test_the_first_search_has_no_constraints() -> None:
    inner, constrained = Copying(), Copying(constrained=True)
    results(inner, constrained, TokenConstraint(((8,),), name=NAME))
    assert [request.constraints for request in inner.searched] == [(), ()]
    assert [len(request.constraints) for request in constrained.searched] == [1]


def test_constraints_that_are_not_enforced_are_reported_only() -> None:
    reported, enforced = (
        TokenConstraint(((8,),), name=NAME, enforced=False),
        TokenConstraint(((9,),)),
    )
    constrained = Copying(constrained=True)
    [best] = results(Copying(), constrained, reported)
    assert (best.tokens, best.warnings) == ([5, 6], (f"lacks {NAME}",))
    assert constrained.searched == []
    [best] = results(Copying(), constrained, reported, enforced)
    assert (best.tokens, best.warnings) == ([5, 6, 9], (f"lacks {NAME}",))
    [best] = results(Copying(), constrained, reported, TokenConstraint(((5,),)))
    assert (best.tokens, best.warnings) == ([5, 6], (f"lacks {NAME}",))
    assert [request.constraints for request in constrained.searched] == [(enforced,)]
    impossible = TokenConstraint((), name='"I"')
    [best] = results(Copying(), constrained, impossible)
    assert (best.tokens, len(constrained.searched)) == ([5, 6], 1)


def test_each_hypothesis_has_its_own_warnings() -> None:
    constraints = TokenConstraint(((8,),), name=NAME), TokenConstraint((), name='"I"')
    nbest = results(Copying(), Copying(fails=True), *constraints, num_hypotheses=2)
    lacks = 'lacks "I", which the vocabulary cannot express'
    assert [each.tokens for each in nbest] == [[5, 6], [5, 6, 8]]
    assert [each.warnings for each in nbest] == [(f"lacks {NAME}", lacks), (lacks,)]


def has_terms(source: str, target: str) -> bool:
    """Whether a translation has the translations of all letters of `GLOSSARY`."""
    return all(
        len(re.findall(rf"(?<!\w)({words})(?!\w)", target)) >= source.count(letter)
        for letter, words, _ in GLOSSARY
    )


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    return write_model_folder(tmp_path_factory.mktemp("constrained") / "model", reversal_store)


@pytest.mark.parametrize("settings", [{}, {"beam_size": 1}, {"num_hypotheses": 3, "patience": 1.0}])
@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
def test_translations_contain_the_terms(
    backend: str, settings: dict[str, Any], model_folder: Path, tmp_path: Path
) -> None:
    model = regard.load(model_folder, backend=backend)
    assert isinstance(model, Translator)
    file = tmp_path / "terms.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in GLOSSARY))
    plain = model.translate(TEXTS, **settings)
    for glossary in (GLOSSARY, str(file), file):
        translations = model.translate(TEXTS, glossary=glossary, **settings)
        for source, before, after in zip(TEXTS, plain, translations, strict=True):
            texts = [after.text, *(other.text for other in after.alternatives)]
            assert all(has_terms(source, text) for text in texts)
            if all(has_terms(source, text) for text in [before.text, *_others(before)]):
                assert after.text == before.text
        singly = [model.translate([text], glossary=glossary, **settings)[0] for text in TEXTS]
        assert [each.text for each in singly] == [each.text for each in translations]
    streamed = model.translate_iterable(TEXTS, glossary=GLOSSARY, **settings)
    assert [each.text for each in streamed] == [each.text for each in translations]


def _others(translation: Any) -> list[str]:
    return [other.text for other in translation.alternatives]


@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
def test_terms_that_cannot_be_realised_are_reported(backend: str, model_folder: Path) -> None:
    model, notices = regard.load(model_folder, backend=backend), list[str]()
    settings: Any = {"max_ratio": 0.0, "max_extra": 3, "retry": False, "notice": notices.append}
    [translation] = model.translate(["a b c"], glossary={"b": "q r s t u"}, **settings)
    lacks = 'lacks "q r s t u" for "b", which does not fit into the maximum length'
    assert translation.warnings == [lacks]
    assert notices == [f"Line 1 has a translation that {lacks}."]


def test_forced_words_and_retry(model_folder: Path) -> None:
    model = regard.load(model_folder)
    for text in model.translate(TEXTS, force=["x x"]):
        assert "x x" in text.text.lower() or not text.source


def test_errors(model_folder: Path, tmp_path: Path) -> None:
    model = regard.load(model_folder)
    with pytest.raises(ConfigError, match="no effect in sampling"):
        model.translate(TEXTS, glossary=GLOSSARY, sample=True)
    exported = tmp_path / "exported"
    model.export(exported, to="ctranslate2")
    with pytest.raises(ModelError, match="has no weights for PyTorch"):
        regard.load(exported).translate(TEXTS, glossary=GLOSSARY)


def test_keywords_are_the_fields_of_the_config() -> None:
    fields = {setting.name: setting.type for setting in settings_of(ConstraintConfig)}
    fields["glossary"] = GlossarySource | None
    assert get_type_hints(ConstraintKeywords) == fields


def test_wrapped_backend_is_not_used_without_constraints() -> None:
    backend = ConstrainedBackend(Copying(), pytest.fail, [False] * 99)
    assert [nbest[0].tokens for nbest in run_search(backend, [[5], [6, 7]])] == [[5], [6, 7]]
