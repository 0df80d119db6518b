"""Imported encoders under our heads: their logits from equal weights, and training from them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from exchange.languages import TEXTS, write_bert
from labelled import write_labelled_store, write_tagged_store
from regard.config import build
from regard.data.labelled import ClassifiedCollate, TaggedCollate
from regard.data.store import Store
from regard.decoding.labeller import Classifier, Tagger
from regard.exchange.huggingface import import_folder
from regard.models.classifier import ClassifierConfig, ClassifierModel
from regard.models.folder import load_model, shown_weights
from regard.models.labelling import stack_settings
from regard.models.language import LanguageConfig
from regard.models.protocol import Vocabulary
from regard.models.tagger import TaggerConfig, TaggerModel
from regard.tasks.recipes import run_config
from regard.text.foreign import LibraryTokenizer
from regard.training.begin import put_stack
from toys import run

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
LABELS = ["a", "b", "c"]


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
@torch.no_grad()
def test_words_are_judged_as_theirs(family: str, tmp_path: Path) -> None:
    base = write_bert(tmp_path / "theirs", f"{family}Model")
    old = import_folder(tmp_path / "theirs", tmp_path / "ours")
    base.config.num_labels = len(LABELS)
    theirs = getattr(transformers, f"{family}ForTokenClassification")(base.config).eval()
    getattr(theirs, family.lower()).load_state_dict(base.state_dict(), strict=False)
    assert isinstance(old.config, LanguageConfig)
    config = build(TaggerConfig, stack_settings(old.config))
    vocabulary = Vocabulary(old.vocabulary.source, old.vocabulary.target, True, tuple(LABELS))
    ours = TaggerModel(config, vocabulary).eval()
    put_stack(ours, shown_weights(tmp_path / "ours"), tmp_path)
    ours.projection.weight[1:] = theirs.classifier.weight
    assert ours.projection.bias is not None
    ours.projection.bias[1:] = theirs.classifier.bias
    tokenizer = old.tokenizers.source
    assert isinstance(tokenizer, LibraryTokenizer)
    for text in TEXTS[:2]:
        words = tokenizer.encode_words(text.split())
        assert [part for word in words for part in word] == tokenizer.encode(text)
        batch = TaggedCollate(config.start_mark)([words])
        row = torch.tensor([tokenizer.numbering.written(batch.source.tokens)])
        firsts = torch.tensor([0, *map(len, words[:-1])]).cumsum(0) + 1
        assert_close(ours.scores(ours(batch)), theirs(row).logits[0][firsts], atol=2e-5, rtol=0)


@torch.no_grad()
def test_pairs_of_texts_are_judged_as_theirs(tmp_path: Path) -> None:
    base = write_bert(tmp_path / "theirs", "BertModel")
    old = import_folder(tmp_path / "theirs", tmp_path / "ours")
    base.config.num_labels = len(LABELS)
    theirs = transformers.BertForSequenceClassification(base.config).eval()
    theirs.bert.load_state_dict(base.state_dict(), strict=False)
    assert isinstance(old.config, LanguageConfig)
    form = {**stack_settings(old.config), "pooling": "first", "tanh_layer": True}
    config = build(ClassifierConfig, form)
    vocabulary = Vocabulary(old.vocabulary.source, old.vocabulary.target, True, tuple(LABELS))
    ours = ClassifierModel(config, vocabulary).eval()
    put_stack(ours, shown_weights(tmp_path / "ours"), tmp_path)
    assert ours.dense is not None
    assert ours.projection.bias is not None
    ours.dense.weight[:] = theirs.bert.pooler.dense.weight
    ours.dense.bias[:] = theirs.bert.pooler.dense.bias
    ours.projection.weight[1:] = theirs.classifier.weight
    ours.projection.bias[1:] = theirs.classifier.bias
    tokenizer = old.tokenizers.source
    assert isinstance(tokenizer, LibraryTokenizer)
    one, two = tokenizer.encode_all(TEXTS[:2])
    for texts in ([one], [one, two]):
        batch = ClassifiedCollate(config.start_mark, config.max_positions)([texts])
        row = torch.tensor([tokenizer.numbering.written(batch.source.tokens)])
        segments = torch.zeros_like(row)
        segments[0, len(one) + 2 :] = 1
        expected = theirs(row, token_type_ids=segments).logits
        assert_close(ours.scores(ours(batch)), expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_they_are_tuned(family: str, tmp_path: Path) -> None:
    write_bert(tmp_path / "theirs", f"{family}Model")
    old = import_folder(tmp_path / "theirs", tmp_path / "ours")
    for name, write in (("tagged", write_tagged_store), ("labelled", write_labelled_store)):
        (tmp_path / name).mkdir()
        store: Store = write(tmp_path / name, tokenizer=old.tokenizers)
        changes = {
            "out": str(tmp_path / name / "run"),
            "init_from": str(tmp_path / "ours"),
            "data": {"folder": str(store.folder)},
            "training": {"max_steps": 3, "tensorboard": False},
        }
        run(run_config(None, preset=None, changes=changes, assignments=[]), store)
    (tagged,) = Tagger.load(tmp_path / "tagged" / "run").tag(["the run may"])
    assert len(tagged.labels) == 3
    (found,) = Classifier.load(tmp_path / "labelled" / "run").classify(["a good film"])
    assert found.label in ("True", "False")
    assert load_model(tmp_path / "tagged" / "run", CPU)[0].config.kind == "tagger"
