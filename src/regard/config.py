"""Settings: TOML files and dotted overrides become frozen dataclasses.

A component's settings are a frozen dataclass that inherits from `Settings`. A field carries its
meaning and bounds as data, `width: Annotated[int, Doc("size of a token's vector"), Ge(1)] = 512`,
and the checks, the command's help and the reference page all read them from there. Every problem
of an input is collected before one `ConfigError` names them all by their dotted paths.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import tomllib
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from regard.bounds import Bound, as_float, beyond, limits, shown
from regard.bounds import Ge as Ge  # which settings are declared with
from regard.bounds import Le as Le
from regard.errors import ConfigError, one_message

S = TypeVar("S", bound="Settings")
Tree = dict[str, Any]
_HEADING = "The settings cannot be used"
_LONGEST_SHOWN = 100  # characters of a value in a message
_HINTS, _CLOSE = 3, 0.7  # names in a hint; difflib's ratio from which two names are close
_DEEPEST = 10  # tables in tables


@dataclass(frozen=True)
class Doc:
    """What a field means, for help and the reference page."""

    text: str


@dataclass(frozen=True)
class Flag:
    """How the command line writes a field: `--joint/--separate`; empty: as the field is called.

    Old names are accepted and not listed; `--json=jsonl` stands for the option with that value.
    """

    name: str = ""
    formerly: tuple[str, ...] = ()


@dataclass(frozen=True)
class OneOf:
    """The field is of one of these classes, which may grow; its own field `kind` says which."""

    classes: Callable[[], tuple[type[Settings], ...]]


class _FieldError(ConfigError):
    """Problems of one dataclass, each beginning with its field's name."""

    def __init__(self, owner: str, problems: Sequence[str]) -> None:
        super().__init__(one_message(problems, owner))
        self.problems = problems


@dataclass(frozen=True)
class Settings:
    """Base of all settings: an instance that exists is within its bounds and consistent."""

    also_called: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # elsewhere -> our dotted paths

    def __post_init__(self) -> None:
        problems: list[str] = []
        for setting in settings_of(type(self)):
            problems += setting.out_of_bounds(getattr(self, setting.name))
        problems += self.problems()
        if problems:
            raise _FieldError(type(self).__name__, problems)

    def problems(self) -> Iterator[str]:
        """What contradicts what, each text beginning with a field's name."""
        yield from ()


@dataclass(frozen=True)
class Setting:
    """One field of a settings class, as data."""

    name: str
    type: Any
    default: Any
    doc: str
    bounds: tuple[Bound, ...]
    one_of: OneOf | None = None
    flag: Flag = Flag()

    @property
    def kind(self) -> str:
        """The type in words: "int", "a | b"."""
        return _kind(self.type)

    @property
    def limits(self) -> list[str]:
        """The bounds that a reader should know of, in words."""
        return limits(self.bounds)

    @property
    def kinds(self) -> dict[str, type[Settings]]:
        """By their names, the classes that a setting may be of."""
        classes = self.one_of.classes() if self.one_of else ()
        return {_field_of(cls, "kind").default: cls for cls in classes}

    @property
    def choice(self) -> Setting:
        """Which of the classes it is, as a setting."""
        own = _field_of(type(self.default), "kind")
        return dataclasses.replace(own, type=Literal[tuple(self.kinds)])

    def out_of_bounds(self, value: Any) -> Iterator[str]:
        """Each bound that a value does not keep."""
        if isinstance(value, tuple):  # each of a list keeps them
            for number, item in enumerate(value):
                place = dataclasses.replace(self, name=f"{self.name}[{number}]")
                yield from place.out_of_bounds(item)
            return
        yield from beyond(self.bounds, self.name, value)


def settings_of(cls: type[Settings]) -> tuple[Setting, ...]:
    """The fields of a settings class, in the order of the class."""
    return _settings_of(cls)  # type: ignore[arg-type]  # mypy takes an instance's hash for its own


@functools.cache  # to resolve annotations takes milliseconds, as long as a short translation
def _settings_of(cls: Any) -> tuple[Setting, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_setting(field, hints[field.name]) for field in dataclasses.fields(cls))


