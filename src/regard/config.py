"""Settings classes: frozen dataclasses that are built from TOML, options and JSON.

Fields declare documentation and bounds, `d_model: Annotated[int, Doc("model dimension"), Ge(1)]`,
from which validation, command line help and the reference page are derived. One `ConfigError`
reports all problems of an input, with dotted paths.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
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

from regard.bounds import Bound, bound_violations, format_bounds, format_value, to_float
from regard.bounds import Ge as Ge  # re-exported for settings classes
from regard.bounds import Le as Le
from regard.errors import ConfigError, format_problems

S = TypeVar("S", bound="Settings")
Tree = dict[str, Any]
_HEADING = "The settings cannot be used"
_MAX_VALUE_LENGTH = 100  # characters of a value in a message
_EXAMPLES: dict[Any, list[Any]] = {int: [1, 2], float: [0.5, 1.0], str: ["a", "b"]}  # of lists
_MAX_HINTS, _MIN_SIMILARITY = 3, 0.7  # names in a hint; ratio of difflib


@dataclass(frozen=True)
class Doc:
    """The description of a field, for help and the reference page."""

    text: str


@dataclass(frozen=True)
class Flag:
    """The option of a field, such as `--joint/--separate`; empty: derived from the field name.

    Former names are accepted but not listed; `--json=jsonl` means the option with that value.
    """

    name: str = ""
    formerly: tuple[str, ...] = ()


@dataclass(frozen=True)
class Formerly:
    """The former name of a field and of its values: accepted, with a `RenamedWarning`."""

    name: str
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)


class RenamedWarning(FutureWarning):
    """A setting is given by a name of an earlier version."""


@dataclass(frozen=True)
class OneOf:
    """The field has one of these (extensible) classes, selected by its field `kind`."""

    classes: Callable[[], tuple[type[Settings], ...]]


class _FieldError(ConfigError):
    """Problems of one settings class; each starts with a field name."""

    def __init__(self, owner: str, problems: Sequence[str]) -> None:
        super().__init__(format_problems(problems, owner))
        self.problems = problems


@dataclass(frozen=True)
class Settings:
    """Base class of all settings; instances are validated on creation."""

    foreign_names: ClassVar[
        Mapping[str, tuple[str, ...]]
    ] = {}  # names of other programs -> dotted paths

    def __post_init__(self) -> None:
        problems: list[str] = []
        for setting in settings_of(type(self)):
            problems += setting.out_of_bounds(getattr(self, setting.name))
        problems += self.problems()
        if problems:
            raise _FieldError(type(self).__name__, problems)

    def problems(self) -> Iterator[str]:
        """Contradictions between fields; each message starts with a field name."""
        yield from ()


@dataclass(frozen=True)
class Setting:
    """The declaration of a field of a settings class."""

    name: str
    type: Any
    default: Any
    doc: str
    bounds: tuple[Bound, ...]
    one_of: OneOf | None = None
    flag: Flag = Flag()
    formerly: Formerly | None = None

    @property
    def type_name(self) -> str:
        """The type for messages: "integer", "a | b"."""
        return _type_name(self.type)

    @property
    def limits(self) -> list[str]:
        """The documented bounds as text."""
        return format_bounds(self.bounds)

    @property
    def kinds(self) -> dict[str, type[Settings]]:
        """The classes that the setting may have, by kind."""
        classes = self.one_of.classes() if self.one_of else ()
        return {_field_of(cls, "kind").default: cls for cls in classes}

    @property
    def kind_setting(self) -> Setting:
        """The field `kind` that selects the class."""
        kind = _field_of(type(self.default), "kind")
        return dataclasses.replace(kind, type=Literal[tuple(self.kinds)])

    def out_of_bounds(self, value: Any) -> Iterator[str]:
        """A message for each bound that a value violates."""
        if isinstance(value, tuple):  # bounds apply to the items of a list
            for index, item in enumerate(value):
                item_setting = dataclasses.replace(self, name=f"{self.name}[{index}]")
                yield from item_setting.out_of_bounds(item)
            return
        yield from bound_violations(self.bounds, self.name, value)


def settings_of(cls: type[Settings]) -> tuple[Setting, ...]:
    """The fields of a settings class, in order of declaration."""
    return _settings_of(cls)  # type: ignore[arg-type]  # mypy considers it unhashable


@functools.cache  # resolving annotations takes milliseconds, as long as a short translation
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
        formerly=next((note for note in notes if isinstance(note, Formerly)), None),
    )


def all_settings(cls: type[Settings], prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """All leaf settings below a settings class, with their dotted paths.

    For a setting with several classes, only its `kind`; see `all_kinds`.
    """
    for setting in settings_of(cls):
        path = prefix + setting.name
        if setting.one_of:
            yield path + ".kind", setting.kind_setting
        elif _is_settings(setting.type):
            yield from all_settings(setting.type, path + ".")
        else:
            yield path, setting


def all_kinds(cls: type[Settings]) -> Iterator[tuple[str, str, type[Settings]]]:
    """The classes of settings with several classes, with path and kind."""
    for setting in settings_of(cls):
        for kind, kind_class in setting.kinds.items():
            yield setting.name, kind, kind_class


def all_paths(cls: type[Settings]) -> list[str]:
    """The dotted paths of all settings of all kinds."""
    paths = [path for path, _ in all_settings(cls)]
    for section, _, kind_class in all_kinds(cls):
        paths += [path for path, _ in all_settings(kind_class, f"{section}.")]
    return list(dict.fromkeys(paths))


class _Problems(list[str]):
    """The problems of an input for a settings class."""

    def __init__(self, cls: type[Settings], path: str) -> None:
        super().__init__()
        self._cls, self._path = cls, path

    def add_unknown_name(self, section: str, name: str, known: Collection[str]) -> None:
        """Add an unknown name, with suggestions."""
        foreign = self._cls.foreign_names.get(name.lower().replace("-", "_"), ())
        paths = [self._path + path for path in all_paths(self._cls)]
        close = difflib.get_close_matches(name, known, 1, cutoff=_MIN_SIMILARITY)
        hints = (
            [path for path in foreign if path.removeprefix(section) in known]
            or [*foreign]
            or [path for path in paths if path.split(".")[-1] == name and path != section + name]
            or [section + other for other in known if other.startswith(name)][:_MAX_HINTS]
            or [section + other for other in close]
        )
        hint = f"did you mean {' or '.join(hints)}?" if hints else f"known: {', '.join(known)}"
        self.append(f"{section}{name} does not exist; {hint}")


def current_names(
    cls: type[Settings],
    tree: Mapping[str, Any],
    source: str | None = "",
    kind: str | None = None,
    path: str = "",
) -> Tree:
    """Return `tree` with renamed settings under their current names.

    Unless `source` is None, a `RenamedWarning` lists them. `kind`: model kind if not in the tree.
    """
    renamed: dict[str, str] = {}
    result = _current_names(cls, tree, path, kind, renamed)
    if renamed and source is not None:
        listed = [f"{old} is now {new}" for old, new in renamed.items()]
        more = [f"and {len(listed) - _MAX_HINTS} more"] * (len(listed) > _MAX_HINTS)
        where = f" in {source}" if source else ""
        text = f"Former names of settings{where}: {', '.join(listed[:_MAX_HINTS] + more)}."
        warnings.warn(text, RenamedWarning, stacklevel=3)
    return result


def _current_names(
    cls: type[Settings], tree: Mapping[str, Any], path: str, kind: str | None, renamed: Tree
) -> Tree:
    known = {setting.name: setting for setting in settings_of(cls)}
    former = {s.formerly.name: s for s in known.values() if s.formerly}
    result: Tree = {}
    for name, value in tree.items():
        setting = known.get(name)
        old = former.get(name) if setting is None else None
        if old is not None and old.formerly and old.name not in tree:
            renamed[path + name] = path + old.name
            is_choice = isinstance(value, str) and value in old.formerly.values
            value = old.formerly.values[value] if is_choice else value
            name, setting = old.name, old
        if setting is not None and isinstance(value, Mapping):
            for nested in _nested_classes(setting, value.get("kind", kind)):
                value = _current_names(nested, value, f"{path}{name}.", kind, renamed)
        result[name] = value
    return result


def _nested_classes(setting: Setting, kind: Any) -> Iterable[type[Settings]]:
    """The class of a nested table, if it has one; of the default kind if its kind is not given."""
    if setting.one_of:
        return [setting.kinds[kind if kind in [*setting.kinds] else setting.kind_setting.default]]
    return [inner for inner in (setting.type, *get_args(setting.type)) if _is_settings(inner)]


def build(
    cls: type[S],
    tree: Mapping[str, Any],
    path: str = "",
    heading: str = _HEADING,
    source: str | None = "",
) -> S:
    """Build an instance from nested dictionaries; for `source` see `current_names`."""
    tree = current_names(cls, tree, source, path=path)
    problems = _Problems(cls, path)
    instance = _build(cls, tree, path, problems)
    if instance is None or problems:
        raise ConfigError(format_problems(problems, heading))
    return instance


def _build(cls: type[S], tree: Mapping[str, Any], path: str, problems: _Problems) -> S | None:
    known = {setting.name: setting for setting in settings_of(cls)}
    before = len(problems)
    for name in tree:
        if name not in known:
            problems.add_unknown_name(path, name, known)
    values: Tree = {}
    for name, setting in known.items():
        if name in tree:
            value = values[name] = _convert_setting(setting, tree[name], path + name, problems)
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


def _convert_setting(setting: Setting, value: Any, path: str, problems: _Problems) -> Any:
    """Convert a value to the type of a field, or to the class of its `kind`."""
    if not setting.one_of or not isinstance(value, Mapping):
        return _convert(setting.type, value, path, problems)
    field = setting.kind_setting
    kind = _convert(field.type, value.get("kind", field.default), path + ".kind", problems)
    return None if kind is None else _convert(setting.kinds[kind], value, path, problems)


def _convert(type_: Any, value: Any, path: str, problems: _Problems) -> Any:
    """Convert a value to a declared type; adds a problem and returns None if that fails."""
    if _is_settings(type_):
        if isinstance(value, Mapping):
            return _build(type_, value, path + ".", problems)
    elif get_origin(type_) is Literal:
        if value in get_args(type_):
            return value
    elif get_origin(type_) in (Union, types.UnionType):
        if value in (None, "none") and type(None) in get_args(type_):
            return None
        inner = next(option for option in get_args(type_) if option is not type(None))
        return _convert(inner, value, path, problems)
    elif get_origin(type_) is tuple:
        if isinstance(value, list | tuple):
            item = get_args(type_)[0]
            return tuple(_convert(item, v, f"{path}[{i}]", problems) for i, v in enumerate(value))
    elif get_origin(type_) is dict:
        if isinstance(value, Mapping):
            item = get_args(type_)[1]
            return {n: _convert(item, v, f"{path}.{n}", problems) for n, v in value.items()}
    elif type_ is Any:
        return value
    elif type_ is float:
        if not isinstance(value, bool) and isinstance(value, Real):  # includes NumPy's numbers
            return to_float(value)  # type: ignore[arg-type]
    elif type_ is int:
        if not isinstance(value, bool) and isinstance(value, Integral):
            return int(value)
    elif type_ is Path:
        if isinstance(value, str | Path):
            return Path(value)
    elif isinstance(type_, type) and isinstance(value, type_):
        return value
    problems.append(f"{path} is {_format_toml(value)}, but must be {_type_name(type_)}")
    return None


def _format_toml(value: Any) -> str:
    """A value as in a recipe, truncated if it is long."""
    if isinstance(value, int) and not isinstance(value, bool):
        return format_value(value)
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}..."


def _is_settings(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Settings)


def _type_name(type_: Any) -> str:
    if get_origin(type_) is Literal:
        return " | ".join(str(option) for option in get_args(type_))
    if get_origin(type_) in (Union, types.UnionType):
        return " | ".join("none" if k is type(None) else _type_name(k) for k in get_args(type_))
    if get_origin(type_) is tuple:
        item = get_args(type_)[0]
        values = get_args(item)[:2] if get_origin(item) is Literal else _EXAMPLES.get(item)
        return f"list of {_type_name(item)}" + (f", such as {json.dumps(values)}" if values else "")
    if _is_settings(type_) or get_origin(type_) is dict:
        return "a table"
    names = {"str": "text", "bool": "true | false", "int": "integer", "float": "number"}
    return names.get(type_.__name__, type_.__name__)
