"""XLNet from HuggingFace and back: equal logits, by two streams and with memory; obstacles."""

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

from exchange.languages import TEXTS, own_folder, write_xlnet
from parity.permutations import LENGTH, ROWS, as_theirs, batch_of, logits, orders
from parity.weights import shake
from regard.cli import build_app
from regard.config import build
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.exchange.huggingface.weights import their_numbering
from regard.models.folder import load_model
from regard.models.permuted import Permuted, PermutedConfig
from regard.text.foreign import LibraryTokenizer
from regard.text.numbering import Numbering
from regard.text.special import SPECIAL
from text.learned import LINES, learned
from toys import TINY

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
NAME = "XLNetLMHeadModel"

FORMS: list[dict[str, Any]] = [
    {},
    {"ff_activation": "relu", "tie_word_embeddings": False},
    {"ff_activation": "gelu_new", "clamp_len": 5, "layer_norm_eps": 1e-3},
    {"ff_activation": "silu", "n_head": 1, "n_layer": 3, "d_model": 32, "vocab_size": 90},
    {"mem_len": None, "same_length": True, "untie_r": False, "summary_type": "first"},
    {"mem_len": 20, "use_mems_train": True, "n_layer": 1, "n_head": 6},
]


@dataclass(frozen=True)
class Both:
    """A model of ours and one of theirs, asked the same."""

    ours: Permuted
    theirs: Any
    numbering: Numbering

    def same(self, mine: Any, there: Any) -> None:
        words = self.numbering.ours(range(self.numbering.size))
        assert_close(logits(mine)[..., words], there.logits, atol=2e-5, rtol=0)

    def as_theirs(self, tokens: Tensor) -> Tensor:
        return torch.tensor(self.numbering.written(tokens.flatten())).view_as(tokens)

    def texts(self, seed: int) -> Tensor:
        """Our ids, ends of documents among them. (B, T)"""
        torch.manual_seed(seed)
        return torch.randint(SPECIAL.end, len(self.numbering.theirs), (ROWS, LENGTH))

    @torch.no_grad()
    def agree(self) -> None:
        """One stream and two, each with a memory of what came before; then with segments."""
        memory, past = None, None
        for seed, permuted in ((1, False), (2, True), (3, True), (4, False)):
            tokens = self.texts(seed)
            ranks = orders(seed=seed) if permuted else None
            mine = self.ours(batch_of(tokens, ranks=ranks), memory=memory)
            more = {} if ranks is None else as_theirs(ranks)
            there = self.theirs(self.as_theirs(tokens), mems=past, use_mems=True, **more)
            self.same(mine, there)
            memory, past = mine.memory, there.mems
            assert memory is not None
            for own, other in zip(memory.states, past, strict=True):
                assert_close(own, other.transpose(0, 1), atol=2e-5, rtol=0)
        types = (torch.arange(LENGTH) >= torch.tensor([[4], [7], [11]])).long()
        mine = self.ours(batch_of(tokens, types=types))
        self.same(mine, self.theirs(self.as_theirs(tokens), token_type_ids=types))


def loaded(folder: Path, theirs: Any) -> Both:
    description, model = load_model(folder, CPU)
    assert isinstance(model, Permuted)
    return Both(model, theirs, their_numbering(description.tokenizers.source))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_logits_are_equal_there_and_back(form: dict[str, Any], tmp_path: Path) -> None:
    theirs = write_xlnet(tmp_path / "theirs", **form)
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    loaded(tmp_path / "ours", theirs).agree()
    assert export_folder(*load_model(tmp_path / "ours", CPU), tmp_path / "again") == NAME
    again = transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "again").eval()
    loaded(tmp_path / "ours", again).agree()
    first, last = (
        import_folder(tmp_path / one, tmp_path / f"{one} here").config
        for one in ("theirs", "again")
    )
    assert first == last


def test_a_model_without_scores_of_words(tmp_path: Path) -> None:
    theirs = write_xlnet(tmp_path / "theirs", "XLNetModel")
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    both = loaded(tmp_path / "ours", theirs)
    tokens = both.texts(1)
    with torch.no_grad():
        hidden = both.ours(batch_of(tokens)).hidden.unflatten(0, (ROWS, -1))
        wanted = theirs(both.as_theirs(tokens)).last_hidden_state
    assert_close(hidden, wanted, atol=2e-5, rtol=0)
    export_folder(*load_model(tmp_path / "ours", CPU), tmp_path / "again")
    again = transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "again").eval()
    loaded(tmp_path / "ours", again).agree()


def test_documents_are_segments_there_if_asked(tmp_path: Path) -> None:
    theirs = write_xlnet(tmp_path / "theirs")
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    both = loaded(tmp_path / "ours", theirs)
    tokens = both.texts(1)
    tokens[tokens == SPECIAL.end] += 1
    tokens[:, 5] = SPECIAL.end
    both.ours.config = replace(both.ours.config, segment_documents=True)
    types = (torch.arange(LENGTH) >= 5).long().expand(ROWS, -1)
    with torch.no_grad():
        there = theirs(both.as_theirs(tokens), token_type_ids=types)
        both.same(both.ours(batch_of(tokens)), there)


