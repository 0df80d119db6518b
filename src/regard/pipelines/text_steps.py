"""The steps that change texts before a translation and are undone after it."""

from __future__ import annotations

from regard.data.model_text import ModelText
from regard.decoding.text_config import TextConfig
from regard.pipelines.markup import MarkupStep
from regard.pipelines.segments import TextStep


def text_steps(config: TextConfig, text: ModelText) -> tuple[TextStep, ...]:
    """The steps that these settings require, in order; they are undone in reverse order."""
    steps: list[TextStep] = []
    if config.markup is not None:  # first: the others change plain text
        steps.append(MarkupStep(config.markup, config.ignore_tags, text.tokenizers))
    return (*steps,)
