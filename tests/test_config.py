"""Settings from tables and assignments; every problem is named by its dotted path, at once."""

from __future__ import annotations

import dataclasses
import json
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
    all_settings,
    as_tree,
    build,
    differences,
    every_path,
    merged,
    override,
    settings_of,
)
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError
from regard.files import read_toml
from regard.tasks.recipes import run_config
from regard.training.config import RunConfig
from regard.training.other_names import OTHER_NAMES


@dataclass(frozen=True)
class Oven(Settings):
    """How something is baked."""

    heat: Annotated[int, Doc("degrees"), Ge(50), Le(300)] = 180
    hours: Annotated[float, Doc("how long"), Ge(0)] = 1.0
    fan: Annotated[bool, Doc("moving air")] = False

    def problems(self) -> Iterator[str]:
        """A fan needs less heat."""
        if self.fan and self.heat > 250:
            yield f"heat is {self.heat}, too much with fan=true"


@dataclass(frozen=True)
class Cake(Settings):
    """What is baked."""

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


def test_what_is_not_given_has_its_default() -> None:
    assert build(Cake, {"name": "x"}) == Cake("x", "round", (1,), None, Oven(180, 1.0, False))


def test_values_reach_their_fields() -> None:
    tree = {"name": "x", "kind": "square", "layers": [3, 2], "weight": 2, "oven": {"fan": True}}
    assert build(Cake, tree) == Cake("x", "square", (3, 2), 2.0, Oven(fan=True))


def test_an_integer_for_a_number_becomes_a_number() -> None:
    assert type(build(Oven, {"hours": 2}).hours) is float


def test_an_unknown_key_is_named_with_its_path_and_the_nearest_name() -> None:
    message = message_of({"name": "x", "oven": {"heet": 200}})
    assert "oven.heet does not exist" in message
    assert "did you mean oven.heat?" in message


def test_an_unknown_key_that_is_near_to_nothing_gets_all_names() -> None:
    message = message_of({"name": "x", "zzz": 1})
    assert "zzz does not exist" in message
    for known in ("name", "kind", "layers", "weight", "oven"):
        assert known in message


def test_a_setting_of_another_section_is_found() -> None:
    assert "heat does not exist; did you mean oven.heat?" in message_of({"name": "x", "heat": 3})
    message = message_of({"name": "x", "oven": {"weight": 3}})
    assert "oven.weight does not exist; did you mean weight?" in message


