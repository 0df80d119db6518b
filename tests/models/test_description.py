"""Weights are only loaded with the settings, labels and tokenizer that they belong to."""

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
    merged_weights,
    named_weights,
    read_tensors,
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
    """JSON texts with one field changed to another valid value."""
    hints = typing.get_type_hints(ARCHITECTURES[kind][0], include_extras=True)
    for path in paths(tree):
        if path[0] not in ("model", "vocabulary", "data_statistics"):
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


def write_folder(
    folder: Path, store: Store, kind: str, labels: tuple[str, ...] = ()
) -> ModelFolder:
    """A model folder with random weights."""
    config = ARCHITECTURES[kind][0](**TINY[kind])
    description = new_folder(ARCHITECTURES["transformer"][0](), store)
    size = store.vocabulary.source
    vocabulary = Vocabulary(size, size, labels=labels)
    description = dataclasses.replace(description, config=config, vocabulary=vocabulary)
    folder.mkdir(exist_ok=True)
    write_tensors(
        folder / WEIGHTS,
        named_weights(description.model()),
        {**description.weights_metadata(), "a": "b"},
    )
    description.write(folder)
    return description


@pytest.mark.parametrize("kind", [*ARCHITECTURES])
def test_changed_descriptions_raise_errors(
    kind: str, tmp_path: Path, reversal_store: Store
) -> None:
    labels = ("x", "y") if kind in ("tagger", "classifier") else ()
    description = write_folder(tmp_path, reversal_store, kind, labels)
    content = (tmp_path / CONFIG).read_text()
    changes = (text.encode() for text in plausible(json.loads(content), kind))
    for text, (actual, _) in outcomes(
        tmp_path / CONFIG, changes, lambda: load_model(tmp_path, CPU)
    ):
        assert actual == description, text


def test_mutated_descriptions_raise_errors(tmp_path: Path, reversal_store: Store) -> None:
    description = write_folder(tmp_path, reversal_store, "transformer")
    changes = [*json_mutations((tmp_path / CONFIG).read_text())][::7]
    read = lambda: (load_model(tmp_path, CPU)[0], merged_weights(tmp_path))  # noqa: E731
    for text, (actual, _) in outcomes(tmp_path / CONFIG, map(str.encode, changes), read):
        # Users may change the languages.
        assert dataclasses.replace(actual, languages=description.languages) == description, text


def test_error_names_the_change(tmp_path: Path, reversal_store: Store) -> None:
    write_folder(tmp_path, reversal_store, "tagger", ("x", "y"))
    tree = json.loads((tmp_path / CONFIG).read_text())
    tree["vocabulary"]["labels"] = ["y", "x"]
    (tmp_path / CONFIG).write_text(json.dumps(tree))
    with pytest.raises(ModelError, match=r"vocabulary.labels: \['x', 'y'\] -> \['y', 'x'\]"):
        load_model(tmp_path, CPU)


def test_weights_with_another_tokenizer_raise_an_error(
    tmp_path: Path, reversal_store: Store
) -> None:
    (tmp_path / "store").mkdir()
    other = write_reversal_store(tmp_path / "store", valid=False, tokenizer="char")
    write_folder(tmp_path / "a", reversal_store, "transformer")
    write_folder(tmp_path / "b", other, "transformer")
    for name in (CONFIG, "tokenizer.model"):
        shutil.copy(tmp_path / "b" / name, tmp_path / "a" / name)
    with pytest.raises(RegardError, match="does not belong"):
        load_model(tmp_path / "a", CPU)


def test_weights_of_earlier_versions_without_metadata(
    tmp_path: Path, reversal_store: Store
) -> None:
    description = write_folder(tmp_path, reversal_store, "transformer")
    write_tensors(tmp_path / WEIGHTS, read_tensors(tmp_path / WEIGHTS)[0], {})
    assert load_model(tmp_path, CPU)[0] == description


def test_settings_missing_in_metadata_have_defaults(tmp_path: Path, reversal_store: Store) -> None:
    description = write_folder(tmp_path, reversal_store, "transformer")
    tensors, notes = read_tensors(tmp_path / WEIGHTS)
    note = json.loads(notes["belongs_to"])
    del note["model"]["output_bias"]
    write_tensors(tmp_path / WEIGHTS, tensors, {"belongs_to": json.dumps(note)})
    assert load_model(tmp_path, CPU)[0] == description


def test_runs_checkpoints_and_adapters_have_metadata(tmp_path: Path, reversal_store: Store) -> None:
    config = small_run(tmp_path / "origin", reversal_store, max_steps=2, ema_decay=0.5)
    run(config, reversal_store)
    paths_settings = {"init_from": str(tmp_path / "origin"), "out": str(tmp_path / "adapter")}
    lora = {"lora": {"rank": 2}, "ema_decay": 0.0}
    run(changed_run(config, **paths_settings, training=lora), reversal_store)
    for folder_name in ("origin", "adapter"):
        path = tmp_path / folder_name / CONFIG
        tree = json.loads(path.read_text())
        if folder_name == "origin":
            tree["data_statistics"]["longest_source"] += 1
        else:
            tree["adapter"]["lora"]["alpha"] *= 2
        folders = [path.parent, *(path.parent / "checkpoints").glob("0*")]
        for folder in folders:
            load_model(folder, CPU)
        content = path.read_text()
        path.write_text(json.dumps(tree))
        for folder in folders:
            with pytest.raises(ModelError, match="or that was changed"):
                load_model(folder, CPU)
        path.write_text(content)
