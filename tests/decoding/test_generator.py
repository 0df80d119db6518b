"""Texts from prompts, and perplexities, by a model that was trained for them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.generator import Generator
from regard.decoding.score import token_gains
from regard.decoding.translator import Translator
from regard.errors import ConfigError, ModelError
from regard.evaluation.perplexity import documents_of, perplexity
from regard.text.special import SPECIAL
from toys import run, some_run, write_model_folder, write_reversal_store, write_text_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def folder(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned the alphabet."""
    out = tmp_path_factory.mktemp("run") / "run"
    shape = {
        "kind": "causal",
        "width": 48,
        "heads": 4,
        "feedforward_width": 96,
        "dropout": 0.0,
        "norm_order": "pre",
        "max_positions": 24,
    }
    config = some_run(out, store, shape, max_steps=150, checkpoint_every=50, label_smoothing=0.0)
    run(config, store)
    return out


@pytest.fixture(scope="module")
def generator(folder: Path) -> Generator:
    return Generator.load(folder)


def test_it_learned_the_alphabet(generator: Generator) -> None:
    (found,) = generator.generate(["c d e f g"], max_tokens=8, beam_size=1)
    letters = found.continuations[0].text.replace("\n", " ").split()
    assert letters == list("hijklmno")[: len(letters)]
    assert len(letters) >= 2


@pytest.mark.parametrize("bare", [False, True])
def test_room_is_what_the_search_has(store: Store, tmp_path: Path, bare: bool) -> None:
    shape = {"kind": "causal", "max_positions": 16, "bare_prompts": bare}
    generator = Generator.load(write_model_folder(tmp_path, store, **shape))
    most = 16 - 3 - (not bare)
    assert generator.has_room("a b c", most)
    # Of a text of ten letters the end is read, so that there is room.
    assert generator.has_room(" ".join("abcdefghij"), 8 - (not bare))
    assert not generator.has_room("a b c", most + 1)
    shortest = most - 1 if bare else most + 2  # the prompt is forced, or read before
    less, full, more = (
        generator.generate(["a b c"], max_tokens=tokens, sample=True, min_length=shortest)
        for tokens in (most - 1, most, most + 1)
    )
    assert less != full == more


def test_a_stream_is_what_comes_at_once(generator: Generator) -> None:
    for keywords in ({"beam_size": 1}, {"sample": True, "temperature": 1.5, "seed": 3}):
        for prompt in ("a b c", "x\ny", ""):
            (whole,) = generator.generate([prompt], max_tokens=12, **keywords)
            told: list[str] = []
            generator.stream(prompt, told.append, max_tokens=12, **keywords)
            assert "".join(told) == whole.continuations[0].text


def test_draws_are_the_same_in_any_batch(generator: Generator) -> None:
    prompts = ["a b c", "x", "m n", "q r s t u"]
    keywords = {"sample": True, "top_k": 5, "top_beams": 3, "seed": 7, "max_tokens": 8}
    together = generator.generate(prompts, **keywords)  # type: ignore[arg-type]
    alone = [generator.generate([prompt], **keywords)[0] for prompt in prompts]  # type: ignore[arg-type]
    texts = [[c.text for c in one.continuations] for one in together]
    assert texts == [[c.text for c in one.continuations] for one in alone]
    assert all(len(one) == 3 for one in texts)
    other = generator.generate(prompts, **{**keywords, "seed": 8})  # type: ignore[arg-type]
    assert [[c.text for c in one.continuations] for one in other] != texts


def test_a_long_prompt_keeps_its_end(generator: Generator) -> None:
    letters = " ".join("abcdefghijklmnopqrstuvwxyzabcdefgh")
    (found,) = generator.generate([letters], max_tokens=4, beam_size=1)
    assert "i" in found.continuations[0].text


def test_perplexity_by_windows(generator: Generator, store: Store) -> None:
    model, tokenizer = generator.model, generator.tokenizer
    documents = ["a b c d\ne f g", "x y z " * 20 + "a"]
    found = perplexity(model, tokenizer, documents, stride=24)
    texts = [[*tokenizer.encode_lines(text), SPECIAL.end] for text in documents]
    assert found.tokens == sum(map(len, texts))
    assert found.words == 7 + 61
    # By the definition: each token from as much as the window shows.
    nll = 0.0
    for stride in (24, 5):
        nll = 0.0
        for ids in texts:
            for place, token in enumerate(ids):
                end = 24 if place < 24 else 24 + -(-(place - 23) // stride) * stride
                begin = max(0, min(end, len(ids)) - 24)
                read = [model.start_mark, *ids][begin : place + 1]
                batch = Batch(Ragged.of([read]), Ragged.of([[0] * (len(read) - 1) + [token]]))
                with torch.inference_mode():
                    nll -= float(token_gains(model, batch)[-1])
        found = perplexity(model, tokenizer, documents, stride=stride)
        assert found.nll == pytest.approx(nll, rel=1e-4)
        assert found.per_token == pytest.approx(math.exp(nll / found.tokens), rel=1e-3)
    with pytest.raises(ConfigError, match="1 to 24"):
        perplexity(model, tokenizer, documents, stride=25)


def test_documents_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one\ntwo\n\n\nthree\n")
    assert documents_of(tmp_path / "text") == ["one\ntwo", "three"]


def test_what_a_model_is_not_for(folder: Path, tmp_path: Path) -> None:
    pairs = write_reversal_store(tmp_path, valid=False)
    translates = write_model_folder(tmp_path / "model", pairs)
    with pytest.raises(ConfigError, match="only a model for language modeling generates"):
        Generator.load(translates)
    with pytest.raises((ConfigError, ModelError), match="does not translate"):
        Translator.load(folder)
    with pytest.raises(ConfigError, match="Prepare with"):
        run(some_run(tmp_path / "run", pairs, {"kind": "causal"}), pairs)
