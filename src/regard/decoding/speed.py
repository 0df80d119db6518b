"""How fast a translator is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Unpack

from regard.decoding.config import SearchKeywords
from regard.decoding.translator import Translator


def sentences_per_second(
    translator: Translator,
    texts: Sequence[str],
    *,
    batch_size: int,
    **keywords: Unpack[SearchKeywords],
) -> float:
    """Of texts that are a sentence each; of batches of 1, each is asked for after the last."""
    portions = [[text] for text in texts] if batch_size == 1 else [texts]
    begin = time.perf_counter()
    for portion in portions:
        translator.translate(portion, batch_size=batch_size, **keywords)
    return len(texts) / (time.perf_counter() - begin)
