"""Codecs of embeddings, prompts and pairs of texts; this module does not import PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from regard.data.document_context import NO_CONTEXT, DocumentContext, context_ids
from regard.data.model_text import ModelText
from regard.decoding.backend import Hypothesis
from regard.pipelines.context import TextPair, target_room
from regard.pipelines.directions import SelectedDirection
from regard.pipelines.text_constraints import TextConstraints
from regard.pipelines.text_stream import Remarked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class TruncatingCodec:
    """Encodes texts, truncated to a number of tokens; vectors are returned as they are."""

    text: ModelText
    longest: int

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """The ids of each text, and their number before truncation."""
        ids = self.text.tokenizers.source.encode_all(texts)
        return [tokens[: self.longest] for tokens in ids], [*map(len, ids)]

    def decode(
        self, items: Sequence[list[int]], lengths: list[int], vectors: Sequence[Vectors]
    ) -> list[Remarked[Vectors]]:
        """The vectors, with remarks about truncated texts."""
        return [
            Remarked(vector, self._remark(length))
            for vector, length in zip(vectors, lengths, strict=True)
        ]

    def _remark(self, length: int) -> str:
        if length <= self.longest:
            return ""
        return f"has {length:,} tokens and is truncated to {self.longest:,}."


@dataclass(frozen=True)
class Continuation:
    """A continuation of a prompt; the score is that of the whole text, including the prompt."""

    text: str
    score: float


@dataclass(frozen=True)
class Generation:
    """A prompt and its continuations, best first."""

    prompt: str
    continuations: list[Continuation] = field(default_factory=list)


@dataclass(frozen=True)
class NextToken:
    """A token that may follow a prompt: its text, and its probability."""

    text: str
    probability: float
    is_end: bool = False  # the end of the text, which has no text


@dataclass(frozen=True)
class PromptCodec:
    """Encodes prompts and decodes their continuations."""

    text: ModelText
    longest: int  # tokens of a prompt
    start: int | None  # first token of texts, for models whose prompts have no EOS

    def ids(self, prompt: str) -> list[int]:
        """The token ids of a prompt, truncated on the left if they would fill the context."""
        ids = self.text.tokenizers.target.encode_lines(prompt) if prompt else []
        if self.start is not None and not ids:
            return [self.start]
        return ids[-self.longest :]

    def encode(self, prompts: Sequence[str]) -> tuple[list[list[int]], Sequence[str]]:
        """The token ids of each prompt."""
        return [*map(self.ids, prompts)], prompts

    def decode(
        self,
        items: Sequence[list[int]],
        prompts: Sequence[str],
        outputs: Sequence[list[Hypothesis]],
    ) -> list[Remarked[Generation]]:
        """The continuations of each prompt."""
        return [
            Remarked(Generation(prompt, [self._continuation(ids, h) for h in hypotheses]))
            for prompt, ids, hypotheses in zip(prompts, items, outputs, strict=True)
        ]

    def _continuation(self, prompt: list[int], hypothesis: Hypothesis) -> Continuation:
        tokenizer = self.text.tokenizers.target
        start = len(tokenizer.decode_lines(prompt))
        ids = hypothesis.tokens if self.start is None else prompt + hypothesis.tokens
        return Continuation(tokenizer.decode_lines(ids)[start:], hypothesis.score)


class PairItem(NamedTuple):
    """The ids of a source and its target, without EOS."""

    source: list[int]
    target: list[int]
    context: int = 0  # ids of the target that are context, which has no score


@dataclass(frozen=True)
class PairCodec:
    """Encodes pairs of texts; a pair of blank texts has score 0."""

    text: ModelText
    direction: SelectedDirection
    terms: TextConstraints | None = None  # that are annotated in the sources
    context: DocumentContext = NO_CONTEXT
    limit: int = 0  # ids of a source with its context

    def encode(
        self, pairs: Sequence[tuple[str, str] | TextPair]
    ) -> tuple[list[PairItem], list[bool]]:
        """The ids of pairs that are not blank, and which are."""
        stripped = [TextPair(pair[0].strip(), pair[1].strip(), *pair[2:]) for pair in pairs]
        texts = [pair for pair in stripped if pair.source or pair.target]
        source, target = self.text.tokenizers.source, self.text.tokenizers.target
        ids = zip(
            source.encode_all([self._source(pair.source) for pair in texts]),
            target.encode_all([pair.target for pair in texts]),
            strict=True,
        )
        encoders = lru_cache(None)(source.encode), lru_cache(None)(target.encode)
        items = [
            self._in_context(PairItem(*both), pair.context, encoders)
            for pair, both in zip(texts, ids, strict=True)
        ]
        return items, [not (pair.source or pair.target) for pair in stripped]

    def _in_context(
        self,
        item: PairItem,
        previous: Sequence[tuple[str, str]],
        encoders: Sequence[Callable[[str], list[int]]],
    ) -> PairItem:
        """A pair whose sides begin with their context, as in `ContextEncoder`."""
        if not previous:
            return item
        rooms = self.limit - len(item.source), target_room(self.context, item.source)
        sides = zip(self.context.counts, rooms, encoders, strict=True)
        source, target = (
            context_ids([encode(pair[side].strip()) for pair in previous[-count:]], room)
            if count
            else []
            for side, (count, room, encode) in enumerate(sides)
        )
        return PairItem([*source, *item.source], [*target, *item.target], len(target))

    def _source(self, text: str) -> str:
        if self.terms is not None:
            text = self.terms.annotated(text, self._fits)
        return self.direction.tagged(text)

    def _fits(self, text: str) -> bool:
        ids = self.text.tokenizers.source.encode(self.direction.tagged(text))
        return len(ids) <= self.direction.statistics.longest_source

    def decode(
        self, items: Sequence[PairItem], is_blank: list[bool], scores: Sequence[float]
    ) -> list[Remarked[float]]:
        """The score of each pair."""
        remaining = iter(scores)
        return [Remarked(0.0 if blank else next(remaining)) for blank in is_blank]
