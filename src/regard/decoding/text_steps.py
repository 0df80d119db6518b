"""The steps that change texts before a translation and are undone after it."""

from __future__ import annotations

from regard.data.model_text import ModelText
from regard.decoding.segments import TextStep
from regard.decoding.text_config import TextConfig


def text_steps(config: TextConfig, text: ModelText) -> tuple[TextStep, ...]:
    """The steps that these settings require, in order; they are undone in reverse order."""
    return ()
