"""Building of settings from trees and assignments; all problems are reported at once."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.bounds import Ge, Le
from regard.config import (
    Doc,
    OneOf,
    Settings,
    all_kinds,
    all_paths,
    all_settings,
    build,
    settings_of,
)
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import TextConfig
from regard.errors import ConfigError
from regard.files import read_toml
from regard.settings_tree import (
    apply_overrides,
    format_toml,
    merge_trees,
    nest_names,
    to_tree,
    tree_differences,
)
from regard.tasks.recipes import build_run_config
from regard.training.config import RunConfig
from regard.training.foreign_names import FOREIGN_NAMES
from regard.training.presets import PRESETS


@dataclass(frozen=True)
class Oven(Settings):
    """A nested settings class."""

    heat: Annotated[int, Doc("degrees"), Ge(50), Le(300)] = 180
    hours: Annotated[float, Doc("how long"), Ge(0)] = 1.0
    fan: Annotated[bool, Doc("moving air")] = False

    def problems(self) -> Iterator[str]:
        """A contradiction between fields."""
        if self.fan and self.heat > 250:
            yield f"heat is {self.heat}, too much with fan=true"


@dataclass(frozen=True)
class Cake(Settings):
    """A settings class."""

    name: str
    kind: Literal["round", "square"] = "round"
    layers: tuple[int, ...] = (1,)
    weight: Annotated[float | None, Doc("unset: any"), Ge(0)] = None
    oven: Oven = field(default_factory=Oven)


def message_of(tree: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        build(Cake, tree)
    return str(caught.value)


# Building.


def test_missing_fields_have_their_defaults() -> None:
    assert build(Cake, {"name": "x"}) == Cake("x", "round", (1,), None, Oven(180, 1.0, False))


def test_values_are_assigned_to_their_fields() -> None:
    tree = {"name": "x", "kind": "square", "layers": [3, 2], "weight": 2, "oven": {"fan": True}}
    assert build(Cake, tree) == Cake("x", "square", (3, 2), 2.0, Oven(fan=True))


def test_integer_is_converted_to_float() -> None:
    assert type(build(Oven, {"hours": 2}).hours) is float


def test_unknown_key_is_reported_with_a_suggestion() -> None:
    message = message_of({"name": "x", "oven": {"heet": 200}})
    assert "oven.heet does not exist" in message
    assert "did you mean oven.heat?" in message


def test_unknown_key_without_suggestion_lists_all_names() -> None:
    message = message_of({"name": "x", "zzz": 1})
    assert "zzz does not exist" in message
    for known in ("name", "kind", "layers", "weight", "oven"):
        assert known in message


def test_setting_of_another_section_is_suggested() -> None:
    assert "heat does not exist; did you mean oven.heat?" in message_of({"name": "x", "heat": 3})
    message = message_of({"name": "x", "oven": {"weight": 3}})
    assert "oven.weight does not exist; did you mean weight?" in message


@pytest.mark.parametrize(
    ("assignment", "meant"),
    [
        ("max_steps=3", "training.max_steps"),
        ("model.max_steps=3", "training.max_steps"),
        ("training.d_model=3", "model.d_model"),
        ("training.validate_every=3", "training.checkpoint_every"),
        ("lr=3", "training.learning_rate"),
        ("model.max-update=3", "training.max_steps"),
        ("model.num_hidden_layers=3", "model.num_encoder_layers or model.num_decoder_layers"),
    ],
)
def test_misplaced_and_foreign_names_are_answered_with_suggestions(
    assignment: str, meant: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(RunConfig, apply_overrides({"out": "x"}, [assignment]))
    name = assignment.split("=")[0]
    assert str(caught.value).endswith(f"{name} does not exist; did you mean {meant}?")


def test_suggestions_depend_on_the_model_kind() -> None:
    with pytest.raises(ConfigError, match=r"did you mean model\.num_layers\?"):
        build(RunConfig, {"out": "x", "model": {"kind": "causal", "num_hidden_layers": 3}})


def test_foreign_names_refer_to_existing_settings() -> None:
    ours = {path for paths in FOREIGN_NAMES.values() for path in paths}
    assert ours <= {*all_paths(RunConfig)}
    assert not {*FOREIGN_NAMES} & {path.split(".")[-1] for path in all_paths(RunConfig)}


def test_missing_value_is_reported() -> None:
    assert "name is missing" in message_of({})


@pytest.mark.parametrize(
    ("tree", "path", "wanted"),
    [
        ({"oven": {"heat": "hot"}}, 'oven.heat is "hot"', "integer"),
        ({"oven": {"heat": 180.0}}, "oven.heat is 180.0", "integer"),
        ({"oven": {"heat": True}}, "oven.heat is true", "integer"),
        ({"oven": {"hours": True}}, "oven.hours is true", "number"),
        ({"oven": {"fan": 1}}, "oven.fan is 1", "true | false"),
        ({"oven": 3}, "oven is 3", "a table"),
        ({"name": 3}, "name is 3", "text"),
        ({"kind": "oval"}, 'kind is "oval"', "round | square"),
        ({"weight": "heavy"}, 'weight is "heavy"', "number"),
        ({"layers": 3}, "layers is 3", "list of integer"),
        ({"layers": [1, "two"]}, 'layers[1] is "two"', "integer"),
    ],
)
def test_value_of_the_wrong_type_is_reported_with_the_right_type(
    tree: dict[str, Any], path: str, wanted: str
) -> None:
    message = message_of({"name": "x", **tree})
    assert f"{path}, but must be {wanted}" in message


@pytest.mark.parametrize(
    ("heat", "expected"),
    [(49, "oven.heat is 49, but must be at least 50"), (301, "must be at most 300")],
)
def test_value_out_of_bounds_is_reported_with_its_bound(heat: int, expected: str) -> None:
    assert expected in message_of({"name": "x", "oven": {"heat": heat}})


@pytest.mark.parametrize("heat", [50, 300])
def test_bounds_are_inclusive(heat: int) -> None:
    assert build(Oven, {"heat": heat}).heat == heat


def test_nan_is_out_of_bounds() -> None:
    assert "oven.hours is nan" in message_of({"name": "x", "oven": {"hours": float("nan")}})


def test_bounds_are_checked_for_instances() -> None:
    with pytest.raises(ConfigError, match="heat is 10, but must be at least 50"):
        Oven(heat=10)


def test_none_has_no_bounds() -> None:
    assert build(Cake, {"name": "x", "weight": None}).weight is None


def test_contradiction_is_reported_with_its_path() -> None:
    assert "oven.heat is 280, too much with fan=true" in message_of(
        {"name": "x", "oven": {"heat": 280, "fan": True}}
    )


def test_all_problems_are_in_one_message() -> None:
    message = message_of({"kind": "oval", "color": 1, "oven": {"heat": "hot", "hour": 1}})
    for path in ("name is", "kind is", "color does", "oven.heat is", "oven.hour does"):
        assert path in message
    assert "5 problems" in message


def test_bounds_are_checked_in_addition_to_other_problems() -> None:
    tree = {"name": "x", "kind": "oval", "weight": -2, "oven": {"heat": 10, "hour": 1}}
    message = message_of(tree)
    for path in ("kind is", "weight is -2", "oven.heat is 10", "oven.hour does"):
        assert path in message
    assert "4 problems" in message


def test_problem_is_reported_once() -> None:
    assert message_of({"name": "x", "oven": {"heat": 10}}).count("heat") == 1


# Declarations of fields.


def test_setting_has_doc_default_and_bounds() -> None:
    heat = settings_of(Oven)[0]
    assert (heat.name, heat.type_name, heat.default, heat.doc) == (
        "heat",
        "integer",
        180,
        "degrees",
    )
    assert heat.bounds == (Ge(50), Le(300))


def test_all_settings_lists_leaves_by_dotted_paths() -> None:
    paths = [path for path, _ in all_settings(Cake)]
    assert paths == ["name", "kind", "layers", "weight", "oven.heat", "oven.hours", "oven.fan"]


def test_every_setting_of_a_run_has_a_doc() -> None:
    assert [path for path, setting in all_settings(RunConfig) if not setting.doc] == []


# Round trips.


def test_tree_of_an_instance_builds_an_equal_instance() -> None:
    cake = Cake("x", "square", (3, 2), 2.5, Oven(200, 0.5, True))
    assert build(Cake, to_tree(cake)) == cake


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**40),
    rate=st.none() | st.floats(0, 1),
    schedule=st.sampled_from(["inverse_sqrt", "cosine", "constant"]),
    head_width=st.integers(1, 64),
    final_norm=st.none() | st.booleans(),
    folder=st.text(),
)
def test_run_config_round_trip_through_json(
    seed: int,
    rate: float | None,
    schedule: str,
    head_width: int,
    final_norm: bool | None,
    folder: str,
) -> None:
    tree = {
        "out": "runs/x",
        "data": {"folder": folder},
        "model": {"d_model": 4 * head_width, "num_heads": 4, "final_norm": final_norm},
        "training": {"seed": seed, "learning_rate": rate, "schedule": schedule},
    }
    run = build(RunConfig, tree)
    assert (run.training.seed, run.training.learning_rate) == (seed, rate)
    assert build(RunConfig, to_tree(run)) == run
    assert build(RunConfig, json.loads(json.dumps(to_tree(run)))) == run


# Assignments.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1_000", -1000),
        ("0.5", 0.5),
        ("3e-4", 3e-4),
        ("true", True),
        ("false", False),
        ("plain", "plain"),
        ('"quoted"', "quoted"),
        ('"3"', "3"),
        ("some/path.txt", "some/path.txt"),
        ("two words", "two words"),
        ("a=b", "a=b"),
        ("", ""),
        ("[1, 2]", [1, 2]),
        ('["a", "b"]', ["a", "b"]),
        (" 3 ", 3),
    ],
)
def test_assigned_value_is_toml_or_text(text: str, value: Any) -> None:
    actual = apply_overrides({}, [f"a.b={text}"])["a"]["b"]
    assert actual == value
    assert type(actual) is type(value)


def test_assignment_keeps_other_values() -> None:
    tree = {"a": {"b": 1, "c": 2}, "d": 3}
    assert apply_overrides(tree, ["a.b=5"]) == {"a": {"b": 5, "c": 2}, "d": 3}


def test_assignment_does_not_modify_the_tree() -> None:
    tree = {"a": {"b": 1}}
    apply_overrides(tree, ["a.b=5", "a.c=6", "d=7"])
    apply_overrides(tree, [])["e"] = 8
    assert tree == {"a": {"b": 1}}


def test_last_assignment_wins() -> None:
    assert apply_overrides({}, ["a=1", "a=2"]) == {"a": 2}


@pytest.mark.parametrize("text", ["width", "=3", " = 3", ""])
def test_malformed_assignment_is_refused_with_the_syntax(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--set is .* the form section\.name=value"):
        apply_overrides({}, [text])


def test_assignments_change_a_run_config() -> None:
    changes = ["out=runs/x", "model.d_model=64", "training.learning_rate=3e-4", "data.folder=d"]
    run = build(RunConfig, apply_overrides({}, [*changes, "training.validate_bleu=false"]))
    assert (run.out, run.data.folder, run.model.d_model) == ("runs/x", "d", 64)
    assert (run.training.learning_rate, run.training.validate_bleu) == (3e-4, False)


def test_misspelled_assignment_is_answered_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"training\.max_step does .* training\.max_steps\?"):
        build(RunConfig, apply_overrides({"out": "x"}, ["training.max_step=5"]))


# Trees.

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
keys = st.sampled_from("abc")
trees = st.dictionaries(keys, st.recursive(leaves, lambda t: st.dictionaries(keys, t)))


def paths_of(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The leaves of a tree by path."""
    paths: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            paths |= paths_of(value, f"{prefix}{name}.")
        else:
            paths[prefix + name] = value
    return paths


