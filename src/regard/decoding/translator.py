"""The translation pipeline: tokenizers, model and search in one object."""

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
from regard.decoding.attention_maps import AttentionMaps, join_attention_maps, pair_attention_maps
from regard.decoding.backend import (
    Backend,
    map_pairs_by_length,
    refuse_bad_batch_size,
    refuse_large_search,
)
from regard.decoding.backend_selection import LazyModels, refuse_exported, select_backend
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.modes import decoding_mode, refuse_unused
from regard.decoding.pipeline import Notice, checked_texts
from regard.decoding.score import score_pairs, top_tokens
from regard.decoding.segments import SegmentedTexts
from regard.devices import resolve_device
from regard.errors import ConfigError, DataError, ModelError
from regard.models.base import Model
from regard.models.folder import DataStatistics, ModelFolder


@dataclass(frozen=True)
class Alternative:
    """Another hypothesis for the same text."""

    text: str
    score: float


@dataclass(frozen=True)
class Translation:
    """The best translation of a text, and the `num_hypotheses - 1` next best."""

    source: str
    text: str
    score: float
    alternatives: list[Alternative] = field(default_factory=list)
    attention: AttentionMaps | None = None


class Translator:
    """A trained model, or an ensemble, that translates text."""

    def __init__(
        self, folder: ModelFolder, models: LazyModels, backend: Backend, notice: str
    ) -> None:
        self.folder = folder
        self.backend, self.backend_notice = backend, notice
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
        """Load a model folder, or several as an ensemble.

        `backend` is "torch", "ctranslate2", or "auto": CTranslate2 on a CPU, if it is installed and
        supports the model. `precision` is "float32", "bfloat16" (in PyTorch; the default on a GPU),
        or "int8" (in CTranslate2). `teacher` is the folder of an autoregressive model that reranks
        the `candidates` of a non-autoregressive one.
        """
        if not folders or not all(isinstance(folder, str | Path) for folder in folders):
            raise ConfigError(
                "No model folder to load. Pass the path of a model folder, or several paths for an "
                'ensemble: load("runs/a", "runs/b").'
            )
        paths = [Path(folder) for folder in folders]
        descriptions = [ModelFolder.read(path) for path in paths]
        common = ensemble_description(
            paths, descriptions
        )  # validates before any weights are loaded
        teacher_path = None if teacher is None else Path(teacher)
        models = LazyModels(paths, descriptions, resolve_device(device), precision, teacher_path)
        selected = select_backend(models, device=device, backend=backend, precision=precision)
        return cls(common, models, *selected)

    def __repr__(self) -> str:
        folders = " + ".join(map(str, self._models.paths))
        description = f"{self.folder.config.kind}, {self.folder.direction}"
        return f"<Translator {folders}: {description}. {self.backend_notice}>"

    @property
    def models(self) -> list[Model]:
        """The models in PyTorch, loaded on first use: for attention, scores and sampling."""
        return self._models.loaded

    def refuse_exported(self) -> None:
        """Raise an error for exported models, whose probabilities are not available."""
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
        """Translate each text; `keywords` are the fields of `SearchConfig`.

        `prefixes` are forced prefixes of the translations (of the first segment, where a text has
        several). `notice` is called with messages for the user, which number texts as lines,
        starting at `first_line`.
        """
        texts = checked_texts(texts)
        config = build(SearchConfig, dict(keywords))
        if prefixes is not None:
            prefixes = checked_texts(prefixes, "Prefix")
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError(
                f"{len(texts)} texts and {len(prefixes)} prefixes: pass one per text."
            )
        refuse_bad_batch_size(batch_size)
        if attention and len(self._models.paths) > 1:
            raise ConfigError(
                "Attention maps are not available for ensembles. Load a single model."
            )
        attention_model = self.models[0] if attention else None
        refuse_unused(config, keywords, decoding_mode(config, self.folder.config))
        torch_only = config.sample or config.at_limit != "scored"
        backend = self._models.torch_backend if torch_only else self.backend
        sentences, vocab_size = min(batch_size or 1, len(texts)), self.folder.vocabulary.target
        refuse_large_search(config, sentences, vocab_size, self._models.device)
        limit = self.folder.data_statistics.longest_source  # subwords of a sentence
        if backend.max_length is not None:
            limit = min(limit, backend.max_length - 1)
        segmented = SegmentedTexts(texts, self.folder, limit, prefixes)
        segmented.add_results(backend.search(segmented.requests(), config, batch_size))
        for number in segmented.split_text_numbers:
            notice(
                f"Line {first_line + number} has a sentence longer than {limit} subwords, the "
                "longest that this model was trained on; it was split and translated in parts."
            )
        return [
            self._translation(segmented, number, config, attention_model)
            for number in range(len(texts))
        ]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        length_penalty: float = 1.0,
        batch_size: int | None = None,
    ) -> list[float]:
        """The length-normalized log-prob of each target given its source.

        This is the score that `translate` reports for the same pair. A pair of blank texts, which
        `translate` does not search for, has score 0. With `min_length`, `translate` reports
        log-probs conditioned on that length.
        """
        length_penalty = build(SearchConfig, {"length_penalty": length_penalty}).length_penalty
        sources = [text.strip() for text in checked_texts(sources)]
        targets = [text.strip() for text in checked_texts(targets)]
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources and {len(targets)} targets: pass one target per source."
            )
        tokenizers = self.folder.tokenizers
        ids = tokenizers.source.encode_all(sources), tokenizers.target.encode_all(targets)

        def score_batch(batch: Batch) -> list[float]:
            return score_pairs(self.models, batch, length_penalty=length_penalty)

        pairs = list(zip(*ids, strict=True))
        values = map_pairs_by_length(pairs, self._models.device, batch_size, score_batch)
        texts = zip(sources, targets, strict=True)
        return [value if any(pair) else 0.0 for value, pair in zip(values, texts, strict=True)]

    def likeliest(
        self, sources: Sequence[str], targets: Sequence[Sequence[int]], count: int
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The `count` most probable tokens at each position of targets, given as token ids.

        For each pair, the ids, best first, and their probabilities: (T + 1, count) both; the last
        position is that of EOS.
        """
        sources = checked_texts(sources)
        ids = self.folder.tokenizers.source.encode_all(sources)

        def top_tokens_of_batch(
            batch: Batch,
        ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
            lengths = batch.target.lengths.host.tolist()
            columns = (part.cpu().split(lengths) for part in top_tokens(self.models, batch, count))
            return [(ids.numpy(), values.numpy()) for ids, values in zip(*columns, strict=True)]

        pairs = list(zip(ids, targets, strict=True))
        return map_pairs_by_length(pairs, self._models.device, None, top_tokens_of_batch)

    def _translation(
        self,
        segmented: SegmentedTexts,
        number: int,
        config: SearchConfig,
        attention_model: Model | None,
    ) -> Translation:
        (text, score), *others = segmented.translations(number, config.length_penalty)
        alternatives = [Alternative(*other) for other in others]
        maps = None
        if attention_model is not None:
            tokenizers = self.folder.tokenizers
            maps = join_attention_maps(
                [
                    pair_attention_maps(attention_model, tokenizers, *pair)
                    for pair in segmented.pairs(number)
                ]
            )
        return Translation(segmented.texts[number], text, score, alternatives, maps)


def ensemble_description(paths: Sequence[Path], folders: Sequence[ModelFolder]) -> ModelFolder:
    """The common description of the folders; raises an error if they cannot form an ensemble."""
    first = folders[0]
    for path, folder in zip(paths, folders, strict=True):
        if not folder.config.translates:
            raise ConfigError(
                f"{path} is a model for {folder.config.task.replace('_', ' ')} (model kind "
                f"{folder.config.kind!r}), and does not translate. In Python, `regard.load` "
                "returns its pipeline; the commands are generate, fill, embed, tag and classify."
            )
        if folder.data_statistics.longest_source < 1:  # sentences would be split into single tokens
            raise ModelError(
                f"{path}/config.json: data_statistics.longest_source is "
                f"{folder.data_statistics.longest_source}, but must be at least 1. Copy the whole "
                "folder again."
            )
        if first.mismatched_side(folder.languages):
            raise ModelError(
                f"{path} translates {folder.direction}, but {paths[0]} {first.direction}, so they "
                "cannot form an ensemble. Choose models of the same direction."
            )
        if folder.tokenizers != first.tokenizers:
            raise ModelError(
                f"{path} and {paths[0]} use different tokenizers, so they cannot form an ensemble. "
                "Train all of them on the same prepared data."
            )
    common = DataStatistics(
        longest_source=min(folder.data_statistics.longest_source for folder in folders),
        several_sentences=min(folder.data_statistics.several_sentences for folder in folders),
    )
    return dataclasses.replace(first, data_statistics=common)


def sentences_per_second(
    translator: Translator,
    texts: Sequence[str],
    *,
    batch_size: int,
    **keywords: Unpack[SearchKeywords],
) -> float:
    """The translation speed; each text is a sentence, and batches of 1 run sequentially."""
    calls = [[text] for text in texts] if batch_size == 1 else [texts]
    start = time.perf_counter()
    for call in calls:
        translator.translate(call, batch_size=batch_size, **keywords)
    return len(texts) / (time.perf_counter() - start)
