"""Tokenizers without a tokenizer.json: special tokens are one token, as HuggingFace has it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exchange.languages import ROBERTA_MARKS, TEXTS, byte_bpe, wordpiece, write_bert, write_gpt2
from regard.decoding.filler import BLANK, MaskFiller
from regard.errors import ModelError
from regard.exchange.huggingface import import_folder
from regard.text.foreign import LibraryTokenizer

transformers = pytest.importorskip("transformers")
BERT_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_older_files(folder: Path) -> None:
    """vocab.txt, or vocab.json and merges.txt, in place of a tokenizer.json."""
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
    """How older versions describe RoBERTa's mask."""
    form = {"content": "<mask>", "lstrip": lstrip, "rstrip": False, "normalized": True}
    return {"mask_token": {"__type": "AddedToken", "single_word": False, **form}}


FAMILIES: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "BERT": (write_bert, {}),
    "BERT, cased": (write_bert, {"do_lower_case": False}),
    "RoBERTa": (lambda folder: write_bert(folder, "RobertaForMaskedLM"), {}),
    "RoBERTa, described": (lambda f: write_bert(f, "RobertaForMaskedLM"), mask(lstrip=True)),
    "RoBERTa, spaces stay": (lambda f: write_bert(f, "RobertaForMaskedLM"), mask(lstrip=False)),
    "GPT-2": (write_gpt2, {}),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_special_tokens_are_found_as_theirs(name: str, tmp_path: Path) -> None:
    write, settings = FAMILIES[name]
    folder = tmp_path / "theirs"
    write(folder)
    write_older_files(folder)
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = import_folder(folder, tmp_path / "ours").tokenizers.source
    assert isinstance(ours, LibraryTokenizer)
    draw = random.Random(3)
    parts = [
        *BERT_MARKS,
        *ROBERTA_MARKS,
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
        ids = theirs(text, add_special_tokens=False).input_ids
        assert ours.numbering.written(ours.encode(text)) == ids, text


@pytest.mark.parametrize("name", ["BERT", "RoBERTa"])
@pytest.mark.parametrize("older", [False, True])
def test_masks_of_either_name_are_filled(name: str, older: bool, tmp_path: Path) -> None:
    theirs = FAMILIES[name][0](tmp_path / "theirs")
    if older:
        write_older_files(tmp_path / "theirs")
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    made, own = (wordpiece(), "[MASK]") if name == "BERT" else (byte_bpe(ROBERTA_MARKS), "<mask>")
    text = f"the dog {own} and"
    filler = MaskFiller.load(tmp_path / "ours", device="cpu")
    first, second = filler.fill([text, text.replace(own, BLANK)])
    assert first == second
    assert "MASK" not in first.best.upper()
    marks = ("[CLS]", "[SEP]") if name == "BERT" else ("<s>", "</s>")
    ids = [made.token_to_id(marks[0]), *made.encode(text).ids, made.token_to_id(marks[1])]
    with torch.no_grad():
        logits = theirs(torch.tensor([ids])).logits[0, ids.index(made.token_to_id(own))]
    special = BERT_MARKS[:4] if name == "BERT" else ROBERTA_MARKS[:4]
    logits[[made.token_to_id(mark) for mark in special]] = -torch.inf
    assert first.blanks[0][0].word == made.decode([int(logits.argmax())]).strip()


WRONG: list[Any] = [-1, 10**9, 10**30, None, "x", 1.5, [], [0, 1], ["x"], True, {}]


@pytest.mark.parametrize("name", ["vocab_size", "n_layer", "n_head", "eos_token_id", "n_inner"])
def test_settings_of_another_type_are_refused_with_their_file(name: str, tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    settings = json.loads(path.read_text())
    allowed = [-1, 10**9, None, [], [0, 1]] if name == "eos_token_id" else []
    for number, value in enumerate(WRONG):
        path.write_text(json.dumps(settings | {name: value}))
        if value in allowed and value is not True:
            import_folder(tmp_path / "theirs", tmp_path / f"ours {number}")
        elif not (name == "n_inner" and value is None):
            with pytest.raises(ModelError, match="theirs"):
                import_folder(tmp_path / "theirs", tmp_path / "ours")
