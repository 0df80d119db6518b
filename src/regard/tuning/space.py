"""Search spaces: TOML files with the settings to tune, and the values that they may have.

    "training.learning_rate" = { low = 1e-4, high = 1e-2, log = true }
    "model.dropout" = { low = 0.1, high = 0.5, step = 0.1 }
    "model.num_encoder_layers" = [2, 4, 6]

A range has integers if its setting is an integer. Values of a list have no order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from regard.bounds import bound_violations
from regard.config import Setting, Settings, Tree, all_settings, build, current_names
from regard.data.filters import CorpusFilterConfig
from regard.errors import ConfigError, format_problems
from regard.files import read_toml
from regard.json_text import dumps
from regard.settings_tree import merge_trees, nest_names, to_tree
from regard.text.config import TokenizerConfig
from regard.training.config import RunConfig

if TYPE_CHECKING:
    from optuna.trial import Trial

_DIGITS = 6  # significant digits of a number that was sampled
_REFUSED = {
    "out": "each trial has a run folder of its own; --out is the folder of all trials",
    "init_from": "other settings depend on the base model; run one search for each base model",
    "data.folder": "it changes the prepared data; run one search for each prepared folder",
    "model.kind": "the settings of the model depend on it; run one search for each kind",
    "training.best_metric": "values of different metrics cannot be compared; use --metric",
}
_PREPARE = {field.name for cls in (TokenizerConfig, CorpusFilterConfig) for field in fields(cls)}
_HEADING = "space"  # of errors that are converted to problems


@dataclass(frozen=True)
class _RangeTable(Settings):
    """A table of a search space."""

    low: float
    high: float
    log: bool = False
    step: float | None = None


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, uniform or log-uniform."""

    low: float
    high: float
    log: bool
    step: float | None
    is_integer: bool

    def suggest(self, trial: Trial, name: str) -> None:
        """Sample a value for a trial, unless it has one."""
        if self.is_integer:
            step = int(self.step or 1)
            trial.suggest_int(name, int(self.low), int(self.high), step=step, log=self.log)
        else:
            trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)

    def value(self, parameter: Any) -> int | float:
        """The value of the setting for Optuna's parameter, rounded to a few digits."""
        if self.is_integer:
            return int(parameter)
        return min(max(float(f"{parameter:.{_DIGITS}g}"), self.low), self.high)


@dataclass(frozen=True)
class Choices:
    """A list of values without order."""

    values: tuple[Any, ...]

    def suggest(self, trial: Trial, name: str) -> None:
        """Sample a value for a trial, unless it has one."""
        trial.suggest_categorical(name, [dumps(value) for value in self.values])

    def value(self, parameter: Any) -> Any:
        """The value of the setting for Optuna's parameter, its JSON text."""
        return next(value for value in self.values if dumps(value) == parameter)


@dataclass(frozen=True)
class Space:
    """A search space: distributions by dotted path, and the same as tables and lists."""

    distributions: Mapping[str, Range | Choices]
    tree: Mapping[str, Any]

    def suggest(self, trial: Trial) -> None:
        """Sample a value of each setting for a trial, unless it has one."""
        for path, distribution in self.distributions.items():
            distribution.suggest(trial, path)

    def settings(self, parameters: Mapping[str, Any]) -> Tree:
        """The settings of a trial by dotted path, in the order of the space."""
        return {
            path: distribution.value(parameters[path])
            for path, distribution in self.distributions.items()
            if path in parameters
        }


def read_space(source: Path | Mapping[str, Any], base: RunConfig) -> Space:
    """Read a search space from a file or a mapping, and check it for runs with these settings."""
    title = str(source) if isinstance(source, Path) else "space"
    raw = read_toml(source, "search space") if isinstance(source, Path) else source
    tree = current_names(RunConfig, nest_names(raw), title, base.model.kind)
    reader = _SpaceReader(base)
    reader.read(tree, "")
    problems = reader.problems
    if not problems and not reader.distributions:
        problems = ['it is empty; add a line such as "model.dropout" = [0.1, 0.3]']
    if problems:
        raise ConfigError(format_problems(problems, f"{title} is not a valid search space"))
    return Space(reader.distributions, reader.tree)


