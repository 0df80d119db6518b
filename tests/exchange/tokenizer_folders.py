"""Folders with HuggingFace tokenizers of random settings, and random texts."""

from __future__ import annotations

import io
import json
import random
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from exchange.marian_models import ENGLISH, GERMAN, make_vocabularies, write_tokenizer

tokenizers_package = pytest.importorskip("tokenizers")

WORDS = ["the", "dog", "Dog", "café", "naïve", "Straße", "ÉCOLE", "runs", "don't", "ﬁne", "猫"]
WORDS += ["狗跑", "e\u0301", ".", ",", "!", "'s", "[SEP]", "<unk>"]
DEFAULT_CLASSES = {
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "gpt2": "GPT2Tokenizer",
    "xlnet": "XLNetTokenizer",
}
KINDS = {"bert": "wordpiece", "roberta": "byte_bpe", "gpt2": "byte_bpe", "xlnet": "xlnet"}
ALIASES = {
    "bert": ["ElectraTokenizerFast", "MobileBertTokenizer"],
    "roberta": ["BartTokenizerFast", "GPT2Tokenizer"],
    "gpt2": ["RobertaTokenizerFast"],
    "xlnet": [],
}
NAMES = {
    "bert": {m: f"[{m.upper()}]" for m in ("pad", "unk", "cls", "sep", "mask")},
    "roberta": {m: f"<{m}>" for m in ("pad", "unk", "mask")} | {"bos": "<s>", "eos": "</s>"},
    "gpt2": {"eos": "<|endoftext|>", "bos": "<|endoftext|>"},
    "xlnet": {m: f"<{m}>" for m in ("pad", "unk", "mask", "cls", "sep")} | {"eos": "</s>"},
}
NEW_TOKENS = ["<new>", "[NEW]", "Éxtra", "dog", "the", "<ent 1>", " lead", "tail ", "猫", "[mask]"]
MARIAN_NEW_TOKENS = ["<new>", "dog", "the dog", "<un", "Hund", ">>fra<<", "og s", "▁the", "..."]
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")
LETTERS = [chr(c) for c in (*range(32, 127), *range(0xA0, 0x180), *range(0x300, 0x310), 0x3000)]
LETTERS += [
    chr(c) for c in (0x4E00, 0x732B, 0xFB01, 0xFF21, 0x1F600, 0x130, 0x3A3, 0x200B, 9, 0xAD)
]


def corpus() -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=8)) for _ in range(150)]


@cache
def train_tokenizer(family: str) -> str:
    """Train a tokenizer with its special tokens; return tokenizer.json."""
    special = list(dict.fromkeys(NAMES[family].values()))
    if family == "xlnet":
        model = sentencepiece_model()
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(model)
        rows = range(processor.vocab_size())
        pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in rows]
        tokenizer = tokenizers_package.Tokenizer(
            tokenizers_package.models.Unigram(pieces, unk_id=0)
        )
        tokenizer.pre_tokenizer = tokenizers_package.pre_tokenizers.Metaspace()
        tokenizer.decoder = tokenizers_package.decoders.Metaspace()
    elif family == "bert":
        tokenizer = tokenizers_package.Tokenizer(
            tokenizers_package.models.WordPiece(unk_token="[UNK]")
        )
        tokenizer.normalizer = tokenizers_package.normalizers.BertNormalizer(lowercase=False)
        tokenizer.pre_tokenizer = tokenizers_package.pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = tokenizers_package.decoders.WordPiece()
        trainer = tokenizers_package.trainers.WordPieceTrainer(
            vocab_size=200, special_tokens=special
        )
        tokenizer.train_from_iterator(corpus(), trainer)
    else:
        tokenizer = tokenizers_package.Tokenizer(tokenizers_package.models.BPE())
        tokenizer.pre_tokenizer = tokenizers_package.pre_tokenizers.ByteLevel(
            add_prefix_space=False
        )
        tokenizer.decoder = tokenizers_package.decoders.ByteLevel()
        alphabet = tokenizers_package.pre_tokenizers.ByteLevel.alphabet()
        trainer = tokenizers_package.trainers.BpeTrainer(
            vocab_size=330, special_tokens=special, initial_alphabet=alphabet
        )
        tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(
        [token for token in special if tokenizer.token_to_id(token) is not None]
    )
    text: str = tokenizer.to_str()
    return text


