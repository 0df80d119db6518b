"""Imported encoders with label heads: equal logits, and fine-tuning."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from exchange.language_models import TEXTS, write_bert
from labelled import write_labelled_store, write_tagged_store
from regard.config import build
from regard.data.labelled import ClassifiedCollate, TaggedCollate
from regard.data.store import Store
from regard.exchange.huggingface import import_folder
from regard.models.classifier import ClassifierConfig, ClassifierModel
from regard.models.folder import inference_weights, load_model
from regard.models.labelling import encoder_settings
from regard.models.language import LanguageConfig
from regard.models.protocol import Vocabulary
from regard.models.tagger import TaggerConfig, TaggerModel
from regard.pipelines.labelling import Classifier, Tagger
from regard.tasks.recipes import build_run_config
from regard.text.imported import HuggingFaceTokenizer
from regard.training.initialization import load_stack_weights
from toys import run

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
LABELS = ["a", "b", "c"]


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
@torch.no_grad()
def test_tagger_logits_match_huggingface(family: str, tmp_path: Path) -> None:
    base = write_bert(tmp_path / "hf", f"{family}Model")
    imported = import_folder(tmp_path / "hf", tmp_path / "regard")
    base.config.num_labels = len(LABELS)
    hf_model = getattr(transformers, f"{family}ForTokenClassification")(base.config).eval()
    getattr(hf_model, family.lower()).load_state_dict(base.state_dict(), strict=False)
    assert isinstance(imported.config, LanguageConfig)
    config = build(TaggerConfig, encoder_settings(imported.config))
    vocabulary = Vocabulary(
        imported.vocabulary.source, imported.vocabulary.target, True, tuple(LABELS)
    )
    model = TaggerModel(config, vocabulary).eval()
    load_stack_weights(model, inference_weights(tmp_path / "regard"), tmp_path)
    model.projection.weight[1:] = hf_model.classifier.weight
    assert model.projection.bias is not None
    model.projection.bias[1:] = hf_model.classifier.bias
    tokenizer = imported.tokenizers.source
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    for text in TEXTS[:2]:
        words = tokenizer.encode_words(text.split())
        assert [part for word in words for part in word] == tokenizer.encode(text)
        batch = TaggedCollate(config.decoder_start_id)([words])
        row = torch.tensor([tokenizer.id_mapping.to_imported(batch.source.tokens)])
        firsts = torch.tensor([0, *map(len, words[:-1])]).cumsum(0) + 1
        assert_close(model.scores(model(batch)), hf_model(row).logits[0][firsts], atol=2e-5, rtol=0)


@torch.no_grad()
def test_classifier_logits_match_huggingface(tmp_path: Path) -> None:
    base = write_bert(tmp_path / "hf", "BertModel")
    imported = import_folder(tmp_path / "hf", tmp_path / "regard")
    base.config.num_labels = len(LABELS)
    hf_model = transformers.BertForSequenceClassification(base.config).eval()
    hf_model.bert.load_state_dict(base.state_dict(), strict=False)
    assert isinstance(imported.config, LanguageConfig)
    fields = {**encoder_settings(imported.config), "pooling": "first", "tanh_layer": True}
    config = build(ClassifierConfig, fields)
    vocabulary = Vocabulary(
        imported.vocabulary.source, imported.vocabulary.target, True, tuple(LABELS)
    )
    model = ClassifierModel(config, vocabulary).eval()
    load_stack_weights(model, inference_weights(tmp_path / "regard"), tmp_path)
    assert model.dense is not None
    assert model.projection.bias is not None
    model.dense.weight[:] = hf_model.bert.pooler.dense.weight
    model.dense.bias[:] = hf_model.bert.pooler.dense.bias
    model.projection.weight[1:] = hf_model.classifier.weight
    model.projection.bias[1:] = hf_model.classifier.bias
    tokenizer = imported.tokenizers.source
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    first, second = tokenizer.encode_all(TEXTS[:2])
    for texts in ([first], [first, second]):
        batch = ClassifiedCollate(config.decoder_start_id, config.max_positions)([texts])
        row = torch.tensor([tokenizer.id_mapping.to_imported(batch.source.tokens)])
        segments = torch.zeros_like(row)
        segments[0, len(first) + 2 :] = 1
        expected = hf_model(row, token_type_ids=segments).logits
        assert_close(model.scores(model(batch)), expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_imported_encoders_can_be_fine_tuned(family: str, tmp_path: Path) -> None:
    write_bert(tmp_path / "hf", f"{family}Model")
    imported = import_folder(tmp_path / "hf", tmp_path / "regard")
    for name, write in (("tagged", write_tagged_store), ("labelled", write_labelled_store)):
        (tmp_path / name).mkdir()
        store: Store = write(tmp_path / name, tokenizer=imported.tokenizers)
        changes = {
            "out": str(tmp_path / name / "run"),
            "init_from": str(tmp_path / "regard"),
            "data": {"folder": str(store.folder)},
            "training": {"max_steps": 3, "tensorboard": False},
        }
        run(build_run_config(None, preset=None, changes=changes, assignments=[]), store)
    (tagged,) = Tagger.load(tmp_path / "tagged" / "run").tag(["the run may"])
    assert len(tagged.labels) == 3
    (classified,) = Classifier.load(tmp_path / "labelled" / "run").classify(["a good film"])
    assert classified.label in ("True", "False")
    assert load_model(tmp_path / "tagged" / "run", CPU)[0].config.kind == "tagger"
