"""The text generation pipeline: a causal language model, its tokenizer and a search.

A prompt is a forced prefix of the search, so results do not depend on the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Unpack

import torch

from regard.bounds import Ge, Le, refuse_out_of_bounds
from regard.config import build
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.decoding.backend import (
    DEFAULT_BATCH_SIZE,
    Hypothesis,
    reduce_for_beams,
    refuse_bad_batch_size,
    refuse_large_search,
)
from regard.decoding.config import MAX_TOKENS, SearchConfig, SearchKeywords
from regard.decoding.modes import decoding_mode, refuse_unused
from regard.decoding.runners import EagerRunner, R, Search
from regard.decoding.search import search
from regard.decoding.wrappers import MultiEosModel, PromptedModel
from regard.errors import ConfigError
from regard.models.language import CausalLanguageModel
from regard.models.protocol import Autoregressive
from regard.pipelines.pipeline import Pipeline
from regard.pipelines.text_codecs import Generation, NextToken, PromptCodec
from regard.pipelines.text_search import TextKeywords, split_keywords
from regard.pipelines.text_stream import TextStream
from regard.pipelines.texts import check_each, checked_texts, refuse_single_text
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL


class Generator(Pipeline):
    """A trained causal language model that generates text."""

    task = "language_modeling"
    purpose = "generates text from a prompt", "gpt-tiny"
    model: CausalLanguageModel

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        return self.folder.tokenizers.target

    @property
    def context(self) -> int:
        """The maximum length of a text in training, including the prompt."""
        return self.model.context

    def fits_context(self, prompt: str, max_tokens: int) -> bool:
        """Whether the prompt and `max_tokens` new tokens fit into the context."""
        eos = 0 if self.model.bare_prompts else 1
        return len(self._codec(max_tokens).ids(prompt)) + max_tokens + eos <= self.context

    def generate(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int = 100,
        batch_size: int | None = None,
        **keywords: Unpack[SearchKeywords],
    ) -> list[Generation]:
        """Generate continuations of each prompt; `keywords` are the fields of `SearchConfig`."""
        prompts = checked_texts(prompts, "Prompt")
        stream = self.result_stream(max_tokens, dict(keywords), batch_size, len(prompts))
        return stream.map(prompts)

    def generate_iterable(
        self,
        prompts: Iterable[str],
        *,
        max_tokens: int = 100,
        **keywords: Unpack[TextKeywords],
    ) -> Iterator[Generation]:
        """Generate continuations of any number of prompts, in order."""
        refuse_single_text(prompts)
        options, search_keywords = split_keywords(keywords)
        stream = self.result_stream(max_tokens, dict(search_keywords), options.batch_size)
        return stream.iterate(check_each(prompts, "Prompt"), options)

    def result_stream(
        self,
        max_tokens: int,
        keywords: dict[str, Any],
        batch_size: int | None,
        prompts: int | None = None,
    ) -> TextStream[str, list[int], list[Hypothesis], Generation]:
        """From prompts, whose number may be unknown, to generations."""
        config = self._config(max_tokens, keywords)
        refuse_bad_batch_size(batch_size)
        if batch_size is None:
            batch_size = reduce_for_beams(DEFAULT_BATCH_SIZE, config)
        largest = batch_size if prompts is None else min(batch_size, prompts)
        vocab_size = self.folder.vocabulary.target
        refuse_large_search(config, largest, vocab_size, self.model.device)
        return self.text_stream(
            self._codec(max_tokens), lambda rows: self._search(rows, config), len, batch_size
        )

    def _codec(self, max_tokens: int) -> PromptCodec:
        start = self.model.decoder_start_id if self.model.bare_prompts else None
        longest = max(self.context - max_tokens - 1, self.context // 2, 1)
        return PromptCodec(self.folder.text, longest, start)

    def _search(
        self,
        prompts: list[list[int]],
        config: SearchConfig,
        runner: EagerRunner | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each prompt; prompts are sorted by length.

        A prompt is a forced prefix; or, if the model has `bare_prompts`, it is prefilled together
        with others of equal length. At most `max_extra` tokens follow, limited by the context.
        """
        if not self.model.bare_prompts:
            source = with_eos(prompts).to(self.model.device)
            limits: dict[str, Any] = {"prefixes": prompts, "max_length": self.context}
            model = self._with_extra_eos(self.model, config)
            return search(model, source, config, runner=runner, **limits)
        results = []
        for length, group in groupby(prompts, len):
            ids = list(group)
            prompted = PromptedModel(self.model, torch.tensor(ids, device=self.model.device))
            source, max_length = with_eos(ids).to(self.model.device), self.context - length + 1
            model = self._with_extra_eos(prompted, config)
            results += search(model, source, config, max_length=max_length, runner=runner)
        return results

    @torch.inference_mode()
    def next_tokens(self, prompt: str, *, top_k: int = 10) -> list[NextToken]:
        """The most probable tokens after a prompt, best first."""
        [prompt] = checked_texts([prompt], "Prompt")
        refuse_out_of_bounds("top_k", top_k, Ge(1), Le(1000))
        ids = self._codec(1).ids(prompt)
        if not self.model.bare_prompts:
            ids = [self.model.decoder_start_id, *ids]
        row = Ragged.of([ids]).to(self.model.device)
        predictions = self.model(Batch(row, row))
        logits = predictions.project(predictions.hidden[-1:]).float()
        probabilities, best = logits.softmax(-1)[0].topk(min(top_k, logits.shape[-1]))
        ends = {SPECIAL.eos, *self.model.extra_eos_ids}
        start = len(self.tokenizer.decode_lines(ids))
        texts = [self.tokenizer.decode_lines([*ids, token])[start:] for token in best.tolist()]
        return [
            NextToken("" if token in ends else text, probability, token in ends)
            for token, text, probability in zip(
                best.tolist(), texts, probabilities.tolist(), strict=True
            )
        ]

    def stream(
        self,
        prompt: str,
        callback: Callable[[str], None],
        *,
        max_tokens: int = 100,
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        """Generate from one prompt, greedily or by sampling; `callback` is called with new text."""
        greedy = {} if keywords.get("sample") else {"beam_size": 1}
        config = self._config(max_tokens, greedy | dict(keywords))
        if (config.beam_size > 1 and not config.sample) or config.num_hypotheses > 1:
            raise ConfigError(
                "Streaming requires greedy search or sampling. Leave out beam_size and "
                "num_hypotheses."
            )
        (prompt,) = checked_texts([prompt], "Prompt")
        ids = self._codec(max_tokens).ids(prompt)
        prompt_length = 0 if self.model.bare_prompts else len(ids)
        runner = StreamingRunner(self.tokenizer, prompt_length, callback)
        self._search([ids], config, runner)
        runner.flush()

    def _config(self, max_tokens: int, keywords: dict[str, Any]) -> SearchConfig:
        limits: dict[str, Any] = {"max_ratio": 1.0, "max_extra": max_tokens}
        if self.model.bare_prompts:  # a truncated text has no EOS
            limits = {"max_ratio": 0.0, "max_extra": max_tokens + 1, "at_limit": "cut"}
        if conflicting := sorted(keywords.keys() & limits.keys()):
            raise ConfigError(
                f"{', '.join(conflicting)} cannot be set here. Use max_tokens to limit the length."
            )
        refuse_out_of_bounds("max_tokens", max_tokens, Ge(1), MAX_TOKENS)
        config = build(SearchConfig, keywords | limits)
        refuse_unused(config, keywords, decoding_mode(config, self.model.config.decoding_family))
        return config

    def _with_extra_eos(
        self, model: Autoregressive[Any], config: SearchConfig
    ) -> Autoregressive[Any]:
        """The model with all of its EOS tokens."""
        others = self.model.extra_eos_ids
        temperature = config.temperature if config.sample else None
        return MultiEosModel(model, others, temperature) if others else model


class StreamingRunner(EagerRunner):
    """Runs steps eagerly, and passes new text after the prompt to a callback."""

    def __init__(
        self, tokenizer: Tokenizer, prompt_length: int, callback: Callable[[str], None]
    ) -> None:
        self._tokenizer, self._prompt_length, self._callback = tokenizer, prompt_length, callback
        self._ids: list[int] = []
        self._streamed = 0  # characters

    def run_steps(self, search: Search[R], steps: range) -> Search[R]:
        """Run these steps and stream the new text."""
        search = super().run_steps(search, steps)
        self._ids.append(int(search.last_tokens[0, 0]))
        if len(self._ids) < self._prompt_length:
            return search
        text = self._tokenizer.decode_lines(self._ids)
        if len(self._ids) == self._prompt_length:
            self._streamed = len(text)
        elif not text.endswith("\ufffd"):  # an incomplete UTF-8 character
            self._callback(text[self._streamed :])
            self._streamed = len(text)
        return search

    def flush(self) -> None:
        """Stream text that was held back as an incomplete character."""
        rest = self._tokenizer.decode_lines(self._ids)[self._streamed :]
        if rest:
            self._callback(rest)
