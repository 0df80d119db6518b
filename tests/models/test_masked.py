"""A masked language model: what a token may see, packed = alone, and what it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import build
from regard.data.batch import Batch, SentencePairBatch
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.filler import MaskFiller, ids_with_blanks
from regard.errors import ConfigError
from regard.evaluation.perplexity import perplexity
from regard.models.masked import Masked, MaskedConfig
from regard.tasks.masked_language_modeling import MaskedObjective
from regard.tasks.recipes import checked
from regard.text.special import SPECIAL
from regard.training.config import RunConfig, TrainingConfig
from toys import (
    WORDS,
    altered,
    any_model,
    run,
    sentences,
    some_run,
    write_model_folder,
    write_text_store,
)

FORMS: dict[str, dict[str, Any]] = {
    "BERT": {
        "activation": "gelu",
        "positions": "learned",
        "scale_embedding": False,
        "segments": 2,
        "next_sentence": True,
        "norm_epsilon": 1e-12,
    },
    "pre-norm, rotary": {"norm_order": "pre", "positions": "rotary", "embedding_norm": False},
    "no head": {"head": False, "output_bias": False, "tied_embeddings": "none"},
    "relative": {"positions": "relative"},
}
every_form = pytest.mark.parametrize("form", FORMS)


def model_of(form: str) -> Masked:
    model = any_model(1, kind="masked", **FORMS[form])
    assert isinstance(model, Masked)
    return model


@every_form
@torch.no_grad()
def test_a_token_sees_all_of_its_text_and_no_other(form: str) -> None:
    model = model_of(form)
    texts = sentences(5, seed=4, longest=8)
    alone = [model.logits(Ragged.of([text])) for text in texts]
    torch.testing.assert_close(
        model.logits(Ragged.of(texts)), torch.cat(alone), rtol=1e-4, atol=1e-5
    )
    for place in range(len(texts[0])):
        changed = [*texts[0]]
        changed[place] = (changed[place] + 1) % WORDS
        differs = (model.logits(Ragged.of([changed])) - alone[0]).abs().amax(-1) > 1e-5
        assert differs.all()


@every_form
def test_only_hidden_words_count(form: str) -> None:
    model = model_of(form)
    read = Ragged.of([[2, 5, 1, 7, 3], [2, 1, 3]])
    target = Ragged(torch.tensor([0, 0, 9, 0, 0, 0, 11, 0]), read.lengths)
    segments = torch.tensor([0, 0, 0, 1, 1, 0, 0, 0]) if model.config.segments else None
    batch = Batch(read, target, 6)
    if segments is not None:
        labels = torch.tensor([1, 0])
        batch = SentencePairBatch(read, target, 6, segments=segments, next_sentence_labels=labels)
    with torch.no_grad():
        found = MaskedObjective(TrainingConfig(label_smoothing=0.0))(model, batch)
        logs = model.logits(read, segments).log_softmax(-1)
        nll = -(logs[2, 9] + logs[6, 11])
        torch.testing.assert_close(found.nll, nll, rtol=1e-4, atol=1e-4)
        if segments is None:
            torch.testing.assert_close(found.total, nll, rtol=1e-4, atol=1e-4)
            return
        assert model.next_sentence is not None
        told = model.next_sentence(model.read(read, segments)[[0, 5]]).log_softmax(-1)
        both = nll - 2 * (told[0, 1] + told[1, 0]) / 2  # the mean of rows, for two words
        torch.testing.assert_close(found.total, both, rtol=1e-4, atol=1e-4)


def test_settings_that_contradict_one_another() -> None:
    with pytest.raises(ConfigError, match="segments=2"):
        build(MaskedConfig, {"next_sentence": True})


@pytest.mark.parametrize("kind", ["masked", "causal", "unilm"])
def test_no_teacher_for_rows(kind: str, tmp_path: Path) -> None:
    tree = {"out": str(tmp_path), "model": {"kind": kind}, "training": {"word_distillation": 0.5}}
    with pytest.raises(ConfigError, match="word_distillation"):
        checked(build(RunConfig, tree))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def filler(store: Store, tmp_path_factory: pytest.TempPathFactory) -> MaskFiller:
    """A model that has learned the alphabet."""
    out = tmp_path_factory.mktemp("run") / "run"
    shape = {
        "kind": "masked",
        "width": 48,
        "heads": 4,
        "feedforward_width": 96,
        "layers": 2,
        "dropout": 0.0,
        "norm_order": "pre",
        "max_positions": 32,
    }
    config = some_run(out, store, shape, max_steps=350, checkpoint_every=350, label_smoothing=0.0)
    more = {"masking": {"share": 0.25}, "batch_tokens": 600}
    run(altered(config, data=more, training={"schedule": "cosine"}), store)
    return MaskFiller.load(out)


def test_it_fills_in_what_is_missing(filler: MaskFiller) -> None:
    # All documents of this corpus have a line break.
    texts = ["c d [MASK] f\ng", "p q r s\nt [MASK] v w", "a b\n[MASK] d e [MASK] g"]
    found = filler.fill(texts, top_k=3)
    assert [one.best for one in found] == [
        "c d e f\ng",
        "p q r s\nt u v w",
        "a b\nc d e f g",
    ]
    for one in found:
        for guesses in one.blanks:
            values = [guess.probability for guess in guesses]
            assert len(values) == 3
            assert values == sorted(values, reverse=True)
            assert sum(values) <= 1.0 + 1e-5
    assert [filler.fill([text], top_k=3)[0].best for text in texts] == [one.best for one in found]


def test_a_line_break_is_a_line_break(filler: MaskFiller) -> None:
    (found,) = filler.fill(["a b c d [MASK] e f g"], top_k=WORDS)
    words = [guess.word for guess in found.blanks[0]]
    assert "\n" in words
    assert "<0x0A>" not in words


def test_blanks(filler: MaskFiller) -> None:
    tokenizer = filler.folder.tokenizers.target
    whole = ids_with_blanks(tokenizer, "a [MASK] c", 1)
    assert whole == [*tokenizer.encode("a"), 1, *tokenizer.encode("c")]
    assert ids_with_blanks(tokenizer, "[MASK]", 1) == [1]
    notices: list[str] = []
    texts = ["a b c", "a [MASK] c", "[MASK] a" + " b" * 40, ""]
    nothing, one, too_long, empty = filler.fill(texts, notice=notices.append, first_line=5)
    assert [one] == filler.fill(["a [MASK] c"])  # whatever lines are beside it
    for text, left in zip(["a b c", texts[2], ""], [nothing, too_long, empty], strict=True):
        assert (left.text, left.best, left.blanks) == (text, text, [])
    assert [" ".join(notice.split()[:4]) for notice in notices] == [
        "Line 5 has no",
        "Line 7 has 42",
        "Line 8 has no",
    ]
    assert filler.fill(["a b c"]) == [nothing]  # and nobody has to listen


def test_only_masked_models_fill(store: Store, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model", store, kind="causal")
    with pytest.raises(ConfigError, match="only a model for masked language modeling fills"):
        MaskFiller.load(folder)


def test_pseudo_perplexity_hides_each_token_in_turn(filler: MaskFiller) -> None:
    model, tokenizer = filler.model, filler.folder.tokenizers.target
    found = perplexity(model, tokenizer, ["a b c d", "x y\nz"])
    nll = 0.0
    for text in ("a b c d", "x y\nz"):
        ids = tokenizer.encode_lines(text)
        for place, token in enumerate(ids):
            read = [SPECIAL.start, *ids, SPECIAL.end]
            read[place + 1] = model.config.mask_id
            with torch.inference_mode():
                nll -= float(model.logits(Ragged.of([read])).log_softmax(-1)[place + 1, token])
    assert found.nll == pytest.approx(nll, rel=1e-4)
    assert found.tokens == 8


def test_it_learns_what_follows(store: Store, tmp_path: Path) -> None:
    shape = {
        "kind": "masked",
        "width": 48,
        "heads": 4,
        "feedforward_width": 96,
        "layers": 2,
        "dropout": 0.0,
        "norm_order": "pre",
        "max_positions": 24,
        "segments": 2,
        "next_sentence": True,
    }
    config = some_run(tmp_path / "run", store, shape, max_steps=300, checkpoint_every=300)
    run(config, store)
    model = MaskFiller.load(tmp_path / "run").model
    tokenizer = store.tokenizers.source
    rows, wanted = [], []
    letters = "abcdefghijklmnopqrstuvwxyz"
    for begin in range(12):
        for stranger, second in ((0, begin + 5), (1, (begin + 14) % 20)):
            first = tokenizer.encode(" ".join(letters[begin : begin + 5]))
            other = tokenizer.encode(" ".join(letters[second : second + 5]))
            rows.append([SPECIAL.start, *first, SPECIAL.end, *other, SPECIAL.end])
            wanted.append(stranger)
    text = Ragged.of(rows)
    segments = torch.tensor([int(place > 6) for row in rows for place in range(len(row))])
    with torch.inference_mode():
        assert model.next_sentence is not None
        first_tokens = model.read(text, segments)[text.lengths.offsets[:-1].long()]
        told = model.next_sentence(first_tokens).argmax(-1)
    assert (told == torch.tensor(wanted)).float().mean() >= 0.8
