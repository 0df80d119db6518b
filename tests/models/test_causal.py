"""A causal language model: what a token may see, packed = alone, cached = uncached."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.models.causal import Causal
from regard.models.language import WritingModel
from toys import WORDS, any_model, sentences

FORMS: dict[str, dict[str, Any]] = {
    "GPT-2": {
        "norm_order": "pre",
        "activation": "gelu_tanh",
        "positions": "learned",
        "scale_embedding": False,
    },
    "post-norm": {},
    "rotary, gated, RMS": {"positions": "rotary", "feedforward": "gated", "norm": "rms"},
    "relative": {"positions": "relative"},
    "convolutions": {"feedforward": "convolution", "norm_order": "pre"},
    "embedding norm": {"embedding_norm": True, "norm_epsilon": 1e-3, "output_bias": True},
    "two tables": {"tied_embeddings": "none", "positions": "none"},
}
every_form = pytest.mark.parametrize("form", FORMS)


def model_of(form: str) -> Causal:
    model = any_model(1, kind="causal", **FORMS[form])
    assert isinstance(model, Causal)
    return model


def logits(model: Causal, *texts: list[int]) -> torch.Tensor:
    """Of all tokens of some texts in one row."""
    text = Ragged.of(texts)
    with torch.no_grad():
        found = model(Batch(text, text))
    return found.project(found.hidden)


@every_form
def test_a_token_sees_nothing_that_comes_later(form: str) -> None:
    model = model_of(form)
    text = sentences(1, seed=3, longest=9)[0] + [5, 6, 7, 8]
    before = logits(model, text)
    for place in range(1, len(text)):
        changed = [*text[:place], *[(token + 1) % WORDS for token in text[place:]]]
        after = logits(model, changed)
        torch.testing.assert_close(after[:place], before[:place])
        assert not torch.allclose(after[place:], before[place:])


@every_form
def test_packed_is_alone(form: str) -> None:
    model = model_of(form)
    texts = sentences(6, seed=4)
    alone = torch.cat([logits(model, text) for text in texts])
    torch.testing.assert_close(logits(model, *texts), alone, rtol=1e-4, atol=1e-5)


@every_form
def test_steps_say_what_one_pass_says(form: str) -> None:
    model = model_of(form)
    texts = [[2, *text[:5], *[9] * (5 - len(text[:5]))] for text in sentences(4, seed=5)]
    rows = torch.tensor(texts)
    state = model.start(Ragged(rows.flatten(), Lengths.of([6] * 4)), room=3)
    stepped = []
    with torch.no_grad():
        for place in range(6):
            state.reach(place + 1, exact=True)
            stepped.append(model.step(rows[:, place : place + 1], state))
    found = torch.cat(stepped, 1).flatten(0, 1)
    torch.testing.assert_close(found, logits(model, *texts), rtol=1e-4, atol=1e-5)


@every_form
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_prompt_goes_on_in_the_same_way_in_any_batch(form: str, beam_size: int) -> None:
    model = model_of(form)
    config = SearchConfig(beam_size=beam_size, max_ratio=1.0, max_extra=8)
    prompts = sentences(5, seed=6)

    def found(some: list[list[int]]) -> list[list[int]]:
        source = Ragged.of([[*prompt, 3] for prompt in some])
        return [one[0].tokens for one in search(model, source, config, prefixes=some)]

    together = found(prompts)
    assert together == [found([prompt])[0] for prompt in prompts]
    for prompt, text in zip(prompts, together, strict=True):
        assert text[: len(prompt)] == prompt


@every_form
@pytest.mark.parametrize("places", [0, 1, 7])
def test_what_is_read_ahead_is_as_if_it_had_been_stepped_through(form: str, places: int) -> None:
    model, beams = model_of(form), 3
    tokens = torch.randint(4, WORDS, (2, places), generator=torch.Generator().manual_seed(0))
    source = Ragged(tokens.flatten(), Lengths.of([places] * 2))
    ahead, stepped = (model.start(source, beams=beams, room=4) for _ in range(2))
    last = torch.tensor([[5, 6, 7], [8, 9, 10]])
    with torch.inference_mode():
        model.read_ahead(tokens, ahead)
        WritingModel.read_ahead(model, tokens, stepped)
        for state in (ahead, stepped):
            state.reorder(torch.tensor([[0, 2, 1], [1, 1, 0]]))
        for place in range(places, places + 3):
            for state in (ahead, stepped):
                state.reach(place + 1, exact=True)
            found, expected = (model.step(last, state) for state in (ahead, stepped))
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
