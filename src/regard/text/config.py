"""Tokenizer settings; this module imports no heavy dependencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from regard.bounds import IDS, Ge, Le
from regard.config import Doc, Flag, Settings

ImportedTokenizerKind = Literal["marian", "wordpiece", "byte_bpe", "xlnet", "unigram_json"]
TokenizerKind = Literal["unigram", "bpe", "char", "word", ImportedTokenizerKind]


@dataclass(frozen=True)
class TokenizerConfig(Settings):
    """The tokenizer: algorithm, vocabulary and normalization."""

    kind: Annotated[
        TokenizerKind,
        Doc("tokenizer; the last five are those of imported models and cannot be trained"),
        Flag("--tokenizer"),
    ] = "unigram"
    vocab_size: Annotated[
        int, Doc("vocabulary size, 256 byte tokens and 4 special tokens included"), Ge(1), IDS
    ] = 8000
    character_coverage: Annotated[
        float,
        Doc("fraction of the text's characters in the vocabulary; rarer ones use byte fallback"),
        Ge(0.98),  # SentencePiece's minimum
        Le(1),
    ] = 0.9995
    joint: Annotated[
        bool, Doc("one vocabulary for source and target"), Flag("--joint/--separate")
    ] = True
    nfkc: Annotated[bool, Doc("apply Unicode NFKC normalization"), Flag("--nfkc/--no-nfkc")] = False
    lowercase: Annotated[bool, Doc("lowercase all text"), Flag("--lowercase/--no-lowercase")] = (
        False
    )

    reverse_target: Annotated[
        bool, Doc("reverse the order of target tokens, for a right-to-left model")
    ] = False

    @property
    def is_imported(self) -> bool:
        """Whether it belongs to an imported model: it is used unchanged and cannot be trained."""
        return self.kind in get_args(ImportedTokenizerKind)
