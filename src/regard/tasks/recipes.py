"""Build the settings of a run from a preset, a recipe, options and --set."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.config import Tree, build, current_names
from regard.data.loader import DataConfig
from regard.data.store import Store
from regard.errors import ConfigError, format_problems
from regard.files import read_toml
from regard.models import ARCHITECTURES
from regard.models.base import ModelConfig
from regard.models.folder import ModelFolder
from regard.models.labelling import encoder_settings
from regard.settings_tree import apply_overrides, merge_trees, to_tree
from regard.tasks import TASKS, task_of
from regard.training.config import RunConfig, base_model_path
from regard.training.presets import FINE_TUNING, FINE_TUNING_LABELS, LORA_FINE_TUNING, PRESETS


def build_run_config(
    recipe: Path | None, *, preset: str | None, changes: Tree, assignments: Sequence[str]
) -> RunConfig:
    """The settings of a preset, overridden by a recipe, by options and by --set, in this order.

    A run that is initialized from a model has its architecture, and settings for fine-tuning.
    """
    content = read_toml(recipe) if recipe else {}
    name = preset or content.pop("preset", None)
    content.pop("preset", None)
    if name is not None and (not isinstance(name, str) or name not in PRESETS):
        raise ConfigError(f"Unknown preset {name!r}. Use one of {', '.join(PRESETS)}.")
    layers = {str(recipe): content, "the overrides": apply_overrides(changes, assignments)}
    tree = functools.reduce(merge_trees, layers.values())
    if "out" not in tree:
        raise ConfigError(
            "The output folder of the run is missing. Use --out, or `out` in the recipe."
        )
    base: Tree = PRESETS[name] if name else {}
    init_from = tree.get("init_from")
    if isinstance(init_from, str) and init_from != "none":
        old = ModelFolder.read(base_model_path(init_from, str(tree["out"])))
        model = _inherited_settings(old.config, _requested_kind(base, tree))
        fine_tuning = FINE_TUNING_LABELS if _predicts_labels(model["kind"]) else FINE_TUNING
        _refuse_other_kind({"model": model}, base, init_from)
        base = merge_trees(merge_trees({"model": model}, base), fine_tuning)
        base = merge_trees(base, LORA_FINE_TUNING) if _uses_lora(tree) else base
    _refuse_other_kind(base, tree, name or str(init_from))
    kind = _get_setting(merge_trees(base, tree), "model", "kind")
    renamed = (current_names(RunConfig, layer, source, kind) for source, layer in layers.items())
    return validate_run_config(build(RunConfig, functools.reduce(merge_trees, renamed, base)))


def validate_run_config(config: RunConfig) -> RunConfig:
    """Return the settings if they fit the task of the model, else raise a `ConfigError`."""
    problems = [*task_of(config.model).problems(config)]
    if problems:
        raise ConfigError(format_problems(problems, "The settings cannot be used"))
    return config


def _inherited_settings(config: ModelConfig, kind: str | None) -> Tree:
    """The settings of the base model; for a labelling model, those of its encoder."""
    if (
        kind is None
        or kind == config.kind
        or not config.reusable_encoder
        or not _predicts_labels(kind)
    ):
        return to_tree(config)
    return {"kind": kind, **encoder_settings(config)}


def _predicts_labels(kind: str) -> bool:
    return kind in ARCHITECTURES and ARCHITECTURES[kind][0].predicts_labels


def _requested_kind(base: Tree, tree: Tree) -> str | None:
    """The model kind in the settings; else, the labelling kind for the data, if it has labels."""
    settings = merge_trees(base, tree)
    kind: str | None = _get_setting(settings, "model", "kind")
    folder = Path(_get_setting(settings, "data", "folder") or DataConfig.folder)
    if kind is None and (folder / "store.json").is_file():
        content = Store(folder).content
        return next((kind for kind in ARCHITECTURES if _is_for_content(kind, content)), None)
    return kind


def _is_for_content(kind: str, content: str) -> bool:
    """Whether a kind is a labelling model for the content of a store."""
    config, _ = ARCHITECTURES[kind]
    return config.predicts_labels and TASKS[config.task].content.name == content


def _get_setting(tree: Tree, table: str, name: str) -> Any:
    """The value of a setting in an unchecked tree; None if it is missing."""
    section = tree.get(table)
    return section.get(name) if isinstance(section, dict) else None


def _uses_lora(tree: Tree) -> bool:
    """Whether the settings enable LoRA adapters."""
    lora = _get_setting(tree, "training", "lora")
    return isinstance(lora, dict) and bool(lora.get("rank"))


def _refuse_other_kind(base: Tree, tree: Tree, base_name: str) -> None:
    """Raise an error if settings are for another model kind than those that they override."""
    old, new = (_get_setting(part, "model", "kind") for part in (base, tree))
    if old and new and old != new:
        raise ConfigError(
            f"{base_name} is for model kind '{old}', but model.kind={new} is set. Remove one of "
            "them."
        )
