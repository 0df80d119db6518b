"""The ids that mean something beside text: one contract, stored with every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from regard.bounds import IDS, Ge
from regard.config import Doc, Settings


@dataclass(frozen=True)
class SpecialTokens(Settings):
    """Ids of the marks that are not text."""

    pad: Annotated[int, Doc("fills rows; never read and never written"), Ge(0), IDS] = 0
    unknown: Annotated[
        int, Doc("text that no subword covers; unused with byte fallback"), Ge(0), IDS
    ] = 1
    start: Annotated[int, Doc("first input of the decoder"), Ge(0), IDS] = 2
    end: Annotated[
        int, Doc("last output of the decoder, last input of the encoder"), Ge(0), IDS
    ] = 3


SPECIAL = SpecialTokens()
