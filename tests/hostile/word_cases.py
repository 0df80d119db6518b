"""Command lines that are changed: options, settings, and the paths that they name."""

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
from hostile.cases import Case, one_command
from hostile.scenes import Scene, assigned_once
from hostile.stage import Stage
from regard.cli import build_app
from regard.config import Ge, Le, Setting, all_kinds, all_settings
from regard.training.config import RunConfig

# Who asks for much work gets it: such a command has to end in time only when it is told to.
_WORK = {
    *("max_steps", "resamples", "rounds", "seconds", "count", "one_by_one", "gradients", "length"),
    *("max_tokens", "patience", "max_ratio", "max_extra", "min_length", "accumulate", "lengths"),
    *("batch", "candidates", "epochs", "keys", "width"),
}
_POLITE = (-signal.SIGTERM, 128 + signal.SIGTERM)
_SECONDS = 6.0


def commands() -> dict[str, Any]:
    """Every verb with its command, as typer has it."""
    found: dict[str, Any] = {}
    for name, command in vars(typer.main.get_command(build_app()))["commands"].items():
        below = getattr(command, "commands", None)
        if below is None:
            found[name] = command
        else:
            found |= {f"{name} {verb}": one for verb, one in below.items()}
    return found


def option_cases(scenes: list[Scene]) -> Iterator[Case]:
    """Each option of each verb, with values at its bounds, beyond them, and of other types."""
    for verb, command in commands().items():
        for scene in [scene for scene in scenes if scene.verb == verb]:
            for option in command.params:
                yield from _of_option(scene, verb, option)
            yield from _of_verb(scene, verb)
    for verb in [*commands(), "", "show", "nonsense"]:
        words = tuple(verb.split())
        for more in ((), ("--help",), ("-h",), ("--version",), ("--nonsense",), ("",), ("x", "y")):
            scene = Scene("bare", words)
            name = f"options/bare/{verb}/{' '.join(more)}"
            play = one_command(scene, words=(*words, *more)) if words + more else None
            if play is not None and verb != "demo":
                yield Case(name, "bare", play)


def _of_option(scene: Scene, verb: str, option: Any) -> Iterator[Case]:
    stratum = f"{verb}/{option.name}"
    flags = [flag for flag in (*option.opts, *option.secondary_opts) if flag.startswith("-")]
    if not flags:
        return  # an argument
    flag, name = flags[0], f"options/{scene.name}/{flags[0]}"
    if getattr(option, "is_flag", False):
        lines = {"twice": (*scene.words, flag, flag), "value": (*scene.words, f"{flag}=3")}
        lines |= {one: (*scene.words, one) for one in flags}
        for what, words in lines.items():
            yield Case(f"{name}/{what}", stratum, _changed_words(scene, words))
        return
    for value in dict.fromkeys(_values(option)):
        words = _with_option(scene.words, flag, value)
        is_work = option.name in _WORK
        yield Case(
            f"{name}/{_short(value)}", stratum, _changed_words(scene, words, is_work=is_work)
        )
    yield Case(f"{name}/no value", stratum, _changed_words(scene, (*scene.words, flag)))
    if not option.multiple and flag in scene.words:
        value = scene.words[scene.words.index(flag) + 1]
        twice = _changed_words(scene, (*scene.words, flag, value), must_fail=True)
        yield Case(f"{name}/repeated", f"{verb}/repeated", twice)


def _of_verb(scene: Scene, verb: str) -> Iterator[Case]:
    lines = {
        "unknown option": (*scene.words, "--nonsense", "1"),
        "one more": (*scene.words, "x"),
        "empty": (*scene.words, ""),
        "end of options": (*scene.words, "--", "--out"),
        "not UTF-8": (*scene.words, "--caf\udce9"),
    }
    lines |= {f"without {i}": scene.words[:i] + scene.words[i + 1 :] for i in range(1, 12)}
    for what, words in lines.items():
        yield Case(f"options/{scene.name}/{what}", f"{verb}/words", _changed_words(scene, words))


def _changed_words(
    scene: Scene, words: tuple[str, ...], *, is_work: bool = False, must_fail: bool = False
) -> Any:
    more: dict[str, Any] = {}
    if is_work:
        more = {"statuses": (0, 2, *_POLITE), "signals": ((signal.SIGTERM, _SECONDS),)}
    new = {word for word in words if word not in scene.words}
    return one_command(
        scene,
        prepare=_furnish,
        words=words,
        must_fail=must_fail,
        outputs=(*scene.outputs, *_places(new - _TAKEN)),
        **more,
    )


_TAKEN = {"folder", "file", "loop", "dangling", "private", ".", "..", "/"}


def _places(words: Iterable[str]) -> Iterator[str]:
    """Where commands may write that are given these words, as `stage.tree` writes paths."""
    for word in filter(None, words):
        path = os.fsencode(word).decode("latin-1").rstrip("/")
        yield from (path, path.strip(), f"{path}.portions")