@cache
def sentencepiece_model() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(unicodedata.normalize("NFKC", line) for line in corpus()),
        model_writer=model,
        vocab_size=90,
        hard_vocab_limit=False,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        control_symbols=["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"],
        user_defined_symbols=["<eop>"],
        minloglevel=2,
    )
    return model.getvalue()


class Setup:
    """A folder with a tokenizer of random settings."""

    def __init__(self, family: str, seed: int) -> None:
        self.family = family
        self.draw = random.Random(f"{family} {seed}")
        self.content: dict[str, Any] = json.loads(train_tokenizer(family))
        vocabulary = self.content["model"]["vocab"]
        self.size = len(vocabulary)

    def write(self, folder: Path) -> None:
        """Write all files except weights."""
        draw = self.draw
        settings = self.settings()
        if draw.random() < 0.5:
            settings["added_tokens_decoder"] = self.decoder()
        files: dict[str, Any] = {"tokenizer_config.json": settings}
        if draw.random() < 0.4:
            files["special_tokens_map.json"] = self.named(typed=False)
        if draw.random() < 0.3:
            files["added_tokens.json"] = {"<new>": self.size, "[NEW]": self.size + 1}
        if draw.random() < 0.75:
            files["tokenizer.json"] = self.changed()
        else:
            self.write_old(folder)
        config = {"model_type": self.family, "vocab_size": self.size + draw.choice([0, 1, 9, 40])}
        for name, table in {**files, "config.json": config}.items():
            (folder / name).write_text(json.dumps(table), encoding="utf-8")

    def settings(self) -> dict[str, Any]:
        """Return a random tokenizer_config.json."""
        draw = self.draw
        names = ["do_lower_case", "tokenize_chinese_chars", "add_prefix_space", "keep_accents"]
        names += ["remove_space", "clean_up_tokenization_spaces", "strip_accents"]
        flags = {name: draw.random() < 0.5 for name in names if draw.random() < 0.5}
        usual = DEFAULT_CLASSES[self.family]
        classes = [None, usual, usual, usual + "Fast", "PreTrainedTokenizerFast"]
        chosen = draw.choice([*classes, "TokenizersBackend", *ALIASES[self.family]])
        settings: dict[str, Any] = {**flags, **({"tokenizer_class": chosen} if chosen else {})}
        settings |= self.named(typed=True)
        extra = draw.sample(NEW_TOKENS, k=2)
        settings |= draw.choice(
            [
                {},
                {},
                {"additional_special_tokens": extra},
                {"extra_special_tokens": extra},
                {"extra_special_tokens": {"image_token": extra[0]}},
                {"image_token": extra[0]},
            ]
        )
        return settings

    def named(self, *, typed: bool) -> dict[str, Any]:
        tokens: dict[str, Any] = {}
        for name, token in NAMES[self.family].items():
            fields = self.token(token)
            if typed:
                fields["__type"] = "AddedToken"
            if self.draw.random() < 0.4:
                tokens[f"{name}_token"] = self.draw.choice([token, fields])
        return tokens

    def token(self, content: str) -> dict[str, Any]:
        flags = {flag: self.draw.random() < 0.3 for flag in FLAGS}
        return {"content": content, **flags}

    def decoder(self) -> dict[str, Any]:
        """Return a random added_tokens_decoder with known and new tokens."""
        rows = self.content["model"]["vocab"]
        pairs = [(i, row[0]) for i, row in enumerate(rows)] if isinstance(rows, list) else None
        ids = {text: i for i, text in pairs} if pairs else rows
        existing = [name for name in NAMES[self.family].values() if self.draw.random() < 0.6]
        new = self.draw.sample(NEW_TOKENS, k=self.draw.randrange(4))
        numbers = {text: ids[text] for text in [*existing, *new] if text in ids}
        for text in new:
            if text not in ids:
                numbers[text] = self.size + len([t for t in numbers if t not in ids])
        return {str(number): self.token(text) for text, number in numbers.items()}

    def changed(self) -> dict[str, Any]:
        """Return tokenizer.json with random flags of added tokens."""
        content = json.loads(json.dumps(self.content))
        for token in content["added_tokens"]:
            if self.draw.random() < 0.3:
                token.update({flag: self.draw.random() < 0.3 for flag in FLAGS[:4]})
        if self.family == "bert":
            content["normalizer"]["lowercase"] = self.draw.random() < 0.5
        return content

    def write_old(self, folder: Path) -> None:
        """Write the older files instead of tokenizer.json."""
        model = self.content["model"]
        if self.family == "xlnet":
            (folder / "spiece.model").write_bytes(sentencepiece_model())
        elif self.family == "bert":
            words = sorted(model["vocab"], key=model["vocab"].__getitem__)
            (folder / "vocab.txt").write_text("".join(f"{w}\n" for w in words), encoding="utf-8")
        else:
            (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
            rows = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
            (folder / "merges.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")

    def texts(self, count: int) -> list[str]:
        """Return random texts of words, special tokens, letters and spaces."""
        draw = self.draw
        parts = [
            *WORDS,
            *NEW_TOKENS,
            *NAMES[self.family].values(),
            " ",
            "  ",
            "\n",
            "``",
            "''",
            "<eop>",
        ]

        def text() -> str:
            chosen = draw.choices(parts, k=draw.randrange(7))
            letters = "".join(draw.choices(LETTERS, k=draw.randrange(4)))
            return draw.choice(["", " "]).join([*chosen, letters])

        return [text() for _ in range(count)]


class MarianSetup:
    """A Marian tokenizer of random settings, in a folder without weights."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"marian {seed}")
        self.separate = self.draw.random() < 0.3
        self.tables = make_vocabularies(separate=self.separate)
        self.size = len(self.tables[0])

    def write(self, folder: Path) -> None:
        """Write all files except weights."""
        draw = self.draw
        write_tokenizer(folder, self.tables)
        path = folder / "tokenizer_config.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        flags = ("clean_up_tokenization_spaces", "split_special_tokens")
        settings |= {name: True for name in flags if draw.random() < 0.2}
        if draw.random() < 0.4:
            settings["added_tokens_decoder"] = self.decoder()
        extra = draw.sample(MARIAN_NEW_TOKENS, k=2)
        forms: list[dict[str, Any]] = [{}, {}, {"extra_special_tokens": extra}]
        settings |= draw.choice([*forms, {"image_token": extra[0]}])
        if draw.random() < 0.3:
            settings["tokenizer_class"] = "MarianTokenizer"
        path.write_text(json.dumps(settings), encoding="utf-8")
        if draw.random() < 0.2:
            rows = {"<new>": self.size, "dog": self.tables[0].get("dog", self.size + 1)}
            (folder / "added_tokens.json").write_text(json.dumps(rows), encoding="utf-8")
        size, vocab = self.size + draw.choice([0, 5]), self.tables[0]
        config: dict[str, Any] = {"vocab_size": size}
        config |= {"eos_token_id": vocab["</s>"], "pad_token_id": vocab["<pad>"]}
        config |= {"model_type": "marian", "decoder_start_token_id": vocab["<pad>"]}
        config["decoder_vocab_size"] = len(self.tables[-1]) + size - self.size
        config["share_encoder_decoder_embeddings"] = not self.separate
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")

    def decoder(self) -> dict[str, Any]:
        """Return a random added_tokens_decoder with known and new tokens."""
        draw, ids, tokens = self.draw, self.tables[0], {}
        existing = [name for name in ("</s>", "<unk>", "<pad>") if draw.random() < 0.5]
        new = self.size
        for text in [*existing, *draw.sample(MARIAN_NEW_TOKENS, k=draw.randrange(3))]:
            flags = {flag: draw.random() < 0.3 for flag in FLAGS}
            tokens[str(ids.get(text, new))] = {"content": text, **flags}
            new += text not in ids
        return tokens

    def texts(self, count: int) -> list[str]:
        """Return random texts of words, special tokens, language codes and spaces."""
        draw = self.draw
        parts = [
            *ENGLISH.split(),
            *GERMAN.split(),
            *MARIAN_NEW_TOKENS,
            "</s>",
            "<unk>",
            "<pad>",
            " ",
            ".",
        ]
        parts += [">>fra<<", ">>", "<<", "Σ", "猫", "n't", ",", "<s>"]

        def text() -> str:
            chosen = draw.choices(parts, k=draw.randrange(8))
            return draw.choice(["", " "]).join(chosen)

        return [text() for _ in range(count)]
