"""Sequence-level distillation (Kim and Rush, 2016, arXiv:1606.07947): a teacher's training text.

The teacher, a model or an ensemble, translates the training part of a prepared store, and its
translations take the place of the targets. Beside `OUT`, the result, lies the work so far:

OUT.portions/2-of-4/    what the second of four processes has done
    plan.json           what is being made, and of what; all processes must agree
    000001.txt ...      the translations of one portion, a line each, whole or not there
    000001.new ...      what else was likely at each of their places, if that is kept
    000001.old ...      and at each place of the old targets that are kept too

So work can be stopped at any time, and be shared by processes that see one disk, or none in
common: then their folders are copied together, and whoever runs last joins them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.config import Tree, as_tree, differences, merged
from regard.data.distributions import DISTRIBUTIONS, write_distributions
from regard.data.prepare import refuse_foreign_folder
from regard.data.retarget import Retargeted, chosen, retarget
from regard.data.sampling import Turn
from regard.data.store import Store
from regard.decoding.config import DistillConfig, SearchConfig, SearchKeywords
from regard.decoding.pipeline import Notice
from regard.decoding.translator import Translation, Translator
from regard.errors import ConfigError, DataError, RunError, StorageError
from regard.files import LOCK, clear_leftovers, is_leftover, locked, write_json, write_text
from regard.models.folder import AVERAGE, refuse_other_direction
from regard.regular import fingerprint, read_regular
from regard.schema import JsonReader

PLAN = "plan.json"
_READER = JsonReader(RunError, "Delete it, and run the same command again.")
_SHARE = re.compile(r"\d+-of-\d+")
_PORTION = re.compile(r"\d{6,}\.(txt|new|old)")
Pair = tuple[Sequence[int], Sequence[int]]  # ids of both sides
Nearness = Callable[[str, str], float]  # of a translation to the old target; more is nearer


class Distillation:
    """One store, one teacher, one way to search: by however many processes it is worked on."""

    def __init__(
        self,
        store: Store,
        teachers: Sequence[Path],
        out: Path,
        config: DistillConfig,
        *,
        overwrite: bool = False,
    ) -> None:
        """With `overwrite`, another prepared folder in the place of `out` is replaced."""
        self._store = store
        self._part = store.part("train")
        self._out = out
        place = out.resolve()
        self._folder = place.with_name(place.name + ".portions")
        self._config = config
        self._author = " + ".join(path.resolve().name for path in teachers)
        self._plan: Tree = {
            "data": store.fingerprint,
            "teachers": self._author,
            "weights": [_digest(path) for path in teachers],
            **as_tree(config),
        }
        if overwrite:
            refuse_foreign_folder(out)
        else:
            self._refuse_other_result()

    @property
    def is_finished(self) -> bool:
        """Whether the result is there."""
        made = _read(self._out / "store.json").get("distilled")
        return made is not None and not self._changes(made)

    def portions(self, turn: Turn) -> list[int]:
        """The portions that are a process's share."""
        count = -(-len(self._part) // self._config.portion)
        return [*turn.among(range(count))]

    def missing(self, turn: Turn) -> list[int]:
        """Those that nobody has done yet."""
        done = self._done()
        return [portion for portion in self.portions(turn) if portion not in done]

    def sentences(self, portion: int) -> range:
        """Which training pairs a portion holds."""
        begin = portion * self._config.portion
        return range(begin, min(begin + self._config.portion, len(self._part)))

    @contextmanager
    def held(self, turn: Turn) -> Iterator[Path]:
        """The folder of one share of the work; while this lasts, nobody else may work on it."""
        self._refuse_foreign_portions()
        folder = self._folder / f"{turn.number + 1}-of-{turn.of}"
        with locked(folder):
            self._refuse_other_plans()
            write_json(folder / PLAN, self._plan)
            yield folder

    def translate(
        self,
        portion: int,
        folder: Path,
        translator: Translator,
        *,
        batch_size: int | None,
        nearness: Nearness,
        notice: Notice,
    ) -> None:
        """Do one portion, and keep it in the folder of its share."""
        own, tokenizers = self.sentences(portion), self._store.tokenizers
        usual = as_tree(SearchConfig())
        given = as_tree(self._config.search).items()
        search = {name: value for name, value in given if value != usual[name]}
        if self._config.nearest:
            search["top_beams"] = self._config.search.beam_size
        keywords = SearchKeywords(**search)  # type: ignore[typeddict-item]
        pairs = [(self._part.source[i].tolist(), self._part.target[i].tolist()) for i in own]
        found = translator.translate(
            [tokenizers.source.decode(source) for source, _ in pairs],
            batch_size=batch_size,
            notice=notice,
            first_line=own.start + 1,
            **keywords,
        )
        texts = [translation.text for translation in found]
        if self._config.nearest:
            olds = [tokenizers.target.decode(target) for _, target in pairs]
            texts = [_nearest(*both, nearness) for both in zip(found, olds, strict=True)]
        if self._kinds:
            self._write_distributions(folder / f"{portion:06}", pairs, texts, translator)
        write_text(folder / f"{portion:06}.txt", "".join(text + "\n" for text in texts))

    @property
    def _kinds(self) -> list[str]:
        """Of which targets distributions are kept, in the order of the result."""
        if not self._config.distributions:
            return []
        return ["new", "old"] if self._config.mix else ["new"]

    def _write_distributions(
        self, path: Path, pairs: Sequence[Pair], texts: Sequence[str], translator: Translator
    ) -> None:
        """What the teacher finds likely at each place of the targets that the result will have."""
        tokenizers = self._store.tokenizers
        kept: dict[str, list[Pair]] = {"new": [], "old": []}
        for (source, old), text in zip(pairs, texts, strict=True):
            new, _ = chosen(tokenizers, source, old, text)
            kept["new"].append((source, new))
            if new != old:
                kept["old"].append((source, old))
        for kind in self._kinds:
            sources = [tokenizers.source.decode(source) for source, _ in kept[kind]]
            targets = [target for _, target in kept[kind]]
            found = translator.likeliest(sources, targets, self._config.distributions)
            dtype = self._store.description["dtype"]
            write_distributions(path.with_suffix(f".{kind}"), dtype, found)

    def join(self) -> Retargeted | None:
        """Make the result of all portions; None if some are missing, or another process does it."""
        made = None
        if not self.is_finished:
            if self.missing(Turn()):
                return None
            self._refuse_other_plans()
            try:
                with locked(self._folder):
                    made = None if self.is_finished else self._joined()
            except RunError:  # another process was as quick to find that nothing is missing
                return None
        self._remove_portions()  # a kill may have left them beside a result, too
        return made

    def _joined(self) -> Retargeted:
        done = [path for _, path in sorted(self._done().items())]
        parts = [path.with_suffix(f".{kind}") for kind in self._kinds for path in done]
        return retarget(
            self._store,
            self._out,
            self._texts(),
            author=self._author,
            mix=self._config.mix,
            about={"distilled": self._plan},
            joined={DISTRIBUTIONS: parts} if parts else {},
        )

    def _shares(self) -> list[Path]:
        """The folders of shares that are part of this work."""
        found = sorted(path.parent for path in self._folder.glob(f"*/{PLAN}"))
        return [
            share
            for share in found
            if _SHARE.fullmatch(share.name) and not self._changes(_read(share / PLAN))
        ]

    def _remove_portions(self) -> None:
        """Remove what this work has written beside its result, and nothing else."""
        for share in self._shares():
            clear_leftovers(share)
            portions = [path for path in share.iterdir() if _PORTION.fullmatch(path.name)]
            _remove([*portions, share / LOCK, share / PLAN], share)
        for share in self._folder.glob("*-of-*"):  # a kill left it before or after its plan
            if {path.name for path in share.iterdir()} <= {LOCK}:
                with suppress(RunError), locked(share):  # unless a process works there
                    _remove([share / LOCK], share)
        _remove([self._folder / LOCK], self._folder)

    def _refuse_foreign_portions(self) -> None:
        """Refuse to work in a folder with anything in it that is no such work."""
        shares = [*self._folder.iterdir()] if self._folder.exists() else []
        for path in shares:
            inside = path.iterdir() if path.is_dir() else iter(())
            names = {entry.name for entry in inside if not is_leftover(entry)}
            is_work = _SHARE.fullmatch(path.name) and (names <= {LOCK} or PLAN in names)
            if not (is_work or path.name == LOCK or is_leftover(path)):
                raise StorageError(
                    f"{self._folder} is where the work so far is kept, and holds something else "
                    f"({path.name}). Move that, or choose another --out."
                )

    def _done(self) -> dict[int, Path]:
        """The portions that any process has done."""
        return {
            int(path.stem): path
            for share in self._shares()
            for path in sorted(share.glob("[0-9]*.txt"))
            if _PORTION.fullmatch(path.name)
            and all(path.with_suffix(f".{kind}").is_file() for kind in self._kinds)
        }

    def _texts(self) -> Iterator[str]:
        for portion, path in sorted(self._done().items()):
            try:
                texts = read_regular(path).decode("utf-8").split("\n")[:-1]
            except UnicodeDecodeError:
                raise DataError(
                    f"{path} is not UTF-8 text. Delete it and run the same command again."
                ) from None
            if len(texts) != len(self.sentences(portion)):
                raise DataError(
                    f"{path} has {len(texts)} lines, not {len(self.sentences(portion))}. "
                    "Delete it and run the same command again."
                )
            yield from texts

    def _changes(self, old: Tree) -> list[str]:
        """Where this is another plan; a setting that an old one did not know had its default."""
        return differences(merged(as_tree(DistillConfig()), old), self._plan)

    def _refuse_other_plans(self) -> None:
        for path in sorted(self._folder.glob(f"*/{PLAN}")):
            changed = self._changes(_read(path))
            if changed:
                raise RunError(
                    f"{self._folder} holds other work: {'; '.join(changed)}. Use the old settings "
                    "to go on, choose another --out, or delete that folder."
                )

    def _refuse_other_result(self) -> None:
        if not self._out.exists() or (self._out.is_dir() and not any(self._out.iterdir())):
            return
        made = _read(self._out / "store.json").get("distilled")
        changed = [] if made is None else self._changes(made)
        what = f"was distilled in another way: {'; '.join(changed)}"
        how = "replace it"
        if made is None:
            what = "exists and holds something else, so it is left as it is"
            how = "replace a prepared folder"
        if made is None or changed:
            raise StorageError(
                f"{self._out} {what}. Choose another --out, or add --overwrite to {how}."
            )


def refuse_unsuitable(translator: Translator, store: Store, config: DistillConfig) -> None:
    """A teacher must read and write text as the store has it; how it cuts it is its own affair.

    Only if its distributions are kept, it must know the same target subwords.
    """
    teacher = translator.folder
    refuse_other_direction(teacher, store)
    own, needed = teacher.tokenizers.config, store.tokenizers.config
    for setting, word in (("lowercase", "lower-cased"), ("nfkc", "normalised by NFKC")):
        if getattr(own, setting) != getattr(needed, setting):
            one, other = ("", "not ") if getattr(needed, setting) else ("not ", "")
            raise ConfigError(
                f"The text of {store.folder} is {one}{word}, and the teacher's is {other}so. "
                f"Choose another teacher, or prepare the data with{other and 'out'} --{setting}."
            )

    if not config.distributions:
        return
    translator.refuse_exported()
    if teacher.tokenizers.target != store.tokenizers.target:
        raise ConfigError(
            f"The teacher writes other subwords than {store.folder}, so its distributions are over "
            "other words. Choose a teacher that was trained with the same tokenizer, or leave "
            "--distributions out."
        )
    if config.distributions > store.tokenizers.target.vocab_size:
        raise ConfigError(
            f"--distributions {config.distributions}: there are only "
            f"{store.tokenizers.target.vocab_size} subwords."
        )


def _nearest(found: Translation, old: str, nearness: Nearness) -> str:
    """Of all in the beam, the translation nearest to the old target; the first of equals."""
    beam = [found.text, *(other.text for other in found.alternatives)]
    return max(beam, key=lambda text: nearness(text, old))


def _digest(teacher: Path) -> str:
    """Another one for other weights, in whatever form a folder has them."""
    average = teacher / AVERAGE
    files = [average] if average.is_file() else sorted(teacher.glob("*.safetensors"))
    return fingerprint(path.read_bytes() for path in files or sorted(teacher.glob("*/*.bin")))


def _remove(files: Sequence[Path], folder: Path) -> None:
    """Remove files of a folder, and the folder if nothing else is in it."""
    with suppress(OSError):
        for file in files:
            file.unlink(missing_ok=True)
        folder.rmdir()


def _read(path: Path) -> Tree:
    """A file of ours, or nothing if there is none that can be read."""
    try:
        return _READER.table(path)
    except (RunError, StorageError):
        return {}
