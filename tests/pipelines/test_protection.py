"""Protected spans come out byte for byte, whatever a model translates, with every setting."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cli.commands import Command
from cli.commands import regard as command
from markup.test_protection import PLACES, SPANS, check_spans
from regard.config import build
from regard.data.filters import CorpusFilterConfig
from regard.data.model_text import DataStatistics, ModelText
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.decoding.backend import BatchLimit, Hypothesis, IdPair, Request, SearchResult
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import TextConfig
from regard.pipelines.text_steps import text_steps
from regard.pipelines.translator import Translator
from regard.text.config import TokenizerConfig
from toys import run, some_run

__all__ = ["command"]  # a fixture
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


def train(store: Store, out: Path, model: dict[str, Any] | None = None) -> Path:
    """A model that was briefly trained."""
    sizes = {"d_model": 32, "ffn_dim": 64, "dropout": 0.0, **(model or {})}
    run(
        some_run(out, store, sizes, max_steps=300, checkpoint_every=300, learning_rate=0.005), store
    )
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    return train(store, tmp_path_factory.mktemp("run") / "names")


TEXTS = [
    "a {x} b %s",
    "bob@x.com a b https://x.de/a?b=(1). c ⟦你  好⟧",
    "no spans",
    "",
    "  ⟦e⟧ 12 f\t\n\n{only}\r\na b 3,5 c d e f g h i j a b c d e f 3,5",
    "{x} %s",
    "a. B ⟦C. D⟧ e 😀",
]


@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
def test_trained_models_keep_spans(backend: str, folder: Path) -> None:
    model = regard.load(folder, backend=backend, device="cpu", precision="float32")
    translations = model.translate(TEXTS, num_hypotheses=3, **PROTECTED)
    for text, translation in zip(TEXTS, translations, strict=True):
        assert translation.source == text
        for ranked in (translation, *translation.alternatives):
            for pair in zip(text.splitlines(), ranked.text.splitlines(), strict=True):
                check_spans(*pair)
    plain = model.translate(["a X b Q", "no spans"], num_hypotheses=3)
    assert translations[0].score == plain[0].score  # that of what the model read
    others = [word for word in plain[0].text.split() if word not in "XQ"]
    assert [w for w in translations[0].text.split() if w not in ("{x}", "%s")] == others
    assert translations[2].text == plain[1].text
    assert translations[5].text == TEXTS[5]
    streamed = [*model.translate_iterable(TEXTS, num_hypotheses=3, window=2, **PROTECTED)]
    assert [each.text for each in streamed] == [each.text for each in translations]


def test_spans_are_not_read_and_do_not_match_terms_of_a_glossary(folder: Path) -> None:
    model = regard.load(folder, backend="torch", device="cpu")
    keywords: Any = {"protect_marks": "[[ ]]", "glossary": {"b": "h h"}}
    [marked, plain] = model.translate(["a [[b]] c", "a b c"], **keywords)
    assert "h h" in plain.text
    assert "h h" not in marked.text
    assert "b" in marked.text
    [sampled] = model.translate(["a {x} b"], protect=["placeholders"], sample=True, seed=1)
    assert "{x}" in sampled.text
    [confident] = model.translate(["a {x} b"], protect=["all"], confidence=True)
    words = confident.words or []
    assert [confident.text[word.start : word.end] for word in words] == [w.text for w in words]


def test_models_without_alignment_place_spans_by_position(store: Store, tmp_path: Path) -> None:
    kind = {"kind": "nonautoregressive", "length_prediction": "ctc"}
    run(some_run(tmp_path / "run", store, kind, max_steps=2), store)
    model = regard.load(tmp_path / "run")
    [translation] = model.translate(["a {x} b %s"], protect=["all"])
    check_spans("a {x} b %s", translation.text)
    assert translation.warnings == ['may have "{x}" and "%s" in the wrong place']


def test_right_to_left_models(tmp_path: Path) -> None:
    store = write_store(tmp_path, reverse_target=True)
    model = regard.load(train(store, tmp_path / "run"), device="cpu", precision="float32")
    [plain] = model.translate(["a X b c d"])
    [translation] = model.translate(["a {x} b c d"], protect=["all"])
    assert translation.text.replace("{x}", "X") == plain.text
    [marked] = model.translate(["a <b>X</b> b c d"], markup="html")
    assert re.sub("</?b>", "", marked.text) == plain.text
    assert "<b>X</b>" in marked.text or "X" not in plain.text


def test_the_command(command: Command, folder: Path) -> None:
    model = ("translate", folder, "--device", "cpu")
    outcome = command(
        *model,
        *["--protect", "numbers", "--protect", "placeholders", "--format", "jsonl"],
        stdin="a {x} 5 b\n",
    )
    row = json.loads(outcome.out)
    check_spans("a {x} 5 b", row["text"])
    outcome = command(
        *model,
        "--protect-pattern",
        "[a-b]{2}",
        "--protect-marks",
        "[[ ]]",
        stdin="c ab [[你 好]] d\n",
    )
    assert all(span in outcome.out for span in ("ab", "你 好"))
    assert "[[" not in outcome.out
    outcome = command(*model, "--protect", "url", stdin="a\n")
    assert (
        "--protect is 'url', but must be all, urls, emails, numbers or placeholders" in outcome.err
    )
    outcome = command(*model, "--protect-pattern", "(", stdin="a\n")
    assert outcome.status == 2
    assert "which is not a regular expression: missing )" in outcome.err


def test_steps_can_be_pickled_for_workers(store: Store) -> None:
    text = random_translator(store, 1).text
    [step] = text_steps(TextConfig(protect=("all",)), text, None)
    copy = pickle.loads(pickle.dumps(step))
    assert copy.prepare("a {x} b") == step.prepare("a {x} b")
    assert copy.prepare("a b") == ("a b", None)
