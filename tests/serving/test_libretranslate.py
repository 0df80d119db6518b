"""The API of LibreTranslate, with published clients."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

from serving_process import ServerProcess

TEXT = "mira tolu sen"


@pytest.fixture(scope="module")
def expected(server: ServerProcess) -> str:
    answer = server.post("/v1/translate", {"texts": [TEXT], "model": "ende"}).json()
    text: str = answer["translations"][0]["text"]
    return text


def test_libretranslatepy(server: ServerProcess, expected: str) -> None:
    client = LibreTranslateAPI(server.url)
    assert client.translate(TEXT, "en", "de") == expected
    languages = {each["code"]: each["targets"] for each in client.languages()}
    assert languages == {"en": ["de"], "de": ["en"]}
    [detected] = client.detect("The dog runs over the green field.")
    assert detected["language"] == "en"
    assert 50 < detected["confidence"] <= 100


def test_deep_translator(server: ServerProcess, expected: str) -> None:
    client = LibreTranslator("en", "de", custom_url=f"{server.url}/", api_key="any")
    assert client.translate(TEXT) == expected


def test_argostranslate(server: ServerProcess, expected: str) -> None:
    apis = pytest.importorskip("argostranslate.apis")
    client = apis.LibreTranslateAPI(f"{server.url}/")
    assert client.translate(TEXT, "en", "de") == expected
    assert {each["code"] for each in client.languages()} == {"en", "de"}
    assert client.detect("Der Hund läuft über das Feld.")[0]["language"] == "de"


def test_lists_alternatives_and_detection(server: ServerProcess, expected: str) -> None:
    query = {"q": [TEXT, "dov"], "source": "EN", "target": "de", "alternatives": 2}
    answer = server.post("/translate", query).json()
    assert answer["translatedText"][0] == expected
    assert [len(each) for each in answer["alternatives"]] == [2, 2]
    assert "detectedLanguage" not in answer
    text = "The dog runs over the green field."
    answer = server.post("/translate", {"q": text, "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"]["language"] == "en"
    answer = server.post("/translate", {"q": [text], "source": "auto", "target": "en"}).json()
    assert answer["translatedText"] == [text]
    assert answer["detectedLanguage"][0]["language"] == "en"


def test_forms_and_queries(server: ServerProcess, expected: str) -> None:
    query = {"q": TEXT + "\r\n", "source": "en", "target": "de"}
    url = f"{server.url}/translate"
    assert httpx.post(url, data=query).json() == {"translatedText": expected}
    assert httpx.post(url, params=query).json() == {"translatedText": expected}
    multipart = {name: (None, value) for name, value in query.items()}
    assert httpx.post(url, files=multipart).json() == {"translatedText": expected}


def test_markup(server: ServerProcess) -> None:
    query = {"q": f"<b>{TEXT}</b>", "source": "en", "target": "de", "alternatives": 1}
    answer = server.post("/translate", {**query, "format": "html"}).json()
    assert answer["translatedText"].startswith("<b>")
    assert answer["alternatives"] == []


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
        ({"q": "", "source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "de"}, 400, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "en"}, 400, "Invalid request: missing target parameter"),
        ({"q": "a", "source": "zz", "target": "de"}, 400, "zz is not supported"),
        ({"q": "a", "source": "en", "target": "zz"}, 400, "zz is not supported"),
        ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, 400, "pdf format is not"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": "x"}, 400, "not a number"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": 99}, 400, "must be <= 9"),
        ({"q": 5, "source": "en", "target": "de"}, 400, "q must be text"),
        ({"q": "a" * 20_001, "source": "en", "target": "de"}, 400, "exceeds text limit (20000)"),
    ],
)
def test_errors(server: ServerProcess, query: dict[str, Any], status: int, message: str) -> None:
    response = server.post("/translate", query)
    assert response.status_code == status
    assert message in response.json()["error"]


def test_invalid_json_and_settings(server: ServerProcess) -> None:
    headers = {"content-type": "application/json"}
    response = httpx.post(f"{server.url}/translate", content=b"{", headers=headers)
    assert response.status_code == 400
    assert response.json()["error"].startswith("Invalid JSON format")
    settings = httpx.get(f"{server.url}/frontend/settings").json()
    assert settings["charLimit"] == 20_000
    assert "paths" in httpx.get(f"{server.url}/spec").json()
