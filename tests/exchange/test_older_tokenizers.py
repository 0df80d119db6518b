"""Tokenizers without tokenizer.json: special tokens match those of HuggingFace."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exchange.language_models import (
    ROBERTA_SPECIAL_TOKENS,
    TEXTS,
    byte_bpe,
    wordpiece,
    write_bert,
    write_gpt2,
)
from regard.errors import ModelError
from regard.exchange.huggingface import import_folder
from regard.pipelines.mask_codec import MASK
from regard.pipelines.mask_filler import MaskFiller
from regard.text.imported import HuggingFaceTokenizer

transformers = pytest.importorskip("transformers")
BERT_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_older_files(folder: Path) -> None:
    """Replace tokenizer.json by vocab.txt, or by vocab.json and merges.txt."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    if model["type"] == "WordPiece":
        words = sorted(model["vocab"], key=model["vocab"].__getitem__)
        (folder / "vocab.txt").write_text("\n".join(words))
        return
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [" ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))


def mask(*, lstrip: bool) -> dict[str, Any]:
    """Return the mask token of RoBERTa in tokenizer_config.json of older versions."""
    fields = {"content": "<mask>", "lstrip": lstrip, "rstrip": False, "normalized": True}
    return {"mask_token": {"__type": "AddedToken", "single_word": False, **fields}}


FAMILIES: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "BERT": (write_bert, {}),
    "BERT, cased": (write_bert, {"do_lower_case": False}),
    "RoBERTa": (lambda folder: write_bert(folder, "RobertaForMaskedLM"), {}),
    "RoBERTa, described": (lambda f: write_bert(f, "RobertaForMaskedLM"), mask(lstrip=True)),
    "RoBERTa, spaces stay": (lambda f: write_bert(f, "RobertaForMaskedLM"), mask(lstrip=False)),
    "GPT-2": (write_gpt2, {}),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_special_tokens_match_huggingface(name: str, tmp_path: Path) -> None:
    write, settings = FAMILIES[name]
    folder = tmp_path / "hf"
    write(folder)
    write_older_files(folder)
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer = import_folder(folder, tmp_path / "regard").tokenizers.source
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    draw = random.Random(3)
    parts = [
        *BERT_SPECIAL_TOKENS,
        *ROBERTA_SPECIAL_TOKENS,
        "<|endoftext|>",
        "[unused0]",
        " ",
        "  ",
        "the",
        " dog",
        "x",
    ]
    texts = ["".join(draw.choices(parts, k=draw.randint(1, 8))) for _ in range(60)]
    for text in [*TEXTS, *texts]:
        ids = hf_tokenizer(text, add_special_tokens=False).input_ids
        assert tokenizer.id_mapping.to_imported(tokenizer.encode(text)) == ids, text


@pytest.mark.parametrize("name", ["BERT", "RoBERTa"])
@pytest.mark.parametrize("older", [False, True])
def test_both_mask_tokens_are_filled(name: str, older: bool, tmp_path: Path) -> None:
    hf_model = FAMILIES[name][0](tmp_path / "hf")
    if older:
        write_older_files(tmp_path / "hf")
    import_folder(tmp_path / "hf", tmp_path / "regard")
    hf_tokenizer, mask_token = (
        (wordpiece(), "[MASK]") if name == "BERT" else (byte_bpe(ROBERTA_SPECIAL_TOKENS), "<mask>")
    )
    text = f"the dog {mask_token} and"
    filler = MaskFiller.load(tmp_path / "regard", device="cpu")
    first, second = filler.fill([text, text.replace(mask_token, MASK)])
    assert first == second
    assert "MASK" not in first.best.upper()
    ends = ("[CLS]", "[SEP]") if name == "BERT" else ("<s>", "</s>")
    ids = [
        hf_tokenizer.token_to_id(ends[0]),
        *hf_tokenizer.encode(text).ids,
        hf_tokenizer.token_to_id(ends[1]),
    ]
    with torch.no_grad():
        logits = hf_model(torch.tensor([ids])).logits[
            0, ids.index(hf_tokenizer.token_to_id(mask_token))
        ]
    special = BERT_SPECIAL_TOKENS[:4] if name == "BERT" else ROBERTA_SPECIAL_TOKENS[:4]
    logits[[hf_tokenizer.token_to_id(token) for token in special]] = -torch.inf
    assert first.blanks[0][0].word == hf_tokenizer.decode([int(logits.argmax())]).strip()


WRONG: list[Any] = [-1, 10**9, 10**30, None, "x", 1.5, [], [0, 1], ["x"], True, {}]


@pytest.mark.parametrize("name", ["vocab_size", "n_layer", "n_head", "eos_token_id", "n_inner"])
def test_settings_of_wrong_type_are_refused(name: str, tmp_path: Path) -> None:
    write_gpt2(tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    settings = json.loads(path.read_text())
    allowed = [-1, 10**9, None, [], [0, 1]] if name == "eos_token_id" else []
    for number, value in enumerate(WRONG):
        path.write_text(json.dumps(settings | {name: value}))
        if value in allowed and value is not True:
            import_folder(tmp_path / "hf", tmp_path / f"imported {number}")
        elif not (name == "n_inner" and value is None):
            with pytest.raises(ModelError, match="hf"):
                import_folder(tmp_path / "hf", tmp_path / "regard")
