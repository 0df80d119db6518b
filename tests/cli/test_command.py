"""Functions whose parameters are settings classes, as commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from regard.bounds import Ge, Le
from regard.cli.app import App
from regard.cli.command import Fields, OptionSets, given_settings, refuse_options
from regard.config import Doc, Flag, Formerly, Settings
from regard.errors import ConfigError


@dataclass(frozen=True)
class OvenConfig(Settings):
    """How something is baked."""

    heat: Annotated[int, Doc("degrees"), Ge(50), Le(300), Formerly("temperature")] = 180
    mode: Annotated[Literal["fan", "grill"], Doc("what moves the heat")] = "fan"
    timer: Annotated[float | None, Doc("hours"), Ge(0), Le(9)] = None
    light: Annotated[bool, Doc("whether the light is on")] = False
    door: Annotated[
        bool, Doc("whether it is closed"), Flag("--closed/--open", ("--ajar=false",))
    ] = True
    trays: Annotated[tuple[int, ...], Doc("where trays are"), Ge(1), Le(5)] = ()
    recipes: Annotated[tuple[Path, ...], Doc("what is baked"), Flag("--recipe", ("--dish",))] = ()
    out: Annotated[Path | None, Doc("where it goes")] = None


@dataclass(frozen=True)
class PanOptions(Settings):
    """Settings with options of the same names."""

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
        str, typer.Option(help="Output format."), Flag(formerly=("--json=jsonl",))
    ] = "text",
) -> None:
    """Bake."""
    refuse_options(context, ["timer"] if oven.mode == "grill" else [], "no effect on the grill.")
    received.append((dough, oven, format, given_settings(context, OvenConfig)))


def cook(values: Annotated[dict[str, Any], OptionSets(lambda: [OvenConfig, PanOptions])]) -> None:
    """Cook in an oven or a pan."""
    received.append(values)


@pytest.fixture
def command() -> Any:
    received.clear()
    app = App()
    app.command("bake")(bake)
    app.command("cook")(cook)
    return typer.main.get_command(app)


def call(command: Any, *arguments: str) -> Any:
    command.main([*arguments], standalone_mode=False)
    return received.pop()


def test_settings_are_received_as_one_object(command: Any) -> None:
    assert call(command, "bake", "rye") == ("rye", OvenConfig(heat=200), "text", {})
    arguments = [
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
    _, oven, _, given = call(command, "bake", "rye", *arguments)
    assert oven == expected
    assert [*given] == ["heat", "door", "trays", "recipes", "out"]


def test_values_outside_bounds_and_choices_are_refused(command: Any) -> None:
    for arguments, message in (
        (["--heat", "20"], "--heat is 20, but must be at least 50"),
        (["--trays", "1", "--trays", "7"], "--trays is 7, but must be at most 5"),
        (["--mode", "steam"], "--mode is 'steam', but must be fan or grill"),
        (["--light"], "no option --light"),
        (["--mode", "grill", "--timer", "1"], "--timer: no effect on the grill"),
        (["--heat", "60", "--heat", "70"], "--heat is given more than once"),
        (["--format", "text", "--json"], "--format is given more than once"),
    ):
        with pytest.raises(ConfigError, match=message):
            call(command, "bake", "rye", *arguments)


def test_deprecated_names_are_accepted_and_not_listed(command: Any) -> None:
    assert call(command, "bake", "rye", "--json")[2] == "jsonl"
    values = call(command, "bake", "rye", "--dish", "a", "--recipe", "b", "--dish=c")
    assert values[1].recipes == (Path("a"), Path("b"), Path("c"))
    options = {name for option in command.commands["bake"].params for name in option.opts}
    assert {"--recipe", "--format"} <= options
    assert not options & {"--dish", "--json"}


@pytest.mark.parametrize(
    ("arguments", "notices"),
    [
        (["--dish", "a"], ["--dish is deprecated. Use --recipe."]),
        (["--json"], ["--json is deprecated. Use --format jsonl."]),
        (["--ajar", "--temperature=60"], ["--ajar", "--temperature"]),
        (["--", "--json"], []),
    ],
)
def test_deprecated_names_are_reported(
    arguments: list[str], notices: list[str], command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    dough = [] if "--" in arguments else ["rye"]
    _, oven, _, _ = call(command, "bake", *dough, *arguments)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(notices)
    assert all(notice in line for notice, line in zip(sorted(notices), sorted(lines), strict=True))
    if "--ajar" in arguments:
        assert oven == OvenConfig(60, door=False)
        assert {
            "--ajar is deprecated. Use --open.",
            "--temperature is deprecated. Use --heat.",
        } == {*lines}


def test_help_has_a_panel_for_each_group(command: Any) -> None:
    params = {option.name: option for option in command.commands["bake"].params}
    assert params["heat"].rich_help_panel == "Oven"
    assert params["heat"].help == "Degrees (50 to 300)."
    assert params["mode"].help == "What moves the heat (fan | grill)."
    assert params["heat"].default == 200
    assert params["format"].rich_help_panel is None
    assert command.commands["bake"].help == "Bake."


def test_option_sets_share_options_of_the_same_name(command: Any) -> None:
    assert call(command, "cook") == {}
    given = call(command, "cook", "--heat", "3", "--mode", "fry", "--lid", "--light")
    assert given == {"heat": 3, "mode": "fry", "lid": True, "light": True}
    with pytest.raises(ConfigError, match="--heat is 400, but must be at most 300"):
        call(command, "cook", "--heat", "400")
    panels = {option.name: option.rich_help_panel for option in command.commands["cook"].params}
    assert panels["heat"] == "Oven"
    assert panels["lid"] == "Pan"


@dataclass(frozen=True)
class Nested(Settings):
    """Settings that cannot be options."""

    oven: Annotated[OvenConfig, Doc("another group")] = OvenConfig()


@dataclass(frozen=True)
class WarmOptions(Settings):
    """An option of the same name, and of another type."""

    heat: Annotated[str, Doc("in words")] = "low"


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([OvenConfig, WarmOptions], "WarmOptions.heat has type text, but integer in another class"),
        ([Nested], "Nested: oven has type a table, which cannot be an option"),
    ],
)
def test_classes_that_cannot_be_options_are_refused(classes: list[Any], message: str) -> None:
    def other(values: Annotated[dict[str, Any], OptionSets(lambda: classes)]) -> None:
        """Never called."""

    other.__annotations__ = {"values": Annotated[dict[str, Any], OptionSets(lambda: classes)]}
    with pytest.raises(ConfigError, match=message):
        App().command("other")(other)