def test_merging_is_recursive() -> None:
    first = {"a": {"b": 1, "c": 2}, "d": 3}
    second = {"a": {"b": 5}, "e": 6}
    assert merge_trees(first, second) == {"a": {"b": 5, "c": 2}, "d": 3, "e": 6}


@settings(deadline=None)
@given(trees, trees)
def test_second_tree_overrides_the_first(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert paths_of(second).items() <= paths_of(merge_trees(first, second)).items()


@settings(deadline=None)
@given(trees)
def test_merging_with_an_empty_tree_changes_nothing(tree: dict[str, Any]) -> None:
    assert merge_trees(tree, {}) == tree
    assert merge_trees({}, tree) == tree


@settings(deadline=None)
@given(trees)
def test_tree_has_no_differences_to_itself(tree: dict[str, Any]) -> None:
    assert tree_differences(tree, merge_trees(tree, {})) == []


def test_run_config_has_no_differences_to_its_json() -> None:
    tree = to_tree(build(RunConfig, {"out": "x", "training": {"learning_rate": 0.3}}))
    assert tree_differences(tree, json.loads(json.dumps(tree))) == []


def test_differences_have_path_and_both_values() -> None:
    old = {"a": {"b": 1, "c": 2}, "d": 3, "gone": 4}
    new = {"a": {"b": 5, "c": 2}, "d": 3, "came": 6}
    assert tree_differences(old, new) == ["a.b: 1 -> 5", "came: None -> 6", "gone: 4 -> None"]


def test_one_changed_setting_is_one_difference() -> None:
    run = build(RunConfig, {"out": "x"})
    other = dataclasses.replace(run, training=dataclasses.replace(run.training, seed=7))
    assert tree_differences(to_tree(run), to_tree(other)) == ["training.seed: 1 -> 7"]


# Files.


def test_toml_file_is_read_as_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('out = "Größe"\n[model]\nd_model = 8\n', encoding="utf-8")
    assert read_toml(path) == {"out": "Größe", "model": {"d_model": 8}}


def test_missing_recipe_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recipe .*missing\.toml does not exist"):
        read_toml(tmp_path / "missing.toml")


def test_invalid_toml_is_reported_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("a = 1\nb = \n")
    with pytest.raises(ConfigError, match=r"x\.toml is not valid TOML.*line 2"):
        read_toml(tmp_path / "x.toml")


def test_binary_recipe_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"a = '\xff'\n")
    with pytest.raises(ConfigError, match=r"x\.toml is not valid TOML"):
        read_toml(tmp_path / "x.toml")


