"""The completions of OpenAI, with its client."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from regard.api import load
from serving_process import STORED, ServerProcess

pytestmark = pytest.mark.filterwarnings("ignore::regard.config.RenamedWarning")


@pytest.fixture
def client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_completions(client: openai.OpenAI) -> None:
    generator = load(STORED / "causal", device="cpu")
    [expected] = generator.generate(["mira"], max_tokens=8, beam_size=1)
    answer = client.completions.create(model="causal", prompt="mira", max_tokens=8, temperature=0)
    assert answer.choices[0].text == expected.continuations[0].text
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    [sampled] = generator.generate(["mira"], max_tokens=8, sample=True, seed=7, num_hypotheses=2)
    answer = client.completions.create(
        model="causal", prompt=["mira", "sen"], max_tokens=8, temperature=1, seed=7, n=2
    )
    texts = [choice.text for choice in answer.choices]
    assert texts[:2] == [each.text for each in sampled.continuations]
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]


def test_streaming(client: openai.OpenAI) -> None:
    options = {"model": "causal", "prompt": "mira", "max_tokens": 12, "temperature": 0}
    whole = client.completions.create(**options).choices[0]  # type: ignore[call-overload]
    chunks = [*client.completions.create(**options, stream=True)]  # type: ignore[call-overload]
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.text
    assert chunks[-1].choices[0].finish_reason is not None
    assert len(chunks) > 2
    word = whole.text.split()[1]
    stopped = client.completions.create(**options, stop=word).choices[0]  # type: ignore[call-overload]
    streamed = client.completions.create(**options, stop=word, stream=True)  # type: ignore[call-overload]
    assert stopped.text == whole.text[: whole.text.index(word)]
    assert stopped.finish_reason == "stop"
    assert "".join(chunk.choices[0].text for chunk in streamed) == stopped.text


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()][:2] == ["ende", "deen"]
    assert client.models.retrieve("causal").owned_by == "regard"


def test_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no model 'gpt-4'"):
        client.completions.create(model="gpt-4", prompt="mira")
    with pytest.raises(openai.BadRequestError, match="is a model for translation"):
        client.completions.create(model="ende", prompt="mira")
    with pytest.raises(openai.BadRequestError, match="logprobs is not supported"):
        client.completions.create(model="causal", prompt="mira", logprobs=3)
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        client.completions.create(model="causal", prompt="mira", max_tokens=10**6)
