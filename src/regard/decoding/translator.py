"""Text in, text out: the model, its tokenizers and a search in one object."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

import torch

from regard.config import build
from regard.data.loader import with_ends
from regard.data.ragged import Batch
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.engine import Engine, Job, TorchEngine, by_length, max_length
from regard.decoding.hypothesis import Hypothesis, normalized
from regard.decoding.look import Attention, look, side_by_side
from regard.decoding.score import scores
from regard.decoding.segments import Segments, joined, segments
from regard.devices import device_named
from regard.errors import ConfigError, DataError, ModelError
from regard.models.folder import ModelFolder, Training, load_model
from regard.models.transformer import Transformer

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

    def __init__(
        self, folder: ModelFolder, models: Sequence[Transformer], device: torch.device
    ) -> None:
        self.folder = folder
        self.models = list(models)
        self.device = device
        self.engine: Engine = TorchEngine(models, device)
        self._max_length = max_length(models)

    @staticmethod
    def load(*folders: str | Path, device: str = "auto") -> Translator:
        """Read a model folder, or several that will translate together."""
        if not folders or not all(isinstance(folder, str | Path) for folder in folders):
            raise ConfigError(
                "There is nothing to load. Give the path of a model folder, or several paths one "
                'after the other: load("runs/a", "runs/b").'
            )
        paths = [Path(folder) for folder in folders]
        where = device_named(device)
        found = [ModelFolder.read(path) for path in paths]
        common = shared_folder(paths, found)  # before any weights are read
        models = [load_model(path, where, own)[1] for path, own in zip(paths, found, strict=True)]
        return Translator(common, models, where)

    def translate(
        self,
        texts: Sequence[str],
        *,
        attention: bool = False,
        prefixes: Sequence[str] | None = None,
        batch_size: int = 64,
        notice: Notice = lambda text: None,
        first_line: int = 1,
        **keywords: Unpack[SearchKeywords],
    ) -> list[Translation]:
        """A translation for each text, in their order; `keywords` are those of `SearchConfig`.

        `prefixes` are beginnings that the translations must have (of the first sentence, where a
        text has several). `notice` is told of what a person may want to know; it counts texts as
        lines, from `first_line` on.
        """
        texts = _checked(texts)
        if attention and len(self.models) > 1:
            raise ConfigError("Attention is one model's own. Load that one alone to see it.")
        config = build(SearchConfig, dict(keywords))
        taken = [
            self._segments(text, number, notice) for number, text in enumerate(texts, first_line)
        ]
        sources = [part.text for text in taken for part in text.parts if part.text]
        begins = self._prefixes(taken, prefixes) or [[] for _ in sources]
        jobs = [Job(self._encode(text), begin) for text, begin in zip(sources, begins, strict=True)]
        remaining = iter(self.engine.search(jobs, config, batch_size))
        return [
            self._translation(text, parts, remaining, config, attention)
            for text, parts in zip(texts, taken, strict=True)
        ]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        length_penalty: float = 1.0,
        batch_size: int = 64,
    ) -> list[float]:
        """How likely the model finds each target as the translation of its source."""
        sources, targets = _checked(sources), _checked(targets)
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources and {len(targets)} targets: each source needs one target."
            )
        pairs = [
            (self._encode(source), self.folder.tokenizers.target.encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]

        def of(chunk: list[tuple[list[int], list[int]]]) -> list[float]:
            batch = Batch(with_ends([p[0] for p in chunk]), with_ends([p[1] for p in chunk]))
            return scores(self.models, batch.to(self.device), length_penalty=length_penalty)

        return by_length(pairs, lambda pair: len(pair[0]) + len(pair[1]), batch_size, of)

    def _encode(self, text: str) -> list[int]:
        return self.folder.tokenizers.source.encode(text)

    def _decode(self, ids: Sequence[int]) -> str:
        """One line of text, even if a byte of the model's is a line break."""
        text = self.folder.tokenizers.target.decode(ids).replace("\0", "")  # no file may hold it
        return " ".join(text.splitlines())

    def _segments(self, text: str, number: int, notice: Notice) -> Segments:
        limit = self.folder.seen.longest_source
        if self._max_length is not None:
            limit = min(limit, self._max_length - 1)
        taken = segments(text, lambda piece: len(self._encode(piece)), limit, self.folder.seen)
        if taken.was_cut:
            notice(
                f"Line {number} has a sentence longer than the {limit} subwords that this model "
                "has seen; it was cut at a space and translated in pieces."
            )
        return taken

    def _prefixes(
        self, taken: Sequence[Segments], prefixes: Sequence[str] | None
    ) -> list[list[int]] | None:
        """The forced beginning of each piece: the text's own for its first, none for the rest."""
        if prefixes is None:
            return None
        if len(prefixes) != len(taken):
            raise ConfigError(f"{len(taken)} texts and {len(prefixes)} prefixes: give one a text.")
        begins: list[list[int]] = []
        for text, prefix in zip(taken, prefixes, strict=True):
            pieces = sum(bool(part.text) for part in text.parts)
            begins += [self.folder.tokenizers.target.encode(prefix), *[[]] * (pieces - 1)][:pieces]
        return begins

    def _translation(
        self,
        source: str,
        taken: Segments,
        found: Iterator[list[Hypothesis]],
        config: SearchConfig,
        attention: bool,
    ) -> Translation:
        """Put the pieces of one text together again."""
        own = [next(found) if part.text else [] for part in taken.parts]
        ranks = [self._joined(taken, own, rank, config) for rank in range(max([1, *map(len, own)]))]
        best = Translation(source, ranks[0].text, ranks[0].score, ranks[1:])
        if not attention:
            return best
        looks = [
            look(self.models[0], self.folder.tokenizers, self._encode(part.text), beams[0].tokens)
            for part, beams in zip(taken.parts, own, strict=True)
            if part.text
        ]
        return dataclasses.replace(best, attention=side_by_side(looks))

    def _joined(
        self, taken: Segments, own: list[list[Hypothesis]], rank: int, config: SearchConfig
    ) -> Alternative:
        """The text made of each piece's hypothesis of this rank, or of its last one."""
        chosen = [beams[min(rank, len(beams) - 1)] if beams else None for beams in own]
        texts = [self._decode(h.tokens) if h else "" for h in chosen]
        real = [h for h in chosen if h]
        length = sum(len(h.tokens) + 1 for h in real)
        total = sum(h.log_probability for h in real)
        score = normalized(total, length, config.length_penalty) if real else 0.0
        return Alternative(joined(taken.parts, texts), score)


def shared_folder(paths: Sequence[Path], found: Sequence[ModelFolder]) -> ModelFolder:
    """What the models of several folders have in common, which must be the way they cut text."""
    first, *others = found
    for path, other in zip(paths[1:], others, strict=True):
        if first.translates_otherwise(other):
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


def _checked(texts: Sequence[str]) -> list[str]:
    """A list of texts, or a sentence about what was given instead."""
    if isinstance(texts, str):
        raise ConfigError('A list of texts is needed, not one text: write ["..."].')
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ConfigError(
                f"Text {number} is of type {type(text).__name__}, not str. Decode it."
            )
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise DataError(f"Text {number} has half a surrogate pair, which is no character.")
    return texts
