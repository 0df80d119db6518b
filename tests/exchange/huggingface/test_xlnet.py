"""Import and export of XLNet: equal logits, also with two streams and memory; problems."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import CliRunner

from exchange.language_models import TEXTS, describe_model, write_xlnet
from parity.permutations import LENGTH, ROWS, as_theirs, batch_of, logits, orders
from parity.weights import shake
from regard.cli import build_app
from regard.config import build
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.exchange.huggingface.weights import get_id_mapping
from regard.models.folder import load_model
from regard.models.permuted import Permuted, PermutedConfig
from regard.text.id_mapping import IdMapping
from regard.text.imported import HuggingFaceTokenizer
from regard.text.special import SPECIAL
from text.toy_tokenizers import LINES, train_toy_tokenizers
from toys import TINY

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
NAME = "XLNetLMHeadModel"

VARIANTS: list[dict[str, Any]] = [
    {},
    {"ff_activation": "relu", "tie_word_embeddings": False},
    {"ff_activation": "gelu_new", "clamp_len": 5, "layer_norm_eps": 1e-3},
    {"ff_activation": "silu", "n_head": 1, "n_layer": 3, "d_model": 32, "vocab_size": 90},
    {"mem_len": None, "same_length": True, "untie_r": False, "summary_type": "first"},
    {"mem_len": 20, "use_mems_train": True, "n_layer": 1, "n_head": 6},
]


@dataclass(frozen=True)
class Both:
    """An imported model and the HuggingFace model, for comparison."""

    model: Permuted
    hf_model: Any
    id_mapping: IdMapping

    def assert_close_logits(self, actual: Any, expected: Any) -> None:
        ids = self.id_mapping.to_internal(range(self.id_mapping.size))
        assert_close(logits(actual)[..., ids], expected.logits, atol=2e-5, rtol=0)

    def to_hf_ids(self, tokens: Tensor) -> Tensor:
        return torch.tensor(self.id_mapping.to_imported(tokens.flatten())).view_as(tokens)

    def texts(self, seed: int) -> Tensor:
        """Return random internal ids, including EOS. (B, T)"""
        torch.manual_seed(seed)
        return torch.randint(SPECIAL.eos, len(self.id_mapping.imported_ids), (ROWS, LENGTH))

    @torch.no_grad()
    def assert_equal(self) -> None:
        """Compare logits with one and two streams and with memory; then with token types."""
        memory, past = None, None
        for seed, permuted in ((1, False), (2, True), (3, True), (4, False)):
            tokens = self.texts(seed)
            ranks = orders(seed=seed) if permuted else None
            actual = self.model(batch_of(tokens, ranks=ranks), memory=memory)
            more = {} if ranks is None else as_theirs(ranks)
            expected = self.hf_model(self.to_hf_ids(tokens), mems=past, use_mems=True, **more)
            self.assert_close_logits(actual, expected)
            memory, past = actual.memory, expected.mems
            assert memory is not None
            for state, hf_state in zip(memory.states, past, strict=True):
                assert_close(state, hf_state.transpose(0, 1), atol=2e-5, rtol=0)
        types = (torch.arange(LENGTH) >= torch.tensor([[4], [7], [11]])).long()
        actual = self.model(batch_of(tokens, types=types))
        self.assert_close_logits(
            actual, self.hf_model(self.to_hf_ids(tokens), token_type_ids=types)
        )


def load_both(folder: Path, hf_model: Any) -> Both:
    description, model = load_model(folder, CPU)
    assert isinstance(model, Permuted)
    return Both(model, hf_model, get_id_mapping(description.tokenizers.source))


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_import_and_export_keep_logits(fields: dict[str, Any], tmp_path: Path) -> None:
    hf_model = write_xlnet(tmp_path / "hf", **fields)
    import_folder(tmp_path / "hf", tmp_path / "regard")
    load_both(tmp_path / "regard", hf_model).assert_equal()
    assert export_folder(*load_model(tmp_path / "regard", CPU), tmp_path / "again") == NAME
    again = transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "again").eval()
    load_both(tmp_path / "regard", again).assert_equal()
    first, last = (
        import_folder(tmp_path / folder, tmp_path / f"{folder} here").config
        for folder in ("hf", "again")
    )
    assert first == last


def test_model_without_head(tmp_path: Path) -> None:
    hf_model = write_xlnet(tmp_path / "hf", "XLNetModel")
    import_folder(tmp_path / "hf", tmp_path / "regard")
    both = load_both(tmp_path / "regard", hf_model)
    tokens = both.texts(1)
    with torch.no_grad():
        hidden = both.model(batch_of(tokens)).hidden.unflatten(0, (ROWS, -1))
        expected = hf_model(both.to_hf_ids(tokens)).last_hidden_state
    assert_close(hidden, expected, atol=2e-5, rtol=0)
    export_folder(*load_model(tmp_path / "regard", CPU), tmp_path / "again")
    again = transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "again").eval()
    load_both(tmp_path / "regard", again).assert_equal()


def test_documents_are_token_types_with_segment_documents(tmp_path: Path) -> None:
    hf_model = write_xlnet(tmp_path / "hf")
    import_folder(tmp_path / "hf", tmp_path / "regard")
    both = load_both(tmp_path / "regard", hf_model)
    tokens = both.texts(1)
    tokens[tokens == SPECIAL.eos] += 1
    tokens[:, 5] = SPECIAL.eos
    both.model.config = replace(both.model.config, segment_documents=True)
    types = (torch.arange(LENGTH) >= 5).long().expand(ROWS, -1)
    with torch.no_grad():
        expected = hf_model(both.to_hf_ids(tokens), token_type_ids=types)
        both.assert_close_logits(both.model(batch_of(tokens)), expected)


def test_tokenization_matches_huggingface(tmp_path: Path) -> None:
    """With spiece.model, and with the tokenizer.json that HuggingFace writes."""
    write_xlnet(tmp_path / "hf")
    hf_tokenizer = transformers.XLNetTokenizer.from_pretrained(tmp_path / "hf")
    from_pieces = import_folder(tmp_path / "hf", tmp_path / "one").tokenizers.source
    hf_tokenizer.save_pretrained(tmp_path / "hf")
    (tmp_path / "hf" / "spiece.model").unlink(missing_ok=True)
    from_json = import_folder(tmp_path / "hf", tmp_path / "two").tokenizers.source
    for tokenizer in (from_pieces, from_json):
        assert isinstance(tokenizer, HuggingFaceTokenizer)
        for text in (*TEXTS, "``the'' old<sep>house <mask>"):
            ids = hf_tokenizer(text, add_special_tokens=False).input_ids
            assert tokenizer.id_mapping.to_imported(tokenizer.encode(text)) == ids
            known = hf_tokenizer.decode(ids, skip_special_tokens=True)
            assert tokenizer.decode(tokenizer.encode(text)) == known


def test_special_tokens_are_exported(tmp_path: Path) -> None:
    write_xlnet(tmp_path / "hf")
    tokenizer = import_folder(tmp_path / "hf", tmp_path / "regard").tokenizers.source
    assert tokenizer.ids_to_tokens(range(4)) == ["<pad>", "<unk>", "<s>", "<eod>"]
    assert tokenizer.ids_to_tokens([tokenizer.line_break]) == ["<eop>"]
    export_folder(*load_model(tmp_path / "regard", CPU), tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    names = ("unk", "bos", "eos", "cls", "sep", "pad", "mask")
    assert [getattr(again, f"{name}_token_id") for name in names] == list(range(7))
    hf_tokenizer = transformers.XLNetTokenizer.from_pretrained(tmp_path / "hf")
    for text in TEXTS:
        pairs = [
            tokenizer(text, "never", return_token_type_ids=True)
            for tokenizer in (again, hf_tokenizer)
        ]
        assert pairs[0].input_ids == pairs[1].input_ids
        assert pairs[0].token_type_ids == pairs[1].token_type_ids
        assert again(text).input_ids == hf_tokenizer(text).input_ids
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert [config[f"{name}_token_id"] for name in ("bos", "eos", "pad")] == [1, 2, 5]


def test_all_import_problems_are_reported(tmp_path: Path) -> None:
    write_xlnet(tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    more = {
        "architectures": ["XLNetForSequenceClassification"],
        "attn_type": "uni",
        "bi_data": True,
        "reuse_len": 4,
        "ff_activation": "tanh",
        "d_head": 5,
        "vocab_size": 20,
    }
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    with pytest.raises(ModelError, match="7 problems") as error:
        import_folder(tmp_path / "hf", tmp_path / "regard")
    for problem in (
        "architectures",
        "uni",
        "bi_data",
        "reuse_len",
        "tanh",
        "d_head",
        "vocab_size is 20",
    ):
        assert problem in str(error.value)


@pytest.mark.parametrize("content", [b"no model", None])
def test_missing_and_damaged_tokenizers_are_refused(content: bytes | None, tmp_path: Path) -> None:
    write_xlnet(tmp_path / "hf")
    path = tmp_path / "hf" / "spiece.model"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"spiece\.model"):
        import_folder(tmp_path / "hf", tmp_path / "regard")


REGARD_VARIANTS: dict[str, dict[str, Any]] = {
    "default": {"output_bias": False, "memory_length": 8},
    "the paper's sinusoids": {
        "sinusoid_layout": "interleaved",
        "memory_length": 4,
        "max_distance": 6,
    },
    "two tables, scaled": {"tied_embeddings": "none", "scale_embedding": True, "memory_length": 8},
    "one table, scaled": {
        "scale_embedding": True,
        "memory_length": 8,
        "evaluation_memory_length": 9,
    },
}


@pytest.mark.parametrize("name", REGARD_VARIANTS)
def test_exported_models_have_equal_logits(name: str, tmp_path: Path) -> None:
    tokenizers = train_toy_tokenizers(LINES)
    fields = TINY["permuted"] | REGARD_VARIANTS[name] | {"segment_documents": False}
    folder = describe_model(build(PermutedConfig, fields), tokenizers)
    model = folder.model().eval()
    assert isinstance(model, Permuted)
    shake(model, 0.1)
    assert export_folder(folder, model, tmp_path / "hf") == NAME
    hf_model = transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "hf").eval()
    Both(model, hf_model, get_id_mapping(tokenizers.source)).assert_equal()
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in LINES[:5]:
        assert hf_tokenizer(text).input_ids == tokenizers.source.encode_lines(text)


def test_all_export_problems_are_reported(tmp_path: Path) -> None:
    fields = {
        "norm": "rms",
        "norm_order": "pre",
        "ffn_type": "gated",
        "embedding_norm": True,
        "final_norm": True,
        "attention": {"select": "hard"},
    }
    folder = describe_model(
        build(PermutedConfig, TINY["permuted"] | fields), train_toy_tokenizers(LINES)
    )
    with pytest.raises(ModelError, match="6 problems") as error:
        export_folder(folder, folder.model(), tmp_path / "hf")
    for problem in (
        "norm is",
        "norm_order",
        "ffn_type",
        "embedding_norm",
        "final_norm",
        "select",
    ):
        assert problem in str(error.value)


def test_import_evaluate_and_export_commands(tmp_path: Path) -> None:
    write_xlnet(tmp_path / "hf")
    text = tmp_path / "text"
    text.write_text("the dog sleeps\nand the cat runs\n\na small old house\n")
    imported = str(tmp_path / "regard")
    run = CliRunner().invoke
    result = run(build_app(), ["import", str(tmp_path / "hf"), "--out", imported])
    assert result.exit_code == 0, result.output
    assert "regard evaluate" in result.output
    result = run(build_app(), ["evaluate", imported, "--text", str(text)])
    assert result.exit_code == 0, result.output
    out = str(tmp_path / "again")
    result = run(build_app(), ["export", imported, "--to", "huggingface", "--out", out])
    assert result.exit_code == 0, result.output
    assert NAME in result.output
