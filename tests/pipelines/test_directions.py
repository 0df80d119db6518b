"""Directions at translation: target tags, statistics, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import regard
from cli.commands import Command
from cli.commands import regard as command
from data.corpora import prepare_pairs, some_pairs
from directions import write_directions_store
from regard.data.model_text import ModelText
from regard.data.store import Store
from regard.decoding.backend import Backend, Request, search_requests
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import DirectionConfig
from regard.errors import ConfigError, ModelError
from regard.pipelines.directions import SelectedDirection, select_direction
from regard.pipelines.score_stream import score_stream
from regard.pipelines.text_codecs import PairCodec
from regard.pipelines.translator import Translator
from toys import write_model_folder

__all__ = ["command"]  # a fixture

TEXTS = ["a b c", "", "d e f g h i j a b c d e f g h i j", "j  i"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_directions_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    return write_model_folder(tmp_path_factory.mktemp("model"), store)


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return Translator.load(folder, device="cpu", backend="torch")


def select(translator: Translator, *, zero_shot: bool = False, **languages: str) -> Any:
    return select_direction(translator.text, DirectionConfig(**languages, zero_shot=zero_shot))


def test_model_folder_has_the_directions_of_its_store(folder: Path, store: Store) -> None:
    text = ModelText.read(folder)
    assert text.directions == store.directions
    assert text.direction == "xx-yy, xx-zz, yy-xx"


def test_requests_are_the_rows_of_the_store(translator: Translator, store: Store) -> None:
    """The segments of a text are encoded as in training, with the tag."""
    requests: list[Request] = []

    class Recording:
        def __getattr__(self, name: str) -> Any:
            return getattr(translator.backend, name)

        def search(self, batches: Any, config: SearchConfig) -> Any:
            def recorded() -> Any:
                for batch in batches:
                    requests.extend(batch)
                    yield batch

            return translator.backend.search(recorded(), config)

    backend: Backend = Recording()
    copy = Translator(translator.paths, translator.text, backend, "", lambda: translator._models)
    part, tokenizer = store.part("train"), store.tokenizers.source
    ids = part.source[250].tolist()  # of xx-zz
    tag, *text = tokenizer.decode(ids).split(" ")
    assert tag == "<2zz>"
    copy.translate([" ".join(text)], target_lang="zz", beam_size=1, retry=False)
    assert [request.source for request in requests] == [ids]


@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
@pytest.mark.parametrize("target", ["yy", "zz"])
def test_translations_equal_those_of_tagged_sources(
    folder: Path, translator: Translator, backend: str, target: str
) -> None:
    """Each segment has the tag, whatever the backend."""
    if backend == "ctranslate2":
        pytest.importorskip("ctranslate2")
    model = Translator.load(folder, device="cpu", backend=backend)
    tokenizers = model.text.tokenizers
    config = SearchConfig(beam_size=2)
    texts = ["a b c", "j i", "d"]
    requests = [Request(tokenizers.source.encode(f"<2{target}> {text}"), []) for text in texts]
    expected = dict(search_requests(translator.backend, requests, config, None))
    results = model.translate(texts, target_lang=target, beam_size=2, retry=False)
    for number, result in enumerate(results):
        assert result.text == tokenizers.target.decode(expected[number][0].tokens)
        assert result.score == pytest.approx(expected[number][0].score, abs=1e-4)


def test_long_lines_are_split_with_a_tag_on_each_segment(translator: Translator) -> None:
    direction = select(translator, target_lang="xx")
    limit = direction.statistics.longest_source
    text = " ".join("abcdefghij" * 3)
    notices: list[str] = []
    [whole] = translator.translate([text], target_lang="xx", retry=False, notice=notices.append)
    assert f"longer than {limit} subwords" in notices[0]
    words = text.split()
    size = limit - 1  # a word is one subword, and so is the tag
    parts = [" ".join(words[i : i + size]) for i in range(0, len(words), size)]
    alone = translator.translate(parts, target_lang="xx", retry=False)
    assert whole.text == " ".join(part.text for part in alone)


def test_scores_are_those_of_tagged_sources(translator: Translator) -> None:
    sources, targets = ["a b", "c d e"], ["b a", "c d"]
    for target in ("yy", "zz"):
        tagged = [f"<2{target}> {source}" for source in sources]
        untagged = SelectedDirection("", translator.text.data_statistics)
        codec = PairCodec(translator.text, untagged)
        stream = score_stream(translator.models, codec, 1.0, None)
        expected = stream.map([*zip(tagged, targets, strict=True)])
        scores = translator.score(sources, targets, target_lang=target)
        assert scores == pytest.approx(expected, abs=1e-6)
    assert scores != pytest.approx(translator.score(sources, targets, target_lang="yy"), abs=1e-4)


def test_statistics_are_those_of_the_matching_directions(translator: Translator) -> None:
    by_direction = {str(each.direction): each for each in translator.text.directions}
    statistics = select(translator, source_lang="xx", target_lang="zz").statistics
    assert statistics.longest_source == by_direction["xx-zz"].longest_source
    zero_shot = select(translator, source_lang="yy", target_lang="zz", zero_shot=True)
    assert zero_shot.tag == "<2zz>"
    assert zero_shot.statistics.longest_source == by_direction["yy-xx"].longest_source


def test_the_only_target_of_a_source_language_needs_no_option(translator: Translator) -> None:
    assert select(translator, source_lang="yy").tag == "<2xx>"


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ({}, "target language is missing: this model translates xx-yy, xx-zz, yy-xx. Set target"),
        ({"source_lang": "xx"}, "target language is missing"),
        ({"target_lang": "de"}, "is 'de', but the target languages of this model are xx, yy, zz."),
        ({"target_lang": "YY"}, "Did you mean yy?"),
        ({"target_lang": "yy-XX"}, "Did you mean yy?"),
        ({"target_lang": "xx", "source_lang": "zz"}, "source languages of this model are xx, yy."),
        ({"target_lang": "zz", "source_lang": "yy"}, "not trained on yy-zz: it translates xx-yy"),
        ({"target_lang": "zz", "source_lang": "yy"}, "set zero_shot (--zero-shot)"),
        ({"target_lang": "zz", "zero_shot": True}, "has no effect without source_lang"),
        ({"target_lang": "xx", "source_lang": "xx", "zero_shot": True}, "both xx"),
    ],
)
def test_unknown_directions_are_refused(
    translator: Translator, languages: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        translator.translate(["a b"], **languages)
    with pytest.raises(ConfigError, match=re.escape(message)):
        translator.score(["a b"], ["b a"], **languages)


def test_a_model_of_one_direction_accepts_its_own_languages_only(
    tmp_path: Path, reversal_store: Store
) -> None:
    folder = write_model_folder(tmp_path / "model", reversal_store)  # from xx to yy
    model = Translator.load(folder, device="cpu", backend="torch")
    expected = model.translate(["a b"])[0].text
    assert model.translate(["a b"], source_lang="xx", target_lang="yy")[0].text == expected
    with pytest.raises(ConfigError, match=r"target_lang.*'zz'.* and its target language is yy"):
        model.translate(["a b"], target_lang="zz")
    with pytest.raises(ConfigError, match="no effect on a model of one direction"):
        model.translate(["a b"], zero_shot=True)
    prepare_pairs(tmp_path / "store", some_pairs())
    unnamed = write_model_folder(tmp_path / "unnamed", Store(tmp_path / "store"))
    with pytest.raises(ConfigError, match="its languages are not set"):
        Translator.load(unnamed, device="cpu").translate(["a"], target_lang="de")


def test_ensembles_have_the_same_directions(
    tmp_path: Path, folder: Path, translator: Translator, store: Store
) -> None:
    both = Translator.load(folder, folder, device="cpu", backend="torch")
    expected = translator.translate(TEXTS, target_lang="yy", retry=False)
    actual = both.translate(TEXTS, target_lang="yy", retry=False)
    assert [each.text for each in actual] == [each.text for each in expected]
    other = write_model_folder(tmp_path / "other", store)
    tree = json.loads((other / "config.json").read_text())
    tree["directions"].pop()
    (other / "config.json").write_text(json.dumps(tree))
    with pytest.raises(ModelError, match=r"translates xx-yy, xx-zz, but .* the same directions"):
        Translator.load(folder, other, device="cpu")


def test_commands(folder: Path, command: Command, tmp_path: Path) -> None:
    stdin = b"a b c\nd e\n"
    result = command("translate", folder, "--target-lang", "zz", stdin=stdin)
    assert result.status == 0, result.err
    expected = regard.load(folder, device="cpu").translate(["a b c", "d e"], target_lang="zz")
    assert result.out.splitlines() == [each.text for each in expected]
    (tmp_path / "source").write_bytes(stdin)
    (tmp_path / "target").write_text("c b a\ne d\n")
    texts = ["--source", tmp_path / "source"]
    for words in (
        ["translate", folder],
        ["score", folder, *texts, "--target", tmp_path / "target"],
        ["evaluate", folder, *texts, "--reference", tmp_path / "target"],
    ):
        refused = command(*words, stdin=stdin)
        assert refused.status != 0
        assert "The target language is missing" in refused.err
        assert command(*words, "--target-lang", "yy", stdin=stdin).status == 0
    listed = command("show", "model", folder, "--format", "json")
    [row] = json.loads(listed.out)["results"]
    assert [each["target"] for each in row["directions"]] == ["yy", "zz", "xx"]
    assert "xx-zz" in command("show", "model", folder).out
