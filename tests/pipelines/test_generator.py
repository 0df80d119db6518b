"""Text generation and perplexity, with a model that was trained on the alphabet."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.score import token_log_probs
from regard.errors import ConfigError, ModelError
from regard.evaluation.perplexity import perplexity, read_documents
from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translator
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
        "d_model": 48,
        "num_heads": 4,
        "ffn_dim": 96,
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


def test_generates_the_alphabet(generator: Generator) -> None:
    (generation,) = generator.generate(["c d e f g"], max_tokens=8, beam_size=1)
    letters = generation.continuations[0].text.replace("\n", " ").split()
    assert letters == list("hijklmno")[: len(letters)]
    assert len(letters) >= 2


@pytest.mark.parametrize("bare", [False, True])
def test_fits_context_matches_the_limit_of_the_search(
    store: Store, tmp_path: Path, bare: bool
) -> None:
    shape = {"kind": "causal", "max_positions": 16, "bare_prompts": bare}
    generator = Generator.load(write_model_folder(tmp_path, store, **shape))
    most = 16 - 3 - (not bare)
    assert generator.fits_context("a b c", most)
    # A prompt of ten letters is truncated on the left.
    assert generator.fits_context(" ".join("abcdefghij"), 8 - (not bare))
    assert not generator.fits_context("a b c", most + 1)
    shortest = most - 1 if bare else most + 2  # the prompt is a forced prefix, or prefilled
    less, full, more = (
        generator.generate(["a b c"], max_tokens=tokens, sample=True, min_length=shortest)
        for tokens in (most - 1, most, most + 1)
    )
    assert less != full == more


@pytest.mark.parametrize("bare", [False, True])
def test_next_tokens_are_the_distribution_of_the_search(
    store: Store, tmp_path: Path, bare: bool
) -> None:
    shape = {"kind": "causal", "max_positions": 16, "bare_prompts": bare}
    generator = Generator.load(write_model_folder(tmp_path, store, **shape))
    for prompt in ("a b", "c", ""):
        tokens = generator.next_tokens(prompt, top_k=1000)
        assert len(tokens) == generator.folder.vocabulary.target
        probabilities = [token.probability for token in tokens]
        assert sum(probabilities) == pytest.approx(1, abs=1e-4)
        assert probabilities == sorted(probabilities, reverse=True)
        assert [token.text for token in tokens if token.is_end] == [""]
        letter = next(token for token in tokens if token.text.strip().isalpha())
        [samples] = generator.generate([prompt], sample=True, num_hypotheses=200, max_tokens=1)
        texts = [continuation.text for continuation in samples.continuations]
        assert texts.count(letter.text) / 200 == pytest.approx(letter.probability, abs=0.12)
    assert generator.next_tokens("a b", top_k=2) == generator.next_tokens("a b", top_k=5)[:2]


def test_next_token_of_the_alphabet(generator: Generator) -> None:
    assert generator.next_tokens("c d e f g")[0].text.strip() == "h"


def test_stream_matches_generate(generator: Generator) -> None:
    for keywords in ({"beam_size": 1}, {"sample": True, "temperature": 1.5, "seed": 3}):
        for prompt in ("a b c", "x\ny", ""):
            (expected,) = generator.generate([prompt], max_tokens=12, **keywords)
            parts: list[str] = []
            generator.stream(prompt, parts.append, max_tokens=12, **keywords)
            assert "".join(parts) == expected.continuations[0].text


def test_samples_do_not_depend_on_the_batch(generator: Generator) -> None:
    prompts = ["a b c", "x", "m n", "q r s t u"]
    keywords = {"sample": True, "top_k": 5, "num_hypotheses": 3, "seed": 7, "max_tokens": 8}
    together = generator.generate(prompts, **keywords)  # type: ignore[arg-type]
    alone = [generator.generate([prompt], **keywords)[0] for prompt in prompts]  # type: ignore[arg-type]
    texts = [[c.text for c in generation.continuations] for generation in together]
    assert texts == [[c.text for c in generation.continuations] for generation in alone]
    assert all(len(continuations) == 3 for continuations in texts)
    other = generator.generate(prompts, **{**keywords, "seed": 8})  # type: ignore[arg-type]
    assert [[c.text for c in generation.continuations] for generation in other] != texts


def test_long_prompt_is_truncated_on_the_left(generator: Generator) -> None:
    letters = " ".join("abcdefghijklmnopqrstuvwxyzabcdefgh")
    (generation,) = generator.generate([letters], max_tokens=4, beam_size=1)
    assert "i" in generation.continuations[0].text


def test_perplexity_by_windows(generator: Generator, store: Store) -> None:
    model, tokenizer = generator.model, generator.tokenizer
    documents = ["a b c d\ne f g", "x y z " * 20 + "a"]
    result = perplexity(model, tokenizer, documents, stride=24)
    texts = [[*tokenizer.encode_lines(text), SPECIAL.eos] for text in documents]
    assert result.tokens == sum(map(len, texts))
    assert result.words == 7 + 61
    # By definition: each token is predicted from the part of the window before it.
    nll = 0.0
    for stride in (24, 5):
        nll = 0.0
        for ids in texts:
            for position, token in enumerate(ids):
                end = 24 if position < 24 else 24 + -(-(position - 23) // stride) * stride
                start = max(0, min(end, len(ids)) - 24)
                context = [model.decoder_start_id, *ids][start : position + 1]
                target = Ragged.of([[0] * (len(context) - 1) + [token]])
                batch = Batch(Ragged.of([context]), target).to(model.device)
                with torch.inference_mode():
                    nll -= float(token_log_probs(model, batch)[-1])
        result = perplexity(model, tokenizer, documents, stride=stride)
        assert result.nll == pytest.approx(nll, rel=1e-4)
        assert result.per_token == pytest.approx(math.exp(nll / result.tokens), rel=1e-3)
    with pytest.raises(ConfigError, match="1 to 24"):
        perplexity(model, tokenizer, documents, stride=25)


def test_documents_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one\ntwo\n\n\nthree\n")
    assert read_documents(tmp_path / "text") == ["one\ntwo", "three"]


def test_models_of_other_tasks_are_refused(folder: Path, tmp_path: Path) -> None:
    pairs = write_reversal_store(tmp_path, valid=False)
    translation_model = write_model_folder(tmp_path / "model", pairs)
    with pytest.raises(ConfigError, match="only a model for language modeling generates"):
        Generator.load(translation_model)
    with pytest.raises((ConfigError, ModelError), match="does not translate"):
        Translator.load(folder)
    with pytest.raises(ConfigError, match="Prepare the data with"):
        run(some_run(tmp_path / "run", pairs, {"kind": "causal"}), pairs)