@pytest.mark.parametrize(
    ("assignment", "meant"),
    [
        ("max_steps=3", "training.max_steps"),
        ("model.max_steps=3", "training.max_steps"),
        ("training.width=3", "model.width"),
        ("training.validate_every=3", "training.checkpoint_every"),
        ("lr=3", "training.learning_rate"),
        ("model.max-update=3", "training.max_steps"),
        ("model.num_layers=3", "model.encoder_layers or model.decoder_layers"),
    ],
)
def test_names_of_a_run_that_are_elsewhere_or_called_otherwise(assignment: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(RunConfig, override({"out": "x"}, [assignment]))
    name = assignment.split("=")[0]
    assert str(caught.value).endswith(f"{name} does not exist; did you mean {meant}?")


def test_a_kind_answers_with_its_own_names() -> None:
    with pytest.raises(ConfigError, match=r"did you mean model\.layers\?"):
        build(RunConfig, {"out": "x", "model": {"kind": "causal", "num_layers": 3}})


def test_what_others_call_our_settings_are_settings() -> None:
    ours = {path for paths in OTHER_NAMES.values() for path in paths}
    assert ours <= {*every_path(RunConfig)}
    assert not {*OTHER_NAMES} & {path.split(".")[-1] for path in every_path(RunConfig)}


def test_a_missing_value_is_named() -> None:
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
def test_a_value_of_the_wrong_kind_is_named_with_the_right_kind(
    tree: dict[str, Any], path: str, wanted: str
) -> None:
    message = message_of({"name": "x", **tree})
    assert f"{path}, and must be {wanted}" in message


@pytest.mark.parametrize(
    ("heat", "words"),
    [(49, "oven.heat is 49, and must be at least 50"), (301, "must be at most 300")],
)
def test_a_value_out_of_bounds_is_named_with_its_bound(heat: int, words: str) -> None:
    assert words in message_of({"name": "x", "oven": {"heat": heat}})


@pytest.mark.parametrize("heat", [50, 300])
def test_the_bounds_themselves_are_allowed(heat: int) -> None:
    assert build(Oven, {"heat": heat}).heat == heat


def test_a_number_that_is_none_is_out_of_bounds() -> None:
    assert "oven.hours is nan" in message_of({"name": "x", "oven": {"hours": float("nan")}})


def test_bounds_hold_for_an_instance_made_by_hand() -> None:
    with pytest.raises(ConfigError, match="heat is 10, and must be at least 50"):
        Oven(heat=10)


def test_an_unset_value_has_no_bounds() -> None:
    assert build(Cake, {"name": "x", "weight": None}).weight is None


def test_a_contradiction_is_named_by_its_path() -> None:
    assert "oven.heat is 280, too much with fan=true" in message_of(
        {"name": "x", "oven": {"heat": 280, "fan": True}}
    )


def test_all_problems_come_in_one_message() -> None:
    message = message_of({"kind": "oval", "color": 1, "oven": {"heat": "hot", "hour": 1}})
    for path in ("name is", "kind is", "color does", "oven.heat is", "oven.hour does"):
        assert path in message
    assert "5 problems" in message


def test_bounds_are_checked_beside_other_problems() -> None:
    tree = {"name": "x", "kind": "oval", "weight": -2, "oven": {"heat": 10, "hour": 1}}
    message = message_of(tree)
    for path in ("kind is", "weight is -2", "oven.heat is 10", "oven.hour does"):
        assert path in message
    assert "4 problems" in message


def test_a_problem_is_named_once() -> None:
    assert message_of({"name": "x", "oven": {"heat": 10}}).count("heat") == 1


# Fields as data.


def test_a_field_carries_its_meaning_default_and_bounds() -> None:
    heat = settings_of(Oven)[0]
    assert (heat.name, heat.kind, heat.default, heat.doc) == ("heat", "integer", 180, "degrees")
    assert heat.bounds == (Ge(50), Le(300))


def test_leaves_are_listed_by_their_dotted_paths() -> None:
    paths = [path for path, _ in all_settings(Cake)]
    assert paths == ["name", "kind", "layers", "weight", "oven.heat", "oven.hours", "oven.fan"]


def test_every_setting_of_a_run_says_what_it_means() -> None:
    assert [path for path, setting in all_settings(RunConfig) if not setting.doc] == []


# There and back.


def test_a_tree_builds_the_instance_that_it_came_from() -> None:
    cake = Cake("x", "square", (3, 2), 2.5, Oven(200, 0.5, True))
    assert build(Cake, as_tree(cake)) == cake


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**40),
    rate=st.none() | st.floats(0, 1),
    schedule=st.sampled_from(["inverse_sqrt", "cosine", "constant"]),
    head_width=st.integers(1, 64),
    final_norm=st.none() | st.booleans(),
    folder=st.text(),
)
def test_a_run_survives_its_way_through_json(
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
        "model": {"width": 4 * head_width, "heads": 4, "final_norm": final_norm},
        "training": {"seed": seed, "learning_rate": rate, "schedule": schedule},
    }
    run = build(RunConfig, tree)
    assert (run.training.seed, run.training.learning_rate) == (seed, rate)
    assert build(RunConfig, as_tree(run)) == run
    assert build(RunConfig, json.loads(json.dumps(as_tree(run)))) == run


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
def test_an_assigned_value_is_toml_or_else_text(text: str, value: Any) -> None:
    found = override({}, [f"a.b={text}"])["a"]["b"]
    assert found == value
    assert type(found) is type(value)


def test_an_assignment_leaves_its_neighbours_alone() -> None:
    tree = {"a": {"b": 1, "c": 2}, "d": 3}
    assert override(tree, ["a.b=5"]) == {"a": {"b": 5, "c": 2}, "d": 3}


def test_an_assignment_does_not_change_the_tree_it_was_given() -> None:
    tree = {"a": {"b": 1}}
    override(tree, ["a.b=5", "a.c=6", "d=7"])
    override(tree, [])["e"] = 8
    assert tree == {"a": {"b": 1}}


def test_the_last_assignment_holds() -> None:
    assert override({}, ["a=1", "a=2"]) == {"a": 2}


@pytest.mark.parametrize("text", ["width", "=3", " = 3", ""])
def test_what_is_no_assignment_is_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--set section\.name=value"):
        override({}, [text])


def test_assignments_reach_a_run() -> None:
    changes = ["out=runs/x", "model.width=64", "training.learning_rate=3e-4", "data.folder=d"]
    run = build(RunConfig, override({}, [*changes, "training.validate_bleu=false"]))
    assert (run.out, run.data.folder, run.model.width) == ("runs/x", "d", 64)
    assert (run.training.learning_rate, run.training.validate_bleu) == (3e-4, False)


def test_a_misspelled_assignment_is_named_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"training\.max_step does .* training\.max_steps\?"):
        build(RunConfig, override({"out": "x"}, ["training.max_step=5"]))


# Trees.

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
keys = st.sampled_from("abc")
trees = st.dictionaries(keys, st.recursive(leaves, lambda t: st.dictionaries(keys, t)))


