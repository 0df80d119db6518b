"""All pipelines refuse invalid texts."""

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
from regard.decoding.generator import Generator
from regard.decoding.labelling import Classifier, Tagger
from regard.decoding.mask_filler import MaskFiller
from regard.decoding.translator import Translator
from regard.errors import ConfigError, DataError
from toys import write_model_folder, write_text_store

TextFunctions = dict[str, Callable[[Any], object]]
SURROGATES = st.characters(codec=None, categories=["Cs"])
LETTERS = st.text(st.characters(codec="utf-8"), max_size=5)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> TextFunctions:
    """Functions of a list of texts."""

    def write_folder(store: Store, kind: str) -> Path:
        return write_model_folder(tmp_path_factory.mktemp(kind), store, kind=kind)

    def new_folder() -> Path:
        return tmp_path_factory.mktemp("store")

    text = write_text_store(new_folder())
    translator = Translator.load(write_folder(reversal_store, "transformer"), backend="torch")
    generator = Generator.load(write_folder(text, "causal"))
    tagger = Tagger.load(write_folder(write_tagged_store(new_folder()), "tagger"))
    return {
        "translate": translator.translate,
        "prefixes": lambda texts: translator.translate(["a"] * len(texts), prefixes=texts),
        "sources": lambda texts: translator.score(texts, ["a"] * len(texts)),
        "targets": lambda texts: translator.score(["a"] * len(texts), texts),
        "generate": lambda texts: generator.generate(texts, max_tokens=1),
        "fill": MaskFiller.load(write_folder(text, "masked")).fill,
        "embed": Embedder.load(write_folder(text, "masked")).embed,
        "tag": tagger.tag,
        "words": lambda texts: tagger.tag([texts]),
        "classify": Classifier.load(
            write_folder(write_labelled_store(new_folder()), "classifier")
        ).classify,
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
