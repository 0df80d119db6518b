"""Our own API on a real server."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from regard.api import load
from serving_process import STORED, ServerProcess

pytestmark = pytest.mark.filterwarnings("ignore::regard.config.RenamedWarning")
WORDS = ("mira", "tolu", "sen", "kapi", "dov", "lume")
TEXTS = [" ".join(WORDS[(n + k) % 6] for k in range(1 + n % 7)) for n in range(24)]


def translate(server: ServerProcess, **query: Any) -> dict[str, Any]:
    response = server.post("/v1/translate", query)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture(scope="module")
def translator(languages: dict[str, Path]) -> Any:
    return load(languages["ende"], device="cpu", precision="int8")


def test_answers_equal_offline_translation_whoever_shares_the_batch(
    server: ServerProcess, translator: Any
) -> None:
    expected = [each.text for each in translator.translate(TEXTS)]
    greedy = [each.text for each in translator.translate(TEXTS, beam_size=1)]

    def ask(number: int) -> tuple[str, str]:
        beams = translate(server, texts=[TEXTS[number]])
        single = translate(server, texts=[TEXTS[number]], beam_size=1)
        return beams["translations"][0]["text"], single["translations"][0]["text"]

    with ThreadPoolExecutor(12) as pool:
        answers = [*pool.map(ask, range(len(TEXTS)))]
    assert answers == [*zip(expected, greedy, strict=True)]
    several = translate(server, texts=["\n".join(TEXTS[:4]), TEXTS[4]])["translations"]
    assert several[0]["text"] == "\n".join(expected[:4])
    assert several[1]["text"] == expected[4]


def test_search_settings_nbest_confidence_and_markup(
    server: ServerProcess, translator: Any
) -> None:
    settings = {"num_hypotheses": 3, "confidence": True, "length_penalty": 0.5}
    [expected] = translator.translate(TEXTS[3:4], **settings)
    [actual] = translate(server, texts=TEXTS[3:4], **settings)["translations"]
    assert actual["text"] == expected.text
    assert [other["text"] for other in actual["alternatives"]] == [
        other.text for other in expected.alternatives
    ]
    assert actual["confidence"] == pytest.approx(expected.confidence, abs=1e-5)
    assert [word["text"] for word in actual["words"]] == [word.text for word in expected.words]
    [tagged] = translate(server, texts=["<b>mira</b> tolu"], markup="html")["translations"]
    assert tagged["text"] == translator.translate(["<b>mira</b> tolu"], markup="html")[0].text


def test_glossary_and_forced_words(server: ServerProcess) -> None:
    [plain] = translate(server, texts=["mira tolu"])["translations"]
    assert "nes" not in plain["text"].split()
    for constraint in ({"glossary": {"mira": "nes"}}, {"force": ["nes"]}):
        [constrained] = translate(server, texts=["mira tolu"], **constraint)["translations"]
        assert "nes" in constrained["text"].split()


def test_attention_maps(server: ServerProcess, translator: Any) -> None:
    [answer] = translate(server, texts=["mira tolu"], attention=True)["translations"]
    [expected] = translator.translate(["mira tolu"], attention=True)
    maps = answer["attention"]
    assert maps["source"] == expected.attention.source
    np.testing.assert_allclose(maps["cross"], expected.attention.cross, atol=1e-4)
    pair = server.post("/v1/attention", {"source": "mira tolu", "target": answer["text"]}).json()
    assert pair["attention"]["cross"] == maps["cross"]
    text = server.post("/v1/attention", {"source": "mira sen", "model": "causal"}).json()
    assert np.shape(text["attention"]["decoder"])[2:] == (3, 3)


def test_attention_maps_have_the_direction_of_a_model(server: ServerProcess) -> None:
    query = {"source": "mira", "target": "ulo", "source_lang": "en", "target_lang": "de"}
    assert server.post("/v1/attention", query).status_code == 200
    response = server.post("/v1/attention", {**query, "target_lang": "fr"})
    assert response.status_code == 400
    assert "target_lang" in response.json()["error"]["message"]
    response = server.post(
        "/v1/attention", {"source": "mira", "source_lang": "en", "model": "causal"}
    )
    assert response.status_code == 400


def test_next_tokens_equal_the_pipeline(server: ServerProcess) -> None:
    query = {"text": "mira sen", "model": "causal", "top_k": 3}
    answer = server.post("/v1/next", query).json()
    expected = load(STORED / "causal", device="cpu").next_tokens("mira sen", top_k=3)
    assert [token["text"] for token in answer["tokens"]] == [token.text for token in expected]
    assert server.post("/v1/next", {**query, "model": "ende"}).status_code == 400


def test_events_of_a_stream(server: ServerProcess) -> None:
    query = {"texts": ["mira tolu\nsen", "dov"], "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/translate", json=query, timeout=30) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [part.split("\n") for part in response.read().decode().strip().split("\n\n")]
    names = [lines[0] for lines in events]
    assert names == ["event: segment"] * 3 + ["event: done"]
    data = [json.loads(lines[1].removeprefix("data: ")) for lines in events]
    assert sorted((each["text"], each["segment"]) for each in data[:3]) == [(0, 0), (0, 1), (1, 0)]
    unstreamed = translate(server, texts=query["texts"])
    assert data[3] == unstreamed


def test_score_equals_the_pipeline(server: ServerProcess, translator: Any) -> None:
    query = {"sources": ["mira tolu", "sen"], "targets": ["ulo arim", "nes"]}
    scores = server.post("/v1/score", query).json()["scores"]
    np.testing.assert_allclose(scores, translator.score(*query.values()), atol=1e-5)
    assert server.post("/v1/score", {**query, "targets": []}).status_code == 400


@pytest.mark.parametrize("kind", ["masked", "tagger", "classifier", "causal"])
def test_predictions_equal_those_of_the_pipeline(kind: str, server: ServerProcess) -> None:
    pipeline = load(STORED / kind, device="cpu")
    text = {"masked": "mira [MASK] sen", "classifier": "mira\tsen"}.get(kind, "mira sen")
    response = server.post("/v1/predict", {"texts": [text], "model": kind})
    assert response.status_code == 200, response.text
    [result] = response.json()["results"]
    if kind == "masked":
        [expected] = pipeline.fill([text])
        assert result["blanks"][0][0]["word"] == expected.blanks[0][0].word
    elif kind == "tagger":
        assert result["labels"] == pipeline.tag([text])[0].labels
    elif kind == "classifier":
        assert result["label"] == pipeline.classify([text.split("\t")])[0].label
    else:
        from regard.pipelines.embedder import Embedder

        expected = Embedder.load(STORED / kind, device="cpu").embed([text])[0]
        np.testing.assert_allclose(result, expected, atol=1e-5)


def test_models_and_cards(server: ServerProcess) -> None:
    models = httpx.get(f"{server.url}/v1/models").json()["data"]
    assert [model["id"] for model in models][:2] == ["ende", "deen"]
    assert models[0]["directions"] == [{"source": "en", "target": "de"}]
    card = httpx.get(f"{server.url}/v1/models/ende").json()
    assert card["backend"] == "CTranslate2, int8"
    assert card["settings"]["kind"] == "transformer"
    assert httpx.get(f"{server.url}/v1/models/nothing").status_code == 404


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"texts": ["a"], "beam": 2}, 400, "beam: Extra inputs"),
        ({"texts": ["a"], "beam_size": 0}, 400, "greater than or equal to 1"),
        ({"texts": ["a"], "beam_size": 500}, 400, "beam_size is 500, but must be at most 20"),
        ({"texts": ["a"], "num_hypotheses": 7}, 400, "at most beam_size"),
        ({"texts": ["a"], "max_extra": 99_999}, 400, "max_extra"),
        ({"texts": "a"}, 400, "texts: Input should be a valid list"),
        ({"texts": ["a"], "model": "none"}, 404, "There is no model 'none'"),
        ({"texts": ["a"], "model": "causal"}, 400, "language modeling"),
        ({"texts": ["a"], "target_lang": "fr"}, 400, "Known directions: en-de, de-en"),
        ({"texts": ["a" * 30_000]}, 413, "30,000 characters"),
        ({"texts": [""] * 1000}, 413, "Too many texts"),
        ({"texts": ["a"], "temperature": 2.0}, 400, "has no effect"),
        ({"texts": ["a"], "glossary": {"": "x"}}, 400, "empty"),
    ],
)
def test_errors(server: ServerProcess, query: dict[str, Any], status: int, message: str) -> None:
    response = server.post("/v1/translate", query)
    assert response.status_code == status
    assert message in response.json()["error"]["message"]
