"""Settings under the names of earlier versions: accepted, with one warning."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.commands import Command, regard
from regard.config import RenamedWarning, Setting, Settings, build, current_names, settings_of
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError
from regard.models import ARCHITECTURES
from regard.models.folder import ModelFolder
from regard.settings_tree import to_tree
from regard.tasks.recipes import build_run_config
from regard.text.special import SPECIAL, SpecialTokens
from regard.training.config import RunConfig

__all__ = ["regard"]  # a fixture

STORED = Path(__file__).parent / "stored"


def settings_classes(cls: type[Settings]) -> Iterator[type[Settings]]:
    """The class and all classes of its fields."""
    yield cls
    for setting in settings_of(cls):
        nested = [*setting.kinds.values()]
        if isinstance(setting.type, type) and issubclass(setting.type, Settings):
            nested.append(setting.type)
        for inner in nested:
            yield from settings_classes(inner)


def renamed(cls: type[Settings]) -> dict[str, Setting]:
    """The renamed fields of a class by their former names."""
    return {setting.formerly.name: setting for setting in settings_of(cls) if setting.formerly}


@pytest.mark.parametrize("cls", [RunConfig, SearchConfig, SpecialTokens])
def test_former_names_are_distinct_from_current_names(cls: type[Settings]) -> None:
    for each in settings_classes(cls):
        former = [setting.formerly.name for setting in settings_of(each) if setting.formerly]
        assert len({*former}) == len(former)
        assert not {*former} & {setting.name for setting in settings_of(each)}


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_former_name_of_a_model_kind_is_accepted(kind: str) -> None:
    cls, _ = ARCHITECTURES[kind]
    values = {setting.name: getattr(cls(), setting.name) for setting in renamed(cls).values()}
    former = {old: values[setting.name] for old, setting in renamed(cls).items()}
    with pytest.warns(RenamedWarning, match="model.width is now model.d_model"):
        config = build(RunConfig, {"out": "run", "model": {"kind": kind, **former}})
    assert config.model == cls()


def test_the_warning_names_the_source_and_counts() -> None:
    tree = {"training": {"clip_norm": 1.0, "beta1": 0.8, "beta2": 0.9, "replay": False}}
    with pytest.warns(RenamedWarning) as caught:
        names = current_names(RunConfig, tree, "old.toml")
    assert [str(each.message) for each in caught] == [
        "Former names of settings in old.toml: training.clip_norm is now "
        "training.max_grad_norm, training.beta1 is now training.adam_beta1, training.beta2 is now "
        "training.adam_beta2, and 1 more."
    ]
    expected = {"max_grad_norm": 1.0, "adam_beta1": 0.8, "adam_beta2": 0.9, "cuda_graphs": False}
    assert names == {"training": expected}


def test_former_values_are_translated() -> None:
    for old, new in (("start", "bos"), ("end", "eos"), ("pad", "pad")):
        with pytest.warns(RenamedWarning):
            config = build(RunConfig, {"out": "run", "model": {"start_token": old}})
        assert config.model.decoder_start_token == new


def test_the_meaning_of_a_former_name_depends_on_the_kind() -> None:
    with pytest.warns(RenamedWarning, match="model.memory is now model.cross_attention"):
        build(RunConfig, {"out": "run", "model": {"kind": "recurrent", "memory": "none"}})
    with pytest.warns(RenamedWarning, match="model.memory is now model.memory_length"):
        build(RunConfig, {"out": "run", "model": {"kind": "xl", "memory": 4}})


def test_both_names_of_a_setting_are_refused() -> None:
    tree = {"out": "run", "training": {"clip_norm": 1.0, "max_grad_norm": 2.0}}
    with pytest.raises(ConfigError, match=r"training.clip_norm does not exist"):
        build(RunConfig, tree)


def test_layers_of_settings_override_each_other_under_either_name(tmp_path: Path) -> None:
    recipe = tmp_path / "old.toml"
    recipe.write_text('preset = "xl-tiny"\n[model]\nheads = 2\nmemory = 9\n')
    with pytest.warns(RenamedWarning) as caught:
        config = build_run_config(
            recipe,
            preset=None,
            changes={"out": "run"},
            assignments=["model.num_heads=1", "training.clip_norm=3"],
        )
    sources = [str(each.message).split(": ")[0] for each in caught]
    prefix = "Former names of settings in"
    assert sources == [f"{prefix} {recipe}", f"{prefix} the overrides"]
    model = to_tree(config.model)
    assert (model["num_heads"], model["memory_length"]) == (1, 9)
    assert config.training.max_grad_norm == 3


@pytest.mark.parametrize("recipe", sorted((STORED / "recipes").glob("*.toml")), ids=str)
def test_recipes_of_the_previous_version_are_read(recipe: Path, tmp_path: Path) -> None:
    shutil.copytree(STORED, tmp_path / "stored")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RenamedWarning)
        folder = [f"init_from={STORED / 'models/transformer'}"] * (recipe.stem == "adapter")
        config = build_run_config(recipe, preset=None, changes={}, assignments=folder)
    assert config.data.num_workers == 0


@pytest.mark.parametrize("kind", sorted(path.name for path in (STORED / "models").iterdir()))
def test_a_model_folder_of_the_previous_version_gives_one_warning(kind: str) -> None:
    with pytest.warns(RenamedWarning) as caught:
        ModelFolder.read(STORED / "models" / kind)
    assert len(caught) == 1
    path = STORED / "models" / kind / "config.json"
    notice = f"Former names of settings in {path} (of an earlier version, usable unchanged): "
    assert str(caught[0].message).startswith(notice)


def test_special_tokens_are_read_under_former_names() -> None:
    with pytest.warns(RenamedWarning):
        assert build(SpecialTokens, {"pad": 0, "unknown": 1, "start": 2, "end": 3}) == SPECIAL


@pytest.mark.filterwarnings("ignore::regard.config.RenamedWarning")
def test_a_former_option_is_accepted(regard: Command) -> None:
    model = str(STORED / "models" / "transformer")
    result = regard("translate", model, "--top-beams", "2", "--beam-size", "2", stdin="a b\n")
    assert result.status == 0, result.err
    assert len(result.out.splitlines()) >= 1


@pytest.mark.filterwarnings("ignore:Former names of settings")
def test_load_accepts_the_former_name_of_backend() -> None:
    import regard as package

    with pytest.warns(RenamedWarning, match="backend="):
        model = package.load(STORED / "models" / "transformer", engine="torch")
    assert "PyTorch" in model.backend_notice
