"""Export of taggers and classifiers to HuggingFace: equal logits, or all problems."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from exchange.language_models import TEXTS, write_bert
from exchange.test_round_trips import assert_same_folders
from parity.weights import shake
from regard.config import build
from regard.data.labelled import ClassifiedCollate, Collate, TaggedCollate
from regard.errors import ModelError
from regard.exchange.huggingface import (
    export_folder,
    export_problems_after_training,
    import_folder,
)
from regard.exchange.huggingface.weights import get_id_mapping
from regard.models import ARCHITECTURES
from regard.models.base import Model
from regard.models.classifier import ClassifierConfig
from regard.models.folder import DataStatistics, ModelFolder, load_model
from regard.models.labelling import LabelConfig, LabelModel
from regard.models.protocol import Vocabulary
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers
from text.toy_tokenizers import LINES, train_toy_tokenizers

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
LABELS = ("O", "B-name", "I-name", "Größe")
BERT_FIELDS: dict[str, Any] = {
    "positional_encoding": "learned",
    "embedding_norm": True,
    "norm_order": "post",
}


def describe_model(
    kind: str, tokenizers: Tokenizers, fields: dict[str, Any], *, texts: int = 1
) -> ModelFolder:
    size = tokenizers.source.vocab_size
    settings = {"num_layers": 2, "d_model": 24, "num_heads": 3, "ffn_dim": 32, **fields}
    settings |= {"max_positions": 64}
    return ModelFolder(
        Vocabulary(size, size, True, LABELS),
        tokenizers,
        {"source": None, "target": None},
        DataStatistics(64, 1.0, texts=texts),
        build(ARCHITECTURES[kind][0], settings),
    )


def draw_fields(kind: str, draw: random.Random) -> dict[str, Any]:
    fields = {
        "activation": draw.choice(("relu", "gelu", "silu")),
        "scale_embedding": draw.random() < 0.5,
        "output_bias": draw.random() < 0.5,
        "num_segments": draw.choice((0, 1, 2)),
        "norm_eps": draw.choice((None, 1e-3)),
        "head_dropout": draw.choice((None, 0.2)),
        "pooling": "first",
    }
    return BERT_FIELDS | fields | ({"tanh_layer": True} if kind == "classifier" else {})


def make_tokenizers(family: str, folder: Path) -> Tokenizers:
    """Return tokenizers of regard, or of an imported model."""
    if family == "regard":
        return train_toy_tokenizers(LINES)
    write_bert(folder / "hf", family)
    return import_folder(folder / "hf", folder / "imported").tokenizers


@pytest.mark.parametrize("kind", ["tagger", "classifier"])
@pytest.mark.parametrize("family", ["regard", "BertModel", "RobertaModel"])
@pytest.mark.parametrize("seed", range(2))
@torch.no_grad()
def test_logits_match_huggingface(kind: str, family: str, seed: int, tmp_path: Path) -> None:
    tokenizers = make_tokenizers(family, tmp_path)
    folder = describe_model(kind, tokenizers, draw_fields(kind, random.Random(seed)))
    model = folder.model().eval()
    assert isinstance(model, LabelModel)
    assert isinstance(folder.config, LabelConfig)
    shake(model, 0.1)
    name = export_folder(folder, model, tmp_path / "out")
    tail = "ForTokenClassification" if kind == "tagger" else "ForSequenceClassification"
    assert name == ("Roberta" if family == "RobertaModel" else "Bert") + tail
    hf_model = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    assert [hf_model.config.id2label[n] for n in range(len(LABELS))] == [*LABELS]
    assert_same_scores(folder, model, hf_model)
    again = import_folder(tmp_path / "out", tmp_path / "again")
    assert again.vocabulary.labels == LABELS
    assert_same_scores(*load_model(tmp_path / "again", CPU), hf_model)
    export_folder(*load_model(tmp_path / "again", CPU), tmp_path / "out again")
    assert_same_folders(tmp_path / "out", tmp_path / "out again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    if family == "regard":
        batch = COLLATE([[tokenizers.source.encode(LINES[0])]])
        assert tokenizer(LINES[0]).input_ids == batch.source.tokens.tolist()


@torch.no_grad()
def assert_same_scores(folder: ModelFolder, model: Model, hf_model: Any) -> None:
    """Compare label scores at the first subword of each word, or of each text."""
    assert isinstance(folder.config, LabelConfig)
    assert isinstance(model, LabelModel)
    tokenizer = folder.tokenizers.source
    id_mapping = get_id_mapping(tokenizer)
    for text in (*TEXTS[:2], LINES[0]):
        words = tokenizer.encode_words(text.split())
        tags = folder.config.kind == "tagger"
        collate: Collate = TaggedCollate(folder.config.decoder_start_id) if tags else COLLATE
        batch = collate([words if tags else [tokenizer.encode(text)]])
        row = torch.tensor([id_mapping.to_imported(batch.source.tokens)])
        expected = hf_model(row).logits[0]
        if tags:
            expected = expected[torch.tensor([0, *map(len, words[:-1])]).cumsum(0) + 1]
        scores = model.scores(model(batch)).view_as(expected)
        assert_close(scores, expected, atol=1e-4, rtol=0)


COLLATE = ClassifiedCollate(SPECIAL.bos, ClassifierConfig().max_positions)


@pytest.mark.parametrize("family", ["regard", "BertModel"])
@torch.no_grad()
def test_pairs_of_texts_have_two_segments(family: str, tmp_path: Path) -> None:
    tokenizers = make_tokenizers(family, tmp_path)
    fields = draw_fields("classifier", random.Random(3)) | {"num_segments": 2}
    folder = describe_model("classifier", tokenizers, fields, texts=2)
    model = folder.model().eval()
    assert isinstance(model, LabelModel)
    shake(model, 0.1)
    name = export_folder(folder, model, tmp_path / "out")
    hf_model = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    batch = COLLATE([tokenizers.source.encode_all(LINES[:2])])
    if family == "regard":
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
        rows = tokenizer(*LINES[:2], return_tensors="pt", return_token_type_ids=True)
        assert rows.input_ids[0].tolist() == batch.source.tokens.tolist()
    else:
        ids = torch.tensor([get_id_mapping(tokenizers.source).to_imported(batch.source.tokens)])
        first = len(tokenizers.source.encode(LINES[0])) + 2
        rows = {
            "input_ids": ids,
            "token_type_ids": (torch.arange(ids.shape[1]) >= first).long()[None],
        }
    assert_close(model.scores(model(batch)), hf_model(**rows).logits, atol=2e-5, rtol=0)
    assert import_folder(tmp_path / "out", tmp_path / "again").data_statistics.texts == 2


def test_all_export_problems_are_reported(tmp_path: Path) -> None:
    fields = {
        "positional_encoding": "rotary",
        "crf": True,
        "char_embedding_dim": 8,
        "pooling": "mean",
    }
    folder = describe_model("tagger", train_toy_tokenizers(LINES), fields)
    with pytest.raises(ModelError, match="5 problems") as error:
        export_folder(folder, folder.model(), tmp_path / "out")
    for problem in ("rotary", "embedding_norm", "crf", "char_embedding_dim", "pooling"):
        assert problem in str(error.value)
    pairs = describe_model("classifier", train_toy_tokenizers(LINES), BERT_FIELDS, texts=2)
    problems = export_problems_after_training(pairs)
    assert [text.split(" is ")[0] for text in problems] == [
        "model.pooling",
        "model.tanh_layer",
        "model.num_segments",
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"problem_type": "multi_label_classification"}, "problem_type"),
        ({"id2label": {"0": "one"}}, "two different"),
        ({"id2label": {"0": "one", "1": "one"}}, "two different"),
        ({"id2label": {"1": "one", "2": "two"}}, "from 0 on"),
        ({"id2label": ["one", "two"]}, "from 0 on"),
        ({"id2label": {"0": "one", "1": 2}}, "not strings"),
        ({"num_texts": 3}, "num_texts"),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, "mismatched"),
    ],
)
def test_unsupported_label_heads_are_refused(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    write_bert(tmp_path / "hf", "BertForSequenceClassification")
    path = tmp_path / "hf" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ModelError, match=reason):
        import_folder(tmp_path / "hf", tmp_path / "regard")
