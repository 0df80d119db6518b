"""The translation pipeline: tokenizers, model and search in one object.

This module does not import PyTorch; a model in CTranslate2 does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from regard.backends.search_backend import search_backend
from regard.config import build
from regard.data.calibration import Calibration, read_calibration
from regard.data.document_context import DocumentContext
from regard.data.model_text import DecodingFamily, ModelText
from regard.decoding.backend import Backend, refuse_bad_batch_size, refuse_large_search
from regard.decoding.config import SearchConfig
from regard.decoding.modes import decoding_mode, refuse_unused
from regard.decoding.ranking_config import with_implied
from regard.errors import ConfigError, DataError
from regard.exchange import ctranslate2_files
from regard.machine import may_have_gpu
from regard.notices import Notice
from regard.pipelines.confidence import confidence_estimator
from regard.pipelines.context import (
    Source,
    context_of_texts,
    in_documents,
    pairs_in_documents,
)
from regard.pipelines.directions import SameDirection, select_direction
from regard.pipelines.forbidden_words import forbid_words
from regard.pipelines.segments import TranslatedText
from regard.pipelines.text_constraints import text_constraints
from regard.pipelines.text_search import (
    ScoreKeywords,
    ScoreTextKeywords,
    TextSearch,
    TranslateKeywords,
    TranslateTextKeywords,
    Translation,
    TranslationRenderer,
    split_constraint_keywords,
    split_score_keywords,
    split_text_keywords,
    split_translate_keywords,
    unchanged,
)
from regard.pipelines.text_steps import text_steps
from regard.pipelines.text_stream import TextStream
from regard.pipelines.texts import check_each, check_pairs, checked_texts, refuse_single_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from regard.backends.lazy_models import LazyModels
    from regard.backends.rerankers import Reranker
    from regard.decoding.attention_maps import AttentionMaps
    from regard.models.base import Model
    from regard.models.folder import ModelFolder

R = TypeVar("R")


class Translator:
    """A trained model, or an ensemble, that translates text."""

    def __init__(
        self,
        paths: Sequence[Path],
        text: ModelText,
        backend: Backend,
        notice: str,
        read_models: Callable[[], LazyModels],
        decoding_family: DecodingFamily = "autoregressive",
    ) -> None:
        self.paths, self.text, self.decoding_family = paths, text, decoding_family
        self.backend, self.backend_notice = backend, notice
        self._read_models = read_models

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
        teacher_path = None if teacher is None else Path(teacher)

        def read_models() -> LazyModels:
            from regard.backends.lazy_models import LazyModels  # imports PyTorch

            return LazyModels.read(paths, device, precision, teacher_path)

        if len(paths) == 1 and teacher is None and _may_use_ctranslate2(device, backend):
            from regard.backends.ctranslate2_models import load_converted

            converted = load_converted(paths[0], precision)
            if converted is not None:
                return cls(paths, *converted, read_models)
        from regard.backends.backend_selection import select_backend

        models = read_models()
        selected, notice = select_backend(
            models, device=device, backend=backend, precision=precision
        )
        common = models.common
        family = common.config.decoding_family
        return cls(paths, common.text, selected, notice, lambda: models, family)

    def __repr__(self) -> str:
        folders = " + ".join(map(str, self.paths))
        return f"<Translator {folders}: {self.text.direction}. {self.backend_notice}>"

    @cached_property
    def _models(self) -> LazyModels:
        return self._read_models()

    @property
    def models(self) -> list[Model]:
        """The models in PyTorch, loaded on first use: for attention, scores and sampling."""
        return self._models.loaded

    @property
    def folder(self) -> ModelFolder:
        """The description of the model folder, or what the folders of an ensemble share."""
        return self._models.common

    def rerankers(self, paths: Sequence[Path]) -> list[Reranker]:
        """Models that score translations of this one."""
        return self._models.rerankers(paths)

    def refuse_exported(self) -> None:
        """Raise an error for exported models, whose probabilities are not available."""
        from regard.foreign_models import refuse_exported

        for path in self.paths:
            refuse_exported(path)

    def translate(
        self,
        texts: Sequence[str],
        *,
        attention: bool = False,
        prefixes: Sequence[str] | None = None,
        batch_size: int | None = None,
        notice: Notice = lambda text: None,
        **keywords: Unpack[TranslateKeywords],
    ) -> list[Translation]:
        """Translate each text; `keywords` are search settings, text settings and constraints.

        `prefixes` are forced prefixes of the translations (of the first segment, where a text has
        several). `notice` is called with messages for the user, which number texts as lines.
        """
        texts = checked_texts(texts)
        prefixes = checked_texts(prefixes, "Prefix") if prefixes is not None else [""] * len(texts)
        if len(prefixes) != len(texts):
            raise ConfigError(
                f"{len(texts)} texts and {len(prefixes)} prefixes: pass one per text."
            )
        if attention and len(self.paths) > 1:
            raise ConfigError(
                "Attention maps are not available for ensembles. Load a single model."
            )
        if attention:
            self.models  # noqa: B018  # raises an error if it cannot be loaded
        self._refuse_prefix(*prefixes)
        search = self.text_search(keywords, batch_size, len(texts), notice)
        if attention and search.context.target:
            raise ConfigError(
                "Attention maps are not available with context of target sentences. Use "
                "document_context=False."
            )
        checked = search.checked(map(Source, texts, prefixes))
        translated = search.stream(unchanged).map([*in_documents(checked, search.context)], notice)
        if not attention:
            return [*map(Translation.of, translated)]
        return [Translation.of(part, self.attention_maps(part)) for part in translated]

    def translate_iterable(
        self, texts: Iterable[str], *, prefix: str = "", **keywords: Unpack[TranslateTextKeywords]
    ) -> Iterator[Translation]:
        """Translate texts of any number, in order, with only a few `window`s in memory.

        `keywords` are the fields of `SearchConfig` and `TextConfig`, and `batch_size`, `window`
        (the number of texts that are sorted before they are batched), `workers` (processes
        that tokenize), `notice` and `on_wait` (called before it waits for texts). A thread reads
        the texts. A script that uses `workers` needs the usual `if __name__ == "__main__":`.
        """
        return self.translate_rendered(texts, unchanged, prefix=prefix, **keywords)

    def translate_rendered(
        self,
        texts: Iterable[str],
        render: Callable[[Translation], R],
        *,
        prefix: str = "",
        **keywords: Unpack[TranslateTextKeywords],
    ) -> Iterator[R]:
        """`translate_iterable` with a last step that runs in the workers, if there are any.

        `render` must be picklable.
        """
        refuse_single_text(texts)
        self._refuse_prefix(*checked_texts([prefix], "Prefix"))
        options, rest = split_translate_keywords(keywords)
        search = self.text_search(rest, options.batch_size, None, options.notice)
        stream = search.stream(TranslationRenderer(render))
        sources = search.checked(Source(text, prefix) for text in check_each(texts))
        return stream.iterate(in_documents(sources, search.context), options)

    def text_search(
        self,
        keywords: TranslateKeywords,
        batch_size: int | None,
        texts: int | None,
        notice: Notice,
    ) -> TextSearch:
        """Check the settings of a search over a number of texts, if that is known."""
        constraint_keywords, keywords = split_constraint_keywords(keywords)
        text_config, search_keywords = split_text_keywords(keywords)
        search_keywords = with_implied(search_keywords, text_config)
        config = build(SearchConfig, dict(search_keywords))
        refuse_bad_batch_size(batch_size)
        mode = decoding_mode(config, self.decoding_family)
        refuse_unused(config, search_keywords, mode)
        config = forbid_words(config, text_config.forbid, self.text.tokenizers.target, mode)
        exported = self.paths if self.backend.device is None else ()
        constraints = text_constraints(constraint_keywords, self.text, mode, exported)
        backend = search_backend(
            config,
            text_config,
            self.backend,
            lambda: self._models,
            mode,
            self.text,
            constrained=constraints is not None,
        )
        sentences = batch_size or 1
        refuse_large_search(
            config,
            sentences if texts is None else min(sentences, texts),
            self.text.vocabulary.target,
            backend.device,
        )
        limit = self.text.data_statistics.longest_source  # subwords of a sentence
        limit = limit if backend.max_length is None else min(limit, backend.max_length - 1)
        direction_of = SameDirection(select_direction(self.text, text_config))
        steps = text_steps(text_config, self.text, constraints)
        confidence = None
        if text_config.computes_confidence:
            confidence = confidence_estimator(
                text_config,
                self.paths,
                self.text.tokenizers.target,
                lambda: self.calibration,
                notice,
            )
        return TextSearch(
            self.text,
            backend,
            config,
            limit,
            batch_size,
            direction_of,
            steps,
            text_config.score_type,
            confidence,
            constraints,
            context_of_texts(self.text, text_config).within(backend.max_length),
        )

    @cached_property
    def calibration(self) -> Calibration | None:
        """The calibration in the model folder, if there is one; None: confidences are uncalibrated.

        It may be set to None. There is none in the folders of ensembles.
        """
        return read_calibration(self.paths[0]) if len(self.paths) == 1 else None

    def _refuse_prefix(self, *prefixes: str) -> None:
        """Raise an error for a prefix that a right-to-left model would generate last."""
        if self.text.tokenizers.config.reverse_target and any(prefixes):
            raise ConfigError(
                f"{self.paths[0]} is a right-to-left model, which generates the beginning of a "
                "text last and cannot be forced to a prefix (--prefix). Leave it out."
            )

    def attention_maps(self, translated: TranslatedText) -> AttentionMaps | None:
        """The attention maps of the best translation of a text; None if it has no segments."""
        from regard.decoding.attention_maps import join_attention_maps, pair_attention_maps

        model, tokenizers = self.models[0], self.text.tokenizers
        maps = [pair_attention_maps(model, tokenizers, *pair) for pair in translated.pairs]
        return join_attention_maps(maps)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        length_penalty: float = 1.0,
        batch_size: int | None = None,
        **keywords: Unpack[ScoreTextKeywords],
    ) -> list[float]:
        """The length-normalized log-prob of each target given its source.

        This is the score that `translate` reports for the same pair. A pair of blank texts, which
        `translate` does not search for, has score 0. With `min_length`, `translate` reports
        log-probs conditioned on that length.
        """
        sources, targets = checked_texts(sources), checked_texts(targets)
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources and {len(targets)} targets: pass one target per source."
            )
        stream, context = self._score_stream(length_penalty, batch_size, keywords)
        return stream.map([*pairs_in_documents(zip(sources, targets, strict=True), context)])

    def score_iterable(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        length_penalty: float = 1.0,
        **keywords: Unpack[ScoreKeywords],
    ) -> Iterator[float]:
        """The `score` of any number of pairs of source and target, in order."""
        options, text = split_score_keywords(keywords)
        stream, context = self._score_stream(length_penalty, options.batch_size, text)
        return stream.iterate(pairs_in_documents(check_pairs(pairs), context), options)

    def _score_stream(
        self, length_penalty: float, batch_size: int | None, keywords: ScoreTextKeywords
    ) -> tuple[TextStream[Any, Any, float, float], DocumentContext]:
        from regard.pipelines.score_stream import pair_codec, score_stream

        penalty = build(SearchConfig, {"length_penalty": length_penalty}).length_penalty
        refuse_bad_batch_size(batch_size)
        codec = pair_codec(self.text, self.models, keywords)
        return score_stream(self.models, codec, penalty, batch_size), codec.context

    def likeliest(
        self, sources: Sequence[str], targets: Sequence[Sequence[int]], count: int
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The `count` most probable tokens at each position of targets, given as token ids.

        For each pair, the ids, best first, and their probabilities: (T + 1, count) both; the last
        position is that of EOS.
        """
        from regard.decoding.pair_batches import map_pairs_by_length
        from regard.decoding.score import top_tokens

        sources = checked_texts(sources)
        ids = self.text.tokenizers.source.encode_all(sources)

        def top_tokens_of_batch(batch: Any) -> list[tuple[Any, Any]]:
            lengths = batch.target.lengths.host.tolist()
            columns = (part.cpu().split(lengths) for part in top_tokens(self.models, batch, count))
            return [(ids.numpy(), values.numpy()) for ids, values in zip(*columns, strict=True)]

        pairs = list(zip(ids, targets, strict=True))
        return map_pairs_by_length(pairs, self._models.device, None, top_tokens_of_batch)


def _may_use_ctranslate2(device: str, backend: str) -> bool:
    """Whether CTranslate2 is chosen for models that it supports."""
    on_cpu = device == "cpu" or (device == "auto" and not may_have_gpu())
    return on_cpu and backend in ("auto", "ctranslate2") and ctranslate2_files.is_installed()
