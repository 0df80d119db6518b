"""A prepared store with other targets: the same sources, as somebody else translates them."""

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
from regard.data.doctor import DoctorConfig, reason_to_skip
from regard.data.pair_files import describe_pairs
from regard.data.store import PartWriter, Store, describe
from regard.files import whole_folder, write_json
from regard.text.tokenizer import Tokenizers

_RULES = DoctorConfig()
_STUTTER = re.compile(r"(\D{1,20}?)\1{3}")  # the same up to 20 characters, four times in a row


@dataclass(frozen=True)
class Retargeted:
    """What came of it, for the person who asked."""

    pairs: int  # with a new target
    kept: dict[str, int]  # why so many kept their old one
    unchanged: frozenset[int] = frozenset()  # the numbers of these


def chosen(
    tokenizers: Tokenizers, source: Sequence[int], old: Sequence[int], text: str
) -> tuple[Sequence[int], str | None]:
    """The target that a pair gets: a text, cut; or the old one, and why.

    A text that the doctor would skip, or that goes round in circles, is not taken.
    """
    written = tokenizers.target.encode(text)
    reason = reason_to_skip(tokenizers.source.decode(source), text.strip(), _RULES)
    if reason is None and len(written) > 2 * len(old) + 10:
        reason = "more than twice as long"  # "a cola-cola-cola-cola": almost always so
    # Whoever learns from some of these goes round in circles far more often than the teacher did.
    if reason is None and _STUTTER.search(text):
        reason = "repeats itself"
    return old if reason else written, reason


def retarget(
    store: Store,
    out: Path,
    targets: Iterable[str],
    *,
    author: str,
    mix: bool,
    about: Tree,
    joined: Mapping[str, Sequence[Path]] = MappingProxyType({}),
) -> Retargeted:
    """Write `store` to `out` with a new target for each training pair, in their order.

    Where one is not taken, the pair keeps its old one. With `mix`, old pairs follow as corpora of
    their own where the new target is another one. Other parts stay as they are, `about` becomes
    part of the description, and `joined` names files to make beside it, each of others end to end.
    """
    reasons: dict[int, str] = {}
    with whole_folder(out) as folder:
        for name, content in store.tokenizers.files().items():
            (folder / name).write_bytes(content)
        parts = dict(store.description["parts"])
        for name in parts.keys() - {"train"}:
            for side, kind in product(("source", "target"), ("ids", "offsets")):
                shutil.copy(store.folder / f"{name}.{side}.{kind}", folder)
        train = _write_pairs(store, folder, targets, reasons, author=author, mix=mix)
        kept = Counter(reasons.values())
        found = {f"{reason}: old target kept": count for reason, count in kept.items()}
        parts["train"] = {**parts["train"], **train, "found": found}
        for name, portions in joined.items():
            with (folder / name).open("wb") as whole:
                for portion in portions:
                    with portion.open("rb") as file:
                        shutil.copyfileobj(file, whole)
        tree = {**describe(parts, store.tokenizers, store.languages), **about}
        write_json(folder / "store.json", with_checksums(tree, folder))
    return Retargeted(
        len(store.part("train")) - len(reasons), dict(kept), unchanged=frozenset(reasons)
    )


def _write_pairs(
    store: Store,
    folder: Path,
    targets: Iterable[str],
    reasons: dict[int, str],
    *,
    author: str,
    mix: bool,
) -> Tree:
    """The pairs; those that keep their target are told in `reasons`."""
    part, tokenizers = store.part("train"), store.tokenizers
    owners = [number for number, corpus in enumerate(part.corpora) for _ in range(corpus.pairs)]
    replaced = []  # the numbers of corpora and pairs
    with PartWriter(folder, "train", PAIRS, dtype_for(tokenizers)) as pairs:
        for index, (number, text) in enumerate(zip(owners, targets, strict=True)):
            source, target = part.source[index].tolist(), part.target[index].tolist()
            taken, reason = chosen(tokenizers, source, target, text)
            if reason:
                reasons[index] = reason
            pairs.append({"source": source, "target": taken})
            if mix and taken != target:
                replaced.append((number, index))
        for _, index in replaced:
            source, target = part.source[index].tolist(), part.target[index].tolist()
            pairs.append({"source": source, "target": target})
    corpora = [replace(corpus, target=f"written by {author}") for corpus in part.corpora]
    if mix:
        sizes = Counter(number for number, _ in replaced)
        corpora += [replace(old, pairs=sizes[number]) for number, old in enumerate(part.corpora)]
    return describe_pairs(pairs, corpora)
