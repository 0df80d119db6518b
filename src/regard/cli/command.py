"""Converts functions to typer commands: each field of a settings class becomes an option.

    def score(context: typer.Context, models: Models, search: Annotated[SearchConfig, Fields(
        only=("length_penalty",))], runtime: Runtime) -> None: ...

`expand_settings(score)` is passed to typer. The function receives the settings as one object;
`given_settings(context, ...)` returns those that the user has set. The help lists the options in a
panel named after the class, with the names, docs, bounds, choices and defaults of the fields.
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

from regard.bounds import Bound, format_bounds, refuse_out_of_bounds
from regard.config import Flag, Setting, Settings, build, settings_of
from regard.errors import ConfigError
from regard.option_sets import OptionSet, option_name

S = TypeVar("S", bound=Settings)
_CONTEXT = "context"
_TYPES = (int, float, str, bool, Path)  # of option values


@dataclass(frozen=True)
class Fields:
    """Selects the fields of a settings class that become options, and overrides their defaults."""

    only: tuple[str, ...] = ()  # empty: all
    without: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # Values that options of other classes imply, given the values of all options.
    implied: Callable[[Mapping[str, Any]], Mapping[str, Any]] = field(default=lambda options: {})
    panel: str = ""  # heading in the help; empty: named after the class

    def of(self, cls: type[Settings]) -> list[Setting]:
        """The selected fields, in the order of the class."""
        names = self.only or [setting.name for setting in settings_of(cls)]
        unknown = {*self.only, *self.without, *self.defaults} - {s.name for s in settings_of(cls)}
        assert not unknown, unknown
        return [
            replace(setting, default=self.defaults.get(setting.name, setting.default))
            for setting in settings_of(cls)
            if setting.name in names and setting.name not in self.without
        ]


@dataclass(frozen=True)
class OptionSets:
    """Settings classes that are collected when the command is built, such as those of plugins.

    A parameter annotated with this has the options of all classes and receives those that the user
    has set, by name; `regard.option_sets.select` selects the class. Fields with the same name share
    one option, which has the doc and the help panel of the first class.
    """

    classes: Callable[[], Iterable[type[Settings]]]


def is_set_by_user(context: typer.Context, name: str) -> bool:
    """Whether the user has set an option."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def given_settings(context: typer.Context, *classes: type[Settings]) -> dict[str, Any]:
    """The options that the user has set and that are fields of these classes, by name."""
    return {
        name: value
        for cls in classes
        for name, value in context.params.items()
        if name in {field.name for field in fields(cls)} and is_set_by_user(context, name)
    }


def refuse_options(context: typer.Context, names: Collection[str], reason: str) -> None:
    """Raise an error if the user has set any of these options, which have no effect here."""
    flags = [
        option.opts[0]
        for option in context.command.params
        if option.name in names and is_set_by_user(context, option.name)
    ]
    if flags:
        raise ConfigError(f"{', '.join(flags)}: {reason}")


def expand_settings(function: Callable[..., None]) -> Callable[..., None]:
    """A function for typer in which each parameter is one argument or option."""
    hints = get_type_hints(function, include_extras=True)
    parameters: dict[str, inspect.Parameter] = {}
    builders: dict[str, Callable[[typer.Context], Any]] = {}
    deprecated: dict[str, str] = {}  # old option -> parameter
    for parameter in inspect.signature(function).parameters.values():
        hint, metadata = _split_annotated(hints[parameter.name])
        if sets := [item for item in metadata if isinstance(item, OptionSets)]:
            classes = [*sets[0].classes()]
            builders[parameter.name] = _given_settings_builder(classes)
            options = _merge_fields(classes)
        elif isinstance(hint, type) and issubclass(hint, Settings):
            fields = next((item for item in metadata if isinstance(item, Fields)), Fields())
            builders[parameter.name] = _builder(hint, fields)
            options = [(setting, fields.panel or _panel(hint)) for setting in fields.of(hint)]
        else:
            flag = next((item for item in metadata if isinstance(item, Flag)), Flag())
            deprecated |= dict.fromkeys(flag.formerly, parameter.name)
            new = parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            _add_parameter(parameters, new)
            continue
        for setting, panel in options:
            deprecated |= dict.fromkeys(setting.flag.formerly, setting.name)
            if setting.formerly is not None:
                deprecated[option_name(setting.formerly.name)] = setting.name
            _add_parameter(parameters, _to_option(setting, panel))
    for name in parameters:
        deprecated.pop(option_name(name), None)  # the old name is another option of this command
    return _with_signature(function, parameters, builders, deprecated)


def _add_parameter(parameters: dict[str, inspect.Parameter], new: inspect.Parameter) -> None:
    if new.name in parameters:
        raise ConfigError(f"The command has two options named {new.name}. Rename one of them.")
    parameters[new.name] = new


def _with_signature(
    function: Callable[..., None],
    parameters: dict[str, inspect.Parameter],
    builders: Mapping[str, Callable[[typer.Context], Any]],
    deprecated: Mapping[str, str],
) -> Callable[..., None]:
    plain = {*inspect.signature(function).parameters} - {*builders}

    def call(**values: Any) -> None:
        context = values[_CONTEXT]
        settings = {name: build(context) for name, build in builders.items()}
        function(**{name: values[name] for name in plain}, **settings)

    if _CONTEXT not in parameters:
        kind = inspect.Parameter.KEYWORD_ONLY
        context = inspect.Parameter(_CONTEXT, kind, annotation=typer.Context)
        parameters = {_CONTEXT: context, **parameters}
    call.__name__, call.__doc__ = function.__name__, inspect.getdoc(function)
    call.__module__ = function.__module__
    call.__annotations__ = {p.name: p.annotation for p in parameters.values()}
    signature = inspect.Signature([*parameters.values()])
    vars(call).update(__signature__=signature, deprecated=deprecated)
    return call


