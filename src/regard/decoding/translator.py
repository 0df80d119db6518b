"""Text in, text out: the model, its tokenizers and a search in one object."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, Unpack

import numpy as np
from numpy.typing import NDArray

from regard.config import build
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.decoding.choice import Choice, Models, choose, refuse_exported
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.effect import mode_of, refuse_unused
from regard.decoding.engine import Engine, by_length, checked_texts, refuse_bad_batch_size
from regard.decoding.look import Attention, look, side_by_side
from regard.decoding.portion import Portion
from regard.decoding.score import likeliest, scores
from regard.decoding.size import refuse_large_search
from regard.devices import device_named
from regard.errors import ConfigError, DataError, ModelError
from regard.models.base import Model
from regard.models.folder import ModelFolder, Training

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Alternative:
    """Another translation of the same text."""

    text: str
    score: float


@dataclass(frozen=True)
class Translation:
    """The best translation of a text, and the `top_beams - 1` next ones."""

    source: str
    text: str
    score: float
    alternatives: list[Alternative] = field(default_factory=list)
    attention: Attention | None = None


class Translator:
    """A trained model, or several as one, ready for text."""

    def __init__(self, folder: ModelFolder, models: Models, choice: Choice) -> None:
        self.folder = folder
        self.engine, self.engine_told = choice.engine, choice.told
        self._models = models

    @classmethod
    def load(
        cls,
        *folders: str | Path,
        device: str = "auto",
        backend: str = "auto",
        precision: str | None = None,
        teacher: str | Path | None = None,
    ) -> Self:
        """Read a model folder, or several that will translate together.

        `backend` is "torch", "ctranslate2", or "auto": CTranslate2 on a CPU, if it is installed and
        can run the model. `precision` is "float32", "bfloat16" (in PyTorch; the default on a GPU),
        or "int8" (in CTranslate2). `teacher` is the folder of a model that writes word by word,
        to choose among the `candidates` of one that writes all words at once.
        """
        if not folders or not all(isinstance(folder, str | Path) for folder in folders):
            raise ConfigError(
                "There is nothing to load. Give the path of a model folder, or several paths one "
                'after the other: load("runs/a", "runs/b").'
            )
        paths = [Path(folder) for folder in folders]
        where = device_named(device)
        found = [ModelFolder.read(path) for path in paths]
        common = shared_folder(paths, found)  # before any weights are read
        judge = None if teacher is None else Path(teacher)
        models = Models(paths, found, where, precision, judge)
        choice = choose(models, device=device, engine=backend, precision=precision)
        return cls(common, models, choice)

    def __repr__(self) -> str:
        folders = " + ".join(map(str, self._models.paths))
        about = f"{self.folder.config.kind}, {self.folder.direction}"
        return f"<Translator {folders}: {about}. {self.engine_told}>"

    @property
    def models(self) -> list[Model]:
        """The models in PyTorch, read when they are needed: for attention, scores and samples."""
        return self._models.loaded

    def refuse_exported(self) -> None:
        """Say, before any work, that probabilities need weights in PyTorch."""
        for path in self._models.paths:
            refuse_exported(path)

    def translate(
        self,
        texts: Sequence[str],
        *,
        attention: bool = False,
        prefixes: Sequence[str] | None = None,
        batch_size: int | None = None,
        notice: Notice = lambda text: None,
        first_line: int = 1,
        **keywords: Unpack[SearchKeywords],
    ) -> list[Translation]:
        """A translation for each text, in their order; `keywords` are those of `SearchConfig`.

        `prefixes` are beginnings that the translations must have (of the first sentence, where a
        text has several). `notice` is told of what a person may want to know; it counts texts as
        lines, from `first_line` on.
        """
        texts = checked_texts(texts)
        config = build(SearchConfig, dict(keywords))
        if prefixes is not None:
            prefixes = checked_texts(prefixes, "Prefix")
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError(f"{len(texts)} texts and {len(prefixes)} prefixes: give one a text.")
        refuse_bad_batch_size(batch_size)
        viewed = self._viewed() if attention else None
        refuse_unused(config, keywords, mode_of(config, self.folder.config))
        by_ours = config.sample or config.at_limit != "scored"
        engine = self._models.torch_engine if by_ours else self.engine
        at_once = min(batch_size or 1, len(texts))
        target = self.folder.vocabulary.target
        refuse_large_search(config, at_once, target, self._models.device)
        limit = self._limit(engine)
        portion = Portion(texts, self.folder, limit, prefixes)
        portion.take(engine.search(portion.jobs(), config, batch_size))
        for number in portion.cut:
            notice(
                f"Line {first_line + number} has a sentence longer than the {limit} subwords that "
                "this model has seen; it was cut and translated in pieces."
            )
        return [self._translation(portion, number, config, viewed) for number in range(len(texts))]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        length_penalty: float = 1.0,
        batch_size: int | None = None,
    ) -> list[float]:
        """How likely the model finds each target as the translation of its source.

        That is what `translate` reports for the same pair, as far as it searches at all: the
        translation of a blank text is blank with certainty, and has score 0. With `min_length`,
        `translate` reports the log-probability given that so many tokens are written.
        """
        build(SearchConfig, {"length_penalty": length_penalty})
        sources = [text.strip() for text in checked_texts(sources)]
        targets = [text.strip() for text in checked_texts(targets)]
        length_penalty = build(SearchConfig, {"length_penalty": length_penalty}).length_penalty
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources and {len(targets)} targets: each source needs one target."
            )
        tokenizers = self.folder.tokenizers
        pairs = list(
            zip(
                tokenizers.source.encode_all(sources),
                tokenizers.target.encode_all(targets),
                strict=True,
            )
        )

        def of(chunk: list[tuple[list[int], list[int]]]) -> list[float]:
            batch = Batch(with_ends([p[0] for p in chunk]), with_ends([p[1] for p in chunk]))
            return scores(self.models, batch.to(self._models.device), length_penalty=length_penalty)

        found = by_length(pairs, lambda pair: len(pair[0]) + len(pair[1]), batch_size, of)
        blank = [not source and not target for source, target in zip(sources, targets, strict=True)]
        return [0.0 if skipped else value for value, skipped in zip(found, blank, strict=True)]

    def likeliest(
        self, sources: Sequence[str], targets: Sequence[Sequence[int]], count: int
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """What the model finds likely at each place of given targets, which are ids of its own.

        For each pair the `count` best ids, best first, and their probabilities: (T + 1, count)
        both, the last place being the end.
        """
        sources = checked_texts(sources)
        cut = self.folder.tokenizers.source.encode_all(sources)
        pairs = list(zip(cut, targets, strict=True))

        def of(
            chunk: list[tuple[list[int], Sequence[int]]],
        ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
            batch = Batch(with_ends([p[0] for p in chunk]), with_ends([p[1] for p in chunk]))
            ids, probabilities = likeliest(self.models, batch.to(self._models.device), count)
            places = [len(target) + 1 for _, target in chunk]
            return [
                (one.cpu().numpy(), other.cpu().numpy())
                for one, other in zip(ids.split(places), probabilities.split(places), strict=True)
            ]

        return by_length(pairs, lambda pair: len(pair[0]) + len(pair[1]), None, of)

    def _viewed(self) -> Model:
        """The model whose attention is looked at."""
        if len(self._models.paths) > 1:
            raise ConfigError("Attention is one model's own. Load that one alone to see it.")
        return self.models[0]

    def _limit(self, engine: Engine) -> int:
        """How many subwords a sentence may have."""
        longest = self.folder.seen.longest_source
        return longest if engine.max_length is None else min(longest, engine.max_length - 1)

    def _translation(
        self, portion: Portion, number: int, config: SearchConfig, viewed: Model | None
    ) -> Translation:
        (text, score), *others = portion.translations(number, config.length_penalty)
        alternatives = [Alternative(*other) for other in others]
        seen = None
        if viewed is not None:
            pairs = portion.pairs(number)
            seen = side_by_side([look(viewed, self.folder.tokenizers, *pair) for pair in pairs])
        return Translation(portion.texts[number], text, score, alternatives, seen)


def shared_folder(paths: Sequence[Path], found: Sequence[ModelFolder]) -> ModelFolder:
    """What the models of several folders have in common, which must be the way they cut text."""
    first, *others = found
    for path, one in zip(paths, found, strict=True):
        if not one.config.translates:
            raise ConfigError(
                f"{path} is a model for {one.config.task.replace('_', ' ')} (model kind "
                f"{one.config.kind!r}), and does not translate. In Python, `regard.load` gives the "
                "pipeline of its task; the verbs are generate, fill, embed, tag and classify."
            )
        if one.seen.longest_source < 1:  # every sentence would be cut into single tokens
            raise ModelError(
                f"{path}/config.json: seen.longest_source is {one.seen.longest_source}, and must "
                "be at least 1. Copy the whole folder again."
            )
    for path, other in zip(paths[1:], others, strict=True):
        if first.other_side(other.languages):
            raise ModelError(
                f"{path} translates {other.direction}, and {paths[0]} {first.direction}, so they "
                "cannot translate together."
            )
        if other.tokenizers != first.tokenizers:
            raise ModelError(
                f"{path} cuts text in another way than {paths[0]}, so they cannot translate "
                "together. Train all of them on data that was prepared once."
            )
    seen = [first.seen, *(other.seen for other in others)]
    common = Training(
        longest_source=min(one.longest_source for one in seen),
        several_sentences=min(one.several_sentences for one in seen),
    )
    return dataclasses.replace(first, seen=common)
