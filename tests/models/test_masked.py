"""Masked language model: attention, loss, mask filling and next-sentence prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import build
from regard.data.batch import Batch, SentencePairBatch
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.errors import ConfigError
from regard.evaluation.perplexity import perplexity
from regard.models.masked import Masked, MaskedConfig
from regard.pipelines.mask_codec import encode_with_masks
from regard.pipelines.mask_filler import MaskFiller
from regard.tasks.masked_language_modeling import MaskedObjective
from regard.tasks.recipes import validate_run_config
from regard.text.special import SPECIAL
from regard.training.config import RunConfig, TrainingConfig
from toys import (
    VOCABULARY_SIZE,
    altered,
    random_model,
    run,
    sentences,
    some_run,
    write_model_folder,
    write_text_store,
)

VARIANTS: dict[str, dict[str, Any]] = {
    "BERT": {
        "activation": "gelu",
        "positional_encoding": "learned",
        "scale_embedding": False,
        "num_segments": 2,
        "next_sentence": True,
        "norm_eps": 1e-12,
    },
    "pre-norm, rotary": {
        "norm_order": "pre",
        "positional_encoding": "rotary",
        "embedding_norm": False,
    },
    "no head": {"head": False, "output_bias": False, "tied_embeddings": "none"},
    "relative": {"positional_encoding": "relative"},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def make_model(variant: str) -> Masked:
    model = random_model(1, kind="masked", **VARIANTS[variant])
    assert isinstance(model, Masked)
    return model


@every_variant
@torch.no_grad()
def test_model_is_bidirectional_within_a_text(variant: str) -> None:
    model = make_model(variant)
    texts = sentences(5, seed=4, longest=8)
    alone = [model.logits(Ragged.of([text])) for text in texts]
    torch.testing.assert_close(
        model.logits(Ragged.of(texts)), torch.cat(alone), rtol=1e-4, atol=1e-5
    )
    for position in range(len(texts[0])):
        changed = [*texts[0]]
        changed[position] = (changed[position] + 1) % VOCABULARY_SIZE
        differs = (model.logits(Ragged.of([changed])) - alone[0]).abs().amax(-1) > 1e-5
        assert differs.all()


@every_variant
def test_loss_only_covers_masked_tokens(variant: str) -> None:
    model = make_model(variant)
    read = Ragged.of([[2, 5, 1, 7, 3], [2, 1, 3]])
    target = Ragged(torch.tensor([0, 0, 9, 0, 0, 0, 11, 0]), read.lengths)
    segments = torch.tensor([0, 0, 0, 1, 1, 0, 0, 0]) if model.config.num_segments else None
    batch = Batch(read, target, 6)
    if segments is not None:
        labels = torch.tensor([1, 0])
        batch = SentencePairBatch(read, target, 6, segments=segments, next_sentence_labels=labels)
    with torch.no_grad():
        loss = MaskedObjective(TrainingConfig(label_smoothing=0.0))(model, batch)
        logs = model.logits(read, segments).log_softmax(-1)
        nll = -(logs[2, 9] + logs[6, 11])
        torch.testing.assert_close(loss.nll, nll, rtol=1e-4, atol=1e-4)
        if segments is None:
            torch.testing.assert_close(loss.total, nll, rtol=1e-4, atol=1e-4)
            return
        assert model.next_sentence is not None
        log_probs = model.next_sentence(model.hidden_states(read, segments)[[0, 5]]).log_softmax(-1)
        expected = (
            nll - 2 * (log_probs[0, 1] + log_probs[1, 0]) / 2
        )  # the mean over rows, times two tokens
        torch.testing.assert_close(loss.total, expected, rtol=1e-4, atol=1e-4)


def test_next_sentence_requires_two_segments() -> None:
    with pytest.raises(ConfigError, match="segments=2"):
        build(MaskedConfig, {"next_sentence": True})


@pytest.mark.parametrize("kind", ["masked", "causal", "unilm"])
def test_word_distillation_requires_a_translation_model(kind: str, tmp_path: Path) -> None:
    tree = {"out": str(tmp_path), "model": {"kind": kind}, "training": {"word_distillation": 0.5}}
    with pytest.raises(ConfigError, match="word_distillation"):
        validate_run_config(build(RunConfig, tree))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def filler(store: Store, tmp_path_factory: pytest.TempPathFactory) -> MaskFiller:
    """A model trained on the alphabet."""
    out = tmp_path_factory.mktemp("run") / "run"
    shape = {
        "kind": "masked",
        "d_model": 48,
        "num_heads": 4,
        "ffn_dim": 96,
        "num_layers": 2,
        "dropout": 0.0,
        "norm_order": "pre",
        "max_positions": 32,
    }
    config = some_run(out, store, shape, max_steps=350, checkpoint_every=350, label_smoothing=0.0)
    more = {"masking": {"probability": 0.25}, "batch_tokens": 600}
    run(altered(config, data=more, training={"schedule": "cosine"}), store)
    return MaskFiller.load(out)


def test_masks_are_filled(filler: MaskFiller) -> None:
    # All documents of this corpus have a line break.
    texts = ["c d [MASK] f\ng", "p q r s\nt [MASK] v w", "a b\n[MASK] d e [MASK] g"]
    actual = filler.fill(texts, top_k=3)
    assert [filled.best for filled in actual] == [
        "c d e f\ng",
        "p q r s\nt u v w",
        "a b\nc d e f g",
    ]
    for filled in actual:
        for predictions in filled.blanks:
            values = [prediction.probability for prediction in predictions]
            assert len(values) == 3
            assert values == sorted(values, reverse=True)
            assert sum(values) <= 1.0 + 1e-5
    assert [filler.fill([text], top_k=3)[0].best for text in texts] == [
        filled.best for filled in actual
    ]


def test_line_breaks_are_predicted(filler: MaskFiller) -> None:
    (actual,) = filler.fill(["a b c d [MASK] e f g"], top_k=VOCABULARY_SIZE)
    words = [prediction.word for prediction in actual.blanks[0]]
    assert "\n" in words
    assert "<0x0A>" not in words


def test_texts_with_and_without_masks(filler: MaskFiller) -> None:
    tokenizer = filler.folder.tokenizers.target
    whole = encode_with_masks(tokenizer, "a [MASK] c", 1)
    assert whole == [*tokenizer.encode("a"), 1, *tokenizer.encode("c")]
    assert encode_with_masks(tokenizer, "[MASK]", 1) == [1]
    notices: list[str] = []
    texts = ["a b c", "a [MASK] c", "[MASK] a" + " b" * 40, ""]
    without_mask, filled, too_long, empty = filler.fill(texts, notice=notices.append)
    assert [filled] == filler.fill(["a [MASK] c"])  # independent of other lines
    for text, result in zip(["a b c", texts[2], ""], [without_mask, too_long, empty], strict=True):
        assert (result.text, result.best, result.blanks) == (text, text, [])
    assert [" ".join(notice.split()[:4]) for notice in notices] == [
        "Line 1 has no",
        "Line 3 has 42",
        "Line 4 has no",
    ]
    assert filler.fill(["a b c"]) == [without_mask]  # notices are optional


def test_mask_filling_requires_a_masked_model(store: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model", store, kind="causal")
    with pytest.raises(ConfigError, match="only a model for masked language modeling fills"):
        MaskFiller.load(folder)


def test_pseudo_perplexity_masks_each_token(filler: MaskFiller) -> None:
    model, tokenizer = filler.model, filler.folder.tokenizers.target
    actual = perplexity(model, tokenizer, ["a b c d", "x y\nz"])
    nll = 0.0
    for text in ("a b c d", "x y\nz"):
        ids = tokenizer.encode_lines(text)
        for position, token in enumerate(ids):
            read = [SPECIAL.bos, *ids, SPECIAL.eos]
            read[position + 1] = model.config.mask_id
            with torch.inference_mode():
                nll -= float(model.logits(Ragged.of([read])).log_softmax(-1)[position + 1, token])
    assert actual.nll == pytest.approx(nll, rel=1e-4)
    assert actual.tokens == 8


def test_next_sentence_prediction_learns(store: Store, tmp_path: Path) -> None:
    shape = {
        "kind": "masked",
        "d_model": 48,
        "num_heads": 4,
        "ffn_dim": 96,
        "num_layers": 2,
        "dropout": 0.0,
        "norm_order": "pre",
        "max_positions": 24,
        "num_segments": 2,
        "next_sentence": True,
    }
    config = some_run(tmp_path / "run", store, shape, max_steps=300, checkpoint_every=300)
    run(config, store)
    model = MaskFiller.load(tmp_path / "run").model
    tokenizer = store.tokenizers.source
    rows, labels = [], []
    letters = "abcdefghijklmnopqrstuvwxyz"
    for begin in range(12):
        for label, second in ((0, begin + 5), (1, (begin + 14) % 20)):
            first = tokenizer.encode(" ".join(letters[begin : begin + 5]))
            other = tokenizer.encode(" ".join(letters[second : second + 5]))
            rows.append([SPECIAL.bos, *first, SPECIAL.eos, *other, SPECIAL.eos])
            labels.append(label)
    text = Ragged.of(rows)
    segments = torch.tensor([int(position > 6) for row in rows for position in range(len(row))])
    with torch.inference_mode():
        assert model.next_sentence is not None
        first_tokens = model.hidden_states(text, segments)[text.lengths.offsets[:-1].long()]
        predicted = model.next_sentence(first_tokens).argmax(-1)
    assert (predicted == torch.tensor(labels)).float().mean() >= 0.8
