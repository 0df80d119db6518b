"""Ids of the special tokens, which are the same in all models and stored with each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from regard.bounds import IDS, Ge
from regard.config import Doc, Formerly, Settings


@dataclass(frozen=True)
class SpecialTokens(Settings):
    """Ids of the special tokens."""

    pad: Annotated[int, Doc("padding token; never predicted"), Ge(0), IDS] = 0
    unk: Annotated[
        int,
        Doc("unknown token; unused with byte fallback"),
        Ge(0),
        IDS,
        Formerly("unknown"),
    ] = 1
    bos: Annotated[int, Doc("first input of the decoder"), Ge(0), IDS, Formerly("start")] = 2
    eos: Annotated[
        int,
        Doc("last output of the decoder and last input of the encoder"),
        Ge(0),
        IDS,
        Formerly("end"),
    ] = 3


SPECIAL = SpecialTokens()