class _SpaceReader:
    """Collects the distributions of a search space, and all its problems."""

    def __init__(self, base: RunConfig) -> None:
        self.distributions: dict[str, Range | Choices] = {}
        self.tree: Tree = {}
        self.problems: list[str] = []
        self._base = to_tree(base)
        paths = [*all_settings(RunConfig), *all_settings(type(base.model), "model.")]
        self._settings: dict[str, Setting] = dict(paths)

    def read(self, table: Mapping[str, Any], prefix: str) -> None:
        """Read the settings of a table, whose paths start with `prefix`."""
        for name, value in table.items():
            path = prefix + name
            reason = self._refusal(path, name)
            if reason:
                self.problems.append(f"{path} cannot be tuned: {reason}")
            elif path in self._settings:
                self._read_setting(path, value)
            elif isinstance(value, Mapping) and self._is_section(path):
                self.read(value, f"{path}.")
            else:
                self.problems.append(self._unknown(path, value))

    def _is_section(self, path: str) -> bool:
        return any(known.startswith(f"{path}.") for known in self._settings)

    def _refusal(self, path: str, name: str) -> str | None:
        """Why a setting cannot be tuned; None if it can be."""
        if path.startswith("tracking."):
            return "it has no effect on the model"
        if name in _PREPARE and path not in self._settings:
            return (
                "it is an option of `regard prepare`, and all trials share the prepared data; "
                "run one search for each prepared folder"
            )
        return _REFUSED.get(path)

    def _unknown(self, path: str, value: Any) -> str:
        """The problem of a name that is no setting, with a suggestion."""
        tree = merge_trees(self._base, nest_names({path: value}))
        return _problem(RunConfig, tree, "") or f"{path} is not a setting"

    def _read_setting(self, path: str, value: Any) -> None:
        setting = self._settings[path]
        before = len(self.problems)
        distribution: Range | Choices
        if isinstance(value, Mapping):
            problem = _problem(_RangeTable, value, f"{path}.")
            self.problems += [problem] if problem else _range_problems(setting, path, value)
            if len(self.problems) > before:
                return
            table = build(_RangeTable, value)
            distribution = Range(**vars(table), is_integer=_number_type(setting) is int)
        else:
            self.problems += _choice_problems(setting, path, value)
            if len(self.problems) > before:
                return
            distribution = Choices(tuple(value))
        self.distributions[path], self.tree[path] = distribution, value


def _problem(cls: type[Settings], tree: Mapping[str, Any], path: str) -> str | None:
    """Why settings cannot be built from a tree; None if they can be."""
    try:
        build(cls, tree, path, _HEADING, None)
    except ConfigError as error:
        return str(error).removeprefix(f"{_HEADING}: ")
    return None


def _number_type(setting: Setting) -> type | None:
    """The class of a numeric setting, int or float; None for others."""
    is_list = get_origin(setting.type) is tuple
    options = (setting.type, *(() if is_list else get_args(setting.type)))
    return next((cls for cls in (int, float) if cls in options), None)


def _range_problems(setting: Setting, path: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Why a setting cannot have a range."""
    number_type = _number_type(setting)
    if number_type is None:
        yield f"{path} has no range of numbers ({setting.type_name}); give a list of values"
        return
    table = build(_RangeTable, value)
    numbers = {"low": table.low, "high": table.high, "step": table.step}
    for name, number in numbers.items():
        if number is not None and not math.isfinite(number):
            yield f"{path}.{name} is {number}, but must be finite"
            return
        if number is not None and number_type is int and number != int(number):
            yield f"{path}.{name} is {number}, but must be an integer"
    for name in ("low", "high"):
        yield from bound_violations(setting.bounds, f"{path}.{name}", numbers[name])
    if table.low >= table.high:
        yield f"{path}.low is {table.low}, but must be less than high ({table.high})"
    elif table.step is not None:
        yield from _step_problems(path, table)
    if table.log and table.low <= 0:
        yield f"{path}.low is {table.low}, but must be above 0 with log = true"


def _step_problems(path: str, table: _RangeTable) -> Iterator[str]:
    assert table.step is not None
    steps = (table.high - table.low) / table.step if table.step > 0 else 0
    if table.log:
        yield f"{path}.step cannot be combined with log = true; leave out one of them"
    elif steps < 0.5 or abs(steps - round(steps)) > 1e-6:
        yield f"{path}.step is {table.step}, but high - low must be a multiple of it"


def _choice_problems(setting: Setting, path: str, value: Any) -> Iterable[str]:
    """Why a setting cannot have these values, each checked for itself."""
    if not isinstance(value, list | tuple):
        return [
            f"{path} is {value}, but must be a list of values or a table with low and high; "
            "--set gives a setting a fixed value"
        ]
    prefix, _, name = path.rpartition(".")
    # A class with this setting alone: values may contradict other settings of the base.
    hint: Any = Annotated[setting.type, *setting.bounds] if setting.bounds else setting.type
    single = make_dataclass("SingleSetting", [(name, hint)], bases=(Settings,), frozen=True)
    problems = [_problem(single, {name: item}, f"{prefix}." if prefix else "") for item in value]
    if not any(problems) and len({dumps(item) for item in value}) < max(2, len(value)):
        return [f"{path} must be a list of two or more different values"]
    return [problem for problem in problems if problem]
