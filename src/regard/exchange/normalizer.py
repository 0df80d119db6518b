"""A SentencePiece model that lower-cases and folds characters by itself, as our tokenizers do.

We normalise text before SentencePiece sees it; a program that knows only the model file does not.
SentencePiece can do it, too, by rules of what becomes what. They go character by character, so the
Greek sigma at the end of a word, and several accents on one letter in an odd order, come out
otherwise than here; all else is equal.
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
from regard.text.tokenizer import Tokenizers, normalized


def self_normalizing(tokenizer: Tokenizer) -> bytes:
    """The tokenizer's model, with its normalisation inside."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    rules = dict(_rules(tokenizer.config))
    if not rules:
        return tokenizer.model
    model = ModelProto.FromString(tokenizer.model)
    compiled = ModelProto.FromString(_trained_with(rules)).normalizer_spec
    model.normalizer_spec.name = compiled.name
    model.normalizer_spec.precompiled_charsmap = compiled.precompiled_charsmap
    made: bytes = model.SerializeToString()
    return made


def write_self_normalizing(tokenizers: Tokenizers, folder: Path) -> None:
    """Write our tokenizer files as other programs need them: with their normalization inside."""
    if tokenizers.config.is_foreign:
        return
    sides = (tokenizers.source, tokenizers.target)
    for name, tokenizer in zip(tokenizers.files(), sides, strict=False):  # joint: one file
        (folder / name).write_bytes(self_normalizing(tokenizer))


def note_on_rules(config: TokenizerConfig) -> str:
    """What to tell those who use an exported tokenizer file without regard; often nothing."""
    parts = [
        name for name, used in (("NFKC", config.nfkc), ("lower case", config.lowercase)) if used
    ]
    if config.is_foreign or not parts:
        return ""
    return (
        f"Its tokenizer files normalize text by themselves ({', '.join(parts)}), character by "
        "character: a Greek capital sigma at the end of a word, and combining accents in an "
        "unusual order, come out differently than in regard."
    )


def _rules(config: TokenizerConfig) -> Iterator[tuple[str, str]]:
    """Whatever changes: each character, and each that is written as a letter and its accents."""
    for letter in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(letter) == "Cs":
            continue  # half a surrogate pair
        for written in {letter, unicodedata.normalize("NFD", letter)}:
            if normalized(written, config) != written:
                yield written, normalized(written, config)


def _trained_with(rules: dict[str, str]) -> bytes:
    """Some SentencePiece model with these rules: only its trainer compiles them."""
    rows = [f"{_points(before)}\t{_points(after)}\n" for before, after in rules.items()]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rules.tsv"
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


def _points(text: str) -> str:
    return " ".join(f"{ord(letter):X}" for letter in text)