@dataclass(frozen=True)
class Baked(Settings):
    """The base class of several kinds."""

    kind: Annotated[str, Doc("what it is")] = ""
    heat: int = 180


@dataclass(frozen=True)
class Bread(Baked):
    """One kind."""

    kind: Annotated[Literal["bread"], Doc("what it is")] = "bread"
    grains: int = 3


@dataclass(frozen=True)
class Tart(Baked):
    """Another kind."""

    kind: Annotated[Literal["tart"], Doc("what it is")] = "tart"
    fruit: str = "plum"


BAKED = OneOf(lambda: (Bread, Tart))


@dataclass(frozen=True)
class Order(Settings):
    """A setting with several kinds."""

    item: Annotated[Baked, BAKED] = field(default_factory=Bread)


@pytest.mark.parametrize(
    ("tree", "item"),
    [
        ({}, Bread()),
        ({"item": {"grains": 5}}, Bread(grains=5)),
        ({"item": {"kind": "bread"}}, Bread()),
        ({"item": {"kind": "tart", "heat": 200, "fruit": "fig"}}, Tart(heat=200, fruit="fig")),
    ],
)
def test_kind_selects_the_class(tree: dict[str, Any], item: Baked) -> None:
    order = build(Order, tree)
    assert order.item == item
    assert build(Order, to_tree(order)) == order


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"kind": "soup"}, 'item.kind is "soup", but must be bread | tart'),
        ({"kind": ["tart"]}, "must be bread | tart"),
        ({"kind": "tart", "grain": 3}, "item.grain does not exist; known: kind, heat, fruit"),
        ({"kind": "bread", "grain": 3}, "did you mean item.grains?"),
        ({"kind": "tart", "fruit": 1}, "item.fruit is 1, but must be text"),
        ("tart", 'item is "tart", but must be a table'),
    ],
)
def test_problems_are_reported_for_the_selected_kind(item: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Order, {"item": item})
    assert message in str(caught.value)


