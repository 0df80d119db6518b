"""Functions as commands: a parameter that is a settings class becomes one option for each field.

    def score(context: typer.Context, models: Models, search: Annotated[SearchConfig, Fields(
        only=("length_penalty",))], runtime: Runtime) -> None: ...

`expanded(score)` is what typer gets. The function receives the settings as one object; which of
them were given is known from the context (`given_settings`). Options stand in a panel of the help
that is named after the class. Names, meaning, bounds, choices and defaults are those of the fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import typer

from regard.bounds import Bound, limits, refuse_out_of_bounds
from regard.config import Flag, Setting, Settings, build, settings_of
from regard.errors import ConfigError
from regard.option_sets import OptionSet, option_of

S = TypeVar("S", bound=Settings)
_CONTEXT = "context"
_KINDS = (int, float, str, bool, Path)  # of options


@dataclass(frozen=True)
class Fields:
    """Which fields of a settings class a command has as options, and its own defaults for them."""

    only: tuple[str, ...] = ()  # empty: all
    without: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    panel: str = ""  # empty: named after the class

    def of(self, cls: type[Settings]) -> list[Setting]:
        """The chosen fields, in the order of the class."""
        names = self.only or [setting.name for setting in settings_of(cls)]
        unknown = {*self.only, *self.without, *self.defaults} - {s.name for s in settings_of(cls)}
        assert not unknown, unknown
        return [
            replace(setting, default=self.defaults.get(setting.name, setting.default))
            for setting in settings_of(cls)
            if setting.name in names and setting.name not in self.without
        ]


@dataclass(frozen=True)
class Groups:
    """Settings classes that are known when the command is built, such as those of plugins.

    A parameter with this note has the options of all of them, and gets those that were given, by
    name; `regard.option_sets.select` says which class is meant. Fields of one name are one option;
    the first class says where it stands in the help and what it means.
    """

    classes: Callable[[], Iterable[type[Settings]]]


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, and is not at its default by itself."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def given_settings(context: typer.Context, *classes: type[Settings]) -> dict[str, Any]:
    """The options that were given and are settings of these classes, by name."""
    return {
        name: value
        for cls in classes
        for name, value in context.params.items()
        if name in {field.name for field in fields(cls)} and is_given(context, name)
    }


def refuse_options(context: typer.Context, names: Collection[str], why: str) -> None:
    """Refuse those that were given and have no effect here."""
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in names and is_given(context, option.name)
    ]
    if given:
        raise ConfigError(f"{', '.join(given)}: {why}")


def expanded(function: Callable[..., None]) -> Callable[..., None]:
    """The function as typer takes it: each parameter is an argument or one option."""
    hints = get_type_hints(function, include_extras=True)
    parameters: dict[str, inspect.Parameter] = {}
    made: dict[str, Callable[[typer.Context], Any]] = {}  # from what was given
    aliases: dict[str, str] = {}  # an old name -> the parameter
    for parameter in inspect.signature(function).parameters.values():
        hint, notes = _parts(hints[parameter.name])
        if groups := [note for note in notes if isinstance(note, Groups)]:
            classes = [*groups[0].classes()]
            made[parameter.name] = _given_in(classes)
            options = _merged(classes)
        elif isinstance(hint, type) and issubclass(hint, Settings):
            fields = next((note for note in notes if isinstance(note, Fields)), Fields())
            made[parameter.name] = _builder(hint, fields)
            options = [(setting, fields.panel or _panel(hint)) for setting in fields.of(hint)]
        else:
            flag = next((note for note in notes if isinstance(note, Flag)), Flag())
            aliases |= dict.fromkeys(flag.formerly, parameter.name)
            new = parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            _add(parameters, new)
            continue
        for setting, panel in options:
            aliases |= dict.fromkeys(setting.flag.formerly, setting.name)
            _add(parameters, _option_of(setting, panel))
    for name in parameters:
        aliases.pop(option_of(name), None)  # which is an option by itself here
    return _with_signature(function, parameters, made, aliases)


def _add(parameters: dict[str, inspect.Parameter], new: inspect.Parameter) -> None:
    if new.name in parameters:
        raise ConfigError(f"Two options of one command are called {new.name}. Rename one of them.")
    parameters[new.name] = new


def _with_signature(
    function: Callable[..., None],
    parameters: dict[str, inspect.Parameter],
    made: Mapping[str, Callable[[typer.Context], Any]],
    aliases: Mapping[str, str],
) -> Callable[..., None]:
    plain = {*inspect.signature(function).parameters} - {*made}

    def call(**values: Any) -> None:
        context = values[_CONTEXT]
        built = {name: make(context) for name, make in made.items()}
        function(**{name: values[name] for name in plain}, **built)

    if _CONTEXT not in parameters:
        kind = inspect.Parameter.KEYWORD_ONLY
        context = inspect.Parameter(_CONTEXT, kind, annotation=typer.Context)
        parameters = {_CONTEXT: context, **parameters}
    call.__name__, call.__doc__ = function.__name__, inspect.getdoc(function)
    call.__module__ = function.__module__
    call.__annotations__ = {p.name: p.annotation for p in parameters.values()}
    vars(call).update(__signature__=inspect.Signature([*parameters.values()]), aliases=aliases)
    return call


def _builder(cls: type[S], fields: Fields) -> Callable[[typer.Context], S]:
    def built(context: typer.Context) -> S:
        names = {setting.name for setting in fields.of(cls)}
        given = given_settings(context, cls)
        chosen = {name: value for name, value in given.items() if name in names}
        return build(cls, {**fields.defaults, **chosen})

    return built


def _given_in(classes: Iterable[type[Settings]]) -> Callable[[typer.Context], dict[str, Any]]:
    return lambda context: given_settings(context, *classes)


def _merged(classes: Iterable[type[Settings]]) -> list[tuple[Setting, str]]:
    """Each name once, with the default, the bounds and the choices that all classes have."""
    options: dict[str, tuple[Setting, str]] = {}
    for cls in classes:
        for setting in settings_of(cls):
            first, panel = options.setdefault(setting.name, (setting, _panel(cls)))
            if _plain(first.type) != _plain(setting.type):
                raise ConfigError(
                    f"{cls.__name__}.{setting.name} is {setting.kind}, and {first.kind} elsewhere. "
                    "Rename it."
                )
            is_same = first.default == setting.default and first.default is not MISSING
            shared = replace(
                first,
                type=first.type if first.type == setting.type else _plain(first.type),
                default=first.default if is_same else None,
                bounds=tuple(bound for bound in first.bounds if bound in setting.bounds),
            )
            options[setting.name] = shared, panel
    return [*options.values()]


def _panel(cls: type[Settings]) -> str:
    """What a group of options is called: "Search" for `SearchConfig`."""
    if issubclass(cls, OptionSet):
        return cls.title.capitalize()
    name = re.sub("(Config|Options|Settings)$", "", cls.__name__)
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def _option_of(setting: Setting, panel: str) -> inspect.Parameter:
    """A field as a keyword parameter that typer makes an option of."""
    kind, choices = _plain(setting.type), choices_of(setting.type)
    if kind not in _KINDS and get_args(kind)[:1] not in [(item,) for item in _KINDS]:
        raise ConfigError(f"{panel}: {setting.name} is {setting.kind}, which cannot be an option.")
    flags = [setting.flag.name] if setting.flag.name else []
    if kind is bool and setting.default is False and not flags:
        flags = [f"--{setting.name.replace('_', '-')}"]  # without a --no- that would do nothing
    default = setting.default
    if isinstance(default, tuple):
        default = list(default) or None
    is_list = get_origin(kind) is list
    annotation = kind | None if default is None or is_list else kind
    doc = setting.doc or setting.name.replace("_", " ")
    text = doc[0].upper() + doc[1:]
    option = described(text, setting.bounds, choices, *flags, rich_help_panel=panel)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[annotation, option],
    )


def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type, and the notes that it is annotated with."""
    return (hint, ()) if get_origin(hint) is not Annotated else (hint.__origin__, hint.__metadata__)


