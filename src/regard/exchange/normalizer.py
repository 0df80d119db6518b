"""SentencePiece models with normalization rules equivalent to regard's text normalization.

regard normalizes text before SentencePiece; other toolkits only use the model file, so exported
models include normalization rules. These replace character sequences independent of context: a
Greek sigma at the end of a word, and combining accents in an unusual order, differ from regard.
"""

from __future__ import annotations

import io
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import sentencepiece

from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers, normalize_text


def sentencepiece_with_normalizer(tokenizer: Tokenizer) -> bytes:
    """Return the tokenizer's SentencePiece model with its normalization rules."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    rules = dict(_rules(tokenizer.config))
    if not rules:
        return tokenizer.model
    model = ModelProto.FromString(tokenizer.model)
    compiled = ModelProto.FromString(_train_with_rules(rules)).normalizer_spec
    model.normalizer_spec.name = compiled.name
    model.normalizer_spec.precompiled_charsmap = compiled.precompiled_charsmap
    content: bytes = model.SerializeToString()
    return content


def write_tokenizers_with_normalizer(tokenizers: Tokenizers, folder: Path) -> None:
    """Write the tokenizer files of a model folder, with normalization rules."""
    if tokenizers.config.is_imported:
        return
    sides = (tokenizers.source, tokenizers.target)
    for name, tokenizer in zip(tokenizers.files(), sides, strict=False):  # joint: one file
        (folder / name).write_bytes(sentencepiece_with_normalizer(tokenizer))


def normalizer_notice(config: TokenizerConfig) -> str:
    """Return a notice on differences of exported tokenizer files; empty if there are none."""
    parts = [
        name for name, used in (("NFKC", config.nfkc), ("lowercase", config.lowercase)) if used
    ]
    if config.is_imported or not parts:
        return ""
    return (
        f"The exported tokenizer normalizes text ({', '.join(parts)}) by character: a Greek "
        "capital sigma at the end of a word, and combining accents in an unusual order, are "
        "normalized differently than in regard."
    )


def _rules(config: TokenizerConfig) -> Iterator[tuple[str, str]]:
    """Yield each character, composed and decomposed, that normalization changes."""
    for character in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(character) == "Cs":
            continue  # a surrogate
        for text in {character, unicodedata.normalize("NFD", character)}:
            if normalize_text(text, config) != text:
                yield text, normalize_text(text, config)


def _train_with_rules(rules: dict[str, str]) -> bytes:
    """Train a minimal SentencePiece model: only the trainer compiles rules."""
    rows = [f"{_code_points(before)}\t{_code_points(after)}\n" for before, after in rules.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.tsv"
        path.write_text("".join(rows), encoding="utf-8")
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c"]),
            model_writer=model,
            model_type="char",
            vocab_size=7,
            normalization_rule_tsv=str(path),
            minloglevel=2,
        )
    return model.getvalue()


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)
