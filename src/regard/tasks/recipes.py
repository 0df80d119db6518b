"""The settings of a run, put together from a preset, a recipe, options and --set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.config import Tree, as_tree, build, merged, override
from regard.data.loader import DataConfig
from regard.data.store import Store
from regard.errors import ConfigError, one_message
from regard.files import read_toml
from regard.models import ARCHITECTURES
from regard.models.base import ModelConfig
from regard.models.folder import ModelFolder
from regard.models.labelling import stack_settings
from regard.tasks import TASKS, task_of
from regard.training.config import RunConfig, origin_of
from regard.training.presets import ADAPTING, FINE_TUNING, FINE_TUNING_LABELS, PRESETS


def run_config(
    recipe: Path | None, *, preset: str | None, changes: Tree, assignments: Sequence[str]
) -> RunConfig:
    """Settings from a preset, overlaid by a recipe, by options and by --set, in this order.

    A run that begins with a model has that model's form, and a rate that does not spoil it.
    """
    tree = read_toml(recipe) if recipe else {}
    name = preset or tree.pop("preset", None)
    tree.pop("preset", None)
    if name is not None and (not isinstance(name, str) or name not in PRESETS):
        raise ConfigError(f"There is no preset {name!r}. Presets are {', '.join(PRESETS)}.")
    tree = override(merged(tree, changes), assignments)
    if "out" not in tree:
        raise ConfigError("Nothing says where the run goes. Use --out, or `out` in the recipe.")
    base: Tree = PRESETS[name] if name else {}
    init_from = tree.get("init_from")
    if isinstance(init_from, str) and init_from != "none":
        old = ModelFolder.read(origin_of(init_from, str(tree["out"])))
        model = _inherited(old.config, _kind_asked_for(base, tree))
        tuning = FINE_TUNING_LABELS if _gives_labels(model["kind"]) else FINE_TUNING
        base = merged(_over({"model": model}, base, init_from), tuning)
        base = merged(base, ADAPTING) if _adapts(tree) else base
    return checked(build(RunConfig, _over(base, tree, name or str(init_from))))


def checked(config: RunConfig) -> RunConfig:
    """The same settings; what contradicts the task of the model is refused."""
    problems = [*task_of(config.model).problems(config)]
    if problems:
        raise ConfigError(one_message(problems, "The settings cannot be used"))
    return config


def _inherited(config: ModelConfig, kind: str | None) -> Tree:
    """The settings that come with a model; one that gives labels may have another's stack."""
    if kind is None or kind == config.kind or not config.shares_stack or not _gives_labels(kind):
        return as_tree(config)
    return {"kind": kind, **stack_settings(config)}


def _gives_labels(kind: str) -> bool:
    return kind in ARCHITECTURES and ARCHITECTURES[kind][0].gives_labels


def _kind_asked_for(base: Tree, tree: Tree) -> str | None:
    """The one that is named; if none is, the one that the data need, if they have labels."""
    both = merged(base, tree)
    kind: str | None = _named(both, "model", "kind")
    folder = Path(_named(both, "data", "folder") or DataConfig.folder)
    if kind is None and (folder / "store.json").is_file():
        content = Store(folder).content
        return next((kind for kind in ARCHITECTURES if _labels(kind, content)), None)
    return kind


def _labels(kind: str, content: str) -> bool:
    """Whether models of a kind give labels to what a store holds."""
    config, _ = ARCHITECTURES[kind]
    return config.gives_labels and TASKS[config.task].content.name == content


def _named(tree: Tree, table: str, name: str) -> Any:
    """What a tree says of a setting, which is not checked yet; None: nothing."""
    found = tree.get(table)
    return found.get(name) if isinstance(found, dict) else None


def _adapts(tree: Tree) -> bool:
    """Whether settings ask for adapters."""
    lora = _named(tree, "training", "lora")
    return isinstance(lora, dict) and bool(lora.get("rank"))


def _over(base: Tree, tree: Tree, origin: str) -> Tree:
    """Both in one; but settings of one kind of model mean nothing to another."""
    old, new = (_named(part, "model", "kind") for part in (base, tree))
    if old and new and old != new:
        raise ConfigError(
            f"{origin} is for a {old} model, but model.kind={new} is asked for. Leave out one of "
            "both."
        )
    return merged(base, tree)
