"""The settings of tokenizers; importing them costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.config import Doc, Ge, Settings


@dataclass(frozen=True)
class TokenizerConfig(Settings):
    """How text is cut into subwords."""

    kind: Annotated[
        Literal["unigram", "bpe", "char", "word"], Doc("SentencePiece's way to find subwords")
    ] = "unigram"
    vocab_size: Annotated[int, Doc("subwords, the 256 bytes and 4 marks included"), Ge(1)] = 8000
    joint: Annotated[bool, Doc("one vocabulary for both languages")] = True
    nfkc: Annotated[bool, Doc("fold compatible Unicode characters into one (NFKC)")] = False
    lowercase: Annotated[bool, Doc("lower-case all text")] = False
