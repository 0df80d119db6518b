"""The steps that change texts before a translation and are undone after it."""

from __future__ import annotations

from regard.data.model_text import ModelText
from regard.decoding.text_config import TextConfig
from regard.pipelines.markup import MarkupStep
from regard.pipelines.protection import make_protection
from regard.pipelines.segments import TextStep
from regard.pipelines.text_constraints import TextConstraints


def text_steps(
    config: TextConfig, text: ModelText, constraints: TextConstraints | None
) -> tuple[TextStep, ...]:
    """The steps that these settings require, in order; they are undone in reverse order."""
    steps: list[TextStep] = []
    protection = make_protection(config, text.tokenizers, constraints)
    if config.markup is not None or protection is not None:  # first: the others change plain text
        steps.append(MarkupStep(config.markup, config.ignore_tags, text.tokenizers, protection))
    return (*steps,)