def _field_of(cls: type[Settings], name: str) -> Setting:
    return next(setting for setting in settings_of(cls) if setting.name == name)


def _setting(field: dataclasses.Field[Any], hint: Any) -> Setting:
    hint, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    factory = field.default_factory
    default = field.default if factory is dataclasses.MISSING else factory()
    return Setting(
        name=field.name,
        type=hint,
        default=default,
        doc=" ".join(note.text for note in notes if isinstance(note, Doc)),
        bounds=tuple(note for note in notes if isinstance(note, Bound)),
        one_of=next((note for note in notes if isinstance(note, OneOf)), None),
        flag=next((note for note in notes if isinstance(note, Flag)), Flag()),
    )


def all_settings(cls: type[Settings], prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """Every leaf below a settings class, with its dotted path.

    Of a setting that is of one of several classes, only the choice among them; see `Setting.kinds`.
    """
    for setting in settings_of(cls):
        path = prefix + setting.name
        if setting.one_of:
            yield path + ".kind", setting.choice
        elif _is_settings(setting.type):
            yield from all_settings(setting.type, path + ".")
        else:
            yield path, setting


def all_kinds(cls: type[Settings]) -> Iterator[tuple[str, str, type[Settings]]]:
    """What `all_settings` leaves out: each class of a setting of several, with path and kind."""
    for setting in settings_of(cls):
        for kind, one in setting.kinds.items():
            yield setting.name, kind, one


def every_path(cls: type[Settings]) -> list[str]:
    """The dotted paths of all settings, of whichever kind."""
    paths = [path for path, _ in all_settings(cls)]
    for section, _, one in all_kinds(cls):
        paths += [path for path, _ in all_settings(one, f"{section}.")]
    return list(dict.fromkeys(paths))


class _Problems(list[str]):
    """All that is wrong with one input, which is meant to become a `cls`."""

    def __init__(self, cls: type[Settings], path: str) -> None:
        super().__init__()
        self._cls, self._path = cls, path

    def unknown(self, section: str, name: str, known: Collection[str]) -> None:
        """Add a name that a section does not have, and what it may mean."""
        also = self._cls.also_called.get(name.lower().replace("-", "_"), ())  # in other programs
        paths = [self._path + path for path in every_path(self._cls)]
        close = difflib.get_close_matches(name, known, 1, cutoff=_CLOSE)
        near = (
            [path for path in also if path.removeprefix(section) in known]
            or [*also]
            or [path for path in paths if path.split(".")[-1] == name and path != section + name]
            or [section + other for other in known if other.startswith(name)][:_HINTS]
            or [section + other for other in close]
        )
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        self.append(f"{section}{name} does not exist; {hint}")


def build(cls: type[S], tree: Mapping[str, Any], path: str = "", heading: str = _HEADING) -> S:
    """An instance from nested dictionaries; all that is wrong is named in one ConfigError."""
    problems = _Problems(cls, path)
    instance = _build(cls, tree, path, problems)
    if instance is None or problems:
        raise ConfigError(one_message(problems, heading))
    return instance


def _build(cls: type[S], tree: Mapping[str, Any], path: str, problems: _Problems) -> S | None:
    known = {setting.name: setting for setting in settings_of(cls)}
    before = len(problems)
    for name in tree:
        if name not in known:
            problems.unknown(path, name, known)
    values: Tree = {}
    for name, setting in known.items():
        if name in tree:
            value = values[name] = _value_of(setting, tree[name], path + name, problems)
            problems += [path + problem for problem in setting.out_of_bounds(value)]
        elif setting.default is dataclasses.MISSING:
            problems.append(f"{path}{name} is missing")
    if len(problems) > before:
        return None
    try:
        return cls(**values)
    except _FieldError as error:
        problems += [path + problem for problem in error.problems]
        return None


def _value_of(setting: Setting, value: Any, path: str, problems: _Problems) -> Any:
    """What a field is given, as its type or as the class of its `kind`; or a problem."""
    if not setting.one_of or not isinstance(value, Mapping):
        return _convert(setting.type, value, path, problems)
    choice = setting.choice
    kind = _convert(choice.type, value.get("kind", choice.default), path + ".kind", problems)
    return None if kind is None else _convert(setting.kinds[kind], value, path, problems)


def _convert(kind: Any, value: Any, path: str, problems: _Problems) -> Any:
    """`value` as the type that the field declares, or a problem."""
    if _is_settings(kind):
        if isinstance(value, Mapping):
            return _build(kind, value, path + ".", problems)
    elif get_origin(kind) is Literal:
        if value in get_args(kind):
            return value
    elif get_origin(kind) in (Union, types.UnionType):
        if value in (None, "none") and type(None) in get_args(kind):
            return None
        inner = next(option for option in get_args(kind) if option is not type(None))
        return _convert(inner, value, path, problems)
    elif get_origin(kind) is tuple:
        if isinstance(value, list | tuple):
            item = get_args(kind)[0]
            return tuple(_convert(item, v, f"{path}[{i}]", problems) for i, v in enumerate(value))
    elif get_origin(kind) is dict:
        if isinstance(value, Mapping):
            item = get_args(kind)[1]
            return {n: _convert(item, v, f"{path}.{n}", problems) for n, v in value.items()}
    elif kind is Any:
        return value
    elif kind is float:
        if not isinstance(value, bool) and isinstance(value, Real):  # NumPy's numbers are, too
            return as_float(value)  # type: ignore[arg-type]
    elif kind is int:
        if not isinstance(value, bool) and isinstance(value, Integral):
            return int(value)
    elif isinstance(kind, type) and isinstance(value, kind):
        return value
    problems.append(f"{path} is {_as_written(value)}, and must be {_kind(kind)}")
    return None


def _as_written(value: Any) -> str:
    """A value as a recipe has it, shortened if it is long."""
    if isinstance(value, int) and not isinstance(value, bool):
        return shown(value)
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _is_settings(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(str(option) for option in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join("none" if k is type(None) else _kind(k) for k in get_args(kind))
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        such = json.dumps(get_args(item)[:2]) if get_origin(item) is Literal else "[1, 2]"
        return f"list of {_kind(item)}, such as {such}"
    if _is_settings(kind) or get_origin(kind) is dict:
        return "a table"
    return {"str": "text", "bool": "true | false", "int": "integer", "float": "number"}.get(
        kind.__name__, kind.__name__
    )


def as_tree(settings: Settings) -> Tree:
    """The nested dictionaries that `build` makes an equal instance from, as JSON keeps them."""

    def listed(items: Iterable[tuple[str, Any]]) -> Tree:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in items}

    return dataclasses.asdict(settings, dict_factory=listed)


def override(tree: Tree, assignments: Iterable[str]) -> Tree:
    """A copy of `tree` with each "a.b=value" put in; the last of a name holds.

    A value is TOML, or else plain text.
    """
    tree = merged(tree, {})
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise ConfigError(f"--set {assignment}: write it as --set section.name=value.")
        change: Any = _value(text.strip())
        names = path.strip().split(".")
        if len(names) > _DEEPEST:
            raise ConfigError(
                f"--set {path[:_LONGEST_SHOWN]}: no setting is below {len(names) - 1} tables. "
                "See docs/settings.md for the names."
            )
        for name in reversed(names):
            change = {name: change}
        tree = merged(tree, change)
    return tree


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or a number or list that nothing takes
        return text


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Tree:
    """Both trees in one; where they disagree, the second holds."""
    result = dict(first)
    for name, value in second.items():
        if isinstance(value, Mapping) and isinstance(result.get(name), Mapping):
            result[name] = merged(result[name], value)
        else:
            result[name] = value
    return result


def differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> list[str]:
    """Each leaf in which two trees differ, as "path: old -> new"."""
    found: list[str] = []
    for name in sorted({*old, *new}):
        a, b = old.get(name), new.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{path}{name}.")
        elif a != b:
            found.append(f"{path}{name}: {a} -> {b}")
    return found
