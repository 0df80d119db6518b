"""Changed tensors of HuggingFace folders: logits match those of transformers, or import fails."""

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
from exchange.language_models import write_bert, write_gpt2, write_xlnet
from exchange.marian_models import write_marian
from exchange.test_exported_labels import assert_same_scores
from regard.attention.positions import sinusoids
from regard.errors import ModelError
from regard.exchange.huggingface import import_folder
from regard.models.folder import load_model

CPU = torch.device("cpu")
transformers = pytest.importorskip("transformers")
FILE = "model.safetensors"
UNKNOWN_TENSOR = "made_up"
SAMPLE = 4  # tensors of blocks to change; of the others, each is changed


@dataclass(frozen=True)
class Case:
    """A tiny HuggingFace model, and a comparison with its import."""

    write: Callable[[Path], Any]
    assert_equal: Callable[[Path, Any, Path], None]  # imported folder, HuggingFace model and folder
    added: dict[str, Tensor]  # tensors that other versions of transformers store

    @property
    def fixed(self) -> set[str]:
        """Added tensors with a fixed value."""
        return {name for name in self.added if "pooler" not in name}


def _assert_equal_marian(imported_folder: Path, hf_model: Any, folder: Path) -> None:
    assert_close(*marians.both_logits(imported_folder, hf_model, folder), atol=1e-4, rtol=0)


def _assert_equal_gpt2(imported_folder: Path, hf_model: Any, folder: Path) -> None:
    assert_close(*gpt2s.both_logits(imported_folder, hf_model), atol=1e-4, rtol=0)


def _assert_equal_bert(imported_folder: Path, hf_model: Any, folder: Path) -> None:
    assert_close(*berts.both_outputs(imported_folder, hf_model), atol=1e-4, rtol=0)


def _assert_equal_xlnet(imported_folder: Path, hf_model: Any, folder: Path) -> None:
    xlnets.load_both(imported_folder, hf_model).assert_equal()


def _marian(**fields: Any) -> Case:
    small = {"encoder_layers": 1, "decoder_layers": 1} | fields
    names = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
    return Case(
        lambda folder: write_marian(folder, **small),
        _assert_equal_marian,
        {name: sinusoids(64, 32, "halves") for name in names},
    )


