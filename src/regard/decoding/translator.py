"""Text in, text out: the model, its tokenizers and a search in one object."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, Unpack

import numpy as np
from numpy.typing import NDArray

from regard.config import build
from regard.data.batch import Batch
from regard.decoding.attention_maps import Attention, look, side_by_side
from regard.decoding.choice import Models, choose, refuse_exported
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.effect import mode_of, refuse_unused
from regard.decoding.engine import Engine, over_pairs, refuse_bad_batch_size, refuse_large_search
from regard.decoding.pipeline import Notice, checked_texts
from regard.decoding.score import likeliest, scores
from regard.decoding.segments import SegmentedTexts
from regard.devices import device_named
from regard.errors import ConfigError, DataError, ModelError
from regard.models.base import Model
from regard.models.folder import ModelFolder, Training


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

    def __init__(self, folder: ModelFolder, models: Models, engine: Engine, told: str) -> None:
        self.folder = folder
        self.engine, self.engine_told = engine, told
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
        engine = choose(models, device=device, engine=backend, precision=precision)
        return cls(common, models, *engine)

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
        if attention and len(self._models.paths) > 1:
            raise ConfigError("Attention is one model's own. Load that one alone to see it.")
        viewed = self.models[0] if attention else None
        refuse_unused(config, keywords, mode_of(config, self.folder.config))
        by_ours = config.sample or config.at_limit != "scored"
        engine = self._models.torch_engine if by_ours else self.engine
        at_once = min(batch_size or 1, len(texts))
        target = self.folder.vocabulary.target
        refuse_large_search(config, at_once, target, self._models.device)
        limit = self.folder.seen.longest_source  # subwords of a sentence
        if engine.max_length is not None:
            limit = min(limit, engine.max_length - 1)
        segmented = SegmentedTexts(texts, self.folder, limit, prefixes)
        segmented.take(engine.search(segmented.jobs(), config, batch_size))
        for number in segmented.cut:
            notice(
                f"Line {first_line + number} has a sentence longer than the {limit} subwords that "
                "this model has seen; it was cut and translated in pieces."
            )
        return [
            self._translation(segmented, number, config, viewed) for number in range(len(texts))
        ]

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
        length_penalty = build(SearchConfig, {"length_penalty": length_penalty}).length_penalty
        sources = [text.strip() for text in checked_texts(sources)]
        targets = [text.strip() for text in checked_texts(targets)]
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources and {len(targets)} targets: each source needs one target."
            )
        tokenizers = self.folder.tokenizers
        ids = tokenizers.source.encode_all(sources), tokenizers.target.encode_all(targets)

        def of(batch: Batch) -> list[float]:
            return scores(self.models, batch, length_penalty=length_penalty)

        found = over_pairs(list(zip(*ids, strict=True)), self._models.device, batch_size, of)
        texts = zip(sources, targets, strict=True)
        return [value if any(pair) else 0.0 for value, pair in zip(found, texts, strict=True)]

    def likeliest(
        self, sources: Sequence[str], targets: Sequence[Sequence[int]], count: int
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """What the model finds likely at each place of given targets, which are ids of its own.

        For each pair the `count` best ids, best first, and their probabilities: (T + 1, count)
        both, the last place being the end.
        """
        sources = checked_texts(sources)  # before anything else is looked at
        ids = self.folder.tokenizers.source.encode_all(sources)

        def of(batch: Batch) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
            places = batch.target.lengths.host.tolist()
            both = (part.cpu().split(places) for part in likeliest(self.models, batch, count))
            return [(ids.numpy(), values.numpy()) for ids, values in zip(*both, strict=True)]

        return over_pairs(list(zip(ids, targets, strict=True)), self._models.device, None, of)

    def _translation(
        self, segmented: SegmentedTexts, number: int, config: SearchConfig, viewed: Model | None
    ) -> Translation:
        (text, score), *others = segmented.translations(number, config.length_penalty)
        alternatives = [Alternative(*other) for other in others]
        seen = None
        if viewed is not None:
            pairs = segmented.pairs(number)
            seen = side_by_side([look(viewed, self.folder.tokenizers, *pair) for pair in pairs])
        return Translation(segmented.texts[number], text, score, alternatives, seen)


def shared_folder(paths: Sequence[Path], found: Sequence[ModelFolder]) -> ModelFolder:
    """What the models of several folders have in common, which must be the way they cut text."""
    first = found[0]
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
        if first.other_side(one.languages):
            raise ModelError(
                f"{path} translates {one.direction}, and {paths[0]} {first.direction}, so they "
                "cannot translate together."
            )
        if one.tokenizers != first.tokenizers:
            raise ModelError(
                f"{path} cuts text in another way than {paths[0]}, so they cannot translate "
                "together. Train all of them on data that was prepared once."
            )
    common = Training(
        longest_source=min(one.seen.longest_source for one in found),
        several_sentences=min(one.seen.several_sentences for one in found),
    )
    return dataclasses.replace(first, seen=common)


def sentences_per_second(
    translator: Translator,
    texts: Sequence[str],
    *,
    batch_size: int,
    **keywords: Unpack[SearchKeywords],
) -> float:
    """The speed over texts of a sentence each; in batches of 1, each waits for the last."""
    parts = [[text] for text in texts] if batch_size == 1 else [texts]
    begin = time.perf_counter()
    for part in parts:
        translator.translate(part, batch_size=batch_size, **keywords)
    return len(texts) / (time.perf_counter() - begin)
