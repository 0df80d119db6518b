"""How speed is measured: who is asked for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from regard.decoding.speed import sentences_per_second
from regard.decoding.translator import Translator


class Listener:
    """A translator that only notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Any]] = []

    def translate(self, texts: Sequence[str], *, batch_size: int, **keywords: Any) -> None:
        self.asked.append((list(texts), batch_size))


def test_one_sentence_waits_for_the_other_and_a_batch_does_not() -> None:
    listener, texts = Listener(), ["a", "b", "c"]
    translator = cast(Translator, listener)
    assert sentences_per_second(translator, texts, beam_size=1, batch_size=1) > 0
    assert listener.asked == [(["a"], 1), (["b"], 1), (["c"], 1)]
    listener.asked.clear()
    assert sentences_per_second(translator, texts, beam_size=1, batch_size=2) > 0
    assert listener.asked == [(texts, 2)]