def _gpt2(**fields: Any) -> Case:
    mask = torch.ones(128, 128, dtype=torch.bool).tril()[None, None]
    return Case(
        lambda folder: write_gpt2(folder, n_layer=1, **fields),
        _assert_equal_gpt2,
        {"transformer.h.0.attn.bias": mask, "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)},
    )


def _bert(name: str, **fields: Any) -> Case:
    prefix = "" if name.endswith("Model") else "bert." if name.startswith("Bert") else "roberta."
    pooler = {f"{prefix}pooler.dense.weight": torch.randn(32, 32)} | {
        f"{prefix}pooler.dense.bias": torch.randn(32)
    }
    buffers = {
        f"{prefix}embeddings.position_ids": torch.arange(70)[None],
        f"{prefix}embeddings.token_type_ids": torch.zeros(1, 70, dtype=torch.long),
    }
    return Case(
        lambda folder: write_bert(folder, name, num_hidden_layers=1, **fields),
        _assert_equal_bert,
        buffers | pooler,
    )


def _labelling(name: str) -> Case:
    return Case(
        lambda folder: write_bert(folder, name, num_hidden_layers=1, num_labels=3),
        lambda imported_folder, hf_model, _: assert_same_scores(
            *load_model(imported_folder, CPU), hf_model
        ),
        {},
    )


def _xlnet(**fields: Any) -> Case:
    return Case(lambda folder: write_xlnet(folder, n_layer=1, **fields), _assert_equal_xlnet, {})


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
    """Yield changed or additional tensors, one at a time."""
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
    yield {f"{name}.{UNKNOWN_TENSOR}": torch.randn(3)}
    yield {f"{UNKNOWN_TENSOR}.{name}": stored[name].clone()}


@pytest.mark.parametrize("name", CASES)
def test_changed_tensors_have_an_effect_or_are_refused(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    hf_model = case.write(tmp_path / "hf")
    stored = load_file(tmp_path / "hf" / FILE) | case.added
    state = hf_model.state_dict()
    refused = set()
    for change in _changes(state, stored):
        save_file(stored | change, tmp_path / "hf" / FILE, {"format": "pt"})
        [changed] = change
        error = _imported_or_refused(case, hf_model, tmp_path)
        if error is not None:
            assert changed in error
            refused.add(changed)
    assert {
        tensor_name for tensor_name in refused if UNKNOWN_TENSOR in tensor_name
    } == refused - case.fixed - state.keys()
    assert len([tensor_name for tensor_name in refused if UNKNOWN_TENSOR in tensor_name]) == 2
    assert all(
        tensor_name.endswith("embed_positions.weight") for tensor_name in refused & state.keys()
    )


def _imported_or_refused(case: Case, hf_model: Any, folder: Path) -> str | None:
    """Compare the import with HuggingFace; return the error message if it is refused."""
    try:
        import_folder(folder / "hf", folder / "regard")
    except ModelError as error:
        return str(error)
    reloaded = type(hf_model).from_pretrained(folder / "hf").eval()
    case.assert_equal(folder / "regard", reloaded, folder / "hf")
    shutil.rmtree(folder / "regard")
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
def test_embeddings_are_tied_as_in_huggingface(name: str, tmp_path: Path) -> None:
    """A random subset of the tied tables is stored, some of them equal."""
    case, draw = CASES[name], random.Random(3)
    hf_model = case.write(tmp_path / "hf")
    state = hf_model.state_dict()
    rest = {n: t for n, t in load_file(tmp_path / "hf" / FILE).items() if n not in TABLES[name]}
    imported = 0
    for _ in range(8):
        present = [table for table in TABLES[name] if draw.random() < 0.85]
        equal = draw.random() < 0.3
        tables = {
            table: state[table] + (0 if equal else torch.randn(state[table].shape))
            for table in present
        }
        save_file(rest | tables, tmp_path / "hf" / FILE, {"format": "pt"})
        missing = _missing(hf_model, tmp_path / "hf")
        error = _imported_or_refused(case, hf_model, tmp_path) if not missing else "missing"
        imported += error is None
    assert imported >= 2


def _missing(hf_model: Any, folder: Path) -> set[str]:
    """Return the tensors that transformers initializes at random, which cannot be compared."""
    _, report = type(hf_model).from_pretrained(folder, output_loading_info=True)
    return set(report["missing_keys"])


def test_redundant_tensors_may_be_rounded_to_half_precision(tmp_path: Path) -> None:
    case = CASES["Marian"]
    case.write(tmp_path / "hf")
    stored = load_file(tmp_path / "hf" / FILE) | case.added
    for dtype in (torch.float16, torch.bfloat16):
        save_file({n: t.to(dtype) for n, t in stored.items()}, tmp_path / "hf" / FILE)
        import_folder(tmp_path / "hf", tmp_path / str(dtype))


def test_duplicate_tensors_are_refused(tmp_path: Path) -> None:
    CASES["BERT"].write(tmp_path / "hf")
    stored = load_file(tmp_path / "hf" / FILE)
    name = "bert.embeddings.LayerNorm.weight"
    save_file(stored | {name.replace("weight", "gamma"): torch.ones(32)}, tmp_path / "hf" / FILE)
    with pytest.raises(ModelError, match=f"duplicate of {name}"):
        import_folder(tmp_path / "hf", tmp_path / "regard")


def test_tensors_of_wrong_type_or_size_are_refused(tmp_path: Path) -> None:
    CASES["GPT-2"].write(tmp_path / "hf")
    stored = load_file(tmp_path / "hf" / FILE)
    name = "transformer.wte.weight"
    for changed, reason in (
        (stored[name].long(), f"{name} as int64"),
        (stored[name][1:].clone(), "embeddings instead of"),
        (torch.cat([stored[name], stored[name]]), "embeddings instead of"),
    ):
        save_file(stored | {name: changed}, tmp_path / "hf" / FILE)
        with pytest.raises(ModelError, match=reason):
            import_folder(tmp_path / "hf", tmp_path / "regard")
