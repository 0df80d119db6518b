"""Modified command lines: options, settings and paths."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer

from hostile import values
from hostile.cases import Case, command_runner
from hostile.sandbox import Sandbox
from hostile.scenarios import Scenario, assigned_once
from regard.cli import build_app
from regard.config import Ge, Le, Setting, all_kinds, all_settings
from regard.training.config import RunConfig

# Options with which a command may take long; it must only end when it gets a signal.
_SLOW_OPTIONS = {
    *("max_steps", "resamples", "rounds", "max_seconds", "count", "latency_sentences", "gradients"),
    *("length", "max_tokens", "patience", "max_ratio", "max_extra", "min_length", "lengths"),
    *("gradient_accumulation_steps", "layer_batch_size", "candidates", "epochs", "keys", "d_model"),
}
_TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
_SECONDS = 6.0


def commands() -> dict[str, Any]:
    """Every command by its name, as a typer object."""
    result: dict[str, Any] = {}
    for name, command in vars(typer.main.get_command(build_app()))["commands"].items():
        below = getattr(command, "commands", None)
        if below is None:
            result[name] = command
        else:
            result |= {f"{name} {inner}": parser for inner, parser in below.items()}
    return result


def option_cases(scenarios: list[Scenario]) -> Iterator[Case]:
    """Each option of each command, with values at its bounds, beyond them, and of other types."""
    for command, parser in commands().items():
        for scenario in [scenario for scenario in scenarios if scenario.command == command]:
            for option in parser.params:
                yield from _of_option(scenario, command, option)
            yield from _of_command(scenario, command)
    for command in [*commands(), "", "show", "nonsense"]:
        arguments = tuple(command.split())
        for more in ((), ("--help",), ("-h",), ("--version",), ("--nonsense",), ("",), ("x", "y")):
            scenario = Scenario("bare", arguments)
            name = f"options/bare/{command}/{' '.join(more)}"
            run = (
                command_runner(scenario, arguments=(*arguments, *more))
                if arguments + more
                else None
            )
            if run is not None and command != "demo":
                yield Case(name, "bare", run)


def _of_option(scenario: Scenario, command: str, option: Any) -> Iterator[Case]:
    stratum = f"{command}/{option.name}"
    flags = [flag for flag in (*option.opts, *option.secondary_opts) if flag.startswith("-")]
    if not flags:
        return  # an argument
    flag, name = flags[0], f"options/{scenario.name}/{flags[0]}"
    if getattr(option, "is_flag", False):
        lines = {
            "twice": (*scenario.arguments, flag, flag),
            "value": (*scenario.arguments, f"{flag}=3"),
        }
        lines |= {name: (*scenario.arguments, name) for name in flags}
        for what, arguments in lines.items():
            yield Case(f"{name}/{what}", stratum, _changed_words(scenario, arguments))
        return
    for value in dict.fromkeys(_values(option)):
        arguments = _with_option(scenario.arguments, flag, value)
        is_slow = option.name in _SLOW_OPTIONS
        yield Case(
            f"{name}/{_short(value)}", stratum, _changed_words(scenario, arguments, is_slow=is_slow)
        )
    yield Case(f"{name}/no value", stratum, _changed_words(scenario, (*scenario.arguments, flag)))
    if not option.multiple and flag in scenario.arguments:
        value = scenario.arguments[scenario.arguments.index(flag) + 1]
        twice = _changed_words(scenario, (*scenario.arguments, flag, value), must_fail=True)
        yield Case(f"{name}/repeated", f"{command}/repeated", twice)


def _of_command(scenario: Scenario, command: str) -> Iterator[Case]:
    lines = {
        "unknown option": (*scenario.arguments, "--nonsense", "1"),
        "one more": (*scenario.arguments, "x"),
        "empty": (*scenario.arguments, ""),
        "end of options": (*scenario.arguments, "--", "--out"),
        "not UTF-8": (*scenario.arguments, "--caf\udce9"),
    }
    lines |= {
        f"without {i}": scenario.arguments[:i] + scenario.arguments[i + 1 :] for i in range(1, 12)
    }
    for what, arguments in lines.items():
        yield Case(
            f"options/{scenario.name}/{what}",
            f"{command}/words",
            _changed_words(scenario, arguments),
        )


def _changed_words(
    scenario: Scenario,
    arguments: tuple[str, ...],
    *,
    is_slow: bool = False,
    must_fail: bool = False,
) -> Any:
    more: dict[str, Any] = {}
    if is_slow:
        more = {"statuses": (0, 2, *_TERMINATED), "signals": ((signal.SIGTERM, _SECONDS),)}
    new = {word for word in arguments if word not in scenario.arguments}
    return command_runner(
        scenario,
        prepare=_create_paths,
        arguments=arguments,
        must_fail=must_fail,
        outputs=(*scenario.outputs, *_places(new - _EXISTING)),
        **more,
    )


_EXISTING = {"folder", "file", "loop", "dangling", ".", "..", "/"}


def _places(arguments: Iterable[str]) -> Iterator[str]:
    """Paths that a command with these arguments may write, in the format of `sandbox.tree`."""
    for word in filter(None, arguments):
        path = os.fsencode(word).decode("latin-1").rstrip("/")
        yield from (path, path.strip(), f"{path}.portions")


def _create_paths(sandbox: Sandbox, draw: random.Random) -> None:
    """Create the files and folders of `values.PATHS`."""
    (sandbox.folder / "folder").mkdir()
    (sandbox.folder / "folder" / "note").write_text("mine")
    (sandbox.folder / "file").write_text("mine\n")
    (sandbox.folder / "loop").symlink_to("loop")
    (sandbox.folder / "dangling").symlink_to("nowhere-else")


def _values(option: Any) -> Iterable[str]:
    """Hostile values for the type and bounds of an option."""
    kind = _plain(option.type_descriptor.annotation)
    low, high = getattr(option, "min", None), getattr(option, "max", None)
    for bound, arguments in (("at least", "low"), ("at most", "high")):
        match = re.search(rf"{bound} (-?[\d.e+]+)", option.help or "")
        if match and arguments == "low" and low is None:
            low = float(match[1].rstrip("."))
        elif match and arguments == "high" and high is None:
            high = float(match[1].rstrip("."))
    if kind is int:
        return dict.fromkeys((*values.around(low, high, whole=True), *values.WHOLE_NUMBERS))
    if kind is float:
        return dict.fromkeys((*values.around(low, high, whole=False), *values.NUMBERS))
    return (*values.PATHS, *values.TEXTS) if kind is Path else (*values.CHOICES, *values.TEXTS)


def _plain(kind: Any) -> Any:
    """The type behind `| None`, `list[...]` and `Annotated`."""
    while get_args(kind):
        inner = [item for item in get_args(kind) if item is not type(None)]
        if get_origin(kind) is Literal:
            return str
        kind = inner[0]
    return kind


def _with_option(arguments: tuple[str, ...], flag: str, value: str) -> tuple[str, ...]:
    """The arguments with another value of an option."""
    if flag in arguments:
        place = arguments.index(flag) + 1
        return (*arguments[:place], value, *arguments[place + 1 :])
    return (*arguments, flag, value)


def setting_cases(scenarios: dict[str, Scenario]) -> Iterator[Case]:
    """Each setting of each model kind, at its bounds, beyond them, and of other types."""
    for path, setting in all_settings(RunConfig):
        yield from _of_setting(path, setting, scenarios["train-transformer"])
    for section, kind, cls in all_kinds(RunConfig):
        for path, setting in all_settings(cls, f"{section}."):
            yield from _of_setting(path, setting, scenarios[f"train-{kind}"])
    scenario = scenarios["train-transformer"]
    for word in ("x", "=", "x=", "=1", "model=1", "model.x=1", "a.b.c.d=1", "training={}", "."):
        arguments = (*scenario.arguments, "--set", word)
        yield Case(
            f"settings/{scenario.name}/{_short(word)}",
            "words",
            command_runner(scenario, arguments=arguments),
        )


def _of_setting(path: str, setting: Setting, scenario: Scenario) -> Iterator[Case]:
    low = next((bound.bound for bound in setting.bounds if isinstance(bound, Ge)), None)
    high = next((bound.bound for bound in setting.bounds if isinstance(bound, Le)), None)
    kind, origin = _plain(setting.type), get_origin(setting.type)
    if origin in (Union, UnionType, tuple) and get_origin(get_args(setting.type)[0]) is Literal:
        kind = str
    choices = [str(item) for item in get_args(setting.type)] if origin is Literal else []
    is_slow = path.split(".")[-1] in _SLOW_OPTIONS
    for value in dict.fromkeys((*choices, *values.settings_of(kind, low, high))):
        arguments = tuple(assigned_once((*scenario.arguments, "--set", f"{path}={value}")))
        name = f"settings/{scenario.name}/{path}={_short(value)}"
        more: dict[str, Any] = {}
        if is_slow:
            more = {"statuses": (0, 2, *_TERMINATED), "signals": ((signal.SIGTERM, _SECONDS),)}
        outputs = (*scenario.outputs, *_places([value] if path == "out" else []))
        run = command_runner(
            scenario, arguments=arguments, prepare=_create_paths, outputs=outputs, **more
        )
        yield Case(name, f"{scenario.name}/{path}", run)


def _short(value: str) -> str:
    """A value as part of a name: printable, without slashes, and not long."""
    text = ascii(value)[1:-1].replace("/", "|")
    return text if len(text) < 40 else f"{text[:10]}...{len(text)}"


def argument_cases(fixtures: Path, scenarios: list[Scenario]) -> Iterator[Case]:
    """Each path of each command line, replaced by folders of other kinds and missing paths."""
    others = [
        *sorted(
            str(path.relative_to(fixtures))
            for path in fixtures.glob("*/*")
            if "text" not in str(path)
        ),
        *("text", "text/test.xx", "recipe.toml", "models", "models/transformer/checkpoints"),
    ]
    for scenario in scenarios:
        for place, word in enumerate(scenario.arguments):
            if not (fixtures / word).exists() or word in ("causal",):
                continue
            for other in (*others, *values.PATHS, "/dev/zero", "private"):
                arguments = (*scenario.arguments[:place], other, *scenario.arguments[place + 1 :])
                needs = (*scenario.needs, other) if other in others else scenario.needs
                apply_change = Scenario(
                    scenario.name,
                    scenario.arguments,
                    needs,
                    scenario.stdin,
                    scenario.outputs,
                    scenario.format,
                )
                run = command_runner(apply_change, arguments=arguments, prepare=_create_paths)
                name = f"arguments/{scenario.name}/{place}={_short(other)}"
                yield Case(name, f"{scenario.name}/{place}", run)
