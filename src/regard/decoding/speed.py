"""How fast a translator is."""

from __future__ import annotations

import time
from collections.abc import Sequence

from regard.decoding.translator import Translator


def sentences_per_second(
    translator: Translator, texts: Sequence[str], *, beam_size: int, batch_size: int
) -> float:
    """Of texts that are a sentence each; of batches of 1, each is asked for after the last."""
    portions = [[text] for text in texts] if batch_size == 1 else [texts]
    begin = time.perf_counter()
    for portion in portions:
        translator.translate(portion, beam_size=beam_size, batch_size=batch_size, scores=False)
    return len(texts) / (time.perf_counter() - begin)