def paths_of(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The leaves of a tree by their paths."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= paths_of(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def test_merging_goes_down_into_tables() -> None:
    first = {"a": {"b": 1, "c": 2}, "d": 3}
    second = {"a": {"b": 5}, "e": 6}
    assert merged(first, second) == {"a": {"b": 5, "c": 2}, "d": 3, "e": 6}


@settings(deadline=None)
@given(trees, trees)
def test_all_of_the_second_tree_holds_after_merging(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    assert paths_of(second).items() <= paths_of(merged(first, second)).items()


@settings(deadline=None)
@given(trees)
def test_merging_with_nothing_changes_nothing(tree: dict[str, Any]) -> None:
    assert merged(tree, {}) == tree
    assert merged({}, tree) == tree


@settings(deadline=None)
@given(trees)
def test_a_tree_does_not_differ_from_itself(tree: dict[str, Any]) -> None:
    assert differences(tree, merged(tree, {})) == []


def test_a_run_does_not_differ_from_what_json_kept_of_it() -> None:
    tree = as_tree(build(RunConfig, {"out": "x", "training": {"learning_rate": 0.3}}))
    assert differences(tree, json.loads(json.dumps(tree))) == []


def test_differences_are_leaves_with_path_and_both_values() -> None:
    old = {"a": {"b": 1, "c": 2}, "d": 3, "gone": 4}
    new = {"a": {"b": 5, "c": 2}, "d": 3, "came": 6}
    assert differences(old, new) == ["a.b: 1 -> 5", "came: None -> 6", "gone: 4 -> None"]


def test_runs_that_differ_in_one_setting_differ_in_one_line() -> None:
    run = build(RunConfig, {"out": "x"})
    other = dataclasses.replace(run, training=dataclasses.replace(run.training, seed=7))
    assert differences(as_tree(run), as_tree(other)) == ["training.seed: 1 -> 7"]


# Files.


def test_a_toml_file_becomes_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('out = "Größe"\n[model]\nwidth = 8\n', encoding="utf-8")
    assert read_toml(path) == {"out": "Größe", "model": {"width": 8}}


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no recipe .*missing\.toml"):
        read_toml(tmp_path / "missing.toml")


def test_broken_toml_is_named_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("a = 1\nb = \n")
    with pytest.raises(ConfigError, match=r"x\.toml is not valid TOML.*line 2"):
        read_toml(tmp_path / "x.toml")


def test_a_recipe_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"a = '\xff'\n")
    with pytest.raises(ConfigError, match=r"x\.toml is not valid TOML"):
        read_toml(tmp_path / "x.toml")


@dataclass(frozen=True)
class Baked(Settings):
    """What all kinds have."""

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
    """Something of several kinds."""

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
def test_the_kind_chooses_the_class(tree: dict[str, Any], item: Baked) -> None:
    order = build(Order, tree)
    assert order.item == item
    assert build(Order, as_tree(order)) == order


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"kind": "soup"}, 'item.kind is "soup", and must be bread | tart'),
        ({"kind": ["tart"]}, "must be bread | tart"),
        ({"kind": "tart", "grain": 3}, "item.grain does not exist; known: kind, heat, fruit"),
        ({"kind": "bread", "grain": 3}, "did you mean item.grains?"),
        ({"kind": "tart", "fruit": 1}, "item.fruit is 1, and must be text"),
        ("tart", 'item is "tart", and must be a table'),
    ],
)
def test_what_is_wrong_is_told_within_the_kind(item: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Order, {"item": item})
    assert said in str(caught.value)


def test_the_choice_is_a_setting_and_each_kind_has_its_own() -> None:
    [(path, setting)] = all_settings(Order)
    assert (path, setting.default, setting.kind) == ("item.kind", "bread", "bread | tart")
    assert [*all_kinds(Order)] == [("item", "bread", Bread), ("item", "tart", Tart)]


@pytest.mark.parametrize("preset", ["[]", "{}", "5", "true", '["tiny"]', '"huge"'])
def test_a_preset_of_another_type_is_refused(preset: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'out = "x"\npreset = {preset}\n')
    with pytest.raises(ConfigError, match="There is no preset"):
        run_config(recipe, preset=None, changes={}, assignments=[])


@pytest.mark.parametrize("number", [np.int64(3), np.int32(3), np.uint8(3), np.float32(0.5), 3])
def test_numbers_of_numpy_are_numbers(number: Any) -> None:
    name = "beam_size" if isinstance(number, int | np.integer) else "length_penalty"
    value = getattr(build(SearchConfig, {name: number}), name)
    assert value == number
    assert type(value) in (int, float)


@pytest.mark.parametrize("value", [np.bool_(True), np.float64(2.0), "2", None])
def test_what_is_no_integer_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="beam_size"):
        build(SearchConfig, {"beam_size": value})
