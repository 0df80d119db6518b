"""The API of DeepL, with its client."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import deepl
import httpx
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries

from serving_process import ServerProcess


@pytest.fixture
def client(server: ServerProcess) -> Iterator[deepl.DeepLClient]:
    client = deepl.DeepLClient("any", server_url=f"{server.url}/")
    yield client
    client.close()  # type: ignore[no-untyped-call]


def plain(server: ServerProcess, text: str, **settings: Any) -> str:
    answer = server.post("/v1/translate", {"texts": [text], "model": "ende", **settings}).json()
    translation: str = answer["translations"][0]["text"]
    return translation


def test_texts(client: deepl.DeepLClient, server: ServerProcess) -> None:
    result = client.translate_text("mira tolu", source_lang="EN", target_lang="DE")
    assert isinstance(result, deepl.TextResult)
    assert result.text == plain(server, "mira tolu")
    assert (result.detected_source_lang, result.billed_characters) == ("EN", 9)
    several = client.translate_text(["Der Hund läuft über das Feld."], target_lang="EN-US")
    assert isinstance(several, list)
    assert several[0].detected_source_lang == "DE"
    split = client.translate_text("mira\ntolu", target_lang="DE", source_lang="EN")
    assert isinstance(split, deepl.TextResult)
    assert "\n" in split.text
    joined = client.translate_text(
        "mira\ntolu", target_lang="DE", source_lang="EN", split_sentences="nonewlines"
    )
    assert isinstance(joined, deepl.TextResult)
    assert joined.text == plain(server, "mira tolu")


def test_markup(client: deepl.DeepLClient, server: ServerProcess) -> None:
    text = "<p>mira <x>tolu</x></p>"
    result = client.translate_text(
        text, source_lang="EN", target_lang="DE", tag_handling="xml", ignore_tags=["x"]
    )
    assert isinstance(result, deepl.TextResult)
    assert "<x>tolu</x>" in result.text
    assert result.text == plain(server, text, markup="xml", ignore_tags=["x"])


def test_languages_and_usage(client: deepl.DeepLClient) -> None:
    assert [each.code for each in client.get_source_languages()] == ["EN", "DE"]
    assert [each.code for each in client.get_target_languages()] == ["DE", "EN-US", "EN-GB"]
    assert client.get_usage().character.limit


def test_glossaries(client: deepl.DeepLClient, server: ServerProcess) -> None:
    pairs = {(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()}
    assert pairs == {("en", "de"), ("de", "en")}
    created = client.create_glossary("mine", "EN", "DE", {"mira": "nes", "a|b": "c"})
    assert (created.entry_count, created.ready) == (2, True)
    assert created.glossary_id in [each.glossary_id for each in client.list_glossaries()]
    assert client.get_glossary(created.glossary_id).name == "mine"
    assert client.get_glossary_entries(created) == {"mira": "nes", "a|b": "c"}
    result = client.translate_text(
        "mira tolu", source_lang="EN", target_lang="DE", glossary=created
    )
    assert isinstance(result, deepl.TextResult)
    assert "nes" in result.text.split()
    client.delete_glossary(created)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(created.glossary_id)


def test_multilingual_glossaries(client: deepl.DeepLClient) -> None:
    entries = MultilingualGlossaryDictionaryEntries
    created = client.create_multilingual_glossary(
        "both", [entries("en", "de", {"mira": "nes"}), entries("de", "en", {"x": "y"})]
    )
    assert len(created.dictionaries) == 2
    client.update_multilingual_glossary_name(created, "new name")
    client.replace_multilingual_glossary_dictionary(created, entries("de", "en", {"z": "w"}))
    assert client.get_multilingual_glossary(created.glossary_id).name == "new name"
    answer = client.get_multilingual_glossary_entries(created, "de", "en")
    assert str(answer.dictionaries[0].entries) == "z\tw"
    client.delete_multilingual_glossary_dictionary(created, source_lang="de", target_lang="en")
    assert len(client.get_multilingual_glossary(created.glossary_id).dictionaries) == 1
    result = client.translate_text(
        "mira tolu", source_lang="EN", target_lang="DE", glossary=created
    )
    assert isinstance(result, deepl.TextResult)
    assert "nes" in result.text.split()
    assert created.glossary_id in [
        each.glossary_id for each in client.list_multilingual_glossaries()
    ]
    client.delete_multilingual_glossary(created)


def test_documents(client: deepl.DeepLClient, server: ServerProcess) -> None:
    lines = [f"mira tolu {word}" for word in ("sen", "kapi", "dov")] * 30
    content = "\n".join(lines) + "\n"
    handle = client.translate_document_upload(
        content.encode(), source_lang="EN", target_lang="DE", filename="a.txt"
    )
    status = client.translate_document_get_status(handle)
    for _ in range(200):
        if status.done:
            break
        status = client.translate_document_get_status(handle)
    assert status.done
    assert status.billed_characters == sum(map(len, lines))
    out = io.BytesIO()
    client.translate_document_download(handle, out)
    first = [plain(server, line) for line in lines[:3]]
    assert out.getvalue().decode().split("\n") == first * 30 + [""]
    with pytest.raises(deepl.DeepLException, match="Document not found"):
        client.translate_document_get_status(handle)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"text": ["a"]}, "target_lang"),
        ({"target_lang": "DE"}, "Parameter 'text' not specified"),
        ({"text": ["a"], "target_lang": "FR"}, "Value for 'target_lang' not supported"),
        ({"text": ["a"], "target_lang": "DE", "source_lang": "FR"}, "'source_lang' not supported"),
        ({"text": ["a"], "target_lang": "DE", "formality": "more"}, "'formality' is not supported"),
        ({"text": ["a"], "target_lang": "DE", "tag_handling": "pdf"}, "'tag_handling'"),
        ({"text": [1], "target_lang": "DE"}, "text must be text"),
        ({"text": ["a"], "target_lang": "DE", "glossary_id": "x"}, "requires the source_lang"),
    ],
)
def test_errors(server: ServerProcess, query: dict[str, Any], message: str) -> None:
    response = server.post("/v2/translate", query)
    assert response.status_code == 400
    assert message in json.dumps(response.json(), ensure_ascii=False)


def test_forms(server: ServerProcess) -> None:
    data = {"text": ["mira", "tolu"], "target_lang": "DE", "source_lang": "EN"}
    answer = httpx.post(f"{server.url}/v2/translate", data=data, timeout=30).json()
    assert [each["billed_characters"] for each in answer["translations"]] == [4, 4]
    glossary = {"name": "n", "source_lang": "en", "target_lang": "de", "entries": "a\n"}
    response = httpx.post(f"{server.url}/v2/glossaries", data=glossary)
    assert response.status_code == 400
    assert "line 1" in response.json()["message"]
