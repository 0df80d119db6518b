"""All pipelines refuse invalid texts, and process iterables like lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelled import write_labelled_store, write_tagged_store
from regard.data.store import Store
from regard.errors import ConfigError, DataError, RegardError
from regard.pipelines import codec
from regard.pipelines.embedder import Embedder
from regard.pipelines.generator import Generator
from regard.pipelines.labelling import Classifier, Tagger
from regard.pipelines.mask_filler import MaskFiller
from regard.pipelines.translator import Translator
from toys import write_model_folder, write_text_store

TextFunctions = dict[str, Callable[[Any], object]]
SURROGATES = st.characters(codec=None, categories=["Cs"])
LETTERS = st.text(st.characters(codec="utf-8"), max_size=5)


@pytest.fixture(scope="module")
def pipelines(
    tmp_path_factory: pytest.TempPathFactory, reversal_store: Store
) -> dict[type[Any], Any]:
    """A pipeline of each class."""

    def write_folder(store: Store, kind: str) -> Path:
        return write_model_folder(tmp_path_factory.mktemp(kind), store, kind=kind)

    def new_folder() -> Path:
        return tmp_path_factory.mktemp("store")

    text = write_text_store(new_folder())
    masked = write_folder(text, "masked")
    labelled, tagged = write_labelled_store(new_folder()), write_tagged_store(new_folder())
    return {
        Translator: Translator.load(write_folder(reversal_store, "transformer"), backend="torch"),
        Generator: Generator.load(write_folder(text, "causal")),
        MaskFiller: MaskFiller.load(masked),
        Embedder: Embedder.load(masked),
        Tagger: Tagger.load(write_folder(tagged, "tagger")),
        Classifier: Classifier.load(write_folder(labelled, "classifier")),
    }


@pytest.fixture(scope="module")
def functions(pipelines: dict[type[Any], Any]) -> TextFunctions:
    """Functions of a list of texts."""
    translator, tagger = pipelines[Translator], pipelines[Tagger]
    return {
        "translate": translator.translate,
        "prefixes": lambda texts: translator.translate(["a"] * len(texts), prefixes=texts),
        "sources": lambda texts: translator.score(texts, ["a"] * len(texts)),
        "targets": lambda texts: translator.score(["a"] * len(texts), texts),
        "generate": lambda texts: pipelines[Generator].generate(texts, max_tokens=1),
        "fill": pipelines[MaskFiller].fill,
        "embed": pipelines[Embedder].embed,
        "tag": tagger.tag,
        "words": lambda texts: tagger.tag([texts]),
        "classify": pipelines[Classifier].classify,
    }


@given(before=LETTERS, surrogate=SURROGATES, after=LETTERS)
def test_unpaired_surrogates_are_refused(
    functions: TextFunctions, before: str, surrogate: str, after: str
) -> None:
    for function in functions.values():
        with pytest.raises(DataError, match="unpaired surrogate"):
            function([f"{before}{surrogate}{after}"])


def unloaded(cls: type[Any]) -> Any:
    """A pipeline without a model: texts are validated first."""
    return object.__new__(cls)


PIPELINES: TextFunctions = {
    "translate": lambda texts: unloaded(Translator).translate(texts),
    "sources": lambda texts: unloaded(Translator).score(texts, ["a"]),
    "targets": lambda texts: unloaded(Translator).score(["a"], texts),
    "likeliest": lambda texts: unloaded(Translator).likeliest(texts, [[4]], 3),
    "generate": lambda texts: unloaded(Generator).generate(texts),
    "embed": lambda texts: unloaded(Embedder).embed(texts),
    "fill": lambda texts: unloaded(MaskFiller).fill(texts),
    "tag": lambda texts: unloaded(Tagger).tag(texts),
    "classify": lambda texts: unloaded(Classifier).classify(texts),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("texts", ["a text", "", b"bytes", 5, None, [b"a"], [3], [None]], ids=repr)
def test_invalid_lists_of_texts_are_refused(name: str, texts: object) -> None:
    with pytest.raises(ConfigError):
        PIPELINES[name](texts)


@pytest.mark.parametrize(
    "name", ["translate", "prefixes", "sources", "targets", "generate", "fill", "embed"]
)
def test_single_text_and_bytes_are_refused(functions: TextFunctions, name: str) -> None:
    with pytest.raises(ConfigError, match="list of texts"):
        functions[name]("a")
    with pytest.raises(ConfigError, match="of type bytes, not str"):
        functions[name]([b"a"])


def rounded(value: Any) -> Any:
    """A result without differences of rounding: as nested lists with a few digits."""
    if isinstance(value, float | np.floating):
        return round(float(value), 3) + 0.0
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [rounded(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return value if isinstance(value, str | bool) or value is None else [*map(rounded, value)]


STREAMS: dict[str, tuple[type[Any], list[Any]]] = {  # methods, and what they are called with
    "translate": (Translator, ["a b", "", "c d e", "a " * 50, " b"] * 3),
    "score": (Translator, [("a b", "b a"), ("", ""), ("c", ""), (" a", "a ")] * 3),
    "generate": (Generator, ["a b", "", "c d e"] * 3),
    "fill": (MaskFiller, ["a [MASK] c", "a", "[MASK]", "[MASK] b" + " c" * 99] * 3),
    "embed": (Embedder, ["a b", "", "c d e"] * 3 + ["a " * 4200]),
    "tag": (Tagger, ["the dog may run", "", ["new", "york"], "run " * 99] * 3),
    "classify": (Classifier, ["good bad", "", "good " * 99] * 3),
}
WITH_NOTICES = ("translate", "fill", "embed")


@pytest.mark.parametrize("name", STREAMS)
def test_iterables_have_the_results_of_lists(
    pipelines: dict[type[Any], Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any window and number of workers; notices have the line numbers that are given."""
    monkeypatch.setattr(codec, "MIN_INPUTS", 0)
    cls, inputs = STREAMS[name]
    method = getattr(pipelines[cls], name)
    iterable_method = getattr(pipelines[cls], f"{name}_iterable")
    notices: list[str] = []
    keywords: Any = {"notice": notices.append} if name in WITH_NOTICES else {}
    columns = zip(*inputs, strict=True) if name == "score" else [inputs]
    expected = rounded(method(*map(list, columns), **keywords))
    assert bool(notices) == (name in WITH_NOTICES)
    for window, workers in [(1, 0), (4, 0), (100, 0), (5, 2)]:
        numbered: list[str] = []
        actual = iterable_method(
            iter(inputs),
            window=window,
            workers=workers,
            batch_size=3,
            notice=numbered.append,
            line_numbers=range(11, 100),
        )
        assert rounded(actual) == expected
        numbers = [10 + int(notice.split()[1]) for notice in notices]
        assert [int(notice.split()[1]) for notice in numbered] == numbers


@pytest.mark.parametrize("name", STREAMS)
def test_texts_of_iterables_are_checked_one_by_one(
    pipelines: dict[type[Any], Any], name: str
) -> None:
    cls, inputs = STREAMS[name]
    iterable_method = getattr(pipelines[cls], f"{name}_iterable")
    stream = iterable_method(iter([inputs[0], ["\ud800"]]), window=1)
    next(stream)  # before the invalid text is read
    with pytest.raises(RegardError):
        next(stream)
    for keywords in ({"workers": -1}, {"window": 0}, {"batch_size": 0}):
        with pytest.raises(ConfigError):
            iterable_method(iter(inputs), **keywords)
    if name != "score":
        with pytest.raises(ConfigError, match="list of texts"):
            iterable_method("a text")
