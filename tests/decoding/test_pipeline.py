"""What is no text is refused by everything that takes texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelled import write_labelled_store, write_tagged_store
from regard.data.store import Store
from regard.decoding.embedder import Embedder
from regard.decoding.filler import MaskFiller
from regard.decoding.generator import Generator
from regard.decoding.labeller import Classifier, Tagger
from regard.decoding.translator import Translator
from regard.errors import ConfigError, DataError
from toys import write_model_folder, write_text_store

Takers = dict[str, Callable[[Any], object]]
HALVES = st.characters(codec=None, categories=["Cs"])
LETTERS = st.text(st.characters(codec="utf-8"), max_size=5)


@pytest.fixture(scope="module")
def takers(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Takers:
    """Functions of a list of texts."""

    def folder(store: Store, kind: str) -> Path:
        return write_model_folder(tmp_path_factory.mktemp(kind), store, kind=kind)

    def new() -> Path:
        return tmp_path_factory.mktemp("store")

    text = write_text_store(new())
    translator = Translator.load(folder(reversal_store, "transformer"), backend="torch")
    generator = Generator.load(folder(text, "causal"))
    tagger = Tagger.load(folder(write_tagged_store(new()), "tagger"))
    return {
        "translate": translator.translate,
        "prefixes": lambda texts: translator.translate(["a"] * len(texts), prefixes=texts),
        "sources": lambda texts: translator.score(texts, ["a"] * len(texts)),
        "targets": lambda texts: translator.score(["a"] * len(texts), texts),
        "generate": lambda texts: generator.generate(texts, max_tokens=1),
        "fill": MaskFiller.load(folder(text, "masked")).fill,
        "embed": Embedder.load(folder(text, "masked")).embed,
        "tag": tagger.tag,
        "words": lambda texts: tagger.tag([texts]),
        "classify": Classifier.load(folder(write_labelled_store(new()), "classifier")).classify,
    }


@given(before=LETTERS, half=HALVES, after=LETTERS)
def test_half_a_surrogate_pair(takers: Takers, before: str, half: str, after: str) -> None:
    for take in takers.values():
        with pytest.raises(DataError, match="half a surrogate pair"):
            take([f"{before}{half}{after}"])


def unloaded(cls: type[Any]) -> Any:
    """A pipeline without a model: texts are checked before one is needed."""
    return object.__new__(cls)


PIPELINES: Takers = {
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
def test_what_is_no_list_of_texts(name: str, texts: object) -> None:
    with pytest.raises(ConfigError):
        PIPELINES[name](texts)


@pytest.mark.parametrize(
    "name", ["translate", "prefixes", "sources", "targets", "generate", "fill", "embed"]
)
def test_other_things(takers: Takers, name: str) -> None:
    with pytest.raises(ConfigError, match="list of texts"):
        takers[name]("a")
    with pytest.raises(ConfigError, match="of type bytes, not str"):
        takers[name]([b"a"])
