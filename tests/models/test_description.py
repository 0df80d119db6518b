"""Weights are loaded with the settings, labels and tokenizer that they belong to, or not at all."""

from __future__ import annotations

import dataclasses
import json
import shutil
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mutations import altered, json_mutations, outcomes, paths
from regard.data.store import Store
from regard.errors import ModelError, RegardError
from regard.models import ARCHITECTURES
from regard.models.folder import (
    CONFIG,
    WEIGHTS,
    ModelFolder,
    load_model,
    read_tensors,
    weights_of,
    whole_weights,
    write_tensors,
)
from regard.models.protocol import Vocabulary
from toys import TINY, new_folder, run, small_run, write_reversal_store
from toys import altered as changed_run

CPU = torch.device("cpu")


def choices(hint: Any) -> list[Any]:
    """All values of the Literals in a type."""
    if typing.get_origin(hint) is typing.Literal:
        return list(typing.get_args(hint))
    return [value for part in typing.get_args(hint) for value in choices(part)]


def plausible(tree: dict[str, Any], kind: str) -> Iterator[str]:
    """The tree with one field changed to a value that it might have."""
    hints = typing.get_type_hints(ARCHITECTURES[kind][0], include_extras=True)
    for path in paths(tree):
        if path[0] not in ("model", "vocabulary", "seen"):
            continue
        value: Any = tree
        for name in path:
            value = value[name]
        others: list[Any] = choices(hints.get(path[-1]))
        if isinstance(value, bool):
            others = [not value]
        elif isinstance(value, int | float):
            others = [value + 1, value * 2, value / 2, value // 2, 0.5, 1]
        for other in others:
            yield json.dumps(altered(tree, path, lambda p, n, v=other: p.__setitem__(n, v)))  # type: ignore[misc]


def written(folder: Path, store: Store, kind: str, labels: tuple[str, ...] = ()) -> ModelFolder:
    """A model folder with fresh weights."""
    config = ARCHITECTURES[kind][0](**TINY[kind])
    description = new_folder(ARCHITECTURES["transformer"][0](), store)
    size = store.vocabulary.source
    vocabulary = Vocabulary(size, size, labels=labels)
    description = dataclasses.replace(description, config=config, vocabulary=vocabulary)
    folder.mkdir(exist_ok=True)
    write_tensors(
        folder / WEIGHTS, weights_of(description.model()), {**description.weights_note(), "a": "b"}
    )
    description.write(folder)
    return description


@pytest.mark.parametrize("kind", [*ARCHITECTURES])
def test_a_changed_description_is_refused(kind: str, tmp_path: Path, reversal_store: Store) -> None:
    labels = ("x", "y") if kind in ("tagger", "classifier") else ()
    description = written(tmp_path, reversal_store, kind, labels)
    content = (tmp_path / CONFIG).read_text()
    changes = (text.encode() for text in plausible(json.loads(content), kind))
    for text, (found, _) in outcomes(tmp_path / CONFIG, changes, lambda: load_model(tmp_path, CPU)):
        assert found == description, text


def test_any_change_of_a_description_is_refused(tmp_path: Path, reversal_store: Store) -> None:
    description = written(tmp_path, reversal_store, "transformer")
    changes = [*json_mutations((tmp_path / CONFIG).read_text())][::7]
    read = lambda: (load_model(tmp_path, CPU)[0], whole_weights(tmp_path))  # noqa: E731
    for text, (found, _) in outcomes(tmp_path / CONFIG, map(str.encode, changes), read):
        # Languages are for a user to name.
        assert dataclasses.replace(found, languages=description.languages) == description, text


def test_the_error_says_what_was_changed(tmp_path: Path, reversal_store: Store) -> None:
    written(tmp_path, reversal_store, "tagger", ("x", "y"))
    tree = json.loads((tmp_path / CONFIG).read_text())
    tree["vocabulary"]["labels"] = ["y", "x"]
    (tmp_path / CONFIG).write_text(json.dumps(tree))
    with pytest.raises(ModelError, match=r"vocabulary.labels: \['x', 'y'\] -> \['y', 'x'\]"):
        load_model(tmp_path, CPU)


def test_weights_beside_another_tokenizer_are_refused(
    tmp_path: Path, reversal_store: Store
) -> None:
    (tmp_path / "store").mkdir()
    other = write_reversal_store(tmp_path / "store", valid=False, tokenizer="char")
    written(tmp_path / "a", reversal_store, "transformer")
    written(tmp_path / "b", other, "transformer")
    for name in (CONFIG, "tokenizer.model"):
        shutil.copy(tmp_path / "b" / name, tmp_path / "a" / name)
    with pytest.raises(RegardError, match="does not belong"):
        load_model(tmp_path / "a", CPU)


def test_weights_of_earlier_versions_have_no_note(tmp_path: Path, reversal_store: Store) -> None:
    description = written(tmp_path, reversal_store, "transformer")
    write_tensors(tmp_path / WEIGHTS, read_tensors(tmp_path / WEIGHTS)[0], {})
    assert load_model(tmp_path, CPU)[0] == description


def test_a_setting_that_was_added_later_has_its_default(
    tmp_path: Path, reversal_store: Store
) -> None:
    description = written(tmp_path, reversal_store, "transformer")
    tensors, notes = read_tensors(tmp_path / WEIGHTS)
    note = json.loads(notes["belongs_to"])
    del note["model"]["output_bias"]
    write_tensors(tmp_path / WEIGHTS, tensors, {"belongs_to": json.dumps(note)})
    assert load_model(tmp_path, CPU)[0] == description


def test_runs_checkpoints_and_adapters_have_the_note(tmp_path: Path, reversal_store: Store) -> None:
    config = small_run(tmp_path / "origin", reversal_store, max_steps=2, ema_decay=0.5)
    run(config, reversal_store)
    places = {"init_from": str(tmp_path / "origin"), "out": str(tmp_path / "adapter")}
    lora = {"lora": {"rank": 2}, "ema_decay": 0.0}
    run(changed_run(config, **places, training=lora), reversal_store)
    for home in ("origin", "adapter"):
        path = tmp_path / home / CONFIG
        tree = json.loads(path.read_text())
        if home == "origin":
            tree["seen"]["longest_source"] += 1
        else:
            tree["adapter"]["lora"]["alpha"] *= 2
        folders = [path.parent, *(path.parent / "checkpoints").glob("0*")]
        for folder in folders:
            load_model(folder, CPU)
        content = path.read_text()
        path.write_text(json.dumps(tree))
        for folder in folders:
            with pytest.raises(ModelError, match="or that was changed since"):
                load_model(folder, CPU)
        path.write_text(content)
