"""Sequence-level knowledge distillation (Kim and Rush, 2016, arXiv:1606.07947).

The teacher, a model or an ensemble, translates the training part of a prepared store, and its
translations replace the targets. Intermediate results are stored beside the result, `OUT`:

OUT.portions/2-of-4/    the shard of the second of four processes
    plan.json           data, teachers and settings, which must be equal in all shards
    000001.txt ...      the translations of a chunk, one per line; written atomically
    000001.new ...      the teacher's distributions at their positions, if they are stored
    000001.old ...      the same for the original targets that are kept

Distillation can be interrupted at any time, and distributed over processes with or without a shared
disk. Without one, copy the shard folders together; the process that finishes last joins them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Unpack

from regard.config import Tree
from regard.data.distributions import DISTRIBUTIONS, write_distributions
from regard.data.prepare import verify_output_folder
from regard.data.sampling import Shard
from regard.data.store import Store
from regard.data.target_replacement import TargetReplacement, replace_targets, select_target
from regard.decoding.config import DistillConfig, SearchConfig, SearchKeywords
from regard.errors import ConfigError, DataError, RunError, StorageError
from regard.files import (
    LOCK,
    is_temporary_path,
    locked_folder,
    remove_stale_staging,
    write_json,
    write_text,
)
from regard.models.folder import AVERAGE, refuse_other_direction
from regard.pipelines.text_search import Translation
from regard.pipelines.text_stream import StreamKeywords
from regard.pipelines.translator import Translator
from regard.regular_files import fingerprint, read_regular_file
from regard.schema import JsonReader
from regard.settings_tree import merge_trees, to_tree, tree_differences

PLAN = "plan.json"
_READER = JsonReader(RunError, "Delete it, and run the same command again.")
_SHARD_NAME = re.compile(r"\d+-of-\d+")
_CHUNK_NAME = re.compile(r"\d{6,}\.(txt|new|old)")
Pair = tuple[Sequence[int], Sequence[int]]  # source and target ids
Similarity = Callable[[str, str], float]  # of a translation to the original target


class Distillation:
    """The distillation of a store by a teacher, in one or more processes."""

    def __init__(
        self,
        store: Store,
        teachers: Sequence[Path],
        out: Path,
        config: DistillConfig,
        *,
        overwrite: bool = False,
    ) -> None:
        """With `overwrite`, replace an existing prepared folder at `out`."""
        if store.directions:
            raise ConfigError(
                f"{store.folder} has several directions, and `regard distill` supports one. "
                "Translate the source texts of each direction with `regard translate "
                "--target-lang`, and list the translations in a corpora file."
            )
        store.refuse_document_context("`regard distill`")
        self._store = store
        self._part = store.part("train")
        self._out = out
        path = out.resolve()
        self._folder = path.with_name(path.name + ".portions")
        self._config = config
        self._teacher_names = " + ".join(path.resolve().name for path in teachers)
        self._plan: Tree = {
            "data": store.fingerprint,
            "teachers": self._teacher_names,
            "weights": [_weights_digest(path) for path in teachers],
            **_plan_settings(config),
        }
        if overwrite:
            verify_output_folder(out)
        else:
            self._refuse_other_result()

    @property
    def is_finished(self) -> bool:
        """Whether the result exists."""
        plan = _read_json(self._out / "store.json").get("distilled")
        return plan is not None and not self._changes(plan)

    def chunks(self, shard: Shard) -> list[int]:
        """The chunks of a shard."""
        count = -(-len(self._part) // self._config.chunk_size)
        return [*shard.select(range(count))]

    def missing_chunks(self, shard: Shard) -> list[int]:
        """The chunks of a shard that no process has finished."""
        finished = self._finished_chunks()
        return [chunk for chunk in self.chunks(shard) if chunk not in finished]

    def sentences(self, chunk: int) -> range:
        """The indices of the training pairs of a chunk."""
        start = chunk * self._config.chunk_size
        return range(start, min(start + self._config.chunk_size, len(self._part)))

    @contextmanager
    def locked_shard(self, shard: Shard) -> Iterator[Path]:
        """Lock a shard for this process, and yield its folder."""
        self._refuse_unrelated_files()
        folder = self._folder / f"{shard.index + 1}-of-{shard.count}"
        with locked_folder(folder):
            self._refuse_other_plans()
            write_json(folder / PLAN, self._plan)
            yield folder

    def translate(
        self,
        chunks: Sequence[int],
        folder: Path,
        translator: Translator,
        *,
        similarity: Similarity,
        **keywords: Unpack[StreamKeywords],
    ) -> Iterator[int]:
        """Translate chunks as one stream, and store each in the folder of its shard.

        Yields the number of each stored chunk.
        """
        tokenizers = self._store.tokenizers
        numbers = [index for chunk in chunks for index in self.sentences(chunk)]
        sources = (tokenizers.source.decode(self._part.source[n].tolist()) for n in numbers)
        keywords["line_numbers"] = (number + 1 for number in numbers)
        search = self._search_keywords()  # its results alone are the targets, without a retry
        stream = translator.translate_iterable(
            sources, retry=False, document_context=False, **search, **keywords
        )
        for chunk in chunks:
            translations = [*islice(stream, len(self.sentences(chunk)))]
            self._write_chunk(chunk, folder, translator, translations, similarity)
            yield chunk

    def _search_keywords(self) -> SearchKeywords:
        """The search settings that differ from the defaults; others may have no effect."""
        defaults = to_tree(SearchConfig())
        settings = to_tree(self._config.search).items()
        search = {name: value for name, value in settings if value != defaults[name]}
        if self._config.select == "best-bleu":
            search["num_hypotheses"] = self._config.search.beam_size
        return SearchKeywords(**search)  # type: ignore[typeddict-item]

    def _write_chunk(
        self,
        chunk: int,
        folder: Path,
        translator: Translator,
        translations: Sequence[Translation],
        similarity: Similarity,
    ) -> None:
        """Store the new targets of a chunk, and their distributions if these are wanted."""
        tokenizers = self._store.tokenizers
        indices = self.sentences(chunk)
        pairs = [(self._part.source[i].tolist(), self._part.target[i].tolist()) for i in indices]
        texts = [translation.text for translation in translations]
        if self._config.select == "best-bleu":
            originals = [tokenizers.target.decode(target) for _, target in pairs]
            texts = [
                _most_similar(translation, original, similarity)
                for translation, original in zip(translations, originals, strict=True)
            ]
        if self._kinds:
            self._write_distributions(folder / f"{chunk:06}", pairs, texts, translator)
        write_text(folder / f"{chunk:06}.txt", "".join(text + "\n" for text in texts))

    @property
    def _kinds(self) -> list[str]:
        """The targets whose distributions are stored, in the order of the result."""
        if not self._config.distributions:
            return []
        return ["new", "old"] if self._config.mix else ["new"]

    def _write_distributions(
        self, path: Path, pairs: Sequence[Pair], texts: Sequence[str], translator: Translator
    ) -> None:
        """Store the teacher's top tokens at each position of the targets of the result."""
        tokenizers = self._store.tokenizers
        pairs_by_kind: dict[str, list[Pair]] = {"new": [], "old": []}
        for (source, old), text in zip(pairs, texts, strict=True):
            new, _ = select_target(tokenizers, source, old, text)
            pairs_by_kind["new"].append((source, new))
            if new != old:
                pairs_by_kind["old"].append((source, old))
        for kind in self._kinds:
            sources = [tokenizers.source.decode(source) for source, _ in pairs_by_kind[kind]]
            targets = [target for _, target in pairs_by_kind[kind]]
            tokens = translator.likeliest(sources, targets, self._config.distributions)
            dtype = self._store.description["dtype"]
            write_distributions(path.with_suffix(f".{kind}"), dtype, tokens)

    def join(self) -> TargetReplacement | None:
        """Join all chunks; None if some are missing, or if another process joins them."""
        result = None
        if not self.is_finished:
            if self.missing_chunks(Shard()):
                return None
            self._refuse_other_plans()
            try:
                with locked_folder(self._folder):
                    result = None if self.is_finished else self._join()
            except RunError:  # another process holds the lock
                return None
        self._remove_chunks()  # also chunks left by an interrupted process
        return result

    def _join(self) -> TargetReplacement:
        chunks = [path for _, path in sorted(self._finished_chunks().items())]
        parts = [path.with_suffix(f".{kind}") for kind in self._kinds for path in chunks]
        return replace_targets(
            self._store,
            self._out,
            self._texts(),
            teacher=self._teacher_names,
            mix=self._config.mix,
            extra_fields={"distilled": self._plan},
            concatenated={DISTRIBUTIONS: parts} if parts else {},
        )

    def _shard_folders(self) -> list[Path]:
        """The folders of shards with the same plan."""
        folders = sorted(path.parent for path in self._folder.glob(f"*/{PLAN}"))
        return [
            folder
            for folder in folders
            if _SHARD_NAME.fullmatch(folder.name) and not self._changes(_read_json(folder / PLAN))
        ]

    def _remove_chunks(self) -> None:
        """Remove the intermediate results of this distillation, and nothing else."""
        for shard in self._shard_folders():
            remove_stale_staging(shard)
            chunks = [path for path in shard.iterdir() if _CHUNK_NAME.fullmatch(path.name)]
            _remove_files([*chunks, shard / LOCK, shard / PLAN], shard)
        for shard in self._folder.glob("*-of-*"):  # left without a plan by an interrupted process
            if {path.name for path in shard.iterdir()} <= {LOCK}:
                with suppress(RunError), locked_folder(shard):  # skip if another process uses it
                    _remove_files([shard / LOCK], shard)
        _remove_files([self._folder / LOCK], self._folder)

    def _refuse_unrelated_files(self) -> None:
        """Raise an error if the folder of intermediate results has unrelated files."""
        paths = [*self._folder.iterdir()] if self._folder.exists() else []
        for path in paths:
            entries = path.iterdir() if path.is_dir() else iter(())
            names = {entry.name for entry in entries if not is_temporary_path(entry)}
            is_shard = _SHARD_NAME.fullmatch(path.name) and (names <= {LOCK} or PLAN in names)
            if not (is_shard or path.name == LOCK or is_temporary_path(path)):
                raise StorageError(
                    f"{self._folder} is for intermediate results, but contains {path.name}. Move "
                    "it, or choose another --out."
                )

    def _finished_chunks(self) -> dict[int, Path]:
        """The finished chunks of all processes, by number."""
        return {
            int(path.stem): path
            for shard in self._shard_folders()
            for path in sorted(shard.glob("[0-9]*.txt"))
            if _CHUNK_NAME.fullmatch(path.name)
            and all(path.with_suffix(f".{kind}").is_file() for kind in self._kinds)
        }

    def _texts(self) -> Iterator[str]:
        for chunk, path in sorted(self._finished_chunks().items()):
            try:
                texts = read_regular_file(path).decode("utf-8").split("\n")[:-1]
            except UnicodeDecodeError:
                raise DataError(
                    f"{path} is not UTF-8 text. Delete it and run the same command again."
                ) from None
            if len(texts) != len(self.sentences(chunk)):
                raise DataError(
                    f"{path} has {len(texts)} lines, but must have {len(self.sentences(chunk))}. "
                    "Delete it and run the same command again."
                )
            yield from texts

    def _changes(self, old: Tree) -> list[str]:
        """The differences between another plan, completed by defaults, and this one."""
        return tree_differences(merge_trees(_plan_settings(DistillConfig()), old), self._plan)

    def _refuse_other_plans(self) -> None:
        for path in sorted(self._folder.glob(f"*/{PLAN}")):
            changed = self._changes(_read_json(path))
            if changed:
                raise RunError(
                    f"{self._folder} has results of other settings: {'; '.join(changed)}. Use "
                    "the old settings to resume, choose another --out, or delete the folder."
                )

    def _refuse_other_result(self) -> None:
        if not self._out.exists() or (self._out.is_dir() and not any(self._out.iterdir())):
            return
        plan = _read_json(self._out / "store.json").get("distilled")
        changed = [] if plan is None else self._changes(plan)
        problem = f"was distilled with other settings: {'; '.join(changed)}"
        remedy = "replace it"
        if plan is None:
            problem = "exists and is not the result of a distillation; nothing was changed"
            remedy = "replace a prepared folder"
        if plan is None or changed:
            raise StorageError(
                f"{self._out} {problem}. Choose another --out, or use --overwrite to {remedy}."
            )


