"""Every tensor of a foreign file counts: whatever is changed, logits are theirs, or it is refused.

HuggingFace's own package is the oracle: it loads the same folder.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.testing import assert_close

from exchange.huggingface import test_bert as berts
from exchange.huggingface import test_gpt2 as gpt2s
from exchange.huggingface import test_marian as marians
from exchange.huggingface import test_xlnet as xlnets
from exchange.languages import write_bert, write_gpt2, write_xlnet
from exchange.marians import write_marian
from exchange.test_exported_labels import assert_same_scores
from regard.attention.positions import sinusoids
from regard.errors import ModelError
from regard.exchange.huggingface import import_folder
from regard.models.folder import load_model

CPU = torch.device("cpu")
transformers = pytest.importorskip("transformers")
FILE = "model.safetensors"
MADE_UP = "made_up"
SAMPLE = 4  # tensors of the blocks; all others are changed one by one


@dataclass(frozen=True)
class Case:
    """A tiny model of theirs, and what compares it with the import of its folder."""

    write: Callable[[Path], Any]
    agree: Callable[[Path, Any, Path], None]  # ours, their model, their folder
    added: dict[str, Tensor]  # what other versions of their package store as well

    @property
    def fixed(self) -> set[str]:
        """What is added and can have one value only."""
        return {name for name in self.added if "pooler" not in name}


def _marians_agree(ours: Path, theirs: Any, folder: Path) -> None:
    assert_close(*marians.both_logits(ours, theirs, folder), atol=1e-4, rtol=0)


def _gpt2s_agree(ours: Path, theirs: Any, folder: Path) -> None:
    assert_close(*gpt2s.both_logits(ours, theirs), atol=1e-4, rtol=0)


def _berts_agree(ours: Path, theirs: Any, folder: Path) -> None:
    assert_close(*berts.both(ours, theirs), atol=1e-4, rtol=0)


def _xlnets_agree(ours: Path, theirs: Any, folder: Path) -> None:
    xlnets.loaded(ours, theirs).agree()


def _marian(**form: Any) -> Case:
    one = {"encoder_layers": 1, "decoder_layers": 1} | form
    names = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
    return Case(
        lambda folder: write_marian(folder, **one),
        _marians_agree,
        {name: sinusoids(64, 32, "halves") for name in names},
    )


def _gpt2(**form: Any) -> Case:
    mask = torch.ones(128, 128, dtype=torch.bool).tril()[None, None]
    return Case(
        lambda folder: write_gpt2(folder, n_layer=1, **form),
        _gpt2s_agree,
        {"transformer.h.0.attn.bias": mask, "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)},
    )


def _bert(name: str, **form: Any) -> Case:
    prefix = "" if name.endswith("Model") else "bert." if name.startswith("Bert") else "roberta."
    pooler = {f"{prefix}pooler.dense.weight": torch.randn(32, 32)} | {
        f"{prefix}pooler.dense.bias": torch.randn(32)
    }
    buffers = {
        f"{prefix}embeddings.position_ids": torch.arange(70)[None],
        f"{prefix}embeddings.token_type_ids": torch.zeros(1, 70, dtype=torch.long),
    }
    return Case(
        lambda folder: write_bert(folder, name, num_hidden_layers=1, **form),
        _berts_agree,
        buffers | pooler,
    )


def _labelling(name: str) -> Case:
    return Case(
        lambda folder: write_bert(folder, name, num_hidden_layers=1, num_labels=3),
        lambda ours, theirs, _: assert_same_scores(*load_model(ours, CPU), theirs),
        {},
    )


def _xlnet(**form: Any) -> Case:
    return Case(lambda folder: write_xlnet(folder, n_layer=1, **form), _xlnets_agree, {})


UNTIED = {"tie_word_embeddings": False}
CASES = {
    "Marian": _marian(),
    "Marian, one table untied": _marian(**UNTIED),
    "Marian, two vocabularies": _marian(separate=True),
    "GPT-2": _gpt2(),
    "GPT-2, untied": _gpt2(**UNTIED),
    "BERT": _bert("BertForMaskedLM"),
    "BERT, untied": _bert("BertForMaskedLM", **UNTIED),
    "BERT, pre-training": _bert("BertForPreTraining"),
    "BERT, no head": _bert("BertModel"),
    "RoBERTa": _bert("RobertaForMaskedLM"),
    "XLNet": _xlnet(),
    "BERT, tagger": _labelling("BertForTokenClassification"),
    "BERT, classifier": _labelling("BertForSequenceClassification"),
    "RoBERTa, tagger": _labelling("RobertaForTokenClassification"),
    "RoBERTa, classifier": _labelling("RobertaForSequenceClassification"),
}


def _changes(state: dict[str, Tensor], stored: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """What to write over, or beside, the tensors of a file: one change at a time."""
    both = state | stored
    blocks = [name for name in state if ".0." in name]
    left_out = random.Random(3).sample(blocks, max(0, len(blocks) - SAMPLE))
    for name, tensor in ((n, t) for n, t in both.items() if n not in left_out):
        if name not in stored:
            yield {name: tensor.clone()}
        noise = 0.3 * torch.randn(tensor.shape)
        changed = (tensor + noise) if tensor.is_floating_point() else 1 - tensor.long()
        yield {name: changed.to(tensor.dtype)}
    name = random.choice(sorted(stored))
    yield {f"{name}.{MADE_UP}": torch.randn(3)}
    yield {f"{MADE_UP}.{name}": stored[name].clone()}


@pytest.mark.parametrize("name", CASES)
def test_whatever_is_changed_counts(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    theirs = case.write(tmp_path / "theirs")
    stored = load_file(tmp_path / "theirs" / FILE) | case.added
    state = theirs.state_dict()
    refused = set()
    for change in _changes(state, stored):
        save_file(stored | change, tmp_path / "theirs" / FILE, {"format": "pt"})
        [changed] = change
        error = _imported_or_refused(case, theirs, tmp_path)
        if error is not None:
            assert changed in error
            refused.add(changed)
    assert {one for one in refused if MADE_UP in one} == refused - case.fixed - state.keys()
    assert len([one for one in refused if MADE_UP in one]) == 2
    assert all(one.endswith("embed_positions.weight") for one in refused & state.keys())


def _imported_or_refused(case: Case, theirs: Any, folder: Path) -> str | None:
    """Compare the import of a folder with theirs; the message, if it is refused instead."""
    try:
        import_folder(folder / "theirs", folder / "ours")
    except ModelError as error:
        return str(error)
    oracle = type(theirs).from_pretrained(folder / "theirs").eval()
    case.agree(folder / "ours", oracle, folder / "theirs")
    shutil.rmtree(folder / "ours")
    return None


MARIAN_TABLES = [
    *("model.shared.weight", "model.encoder.embed_tokens.weight"),
    *("model.decoder.embed_tokens.weight", "lm_head.weight"),
]
TABLES = {
    "Marian": MARIAN_TABLES,
    "Marian, one table untied": MARIAN_TABLES,
    "GPT-2": ["transformer.wte.weight", "lm_head.weight"],
    "BERT": [
        *("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        *("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ],
    "RoBERTa": [
        *("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
        *("lm_head.bias", "lm_head.decoder.bias"),
    ],
    "XLNet": ["transformer.word_embedding.weight", "lm_loss.weight"],
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_tied_as_theirs(name: str, tmp_path: Path) -> None:
    """Any of the tables that may be tied are stored, some of them equal."""
    case, draw = CASES[name], random.Random(3)
    theirs = case.write(tmp_path / "theirs")
    state = theirs.state_dict()
    rest = {n: t for n, t in load_file(tmp_path / "theirs" / FILE).items() if n not in TABLES[name]}
    imported = 0
    for _ in range(8):
        present = [one for one in TABLES[name] if draw.random() < 0.85]
        equal = draw.random() < 0.3
        tables = {
            one: state[one] + (0 if equal else torch.randn(state[one].shape)) for one in present
        }
        save_file(rest | tables, tmp_path / "theirs" / FILE, {"format": "pt"})
        missing = _missing(theirs, tmp_path / "theirs")
        error = _imported_or_refused(case, theirs, tmp_path) if not missing else "missing"
        imported += error is None
    assert imported >= 2


def _missing(theirs: Any, folder: Path) -> set[str]:
    """What their loader fills with random numbers, so that nothing can be compared."""
    _, report = type(theirs).from_pretrained(folder, output_loading_info=True)
    return set(report["missing_keys"])


def test_half_precision_rounds_what_is_redundant(tmp_path: Path) -> None:
    case = CASES["Marian"]
    case.write(tmp_path / "theirs")
    stored = load_file(tmp_path / "theirs" / FILE) | case.added
    for dtype in (torch.float16, torch.bfloat16):
        save_file({n: t.to(dtype) for n, t in stored.items()}, tmp_path / "theirs" / FILE)
        import_folder(tmp_path / "theirs", tmp_path / str(dtype))


def test_one_name_stands_for_one_tensor(tmp_path: Path) -> None:
    CASES["BERT"].write(tmp_path / "theirs")
    stored = load_file(tmp_path / "theirs" / FILE)
    name = "bert.embeddings.LayerNorm.weight"
    save_file(
        stored | {name.replace("weight", "gamma"): torch.ones(32)}, tmp_path / "theirs" / FILE
    )
    with pytest.raises(ModelError, match=f"{name} a second time"):
        import_folder(tmp_path / "theirs", tmp_path / "ours")


def test_weights_are_floating_point_numbers_and_tables_have_their_size(tmp_path: Path) -> None:
    CASES["GPT-2"].write(tmp_path / "theirs")
    stored = load_file(tmp_path / "theirs" / FILE)
    name = "transformer.wte.weight"
    for changed, reason in (
        (stored[name].long(), f"{name} as int64"),
        (stored[name][1:].clone(), "have a table of"),
        (torch.cat([stored[name], stored[name]]), "have a table of"),
    ):
        save_file(stored | {name: changed}, tmp_path / "theirs" / FILE)
        with pytest.raises(ModelError, match=reason):
            import_folder(tmp_path / "theirs", tmp_path / "ours")