def test_text_is_cut_as_theirs(tmp_path: Path) -> None:
    """From SentencePiece's file, and from the tokenizer.json that they make of it."""
    write_xlnet(tmp_path / "theirs")
    theirs = transformers.XLNetTokenizer.from_pretrained(tmp_path / "theirs")
    from_pieces = import_folder(tmp_path / "theirs", tmp_path / "one").tokenizers.source
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "spiece.model").unlink(missing_ok=True)
    from_json = import_folder(tmp_path / "theirs", tmp_path / "two").tokenizers.source
    for tokenizer in (from_pieces, from_json):
        assert isinstance(tokenizer, LibraryTokenizer)
        for text in (*TEXTS, "``the'' old<sep>house <mask>"):
            ids = theirs(text, add_special_tokens=False).input_ids
            assert tokenizer.numbering.written(tokenizer.encode(text)) == ids
            known = theirs.decode(ids, skip_special_tokens=True)
            assert tokenizer.decode(tokenizer.encode(text)) == known


def test_marks_are_known_on_both_sides(tmp_path: Path) -> None:
    write_xlnet(tmp_path / "theirs")
    tokenizer = import_folder(tmp_path / "theirs", tmp_path / "ours").tokenizers.source
    assert tokenizer.pieces(range(4)) == ["<pad>", "<unk>", "<s>", "<eod>"]
    assert tokenizer.pieces([tokenizer.line_break]) == ["<eop>"]
    export_folder(*load_model(tmp_path / "ours", CPU), tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    marks = ("unk", "bos", "eos", "cls", "sep", "pad", "mask")
    assert [getattr(again, f"{mark}_token_id") for mark in marks] == list(range(7))
    theirs = transformers.XLNetTokenizer.from_pretrained(tmp_path / "theirs")
    for text in TEXTS:
        pairs = [one(text, "never", return_token_type_ids=True) for one in (again, theirs)]
        assert pairs[0].input_ids == pairs[1].input_ids
        assert pairs[0].token_type_ids == pairs[1].token_type_ids
        assert again(text).input_ids == theirs(text).input_ids
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert [config[f"{mark}_token_id"] for mark in ("bos", "eos", "pad")] == [1, 2, 5]


def test_every_obstacle_is_named_at_once(tmp_path: Path) -> None:
    write_xlnet(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
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
        import_folder(tmp_path / "theirs", tmp_path / "ours")
    for what in ("architectures", "uni", "bi_data", "reuse_len", "tanh", "d_head", "20 words"):
        assert what in str(error.value)


@pytest.mark.parametrize("content", [b"no model", None])
def test_a_tokenizer_must_be_there_and_whole(content: bytes | None, tmp_path: Path) -> None:
    write_xlnet(tmp_path / "theirs")
    path = tmp_path / "theirs" / "spiece.model"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"spiece\.model"):
        import_folder(tmp_path / "theirs", tmp_path / "ours")


OWN: dict[str, dict[str, Any]] = {
    "as it is": {"output_bias": False, "memory": 8},
    "the paper's sinusoids": {"sinusoid_layout": "interleaved", "memory": 4, "max_distance": 6},
    "two tables, scaled": {"tied_embeddings": "none", "scale_embedding": True, "memory": 8},
    "one table, scaled": {"scale_embedding": True, "memory": 8, "evaluation_memory": 9},
}


@pytest.mark.parametrize("name", OWN)
def test_models_of_ours_are_xlnets_there(name: str, tmp_path: Path) -> None:
    tokenizers = learned(LINES)
    form = TINY["permuted"] | OWN[name] | {"segment_documents": False}
    folder = own_folder(build(PermutedConfig, form), tokenizers)
    model = folder.model().eval()
    assert isinstance(model, Permuted)
    shake(model, 0.1)
    assert export_folder(folder, model, tmp_path / "theirs") == NAME
    theirs = transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "theirs").eval()
    Both(model, theirs, their_numbering(tokenizers.source)).agree()
    cut = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for text in LINES[:5]:
        assert cut(text).input_ids == tokenizers.source.encode_lines(text)


def test_what_no_xlnet_can_be_is_named_at_once(tmp_path: Path) -> None:
    form = {
        "norm": "rms",
        "norm_order": "pre",
        "feedforward": "gated",
        "embedding_norm": True,
        "final_norm": True,
        "attention": {"select": "hard"},
    }
    folder = own_folder(build(PermutedConfig, TINY["permuted"] | form), learned(LINES))
    with pytest.raises(ModelError, match="6 problems") as error:
        export_folder(folder, folder.model(), tmp_path / "theirs")
    for what in ("norm is", "norm_order", "feedforward", "embedding_norm", "final_norm", "select"):
        assert what in str(error.value)


def test_the_commands_carry_it_there_and_back(tmp_path: Path) -> None:
    write_xlnet(tmp_path / "theirs")
    text = tmp_path / "text"
    text.write_text("the dog sleeps\nand the cat runs\n\na small old house\n")
    ours = str(tmp_path / "ours")
    run = CliRunner().invoke
    done = run(build_app(), ["import", str(tmp_path / "theirs"), "--out", ours])
    assert done.exit_code == 0, done.output
    assert "regard evaluate" in done.output
    done = run(build_app(), ["evaluate", ours, "--text", str(text)])
    assert done.exit_code == 0, done.output
    out = str(tmp_path / "again")
    done = run(build_app(), ["export", ours, "--to", "huggingface", "--out", out])
    assert done.exit_code == 0, done.output
    assert NAME in done.output