def _furnish(stage: Stage, draw: random.Random) -> None:
    """What the paths of `values.PATHS` name."""
    (stage.folder / "folder").mkdir()
    (stage.folder / "folder" / "note").write_text("mine")
    (stage.folder / "file").write_text("mine\n")
    (stage.folder / "loop").symlink_to("loop")
    (stage.folder / "dangling").symlink_to("nowhere-else")


def _values(option: Any) -> Iterable[str]:
    """Hostile values by an option's type and the bounds that it or its help names."""
    kind = _plain(option.type_descriptor.annotation)
    low, high = getattr(option, "min", None), getattr(option, "max", None)
    for bound, words in (("at least", "low"), ("at most", "high")):
        match = re.search(rf"{bound} (-?[\d.e+]+)", option.help or "")
        if match and words == "low" and low is None:
            low = float(match[1].rstrip("."))
        elif match and words == "high" and high is None:
            high = float(match[1].rstrip("."))
    if kind is int:
        return dict.fromkeys((*values.around(low, high, whole=True), *values.WHOLE_NUMBERS))
    if kind is float:
        return dict.fromkeys((*values.around(low, high, whole=False), *values.NUMBERS))
    return (*values.PATHS, *values.TEXTS) if kind is Path else (*values.CHOICES, *values.TEXTS)


def _plain(kind: Any) -> Any:
    """The type behind `| None`, `list[...]` and `Annotated`."""
    while get_args(kind):
        inner = [one for one in get_args(kind) if one is not type(None)]
        if get_origin(kind) is Literal:
            return str
        kind = inner[0]
    return kind


def _with_option(words: tuple[str, ...], flag: str, value: str) -> tuple[str, ...]:
    """The words with another value of an option."""
    if flag in words:
        place = words.index(flag) + 1
        return (*words[:place], value, *words[place + 1 :])
    return (*words, flag, value)


def setting_cases(scenes: dict[str, Scene]) -> Iterator[Case]:
    """Each setting of each kind of model, at its bounds, beyond them, and of other types."""
    for path, setting in all_settings(RunConfig):
        yield from _of_setting(path, setting, scenes["train-transformer"])
    for section, kind, cls in all_kinds(RunConfig):
        for path, setting in all_settings(cls, f"{section}."):
            yield from _of_setting(path, setting, scenes[f"train-{kind}"])
    scene = scenes["train-transformer"]
    for word in ("x", "=", "x=", "=1", "model=1", "model.x=1", "a.b.c.d=1", "training={}", "."):
        words = (*scene.words, "--set", word)
        yield Case(
            f"settings/{scene.name}/{_short(word)}", "words", one_command(scene, words=words)
        )


def _of_setting(path: str, setting: Setting, scene: Scene) -> Iterator[Case]:
    low = next((bound.bound for bound in setting.bounds if isinstance(bound, Ge)), None)
    high = next((bound.bound for bound in setting.bounds if isinstance(bound, Le)), None)
    kind, origin = _plain(setting.type), get_origin(setting.type)
    if origin in (Union, UnionType, tuple) and get_origin(get_args(setting.type)[0]) is Literal:
        kind = str
    choices = [str(one) for one in get_args(setting.type)] if origin is Literal else []
    is_work = path.split(".")[-1] in _WORK
    for value in dict.fromkeys((*choices, *values.settings_of(kind, low, high))):
        words = tuple(assigned_once((*scene.words, "--set", f"{path}={value}")))
        name = f"settings/{scene.name}/{path}={_short(value)}"
        more: dict[str, Any] = {}
        if is_work:
            more = {"statuses": (0, 2, *_POLITE), "signals": ((signal.SIGTERM, _SECONDS),)}
        outputs = (*scene.outputs, *_places([value] if path == "out" else []))
        play = one_command(scene, words=words, prepare=_furnish, outputs=outputs, **more)
        yield Case(name, f"{scene.name}/{path}", play)


def _short(value: str) -> str:
    """A value as part of a name: printable, without slashes, and not long."""
    text = ascii(value)[1:-1].replace("/", "|")
    return text if len(text) < 40 else f"{text[:10]}...{len(text)}"


def argument_cases(kit: Path, scenes: list[Scene]) -> Iterator[Case]:
    """Each path of each command line, in its place a folder of another kind, or no such thing."""
    others = [
        *sorted(str(path.relative_to(kit)) for path in kit.glob("*/*") if "text" not in str(path)),
        *("text", "text/test.xx", "recipe.toml", "models", "models/transformer/checkpoints"),
    ]
    for scene in scenes:
        for place, word in enumerate(scene.words):
            if not (kit / word).exists() or word in ("causal",):
                continue
            for other in (*others, *values.PATHS, "/dev/zero", "private"):
                words = (*scene.words[:place], other, *scene.words[place + 1 :])
                needs = (*scene.needs, other) if other in others else scene.needs
                changed = Scene(
                    scene.name, scene.words, needs, scene.stdin, scene.outputs, scene.format
                )
                play = one_command(changed, words=words, prepare=_furnish)
                name = f"arguments/{scene.name}/{place}={_short(other)}"
                yield Case(name, f"{scene.name}/{place}", play)