def _plain(kind: Any) -> Any:
    """The type of a field as typer knows it: text for choices, a list for a tuple; never None."""
    if get_origin(kind) in (Union, UnionType):
        [kind] = [inner for inner in get_args(kind) if inner is not NoneType]
    if get_origin(kind) is Literal:
        return str
    return list[_plain(get_args(kind)[0])] if get_origin(kind) is tuple else kind  # type: ignore[misc]


def choices_of(kind: Any) -> tuple[str, ...]:
    """The words that a field may be."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((words for inner in get_args(kind) if (words := choices_of(inner))), ())


def described(
    text: str, bounds: tuple[Bound, ...], choices: tuple[str, ...], *flags: str, **more: Any
) -> Any:
    """A typer option that lists bounds and choices in its help, and holds values to them."""
    listed = ", ".join([*limits(bounds), *([" | ".join(choices)] if choices else [])])
    text += f" ({listed})." if listed else "."
    callback = bounded(*bounds) if bounds else one_of(choices) if choices else None
    return typer.Option(*flags, help=text, callback=callback, **{"show_default": True} | more)


def bounded(*bounds: Bound) -> Callable[[typer.CallbackParam, Any], Any]:
    """A typer callback that refuses numbers, or lists of them, that are out of bounds.

    Typer's own `min` and `max` let NaN pass, and list the largest numbers in the help.
    """
    return _checked(lambda option, value: refuse_out_of_bounds(option, value, *bounds))


def one_of(choices: tuple[str, ...]) -> Callable[[typer.CallbackParam, Any], Any]:
    """A typer callback that refuses all but some words."""

    def refuse_others(option: str, value: Any) -> None:
        if value is not None and value not in choices:
            *others, last = choices
            raise ConfigError(f"{option} is {value!r}. Use {', '.join(others)} or {last}.")

    return _checked(refuse_others)


def _checked(check: Callable[[str, Any], None]) -> Callable[[typer.CallbackParam, Any], Any]:
    def checked(param: typer.CallbackParam, value: Any) -> Any:
        option = param.opts[0] if param.param_type_name == "option" else str(param.name)
        for item in value if isinstance(value, list | tuple) else [value]:
            check(option, item)
        return value

    return checked