def test_choice_is_a_setting_and_each_kind_has_settings() -> None:
    [(path, setting)] = all_settings(Order)
    assert (path, setting.default, setting.type_name) == ("item.kind", "bread", "bread | tart")
    assert [*all_kinds(Order)] == [("item", "bread", Bread), ("item", "tart", Tart)]


@pytest.mark.parametrize("preset", ["[]", "{}", "5", "true", '["tiny"]', '"huge"'])
def test_preset_that_is_not_a_name_is_refused(preset: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'out = "x"\npreset = {preset}\n')
    with pytest.raises(ConfigError, match="Unknown preset"):
        build_run_config(recipe, preset=None, changes={}, assignments=[])


@pytest.mark.parametrize("number", [np.int64(3), np.int32(3), np.uint8(3), np.float32(0.5), 3])
def test_numpy_numbers_are_accepted(number: Any) -> None:
    name = "beam_size" if isinstance(number, int | np.integer) else "length_penalty"
    value = getattr(build(SearchConfig, {name: number}), name)
    assert value == number
    assert type(value) in (int, float)


@pytest.mark.parametrize("value", [np.bool_(True), np.float64(2.0), "2", None])
def test_non_integers_are_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="beam_size"):
        build(SearchConfig, {"beam_size": value})


@pytest.mark.parametrize("preset", PRESETS)
def test_settings_of_a_run_are_written_as_a_recipe(preset: str, tmp_path: Path) -> None:
    config = build_run_config(None, preset=preset, changes={"out": "runs/ä"}, assignments=[])
    (tmp_path / "recipe.toml").write_text(format_toml(to_tree(config)), encoding="utf-8")
    recipe = tmp_path / "recipe.toml"
    assert build_run_config(recipe, preset=None, changes={}, assignments=[]) == config


