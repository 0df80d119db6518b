"""A prompt in, a text out: a language model, its tokenizer and a search in one object.

A prompt is a beginning that the search is forced to write, so what holds for translations holds
here: the same text in any batch, by any search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Unpack

import torch

from regard.bounds import Ge, refuse_out_of_bounds
from regard.config import build
from regard.data.pairs import with_ends
from regard.decoding.config import MAX_TOKENS, SearchConfig, SearchKeywords
from regard.decoding.effect import mode_of, refuse_unused
from regard.decoding.engine import (
    SENTENCES,
    Hypothesis,
    by_length,
    fewer_with_beams,
    refuse_bad_batch_size,
    refuse_large_search,
)
from regard.decoding.pipeline import Pipeline, checked_texts
from regard.decoding.search import search
from regard.decoding.steps import EagerRunner, R, Search
from regard.decoding.wrappers import Prompted, SeveralEnds
from regard.errors import ConfigError
from regard.models.language import WritingModel
from regard.models.protocol import Autoregressive
from regard.text.base import Tokenizer


@dataclass(frozen=True)
class Continuation:
    """A way in which a text goes on; the score is the whole text's, its prompt included."""

    text: str
    score: float


@dataclass(frozen=True)
class Generation:
    """A prompt, and the ways in which it goes on, best first."""

    prompt: str
    continuations: list[Continuation] = field(default_factory=list)


class Generator(Pipeline):
    """A trained language model that goes on from what came before, ready for text."""

    task = "language_modeling"
    purpose = "generates text from a prompt", "gpt-tiny"
    model: WritingModel

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts its text."""
        return self.folder.tokenizers.target

    @property
    def context(self) -> int:
        """The longest text, prompt included, that it was trained to see."""
        return self.model.context

    def has_room(self, prompt: str, max_tokens: int) -> bool:
        """Whether so many tokens can follow a prompt before the text is as long as it may get."""
        end_mark = 0 if self.model.bare_prompts else 1
        return len(self._ids(prompt, max_tokens)) + max_tokens + end_mark <= self.context

    def generate(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int = 100,
        batch_size: int | None = None,
        **keywords: Unpack[SearchKeywords],
    ) -> list[Generation]:
        """How each prompt goes on; `keywords` are those of `SearchConfig`."""
        prompts = checked_texts(prompts, "Prompt")
        config = self._config(max_tokens, dict(keywords))
        refuse_bad_batch_size(batch_size)
        if batch_size is None:
            batch_size = fewer_with_beams(SENTENCES, config)
        target = self.folder.vocabulary.target
        refuse_large_search(config, min(batch_size, len(prompts)), target, self.model.device)
        begun = [self._ids(prompt, max_tokens) for prompt in prompts]
        found = by_length(begun, len, batch_size, lambda chunk: self._found(chunk, config))
        return [
            Generation(prompt, [self._continuation(ids, one) for one in hypotheses])
            for prompt, ids, hypotheses in zip(prompts, begun, found, strict=True)
        ]

    def _found(
        self,
        prompts: list[list[int]],
        config: SearchConfig,
        runner: EagerRunner | None = None,
    ) -> list[list[Hypothesis]]:
        """What is found for prompts, the longest first.

        A prompt is forced to be written, or a bare one is read before the search begins, together
        with others of equal length; then `max_extra` tokens follow, or as many as there is room.
        """
        if not self.model.bare_prompts:
            source = with_ends(prompts).to(self.model.device)
            limits: dict[str, Any] = {"prefixes": prompts, "max_length": self.context}
            return search(self._ending(self.model, config), source, config, runner=runner, **limits)
        found = []
        for length, alike in groupby(prompts, len):
            ids = list(alike)
            model = Prompted(self.model, torch.tensor(ids, device=self.model.device))
            source, room = with_ends(ids).to(self.model.device), self.context - length + 1
            writer = self._ending(model, config)
            found += search(writer, source, config, max_length=room, runner=runner)
        return found

    def stream(
        self,
        prompt: str,
        tell: Callable[[str], None],
        *,
        max_tokens: int = 100,
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        """The same for one prompt, told bit by bit: what `generate` gives, greedily or drawn."""
        greedy = {} if keywords.get("sample") else {"beam_size": 1}
        config = self._config(max_tokens, greedy | dict(keywords))
        if (config.beam_size > 1 and not config.sample) or config.top_beams > 1:
            raise ConfigError(
                "A stream is one text, greedy or sampled. Leave out beam_size and top_beams."
            )
        (prompt,) = checked_texts([prompt], "Prompt")
        ids = self._ids(prompt, max_tokens)
        runner = Telling(self.tokenizer, 0 if self.model.bare_prompts else len(ids), tell)
        self._found([ids], config, runner)
        runner.tell_rest()

    def _config(self, max_tokens: int, keywords: dict[str, Any]) -> SearchConfig:
        limits: dict[str, Any] = {"max_ratio": 1.0, "max_extra": max_tokens}
        if self.model.bare_prompts:  # a text that is cut has no end mark, and none is paid for
            limits = {"max_ratio": 0.0, "max_extra": max_tokens + 1, "at_limit": "cut"}
        if given := sorted(keywords.keys() & limits.keys()):
            raise ConfigError(f"{', '.join(given)}: max_tokens says how long a text gets. Use it.")
        refuse_out_of_bounds("max_tokens", max_tokens, Ge(1), MAX_TOKENS)
        config = build(SearchConfig, keywords | limits)
        refuse_unused(config, keywords, mode_of(config, self.model.config))
        return config

    def _ending(self, model: Autoregressive[Any], config: SearchConfig) -> Autoregressive[Any]:
        """The model with all of its EOS tokens."""
        others = self.model.extra_eos_ids
        temperature = config.temperature if config.sample else None
        return SeveralEnds(model, others, temperature) if others else model

    def _ids(self, prompt: str, max_tokens: int) -> list[int]:
        """The prompt's tokens; of one that leaves no room for more, its end."""
        ids = self.tokenizer.encode_lines(prompt) if prompt else []
        if self.model.bare_prompts and not ids:
            return [self.model.start_mark]
        return ids[-max(self.context - max_tokens - 1, self.context // 2, 1) :]

    def _continuation(self, prompt: list[int], found: Hypothesis) -> Continuation:
        before = len(self.tokenizer.decode_lines(prompt))
        ids = prompt + found.tokens if self.model.bare_prompts else found.tokens
        return Continuation(self.tokenizer.decode_lines(ids)[before:], found.score)


class Telling(EagerRunner):
    """Step by step, and each time what was written since the prompt is told."""

    def __init__(self, tokenizer: Tokenizer, prompt: int, tell: Callable[[str], None]) -> None:
        self._tokenizer, self._prompt, self._tell = tokenizer, prompt, tell
        self._ids: list[int] = []
        self._told = 0

    def forward(self, search: Search[R], steps: range) -> Search[R]:
        """Do some steps."""
        search = super().forward(search, steps)
        self._ids.append(int(search.last[0, 0]))
        if len(self._ids) < self._prompt:
            return search
        text = self._tokenizer.decode_lines(self._ids)
        if len(self._ids) == self._prompt:
            self._told = len(text)
        elif not text.endswith("\ufffd"):  # the first bytes of a character
            self._tell(text[self._told :])
            self._told = len(text)
        return search

    def tell_rest(self) -> None:
        """What was held back to the end."""
        rest = self._tokenizer.decode_lines(self._ids)[self._told :]
        if rest:
            self._tell(rest)