def _plan_settings(config: DistillConfig) -> Tree:
    """The settings as stored in plans, which have the field names of format 1."""
    tree = to_tree(config)
    tree["search"]["top_beams"] = tree["search"].pop("num_hypotheses")
    tree["nearest"] = tree.pop("select") == "best-bleu"
    tree["portion"] = tree.pop("chunk_size")
    return tree


def refuse_unsuitable_teacher(translator: Translator, store: Store, config: DistillConfig) -> None:
    """Raise an error if the teacher's direction or text differs from the store's.

    Its tokenizers may differ, unless distributions are stored, which need the same target subwords.
    """
    teacher = translator.text
    refuse_other_direction(teacher, store)
    actual, required = teacher.tokenizers.config, store.tokenizers.config
    for setting, adjective in (("lowercase", "lowercased"), ("nfkc", "NFKC-normalized")):
        if getattr(actual, setting) != getattr(required, setting):
            no_store, no_teacher = ("", "not ") if getattr(required, setting) else ("not ", "")
            raise ConfigError(
                f"The text of {store.folder} is {no_store}{adjective}, but the teacher's text is "
                f"{no_teacher}{adjective}. Choose another teacher, or prepare the data "
                f"with{no_teacher and 'out'} --{setting}."
            )
    annotated = store.description["parts"]["train"].get("annotated_terms")
    if annotated and not teacher.data_statistics.annotated_terms:
        raise ConfigError(
            f"The sources of {store.folder} have annotated terms, but the teacher was trained "
            "without. Choose a teacher that was trained with annotated terms, or other data."
        )
    if not config.distributions:
        return
    translator.refuse_exported()
    if teacher.tokenizers.target != store.tokenizers.target:
        raise ConfigError(
            f"The teacher and {store.folder} use different target tokenizers, so the teacher's "
            "distributions do not match its vocabulary. Choose a teacher trained with the same "
            "tokenizer, or leave out --distributions."
        )
    if config.distributions > store.tokenizers.target.vocab_size:
        raise ConfigError(
            f"--distributions {config.distributions} exceeds the vocabulary of "
            f"{store.tokenizers.target.vocab_size} subwords. Use a smaller number."
        )


def _most_similar(translation: Translation, original: str, similarity: Similarity) -> str:
    """The hypothesis that is most similar to the original target; the first one if tied."""
    beam = [translation.text, *(other.text for other in translation.alternatives)]
    return max(beam, key=lambda text: similarity(text, original))


def _weights_digest(teacher: Path) -> str:
    """A fingerprint of a teacher's weight files."""
    average = teacher / AVERAGE
    files = [average] if average.is_file() else sorted(teacher.glob("*.safetensors"))
    return fingerprint(path.read_bytes() for path in files or sorted(teacher.glob("*/*.bin")))


def _remove_files(files: Sequence[Path], folder: Path) -> None:
    """Remove files of a folder, then the folder if it is empty."""
    with suppress(OSError):
        for file in files:
            file.unlink(missing_ok=True)
        folder.rmdir()


def _read_json(path: Path) -> Tree:
    """The contents of a JSON file; empty if it is missing or invalid."""
    try:
        return _READER.read_object(path)
    except (RunError, StorageError):
        return {}
