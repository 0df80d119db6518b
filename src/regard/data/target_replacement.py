"""Replacement of the targets of a store by a teacher's translations (distillation)."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType

from regard.config import Tree
from regard.data.content import PAIRS, dtype_for, with_checksums
from regard.data.filters import CorpusFilterConfig, skip_reason
from regard.data.pair_files import describe_pairs
from regard.data.store import PartWriter, Store, describe_store
from regard.files import atomic_folder, write_json
from regard.text.tokenizer import Tokenizers

_FILTERS = CorpusFilterConfig()
_REPETITION = re.compile(r"(\D{1,20}?)\1{3}")  # up to 20 characters, four times in a row


@dataclass(frozen=True)
class TargetReplacement:
    """The result of `replace_targets`."""

    pairs: int  # number of pairs with a new target
    kept: dict[str, int]  # number of pairs with the old target, by reason
    unchanged: frozenset[int] = frozenset()  # indices of pairs with the old target


def select_target(
    tokenizers: Tokenizers, source: Sequence[int], old: Sequence[int], text: str
) -> tuple[Sequence[int], str | None]:
    """The ids of a new target; or the old target, and the reason why.

    A text that the corpus filters reject, or that is repetitive, is not used.
    """
    encoded = tokenizers.target.encode(text)
    reason = skip_reason(tokenizers.source.decode(source), text.strip(), _FILTERS)
    if reason is None and len(encoded) > 2 * len(old) + 10:
        reason = "more than twice as long"  # almost always a repetition
    # A student trained on repetitions repeats itself far more often than its teacher.
    if reason is None and _REPETITION.search(text):
        reason = "repeats itself"
    return old if reason else encoded, reason


def replace_targets(
    store: Store,
    out: Path,
    targets: Iterable[str],
    *,
    teacher: str,
    mix: bool,
    extra_fields: Tree,
    concatenated: Mapping[str, Sequence[Path]] = MappingProxyType({}),
) -> TargetReplacement:
    """Write `store` to `out` with new targets for the training pairs, in their order.

    A pair keeps its old target if the new one is rejected. With `mix`, the original pairs are added
    as separate corpora where the target changed. Other parts are copied. `extra_fields` are added
    to `store.json`; `concatenated` maps names of additional files to the files to concatenate.
    """
    reasons: dict[int, str] = {}
    with atomic_folder(out) as folder:
        for name, content in store.tokenizers.files().items():
            (folder / name).write_bytes(content)
        parts = dict(store.description["parts"])
        for name in parts.keys() - {"train"}:
            for side, kind in product(("source", "target"), ("ids", "offsets")):
                shutil.copy(store.folder / f"{name}.{side}.{kind}", folder)
        train = _write_pairs(store, folder, targets, reasons, teacher=teacher, mix=mix)
        kept = Counter(reasons.values())
        issues = {f"{reason}: old target kept": count for reason, count in kept.items()}
        parts["train"] = {**parts["train"], **train, "found": issues}
        for name, paths in concatenated.items():
            with (folder / name).open("wb") as whole:
                for path in paths:
                    with path.open("rb") as file:
                        shutil.copyfileobj(file, whole)
        tree = {**describe_store(parts, store.tokenizers, store.languages), **extra_fields}
        write_json(folder / "store.json", with_checksums(tree, folder))
    return TargetReplacement(
        len(store.part("train")) - len(reasons), dict(kept), unchanged=frozenset(reasons)
    )


def _write_pairs(
    store: Store,
    folder: Path,
    targets: Iterable[str],
    reasons: dict[int, str],
    *,
    teacher: str,
    mix: bool,
) -> Tree:
    """Write the pairs; `reasons` gets the index of each pair that keeps its target."""
    part, tokenizers = store.part("train"), store.tokenizers
    corpus_indices = [
        number for number, corpus in enumerate(part.corpora) for _ in range(corpus.pairs)
    ]
    replaced = []  # indices of corpus and pair
    with PartWriter(folder, "train", PAIRS, dtype_for(tokenizers)) as pairs:
        for index, (number, text) in enumerate(zip(corpus_indices, targets, strict=True)):
            source, target = part.source[index].tolist(), part.target[index].tolist()
            new_target, reason = select_target(tokenizers, source, target, text)
            if reason:
                reasons[index] = reason
            pairs.append({"source": source, "target": new_target})
            if mix and new_target != target:
                replaced.append((number, index))
        for _, index in replaced:
            source, target = part.source[index].tolist(), part.target[index].tolist()
            pairs.append({"source": source, "target": target})
    corpora = [replace(corpus, target=f"written by {teacher}") for corpus in part.corpora]
    if mix:
        sizes = Counter(number for number, _ in replaced)
        corpora += [replace(old, pairs=sizes[number]) for number, old in enumerate(part.corpora)]
    return describe_pairs(pairs, corpora)
