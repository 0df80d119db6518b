"""The settings of tokenizers; importing them costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from regard.bounds import IDS, Ge, Le
from regard.config import Doc, Flag, Settings

ForeignKind = Literal["marian", "wordpiece", "byte_bpe", "xlnet", "unigram_json"]
TokenizerKind = Literal["unigram", "bpe", "char", "word", ForeignKind]


@dataclass(frozen=True)
class TokenizerConfig(Settings):
    """How text is cut into subwords."""

    kind: Annotated[
        TokenizerKind,
        Doc("SentencePiece's way to find subwords; the last five come with imported models"),
        Flag("--tokenizer"),
    ] = "unigram"
    vocab_size: Annotated[int, Doc("subwords, the 256 bytes and 4 marks included"), Ge(1), IDS] = (
        8000
    )
    character_coverage: Annotated[
        float,
        Doc("share of the text's characters that are subwords; rarer ones become bytes"),
        Ge(0.98),  # as SentencePiece asks
        Le(1),
    ] = 0.9995
    joint: Annotated[bool, Doc("one vocabulary for both languages"), Flag("--joint/--separate")] = (
        True
    )
    nfkc: Annotated[
        bool, Doc("fold compatible Unicode characters into one (NFKC)"), Flag("--nfkc/--no-nfkc")
    ] = False
    lowercase: Annotated[bool, Doc("lower-case all text"), Flag("--lowercase/--no-lowercase")] = (
        False
    )

    @property
    def is_foreign(self) -> bool:
        """Whether it was made by another program: it is read as it is, and never learned."""
        return self.kind in get_args(ForeignKind)
