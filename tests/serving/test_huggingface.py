"""The API of Hugging Face, with its client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from huggingface_hub import InferenceClient

from regard.api import load
from regard.pipelines.embedder import Embedder
from serving_process import STORED, ServerProcess

pytestmark = pytest.mark.filterwarnings("ignore::regard.config.RenamedWarning")


def client(server: ServerProcess, path: str = "") -> InferenceClient:
    return InferenceClient(model=f"{server.url}/{path}", token="any")


def test_translation(server: ServerProcess) -> None:
    for target, name in (("de", "ende"), ("en", "deen")):
        source = "en" if target == "de" else "de"
        query = {"texts": ["mira tolu"], "model": name}
        [expected] = server.post("/v1/translate", query).json()["translations"]
        answer = client(server).translation("mira tolu", src_lang=source, tgt_lang=target)
        assert answer.translation_text == expected["text"]
    assert client(server).translation("mira tolu").translation_text
    options = {"num_beams": 1, "no_repeat_ngram_size": 2}
    answer = client(server).translation("mira tolu", generate_parameters=options)
    greedy = {"texts": ["mira tolu"], "beam_size": 1, "no_repeat_ngram_size": 2}
    [expected] = server.post("/v1/translate", greedy).json()["translations"]
    assert answer.translation_text == expected["text"]


def test_fill_mask(server: ServerProcess) -> None:
    answers = client(server, "models/masked").fill_mask("mira [MASK] sen", top_k=3)
    [expected] = load(STORED / "masked", device="cpu").fill(["mira [MASK] sen"], top_k=3)
    assert [each.token_str for each in answers] == [each.word for each in expected.blanks[0]]
    assert answers[0].sequence == expected.best


def test_text_classification(server: ServerProcess) -> None:
    answers = client(server, "models/classifier").text_classification("mira\tsen")
    [expected] = load(STORED / "classifier", device="cpu").classify([["mira", "sen"]])
    assert answers[0].label == expected.label
    assert answers[0].score == pytest.approx(expected.probability, abs=1e-5)


def test_token_classification(server: ServerProcess) -> None:
    text = "mira tolu  sen kapi"
    url = client(server, "models/tagger")
    words = url.token_classification(text, aggregation_strategy="none")
    [expected] = load(STORED / "tagger", device="cpu").tag([text])
    assert [each.entity for each in words] == expected.labels
    assert [text[each.start : each.end] for each in words] == text.split()
    groups = url.token_classification(text)
    assert all(each.entity_group == "one" for each in groups)
    assert len(groups) == expected.labels.count("B-one")


def test_feature_extraction(server: ServerProcess) -> None:
    vector = client(server, "models/masked/pipeline/feature-extraction").feature_extraction("mira")
    expected = Embedder.load(STORED / "masked", device="cpu").embed(["mira"], normalize=False)[0]
    np.testing.assert_allclose(vector, expected, atol=1e-5)
    translator = client(server, "models/ende/pipeline/feature-extraction")
    assert np.isfinite(translator.feature_extraction("mira")).all()


def test_text_generation(server: ServerProcess) -> None:
    url = client(server, "models/causal")
    [expected] = load(STORED / "causal", device="cpu").generate(["mira"], max_tokens=8, beam_size=1)
    text = url.text_generation("mira", max_new_tokens=8)
    assert text == expected.continuations[0].text
    assert url.text_generation("mira", max_new_tokens=8, return_full_text=True) == "mira" + text
    assert "".join(url.text_generation("mira", max_new_tokens=8, stream=True)) == text
    details = url.text_generation("mira", max_new_tokens=8, details=True).details
    assert details is not None
    assert details.generated_tokens <= 8


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", {}),
        ("/", {"inputs": 5}),
        ("/", {"inputs": "a", "parameters": {"src_lang": "zz", "tgt_lang": "de"}}),
        ("/", {"inputs": "a", "parameters": {"unknown": 1}}),
        ("/models/masked", {"inputs": "[MASK]", "parameters": {"top_k": 1000}}),
        ("/models/causal", {"inputs": "a", "parameters": {"max_new_tokens": 10**6}}),
        ("/models/causal", {"inputs": "a", "parameters": {"typical_p": 0.5}}),
    ],
)
def test_errors_have_status_422(server: ServerProcess, path: str, body: Any) -> None:
    response = server.post(path, body)
    assert response.status_code == 422
    assert isinstance(response.json()["error"], str)


def test_unknown_models_and_tasks(server: ServerProcess) -> None:
    assert server.post("/models/nothing", {"inputs": "a"}).status_code == 404
    assert server.post("/models/ende/pipeline/fill-mask", {"inputs": "a"}).status_code == 404