def _builder(cls: type[S], fields: Fields) -> Callable[[typer.Context], S]:
    def build_settings(context: typer.Context) -> S:
        names = {setting.name for setting in fields.of(cls)}
        values = given_settings(context, cls)
        selected = {name: value for name, value in values.items() if name in names}
        return build(cls, {**fields.defaults, **selected, **fields.implied(context.params)})

    return build_settings


def _given_settings_builder(
    classes: Iterable[type[Settings]],
) -> Callable[[typer.Context], dict[str, Any]]:
    return lambda context: given_settings(context, *classes)


def _merge_fields(classes: Iterable[type[Settings]]) -> list[tuple[Setting, str]]:
    """One option per field name, with the default, bounds and choices that all classes share."""
    options: dict[str, tuple[Setting, str]] = {}
    for cls in classes:
        for setting in settings_of(cls):
            first, panel = options.setdefault(setting.name, (setting, _panel(cls)))
            if _plain_type(first.type) != _plain_type(setting.type):
                raise ConfigError(
                    f"{cls.__name__}.{setting.name} has type {setting.type_name}, but "
                    f"{first.type_name} in another class of this command. Rename it."
                )
            is_same = first.default == setting.default and first.default is not MISSING
            shared = replace(
                first,
                type=first.type if first.type == setting.type else _plain_type(first.type),
                default=first.default if is_same else None,
                bounds=tuple(bound for bound in first.bounds if bound in setting.bounds),
            )
            options[setting.name] = shared, panel
    return [*options.values()]


def _panel(cls: type[Settings]) -> str:
    """The heading of a class's options in the help: "Search" for `SearchConfig`."""
    if issubclass(cls, OptionSet):
        return cls.title.capitalize()
    name = re.sub("(Config|Options|Settings)$", "", cls.__name__)
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def _to_option(setting: Setting, panel: str) -> inspect.Parameter:
    """A field as a keyword parameter from which typer makes an option."""
    kind, choices = _plain_type(setting.type), get_choices(setting.type)
    if kind not in _TYPES and get_args(kind)[:1] not in [(item,) for item in _TYPES]:
        raise ConfigError(
            f"{panel}: {setting.name} has type {setting.type_name}, which cannot be an option."
        )
    flags = [setting.flag.name] if setting.flag.name else []
    if kind is bool and setting.default is False and not flags:
        flags = [option_name(setting.name)]  # --no-NAME would have no effect
    default = setting.default
    if isinstance(default, tuple):
        default = list(default) or None
    is_list = get_origin(kind) is list
    annotation = kind | None if default is None or is_list else kind
    doc = setting.doc or setting.name.replace("_", " ")
    text = doc[0].upper() + doc[1:]
    option = make_option(text, setting.bounds, choices, *flags, rich_help_panel=panel)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[annotation, option],
    )


def _split_annotated(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type and its `Annotated` metadata."""
    return (hint, ()) if get_origin(hint) is not Annotated else (hint.__origin__, hint.__metadata__)


def _plain_type(kind: Any) -> Any:
    """A field's type for typer: str for choices, a list for a tuple, without None."""
    if get_origin(kind) in (Union, UnionType):
        [kind] = [inner for inner in get_args(kind) if inner is not NoneType]
    if get_origin(kind) is Literal:
        return str
    return list[_plain_type(get_args(kind)[0])] if get_origin(kind) is tuple else kind  # type: ignore[misc]


def get_choices(kind: Any) -> tuple[str, ...]:
    """The values of a `Literal` type."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((values for inner in get_args(kind) if (values := get_choices(inner))), ())


def make_option(
    text: str, bounds: tuple[Bound, ...], choices: tuple[str, ...], *flags: str, **more: Any
) -> Any:
    """A typer option whose help lists bounds and choices, and whose values are checked."""
    listed = ", ".join([*format_bounds(bounds), *([" | ".join(choices)] if choices else [])])
    text += f" ({listed})." if listed else "."
    callback = check_bounds(*bounds) if bounds else check_choice(choices) if choices else None
    return typer.Option(*flags, help=text, callback=callback, **{"show_default": True} | more)


def check_bounds(*bounds: Bound) -> Callable[[typer.CallbackParam, Any], Any]:
    """A typer callback that raises an error if a number, or one of a list, is out of bounds.

    Typer's own `min` and `max` accept NaN and list very large bounds in the help.
    """
    return _callback(lambda option, value: refuse_out_of_bounds(option, value, *bounds))


def check_choice(choices: tuple[str, ...]) -> Callable[[typer.CallbackParam, Any], Any]:
    """A typer callback that raises an error if a value is not one of the choices."""

    def refuse_unknown(option: str, value: Any) -> None:
        if value is not None and value not in choices:
            *others, last = choices
            raise ConfigError(f"{option} is {value!r}, but must be {', '.join(others)} or {last}.")

    return _callback(refuse_unknown)


def _callback(check: Callable[[str, Any], None]) -> Callable[[typer.CallbackParam, Any], Any]:
    def callback(param: typer.CallbackParam, value: Any) -> Any:
        option = param.opts[0] if param.param_type_name == "option" else str(param.name)
        for item in value if isinstance(value, list | tuple) else [value]:
            check(option, item)
        return value

    return callback
