"""Document context at translation: contexts of texts, contracts of streams, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regard
from cli.commands import Command
from cli.commands import regard as command
from document_corpora import toy_documents, write_document_store, write_files, write_letters_model
from regard.data.document_context import NO_CONTEXT, SEPARATOR, DocumentContext
from regard.data.store import Store
from regard.decoding.backend import ContextLengths, Request
from regard.decoding.config import DistillConfig, SearchConfig
from regard.decoding.text_config import InputConfig
from regard.errors import ConfigError, DataError, ModelError
from regard.pipelines import codec
from regard.pipelines.context import (
    ContextEncoder,
    Source,
    TextPair,
    context_of_texts,
    in_documents,
    pairs_in_documents,
)
from regard.pipelines.distill import Distillation
from regard.pipelines.translator import Translator
from toys import run, small_run, write_model_folder

__all__ = ["command"]  # a fixture

SIZES = {"source": (2, 0), "target": (0, 2), "both": (2, 1)}
TEXTS = [
    line
    for document in toy_documents(5, seed=4)
    for line in [*(source for source, _ in document), ""]
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    return {
        name: write_document_store(tmp_path_factory.mktemp(name), *sizes)
        for name, sizes in SIZES.items()
    }


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, stores: dict[str, Store]) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("models")
    return {name: write_letters_model(out / name, store) for name, store in stores.items()}


@pytest.fixture(scope="module")
def translators(folders: dict[str, Path]) -> dict[str, Translator]:
    return {
        name: Translator.load(folder, device="cpu", backend="torch")
        for name, folder in folders.items()
    }


def texts_of(translations: Sequence[Any]) -> list[str]:
    return [translation.text for translation in translations]


def requests_of(translator: Translator, texts: list[str], **keywords: Any) -> list[Request]:
    """The requests that a backend gets, in the order of the searches."""
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

    arguments = translator.paths, translator.text, Recording(), "", lambda: translator._models
    Translator(*arguments).translate(texts, beam_size=1, retry=False, **keywords)
    return requests


def test_sources_and_pairs_in_documents() -> None:
    texts = ["a", "b", " ", "c"]
    sources = [*in_documents(map(Source, texts), DocumentContext(0, 1))]
    assert [source.context for source in sources] == [(), ("a",), (), ()]
    pairs = [*pairs_in_documents([("a", "x"), ("b", "y")], DocumentContext(1))]
    assert pairs == [TextPair("a", "x"), TextPair("b", "y", (("a", "x"),))]
    plain = [Source("a"), Source("b")]
    assert in_documents(plain, NO_CONTEXT) is plain


def test_segments_before_a_segment_are_its_context() -> None:
    """They may be of the same text or of previous ones; texts are split once."""
    split: list[str] = []

    def segments_of(text: str) -> list[list[int]]:
        split.append(text)
        return [[ord(character)] for character in text]

    encoder = ContextEncoder(DocumentContext(2, 1, longest_target=8), segments_of)
    requests = [Request([9, ord(character)], []) for character in "cd"]
    source = Source("cd", context=("ab",))
    first, second = encoder.add(source, segments_of("cd"), requests, limit=6)
    assert first.source == [ord("a"), SEPARATOR, ord("b"), SEPARATOR, 9, ord("c")]
    assert second.source == [ord("b"), SEPARATOR, ord("c"), SEPARATOR, 9, ord("d")]
    assert second.segment == [9, ord("d")]
    assert (second.context, second.context_room) == (ContextLengths(4, 0), 6)
    [third] = encoder.add(Source("e", context=("cd",)), [[1]], [Request([1], [])], limit=2)
    assert (third.source, third.context_room) == ([1], 7)
    assert split == ["cd", "ab"]


def test_requests_are_the_rows_of_the_store(
    stores: dict[str, Store], translators: dict[str, Translator]
) -> None:
    """Texts are encoded as in training, in documents that blank texts separate."""
    part, documents = stores["source"].part("train"), toy_documents(120)
    texts = [line for document in documents for line in [*(s for s, _ in document), ""]]
    requests = requests_of(translators["source"], texts)
    expected = [part.source[index].tolist() for index in range(len(part))]
    distinct = {tuple(request.source) for request in requests}
    assert distinct == {tuple(ids) for ids in expected}
    for request in requests:
        assert SEPARATOR not in request.segment
        assert request.source[: request.context.source].count(SEPARATOR) <= 2


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"beam_size": 3, "length_penalty": 0.6}])
def test_score_matches_the_score_of_the_translation(
    translators: dict[str, Translator], name: str, settings: dict[str, Any]
) -> None:
    translator = translators[name]
    translations = translator.translate(TEXTS, **settings)
    penalty = settings.get("length_penalty", 1.0)
    scores = translator.score(TEXTS, texts_of(translations), length_penalty=penalty)
    assert scores == pytest.approx([each.score for each in translations], abs=1e-4)
    pairs = zip(TEXTS, texts_of(translations), strict=True)
    streamed = [*translator.score_iterable(pairs, length_penalty=penalty, window=3)]
    assert streamed == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("name", SIZES)
def test_context_changes_translations_and_can_be_left_out(
    translators: dict[str, Translator], name: str
) -> None:
    translator = translators[name]
    whole = translator.translate(TEXTS)
    alone = translator.translate(TEXTS, document_context=False)
    separate = [translator.translate([text])[0] for text in TEXTS]
    assert texts_of(alone) == texts_of(separate)
    assert [each.score for each in alone] != [each.score for each in whole]
    scores = translator.score(TEXTS, texts_of(alone), document_context=False)
    assert scores == pytest.approx([each.score for each in alone], abs=1e-4)
    blank = [text for text, each in zip(TEXTS, whole, strict=True) if not each.text]
    assert set(blank) == {""}
    assert len(whole) == len(TEXTS)
    starts = [number for number, text in enumerate(TEXTS) if number == 0 or not TEXTS[number - 1]]
    assert [whole[n].text for n in starts] == [alone[n].text for n in starts]


@pytest.mark.parametrize("name", ["source", "both"])
def test_results_do_not_depend_on_batches_windows_or_workers(
    translators: dict[str, Translator], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = translators[name]
    expected = texts_of(translator.translate(TEXTS, beam_size=2))
    for batch_size in (1, 3):
        assert texts_of(translator.translate(TEXTS, beam_size=2, batch_size=batch_size)) == expected
    for window in (1, 7):
        stream = translator.translate_iterable(iter(TEXTS), beam_size=2, window=window)
        assert texts_of([*stream]) == expected
    monkeypatch.setattr(codec, "MIN_INPUTS", 0)
    stream = translator.translate_iterable(iter(TEXTS), beam_size=2, window=9, workers=1)
    assert texts_of([*stream]) == expected


def test_documents_do_not_depend_on_each_other(translators: dict[str, Translator]) -> None:
    for translator in (translators["source"], translators["both"]):
        expected = texts_of(translator.translate(TEXTS))
        documents = "\n".join(TEXTS).split("\n\n")
        separate: list[str] = []
        for document in documents:
            separate += [*texts_of(translator.translate(document.split("\n"))), ""]
        assert [text for text in separate if text] == [text for text in expected if text]


def test_long_document(translators: dict[str, Translator]) -> None:
    """The context of the last sentence is that of its neighbours, however long the document is."""
    lines = [text for text in TEXTS if text] * 2
    whole = texts_of(translators["both"].translate(lines, beam_size=1))
    stream = translators["both"].translate_iterable(lines, beam_size=1, window=10)
    assert texts_of([*stream]) == whole
    last = texts_of(translators["source"].translate(lines[-3:], beam_size=1))[-1]
    assert last == texts_of(translators["source"].translate(lines, beam_size=1))[-1]


def test_context_is_shortened_to_the_longest_source(translators: dict[str, Translator]) -> None:
    translator = translators["both"]
    limit = translator.text.data_statistics.longest_source
    long = " ".join("abcdefghij"[:9])
    requests = requests_of(translator, [long, long, "a", "b"])
    lengths = [len(request.source) for request in requests]
    assert max(lengths) <= limit
    assert [request.context.source for request in requests][:2] == [0, 10]
    for request in requests:
        room = translator.text.document_context.longest_target - len(request.segment)
        assert len(request.target_context) <= max(0, room)


def test_prefixes_follow_the_context(translators: dict[str, Translator]) -> None:
    translator = translators["both"]
    lines = TEXTS[:6]
    translations = translator.translate(lines, prefixes=["j i" if line else "" for line in lines])
    assert all(each.text.startswith("j i") for each in translations if each.source)
    scores = translator.score(lines, texts_of(translations))
    assert scores == pytest.approx([each.score for each in translations], abs=1e-4)


def test_lines_of_several_sentences_are_their_own_context(
    translators: dict[str, Translator],
) -> None:
    for name, translator in translators.items():
        split = requests_of(translator, ["abc. Def.", "g"])
        lines = requests_of(translator, ["abc.", "Def.", "g"])
        assert sorted(split) == sorted(lines), name


def test_confidences_and_checks_are_those_of_the_sentence(
    translators: dict[str, Translator],
) -> None:
    for translator in translators.values():
        plain = translator.translate(TEXTS, beam_size=2)
        with_words = translator.translate(TEXTS, beam_size=2, confidence=True)
        assert texts_of(with_words) == texts_of(plain)
        for each in with_words:
            assert [word.text for word in each.words or []] == each.text.split()


def test_markup_is_not_part_of_the_context(translators: dict[str, Translator]) -> None:
    for translator in translators.values():
        plain = translator.translate(["a b c", "d e"])
        marked = translator.translate(["a <b>b</b> c", "<i>d e</i>"], markup="html")
        stripped = [
            each.text.replace("<b>", "").replace("</b>", "").replace("<i>", "").replace("</i>", "")
            for each in marked
        ]
        assert stripped == texts_of(plain)


def test_other_backends_support_source_context(
    folders: dict[str, Path], translators: dict[str, Translator], tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2")
    fast = Translator.load(folders["source"], device="cpu", backend="ctranslate2")
    expected = translators["source"].translate(TEXTS, beam_size=1, retry=False)
    actual = fast.translate(TEXTS, beam_size=1, retry=False)
    assert texts_of(actual) == texts_of(expected)
    assert [a.score for a in actual] == pytest.approx([e.score for e in expected], abs=1e-4)
    automatic = Translator.load(folders["both"], device="cpu")
    assert "does not support document context of target sentences" in automatic.backend_notice
    with pytest.raises(ConfigError, match="does not support document context of target sentences"):
        Translator.load(folders["both"], device="cpu", backend="ctranslate2")
    regard.load(folders["both"], device="cpu").export(tmp_path / "out", to="ctranslate2")
    exported = Translator.load(tmp_path / "out", device="cpu")
    with pytest.raises(ConfigError, match="or --no-document-context"):
        exported.translate(["a b", "c d"])
    settings: dict[str, Any] = {"document_context": False, "beam_size": 1, "retry": False}
    expected = automatic.translate(TEXTS, **settings)
    assert texts_of(exported.translate(TEXTS, **settings)) == texts_of(expected)


def test_ensembles_have_the_same_context(
    folders: dict[str, Path], translators: dict[str, Translator]
) -> None:
    both = Translator.load(folders["both"], folders["both"], device="cpu", backend="torch")
    assert texts_of(both.translate(TEXTS)) == texts_of(translators["both"].translate(TEXTS))
    with pytest.raises(ModelError, match="2 source and 0 target sentences as document context, b"):
        Translator.load(folders["both"], folders["source"], device="cpu")


def test_attention_maps_include_source_context(translators: dict[str, Translator]) -> None:
    [first, second] = translators["source"].translate(["a b", "c d e"], attention=True)
    assert first.attention is not None
    assert second.attention is not None
    assert len(second.attention.source) == len(first.attention.source) + 4
    with pytest.raises(ConfigError, match=r"not available with context of target sentences"):
        translators["both"].translate(["a"], attention=True)


def test_model_folders_record_the_context(
    folders: dict[str, Path], tmp_path: Path, reversal_store: Store
) -> None:
    tree = json.loads((folders["both"] / "config.json").read_text())
    context = {"source": 2, "target": 1, "longest_target": 13}
    assert tree["document_context"] == context
    plain = write_model_folder(tmp_path / "plain", reversal_store)
    assert "document_context" not in json.loads((plain / "config.json").read_text())
    text = Translator.load(folders["both"], device="cpu").text
    assert context_of_texts(text, InputConfig()) == DocumentContext(**context)
    assert context_of_texts(text, InputConfig(document_context=False)) == NO_CONTEXT


def test_validation_uses_the_references_as_context(
    stores: dict[str, Store], tmp_path: Path
) -> None:
    """BLEU is that of the sentences alone; fine-tuning on sentences leaves out the context."""
    config = small_run(tmp_path / "run", stores["both"], max_steps=4, checkpoint_every=4)
    rows = run(config, stores["both"]).rows
    assert rows[-1]["bleu"] >= 0
    folder = tmp_path / "run"
    assert Translator.load(folder, device="cpu").text.document_context.counts == (2, 1)
    plain = write_document_store(tmp_path / "plain", 0, 0)
    store = regard.prepare(
        source=plain.folder.parent / "train.source", target=plain.folder.parent / "train.target",
        tokenizer_from=folder, out=tmp_path / "tuning", source_lang="xx", target_lang="yy",
    )  # fmt: skip
    tuned = replace(
        small_run(tmp_path / "tuned", store, max_steps=2, checkpoint_every=2),
        init_from=str(folder),
    )
    run(tuned, store)
    assert Translator.load(tmp_path / "tuned", device="cpu").text.document_context == NO_CONTEXT


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("nonautoregressive", "source", "document context, which model.kind=nonautoregressive"),
        ("unilm", "both", "target context, which model.kind=unilm does not support"),
        ("unilm", "target", "target context"),
    ],
)
def test_unsupported_kinds_are_refused(
    stores: dict[str, Store], tmp_path: Path, kind: str, name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        write_model_folder(tmp_path / "model", stores[name], kind=kind)


def test_kinds_without_target_context_support_source_context(
    stores: dict[str, Store], tmp_path: Path
) -> None:
    folder = write_letters_model(tmp_path / "model", stores["source"], kind="unilm")
    translator = Translator.load(folder, device="cpu")
    translations = translator.translate(TEXTS)
    scores = translator.score(TEXTS, texts_of(translations))
    assert scores == pytest.approx([each.score for each in translations], abs=1e-4)


def test_several_directions(tmp_path: Path) -> None:
    """The tag is that of the sentence; the context has none."""
    files = write_files(tmp_path, "train", toy_documents(80))
    store = regard.prepare(
        source=files.source, target=files.target, source_lang="xx", target_lang="yy",
        both_directions=True, source_context=1, target_context=1, tokenizer="word",
        skip_copied=False, out=tmp_path / "store",
    )  # fmt: skip
    folder = write_letters_model(tmp_path / "model", store)
    translator = Translator.load(folder, device="cpu", backend="torch")
    texts = ["a b", "c d", "", "e"]
    translations = translator.translate(texts, target_lang="xx")
    scores = translator.score(texts, texts_of(translations), target_lang="xx")
    assert scores == pytest.approx([each.score for each in translations], abs=1e-4)
    requests = requests_of(translator, texts, target_lang="xx")
    [tag] = translator.text.tokenizers.source.encode("<2xx>")
    assert [request.source.count(tag) for request in requests] == [1, 1, 1]
    [second] = [request for request in requests if request.context.source]
    assert second.segment[0] == tag


def test_commands_that_need_sentences_refuse_documents(
    stores: dict[str, Store], folders: dict[str, Path], command: Command, tmp_path: Path
) -> None:
    with pytest.raises(
        DataError, match="has examples with document context, which `regard distill"
    ):
        Distillation(stores["both"], [folders["both"]], tmp_path / "out", DistillConfig())
    data = stores["both"].folder
    for words in (["align", "--data", data], ["shortlist", folders["both"], "--data", data]):
        result = command(*words)
        assert result.status != 0
        assert f"which `regard {words[0]}` does not support" in result.err


def test_attention_of_a_sentence_needs_no_context(
    folders: dict[str, Path], command: Command, tmp_path: Path
) -> None:
    picture = tmp_path / "maps.png"
    result = command("show", "attention", folders["both"], "a b", "--picture", picture)
    assert result.status == 0, result.err
    listed = command("show", "model", folders["both"])
    assert "2 source and 1 target sentences" in listed.out


def test_commands(folders: dict[str, Path], command: Command, tmp_path: Path) -> None:
    stdin = "a b c\nd e\n\nf g\n"
    translator = Translator.load(folders["both"], device="cpu", backend="torch")
    expected = texts_of(translator.translate(stdin.split("\n")[:-1]))
    result = command("translate", folders["both"], stdin=stdin)
    assert result.out.split("\n")[:-1] == expected
    alone = command("translate", folders["both"], "--no-document-context", stdin=stdin)
    assert alone.out != result.out
    (tmp_path / "source").write_text(stdin)
    (tmp_path / "target").write_text(result.out)
    files = ["--source", tmp_path / "source"]
    scored = command("score", folders["both"], *files, "--target", tmp_path / "target")
    scores = [each.score for each in translator.translate(stdin.split("\n")[:-1])]
    assert [float(line) for line in scored.out.split()] == pytest.approx(scores, abs=1e-4)
    other = command(
        "score", folders["both"], *files, "--target", tmp_path / "target", "--no-document-context"
    )
    assert other.out != scored.out
    words = ["evaluate", folders["both"], *files, "--reference", tmp_path / "target"]
    evaluated = command(*words, "--metrics", "bleu", "--format", "json")
    [row] = json.loads(evaluated.out)["results"]
    assert row["metrics"][0]["value"] == pytest.approx(100)
