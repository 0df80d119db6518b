"""Taggers and classifiers to HuggingFace and back: equal logits, or every reason why not."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from exchange.languages import TEXTS, write_bert
from exchange.test_round_trips import assert_same_folders
from parity.weights import shake
from regard.config import build
from regard.data.labelled import ClassifiedCollate, Collate, TaggedCollate
from regard.errors import ModelError
from regard.exchange.huggingface import (
    export_folder,
    import_folder,
    obstacles_after_training,
)
from regard.exchange.huggingface.weights import their_numbering
from regard.models import ARCHITECTURES
from regard.models.base import Model
from regard.models.classifier import ClassifierConfig
from regard.models.folder import ModelFolder, Training, load_model
from regard.models.labelling import LabelConfig, LabelModel
from regard.models.protocol import Vocabulary
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers
from text.learned import LINES, learned

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
LABELS = ("O", "B-name", "I-name", "Größe")
BERTS: dict[str, Any] = {"positions": "learned", "embedding_norm": True, "norm_order": "post"}


def described(
    kind: str, tokenizers: Tokenizers, form: dict[str, Any], *, texts: int = 1
) -> ModelFolder:
    size = tokenizers.source.vocab_size
    settings = {"layers": 2, "width": 24, "heads": 3, "feedforward_width": 32, **form}
    settings |= {"max_positions": 64}
    return ModelFolder(
        build(ARCHITECTURES[kind][0], settings),
        Vocabulary(size, size, True, LABELS),
        tokenizers,
        {"source": None, "target": None},
        Training(64, 1.0, texts=texts),
    )


def drawn_form(kind: str, draw: random.Random) -> dict[str, Any]:
    form = {
        "activation": draw.choice(("relu", "gelu", "silu")),
        "scale_embedding": draw.random() < 0.5,
        "output_bias": draw.random() < 0.5,
        "segments": draw.choice((0, 1, 2)),
        "norm_epsilon": draw.choice((None, 1e-3)),
        "head_dropout": draw.choice((None, 0.2)),
        "pooling": "first",
    }
    return BERTS | form | ({"tanh_layer": True} if kind == "classifier" else {})


def tokenizers_of(family: str, folder: Path) -> Tokenizers:
    """Ours, or those of an imported model."""
    if family == "ours":
        return learned(LINES)
    write_bert(folder / "theirs", family)
    return import_folder(folder / "theirs", folder / "imported").tokenizers


@pytest.mark.parametrize("kind", ["tagger", "classifier"])
@pytest.mark.parametrize("family", ["ours", "BertModel", "RobertaModel"])
@pytest.mark.parametrize("seed", range(2))
@torch.no_grad()
def test_logits_are_theirs(kind: str, family: str, seed: int, tmp_path: Path) -> None:
    tokenizers = tokenizers_of(family, tmp_path)
    folder = described(kind, tokenizers, drawn_form(kind, random.Random(seed)))
    model = folder.model().eval()
    assert isinstance(model, LabelModel)
    assert isinstance(folder.config, LabelConfig)
    shake(model, 0.1)
    name = export_folder(folder, model, tmp_path / "out")
    tail = "ForTokenClassification" if kind == "tagger" else "ForSequenceClassification"
    assert name == ("Roberta" if family == "RobertaModel" else "Bert") + tail
    theirs = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    assert [theirs.config.id2label[n] for n in range(len(LABELS))] == [*LABELS]
    assert_same_scores(folder, model, theirs)
    again = import_folder(tmp_path / "out", tmp_path / "again")
    assert again.vocabulary.labels == LABELS
    assert_same_scores(*load_model(tmp_path / "again", CPU), theirs)
    export_folder(*load_model(tmp_path / "again", CPU), tmp_path / "out again")
    assert_same_folders(tmp_path / "out", tmp_path / "out again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    if family == "ours":
        batch = COLLATE([[tokenizers.source.encode(LINES[0])]])
        assert tokenizer(LINES[0]).input_ids == batch.source.tokens.tolist()


@torch.no_grad()
def assert_same_scores(folder: ModelFolder, model: Model, theirs: Any) -> None:
    """Of our labels, and of theirs at the first subword of each word, or of each text."""
    assert isinstance(folder.config, LabelConfig)
    assert isinstance(model, LabelModel)
    tokenizer = folder.tokenizers.source
    encoded = their_numbering(tokenizer)
    for text in (*TEXTS[:2], LINES[0]):
        words = tokenizer.encode_words(text.split())
        tags = folder.config.kind == "tagger"
        collate: Collate = TaggedCollate(folder.config.start_mark) if tags else COLLATE
        batch = collate([words if tags else [tokenizer.encode(text)]])
        row = torch.tensor([encoded.written(batch.source.tokens)])
        expected = theirs(row).logits[0]
        if tags:
            expected = expected[torch.tensor([0, *map(len, words[:-1])]).cumsum(0) + 1]
        scores = model.scores(model(batch)).view_as(expected)
        assert_close(scores, expected, atol=1e-4, rtol=0)


COLLATE = ClassifiedCollate(SPECIAL.start, ClassifierConfig().max_positions)


@pytest.mark.parametrize("family", ["ours", "BertModel"])
@torch.no_grad()
def test_two_texts_are_two_segments(family: str, tmp_path: Path) -> None:
    tokenizers = tokenizers_of(family, tmp_path)
    form = drawn_form("classifier", random.Random(3)) | {"segments": 2}
    folder = described("classifier", tokenizers, form, texts=2)
    model = folder.model().eval()
    assert isinstance(model, LabelModel)
    shake(model, 0.1)
    name = export_folder(folder, model, tmp_path / "out")
    theirs = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    batch = COLLATE([tokenizers.source.encode_all(LINES[:2])])
    if family == "ours":
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
        rows = tokenizer(*LINES[:2], return_tensors="pt", return_token_type_ids=True)
        assert rows.input_ids[0].tolist() == batch.source.tokens.tolist()
    else:
        ids = torch.tensor([their_numbering(tokenizers.source).written(batch.source.tokens)])
        first = len(tokenizers.source.encode(LINES[0])) + 2
        rows = {
            "input_ids": ids,
            "token_type_ids": (torch.arange(ids.shape[1]) >= first).long()[None],
        }
    assert_close(model.scores(model(batch)), theirs(**rows).logits, atol=2e-5, rtol=0)
    assert import_folder(tmp_path / "out", tmp_path / "again").seen.texts == 2


def test_every_obstacle_is_named_at_once(tmp_path: Path) -> None:
    form = {"positions": "rotary", "crf": True, "characters": 8, "pooling": "mean"}
    folder = described("tagger", learned(LINES), form)
    with pytest.raises(ModelError, match="5 problems") as error:
        export_folder(folder, folder.model(), tmp_path / "out")
    for what in ("rotary", "embedding_norm", "crf", "characters", "pooling"):
        assert what in str(error.value)
    pairs = described("classifier", learned(LINES), BERTS, texts=2)
    found = obstacles_after_training(pairs)
    assert [one.split(" is ")[0] for one in found] == [
        "model.pooling",
        "model.tanh_layer",
        "model.segments",
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"problem_type": "multi_label_classification"}, "problem_type"),
        ({"id2label": {"0": "one"}}, "several different"),
        ({"id2label": {"0": "one", "1": "one"}}, "several different"),
        ({"id2label": {"1": "one", "2": "two"}}, "from 0 on"),
        ({"id2label": ["one", "two"]}, "from 0 on"),
        ({"id2label": {"0": "one", "1": 2}}, "no text"),
        ({"num_texts": 3}, "num_texts"),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, "misshapen"),
    ],
)
def test_other_heads_are_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    write_bert(tmp_path / "theirs", "BertForSequenceClassification")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ModelError, match=reason):
        import_folder(tmp_path / "theirs", tmp_path / "ours")