toml_values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(
    st.recursive(
        st.dictionaries(st.text("ab .\x7fé", max_size=4), toml_values, max_size=4),
        lambda inner: st.dictionaries(st.text("ab", max_size=3), inner | toml_values, max_size=3),
        max_leaves=4,
    )
)
def test_toml_is_read_as_it_was_written(tree: dict[str, Any]) -> None:
    assert tomllib.loads(format_toml(tree)) == tree


def test_dotted_names_are_nested() -> None:
    names = {"a.b": 1, "a": {"c": 2}, "d": {"e.f": 3}}
    assert nest_names(names) == {"a": {"b": 1, "c": 2}, "d": {"e.f": 3}}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"forbid": "Hund"}, 'list of text, such as ["a", "b"]'),
        ({"rerank": "model"}, "list of Path"),
        ({"rerank_weight": 0.5}, "list of number, such as [0.5, 1.0]"),
        ({"banned_sequences": [1]}, "list of integer, such as [1, 2]"),
        ({"banned_sequences": 1}, "list of list of integer, such as [1, 2]"),
    ],
)
def test_examples_of_lists_have_the_right_type(value: dict[str, Any], wanted: str) -> None:
    settings: type[Settings] = SearchConfig if "banned_sequences" in value else TextConfig
    with pytest.raises(ConfigError, match=re.escape(f"but must be {wanted}") + "$"):
        build(settings, value)
