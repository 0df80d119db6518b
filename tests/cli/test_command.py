"""Functions whose parameters are settings classes, as commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from regard.bounds import Ge, Le
from regard.cli.command import Fields, Groups, given_settings, refuse_options
from regard.cli.verbs import Verbs
from regard.config import Doc, Flag, Settings
from regard.errors import ConfigError


@dataclass(frozen=True)
class OvenConfig(Settings):
    """How something is baked."""

    heat: Annotated[int, Doc("degrees"), Ge(50), Le(300)] = 180
    mode: Annotated[Literal["fan", "grill"], Doc("what moves the heat")] = "fan"
    timer: Annotated[float | None, Doc("hours"), Ge(0), Le(9)] = None
    light: Annotated[bool, Doc("whether one sees inside")] = False
    door: Annotated[bool, Doc("whether it is closed"), Flag("--closed/--open")] = True
    trays: Annotated[tuple[int, ...], Doc("where trays are"), Ge(1), Le(5)] = ()
    recipes: Annotated[tuple[Path, ...], Doc("what is baked"), Flag("--recipe", ("--dish",))] = ()
    out: Annotated[Path | None, Doc("where it goes")] = None


@dataclass(frozen=True)
class PanOptions(Settings):
    """Another way to cook, with an option of the same name."""

    heat: Annotated[int, Doc("level"), Ge(1), Le(300)] = 5
    lid: Annotated[bool, Doc("whether it is covered")] = False
    mode: Annotated[Literal["fry", "grill"], Doc("how")] = "fry"
    oil: Annotated[bool, Doc("whether there is any")] = False


received: list[Any] = []


def bake(
    context: typer.Context,
    dough: Annotated[str, typer.Argument(help="What is baked.")],
    oven: Annotated[OvenConfig, Fields(without=("light",), defaults={"heat": 200})],
    format: Annotated[
        str, typer.Option(help="How it is told."), Flag(formerly=("--json=jsonl",))
    ] = "text",
) -> None:
    """Bake."""
    refuse_options(context, ["timer"] if oven.mode == "grill" else [], "no effect on the grill.")
    received.append((dough, oven, format, given_settings(context, OvenConfig)))


def cook(values: Annotated[dict[str, Any], Groups(lambda: [OvenConfig, PanOptions])]) -> None:
    """Cook in whatever there is."""
    received.append(values)


@pytest.fixture
def command() -> Any:
    received.clear()
    app = Verbs()
    app.command("bake")(bake)
    app.command("cook")(cook)
    return typer.main.get_command(app)


def call(command: Any, *words: str) -> Any:
    command.main([*words], standalone_mode=False)
    return received.pop()


def test_settings_are_received_as_one_object(command: Any) -> None:
    assert call(command, "bake", "rye") == ("rye", OvenConfig(heat=200), "text", {})
    words = [
        "--heat",
        "60",
        "--open",
        "--trays",
        "1",
        "--trays",
        "3",
        "--recipe",
        "a",
        "--out",
        "b",
    ]
    expected = OvenConfig(60, door=False, trays=(1, 3), recipes=(Path("a"),), out=Path("b"))
    _, oven, _, given = call(command, "bake", "rye", *words)
    assert oven == expected
    assert [*given] == ["heat", "door", "trays", "recipes", "out"]


def test_values_are_held_to_bounds_and_choices(command: Any) -> None:
    for words, message in (
        (["--heat", "20"], "--heat is 20, and must be at least 50"),
        (["--trays", "1", "--trays", "7"], "--trays is 7, and must be at most 5"),
        (["--mode", "steam"], "--mode is 'steam'. Use fan or grill"),
        (["--light"], "no option --light"),
        (["--mode", "grill", "--timer", "1"], "--timer: no effect on the grill"),
        (["--heat", "60", "--heat", "70"], "--heat is given more than once"),
        (["--format", "text", "--json"], "--format is given more than once"),
    ):
        with pytest.raises(ConfigError, match=message):
            call(command, "bake", "rye", *words)


def test_old_names_are_accepted_and_not_listed(command: Any) -> None:
    assert call(command, "bake", "rye", "--json")[2] == "jsonl"
    found = call(command, "bake", "rye", "--dish", "a", "--recipe", "b", "--dish=c")
    assert found[1].recipes == (Path("a"), Path("b"), Path("c"))
    options = {name for option in command.commands["bake"].params for name in option.opts}
    assert {"--recipe", "--format"} <= options
    assert not options & {"--dish", "--json"}


def test_help_has_a_panel_for_each_group(command: Any) -> None:
    params = {option.name: option for option in command.commands["bake"].params}
    assert params["heat"].rich_help_panel == "Oven"
    assert params["heat"].help == "Degrees (50 to 300)."
    assert params["mode"].help == "What moves the heat (fan | grill)."
    assert params["heat"].default == 200
    assert params["format"].rich_help_panel is None
    assert command.commands["bake"].help == "Bake."


def test_groups_share_options_of_one_name(command: Any) -> None:
    assert call(command, "cook") == {}
    given = call(command, "cook", "--heat", "3", "--mode", "fry", "--lid", "--light")
    assert given == {"heat": 3, "mode": "fry", "lid": True, "light": True}
    with pytest.raises(ConfigError, match="--heat is 400, and must be at most 300"):
        call(command, "cook", "--heat", "400")
    panels = {option.name: option.rich_help_panel for option in command.commands["cook"].params}
    assert panels["heat"] == "Oven"
    assert panels["lid"] == "Pan"


@dataclass(frozen=True)
class Nested(Settings):
    """What no option can be made of."""

    oven: Annotated[OvenConfig, Doc("another group")] = OvenConfig()


@dataclass(frozen=True)
class WarmOptions(Settings):
    """An option of the same name, and of another type."""

    heat: Annotated[str, Doc("in words")] = "low"


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([OvenConfig, WarmOptions], "WarmOptions.heat is text, and integer elsewhere"),
        ([Nested], "Nested: oven is a table, which cannot be an option"),
    ],
)
def test_classes_that_cannot_be_options_are_refused(classes: list[Any], message: str) -> None:
    def other(values: Annotated[dict[str, Any], Groups(lambda: classes)]) -> None:
        """Never called."""

    other.__annotations__ = {"values": Annotated[dict[str, Any], Groups(lambda: classes)]}
    with pytest.raises(ConfigError, match=message):
        Verbs().command("other")(other)
