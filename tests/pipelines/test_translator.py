"""The translation pipeline, with a model that was trained to reverse letters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_type_hints

import numpy as np
import pytest

import regard
from regard.config import Settings, settings_of
from regard.data.store import Store
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.text_config import (
    DirectionConfig,
    DirectionKeywords,
    InputConfig,
    InputKeywords,
    TextConfig,
    TextConfigKeywords,
)
from regard.errors import ConfigError, DataError, ModelError
from regard.evaluation.model_comparison import sentences_per_second
from regard.pipelines.segments import TranslatedText
from regard.pipelines.translator import Translator
from toys import run, small_run


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Translator:
    """A model that was briefly trained on lines of two to seven letters."""
    out = tmp_path_factory.mktemp("run") / "reversal"
    config = small_run(out, reversal_store, max_steps=60, checkpoint_every=60)
    run(config, reversal_store)
    return regard.load(out, precision="float32")  # on any device


@pytest.mark.parametrize(
    ("config", "keywords"),
    [
        (SearchConfig, SearchKeywords),
        (TextConfig, TextConfigKeywords),
        (DirectionConfig, DirectionKeywords),
        (InputConfig, InputKeywords),
    ],
)
def test_keywords_are_the_fields_of_the_config(config: type[Settings], keywords: type[Any]) -> None:
    fields = {setting.name: setting.type for setting in settings_of(config)}
    assert get_type_hints(keywords) == fields


class Affix:
    """A text step: removes a prefix and a suffix, and adds them to the translations."""

    def __init__(self, prefix: str, suffix: str) -> None:
        self.prefix, self.suffix = prefix, suffix

    def prepare(self, text: str) -> tuple[str, bool]:
        inner = text.removeprefix(self.prefix).removesuffix(self.suffix)
        return inner, inner != text

    def restore(self, translated: TranslatedText, context: bool) -> TranslatedText:
        if not context:
            return translated
        ranked = [
            part._replace(text=f"{self.prefix}{part.text}{self.suffix}")
            for part in translated.ranked
        ]
        return translated._replace(ranked=ranked)


def test_text_steps_are_undone_in_reverse_order(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["<p>[a b c]</p>", "[a b c]", "", "a b c", "<p></p>"]
    [plain] = translator.translate(["a b c"])
    steps = Affix("<p>", "</p>"), Affix("[", "]")
    monkeypatch.setattr("regard.pipelines.translator.text_steps", lambda *settings: steps)
    translations = translator.translate(texts)
    assert [t.source for t in translations] == texts
    assert [t.text for t in translations] == [
        f"<p>[{plain.text}]</p>", f"[{plain.text}]", "", plain.text, "<p></p>",
    ]  # fmt: skip
    [plain, *_] = translator.translate(texts[3:4], confidence=True)
    for part in translator.translate(texts, confidence=True):
        words = part.words or []
        assert [part.text[word.start : word.end] for word in words] == [word.text for word in words]
        if part.text not in ("", "<p></p>"):
            assert part.confidence == pytest.approx(plain.confidence)
            assert [word.text for word in words] == [word.text for word in plain.words or []]


def test_translations_are_in_the_order_of_texts(translator: Translator) -> None:
    texts = ["a b c", "", "d e", "a b c", " f g h i "]
    translations = translator.translate(texts)
    assert [t.source for t in translations] == texts
    assert translations[0] == translations[3]
    assert translations[1].text == ""
    assert translations[4].text[0] == translations[4].text[-1] == " "
    assert all(t.score < 0 for t in translations if t.source)


@pytest.mark.parametrize("batch_size", [1, 2, 7, 64])
def test_translations_do_not_depend_on_the_batch(translator: Translator, batch_size: int) -> None:
    texts = [" ".join("abcdefghij"[i % 7 : i % 7 + 1 + i % 5]) for i in range(30)]
    expected = [t.text for t in translator.translate(texts, beam_size=3)]
    translations = translator.translate(texts[::-1], beam_size=3, batch_size=batch_size)
    assert [t.text for t in translations][::-1] == expected


def test_alternatives_are_the_next_best(translator: Translator) -> None:
    [best] = translator.translate(["a b c"], beam_size=4, num_hypotheses=3)
    ranked = [(best.text, best.score), *((a.text, a.score) for a in best.alternatives)]
    assert len({text for text, _ in ranked}) == 3
    assert [score for _, score in ranked] == sorted((s for _, s in ranked), reverse=True)


def test_score_matches_the_score_of_the_search(translator: Translator) -> None:
    texts = ["a b c", "d e", "f g h i j", "", " ", "\u3000\t", "  a b", "c d "]
    translations = translator.translate(texts, length_penalty=0.5)
    scores = translator.score(texts, [t.text for t in translations], length_penalty=0.5)
    assert scores == pytest.approx([t.score for t in translations], abs=1e-5)
    assert scores[3:6] == [0.0] * 3  # blank texts are copied without a search
    assert translator.score([""], ["a b"])[0] < 0


def test_attention_maps_have_a_row_per_target_token(translator: Translator) -> None:
    [translation] = translator.translate(["a b c"], attention=True)
    maps = translation.attention
    assert maps is not None
    assert maps.cross.shape == (1, 2, len(maps.target), len(maps.source))
    np.testing.assert_allclose(maps.cross.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(maps.encoder.sum(-1), 1, atol=1e-5)
    assert np.triu(maps.decoder[0, 0], 1).max() == 0


def test_attention_maps_of_two_lines_are_block_diagonal(translator: Translator) -> None:
    [joined] = translator.translate(["a b\nc d"], attention=True)
    alone = translator.translate(["a b", "c d"], attention=True)
    assert joined.attention is not None
    assert alone[0].attention is not None
    height, width = alone[0].attention.cross.shape[2:]
    assert joined.attention.cross[:, :, :height, width:].max() == 0
    np.testing.assert_allclose(
        joined.attention.cross[:, :, :height, :width], alone[0].attention.cross, atol=1e-5
    )


def test_lines_of_a_text_are_translated_separately(translator: Translator) -> None:
    [whole] = translator.translate(["a b c\n\nd e\u2028f g"])
    lines = [t.text for t in translator.translate(["a b c", "d e", "f g"])]
    assert whole.text == f"{lines[0]}\n\n{lines[1]}\u2028{lines[2]}"


def test_nuls_and_line_breaks_are_removed_from_translations(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = translator.folder.tokenizers.target
    monkeypatch.setattr(type(target), "decode_all", lambda self, ids: ["a\0b\nc"])
    assert translator.translate(["a b"])[0].text == "ab c"


def test_notice_of_a_sentence_over_the_limit(translator: Translator) -> None:
    notices: list[str] = []
    texts = ["a b", " ".join("abcdefghij" * 3)]
    translator.translate(texts, notice=notices.append, retry=False)
    assert len(notices) == 1
    assert notices[0].startswith("Line 2 ")


def test_forced_prefix(translator: Translator) -> None:
    forced = translator.translate(["a b c", "d e"], prefixes=["j j", ""])
    free = translator.translate(["d e"])
    assert forced[0].text.startswith("j j")
    assert forced[1].text == free[0].text


def test_unusual_input(translator: Translator) -> None:
    for text in ["🙂", "x" * 500, "\0", "\ufeff", "12345", "<s> </s>", "▁"]:
        assert isinstance(translator.translate([text])[0].text, str)


def test_errors_of_invalid_arguments(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="list of texts"):
        translator.translate("a b c")
    with pytest.raises(ConfigError, match=r"num_hypotheses is 6.*beam_size \(5\)"):
        translator.translate(["a"], num_hypotheses=6)
    with pytest.raises(ConfigError, match="Text 2 is of type bytes"):
        translator.translate(["a", b"b"])  # type: ignore[list-item]
    with pytest.raises(DataError, match="surrogate"):
        translator.translate(["\ud800"])
    for size in (0, -1, 1.5, "4", True):
        with pytest.raises(ConfigError, match=r"batch_size is .*, but must be an integer"):
            translator.translate(["a"], batch_size=size)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"temperature.*no effect in beam search"):
        translator.translate(["a"], temperature=0.5)
    with pytest.raises(DataError, match="2 sources and 1 targets"):
        translator.score(["a", "b"], ["c"])
    with pytest.raises(ConfigError, match="length_penalty"):
        translator.score(["a"], ["c"], length_penalty=float("inf"))
    with pytest.raises(ConfigError, match="list of texts"):
        translator.translate(["a", "b"], prefixes="xy")
    for name in ("force", "forbid", "glossary"):
        words: Any = {"a": "\ud800"} if name == "glossary" else ["\ud800"]
        with pytest.raises(DataError, match="unpaired surrogate"):
            translator.translate(["a"], **{name: words})


def test_errors_of_invalid_arguments_of_streams(translator: Translator) -> None:
    arguments: Any
    for name, value in [("workers", "2"), ("workers", True), ("window", 1.5)]:
        arguments = {name: value}
        with pytest.raises(ConfigError, match=f"{name} is .*, but must be an integer"):
            translator.translate_iterable(["a"], **arguments)
    with pytest.raises(ConfigError, match="Prefix 1 is of type int"):
        translator.translate_iterable(["a"], prefix=3)  # type: ignore[arg-type]
    for pair, message in [
        (("a",), "Pair 2 has 1 texts, but must have two"),
        (("a", "b", "c"), "Pair 2 has 3 texts"),
        (("a", None), "Pair 2: text 2 is of type NoneType"),
        ("ab", "not a single text"),
    ]:
        arguments = [("a", "b"), pair]
        with pytest.raises(ConfigError, match=message):
            [*translator.score_iterable(arguments)]
    with pytest.raises(ConfigError, match="list of texts is required, not int"):
        [*translator.score_iterable(3)]  # type: ignore[arg-type]


def test_invalid_data_statistics_are_refused(translator: Translator, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(translator._models.paths[0], folder)
    config = json.loads((folder / "config.json").read_text())
    for longest in (0, -5):
        config["data_statistics"]["longest_source"] = longest
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(ModelError, match="longest_source"):
            regard.load(folder)


def test_model_folder_is_self_contained(translator: Translator, tmp_path: Path) -> None:
    from regard.models.folder import WEIGHTS, named_weights, write_tensors

    write_tensors(tmp_path / WEIGHTS, named_weights(translator.models[0]), {})
    translator.folder.write(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"config.json", "tokenizer.model", WEIGHTS}
    again = regard.load(tmp_path, precision="float32")
    assert again.translate(["a b c"]) == translator.translate(["a b c"])
    assert again.folder.languages == {"source": "xx", "target": "yy"}


def test_repr_of_a_translator(translator: Translator) -> None:
    assert repr(translator).endswith(f": xx to yy. {translator.backend_notice}>")


def test_texts_may_come_from_a_generator(translator: Translator) -> None:
    assert translator.translate(t for t in ["a b"]) == translator.translate(["a b"])  # type: ignore[arg-type]


class FakeTranslator:
    """A translator that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], Any]] = []

    def translate(self, texts: Sequence[str], *, batch_size: int, **keywords: Any) -> None:
        self.calls.append((list(texts), batch_size))


def test_speed_of_single_sentences_and_of_batches() -> None:
    fake, texts = FakeTranslator(), ["a", "b", "c"]
    translator = cast(Translator, fake)
    assert sentences_per_second(translator, texts, beam_size=1, batch_size=1) > 0
    assert fake.calls == [(["a"], 1), (["b"], 1), (["c"], 1)]
    fake.calls.clear()
    assert sentences_per_second(translator, texts, beam_size=1, batch_size=2) > 0
    assert fake.calls == [(texts, 2)]
