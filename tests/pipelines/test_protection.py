"""Protected spans come out byte for byte, whatever a model translates, with every setting."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markup.test_protection import PLACES, SPANS, check_spans
from regard.config import build
from regard.data.filters import CorpusFilterConfig
from regard.data.model_text import DataStatistics, ModelText
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.decoding.backend import BatchLimit, Hypothesis, IdPair, Request, SearchResult
from regard.decoding.config import SearchConfig
from regard.pipelines.translator import Translator
from regard.text.config import TokenizerConfig

LETTERS = "abcdefghij"
PROTECTED: Any = {
    "protect": ["all"],
    "protect_pattern": [r"TICKET-\d+", "😀+"],
    "protect_marks": "⟦ ⟧",
}


def write_store(folder: Path, **tokenizer: Any) -> Store:
    """Prepare lines of letters and names in capitals, whose targets are in reverse order."""
    draw = random.Random(5)
    lines = [" ".join(draw.choices(LETTERS + "XQHB12", k=draw.randint(2, 7))) for _ in range(500)]
    files = []
    for side, step in (("source", 1), ("target", -1)):
        path = folder / side
        path.write_text("".join(line[::step] + "\n" for line in lines))
        files.append(path)
    prepare(
        PairReader({"train": [Files(files[0], files[1])]}, CorpusFilterConfig(skip_copied=False)),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300, **tokenizer}),
        languages=("xx", "yy"),
    )
    return Store(folder / "prepared")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_store(tmp_path_factory.mktemp("names"))


class RandomModel:
    """A backend whose hypotheses are random tokens, with random alignments or none."""

    max_length: int | None = None
    device = None
    window = 100

    def __init__(self, seed: int, vocabulary: int) -> None:
        self._draw, self._vocabulary = random.Random(seed), vocabulary

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        return BatchLimit(2)

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        requests = [request for batch in batches for request in batch]
        for number, request in enumerate(requests):
            yield SearchResult(number, [self._hypothesis(request) for _ in range(2)])

    def _hypothesis(self, request: Request) -> Hypothesis:
        copied = self._draw.choices(request.source, k=self._draw.randint(0, 6))
        new = [self._draw.randrange(self._vocabulary) for _ in range(self._draw.randint(0, 6))]
        tokens = [token for token in copied + new if token > 3]
        self._draw.shuffle(tokens)
        return Hypothesis(tokens, -1.0, -1.0)

    def align(self, pairs: Sequence[IdPair]) -> list[list[int]]:
        return [
            [self._draw.randrange(len(source)) for _ in target] if source else []
            for source, target in pairs
        ]

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        raise AssertionError("not requested")


def random_translator(store: Store, seed: int, *, is_aligned: bool = True) -> Translator:
    """A translator with a random model."""
    text = ModelText(store.vocabulary, store.tokenizers, store.languages, DataStatistics(9, 0.0))
    backend = RandomModel(seed, text.vocabulary.target)
    models: Any = SimpleNamespace(aligner=backend if is_aligned else None)
    return Translator([Path("random")], text, backend, "", lambda: models)


lines = st.lists(
    st.tuples(
        st.sampled_from([*PLACES, " c ", " X ", ". A b ", " hhhhhhhhhhhhhhhhh "]),
        st.sampled_from([*SPANS, "⟦Ab cd. Ef⟧ ", "a"]),
    ).map("".join),
    max_size=8,
).map("".join)
texts = st.lists(lines, min_size=1, max_size=3)


@settings(max_examples=150)
@given(texts=texts, seed=st.integers(0, 10**6), is_aligned=st.booleans())
def test_any_translation_has_the_spans_of_each_line(
    texts: list[str], seed: int, is_aligned: bool, store: Store
) -> None:
    translator = random_translator(store, seed, is_aligned=is_aligned)
    joined = "\r\n".join(texts)
    [translation] = translator.translate([joined], num_hypotheses=2, retry=False, **PROTECTED)
    assert translation.source == joined
    alternatives = (other.text for other in translation.alternatives)
    for text in (translation.text, *alternatives):
        translated = text.split("\r\n")
        for source, target in zip(texts, translated, strict=True):
            check_spans(source, target)
