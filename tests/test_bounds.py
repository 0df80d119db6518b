"""Every numeric setting and option has finite bounds, which are enforced."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.bounds import Ge, Le, Lt, bound_violations, format_bounds, format_value
from regard.cli import build_app
from regard.config import Setting, Settings, build, settings_of
from regard.data.store import Store
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError
from regard.pipelines import generator
from regard.pipelines.translator import Translator
from regard.settings_tree import apply_overrides
from regard.training.config import RunConfig, TrainingConfig
from toys import write_model_folder

BEYOND = [math.nan, math.inf, -math.inf, 1e300, -1e300, 10**30, -(10**30), 10**400]

# Numbers in files that regard writes, not set by users. The JSON reader refuses NaN, infinity and
# integers of more than 64 bits, and checks `format`. Private classes describe such files, too.
IN_FILES = {
    *("Description.format", "StoreDescription.format"),
    *("PairsDescription.found", "LabelsDescription.counts"),
}


def is_numeric(hint: Any) -> bool:
    """Whether a type is a number, or a list or an optional of numbers."""
    return hint in (int, float) or (
        get_origin(hint) is not Literal and any(is_numeric(inner) for inner in get_args(hint))
    )


def subclasses(cls: type[Settings]) -> Iterator[type[Settings]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def all_numbers() -> list[tuple[type[Settings], Setting]]:
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if not module.name.endswith(("kernel", "kernels", "__main__")):
            importlib.import_module(module.name)
    ours = [c for c in dict.fromkeys(subclasses(Settings)) if c.__module__.startswith("regard.")]
    classes = [c for c in ours if not c.__name__.startswith("_")]
    numbers = [(c, s) for c in classes for s in settings_of(c) if is_numeric(s.type)]
    return [(c, s) for c, s in numbers if f"{c.__name__}.{s.name}" not in IN_FILES]


NUMBERS = all_numbers()


def options(typer_app: typer.Typer, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each numeric option and argument of each subcommand, as typer describes it."""
    for group in typer_app.registered_groups:
        assert group.typer_instance is not None
        yield from options(group.typer_instance, f"{path}{group.name} ")
    for command in typer_app.registered_commands:
        assert command.callback is not None
        full_name = f"{path}{command.name or command.callback.__name__}"
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            inner, *notes = get_args(hint) if get_origin(hint) is Annotated else [hint]
            if is_numeric(inner):
                assert notes, f"{full_name}: {name} has no option"
                yield f"{full_name} {name}", notes[0]


OPTIONS = dict(options(build_app()))


def test_all_settings_and_options_are_collected() -> None:
    assert (TrainingConfig, "adam_beta1") in [(cls, setting.name) for cls, setting in NUMBERS]
    assert {"translate beam_size", "show mask seed", "show scores widths"} <= {*OPTIONS}


@pytest.mark.parametrize(
    "setting", [s for _, s in NUMBERS], ids=[f"{c.__name__}.{s.name}" for c, s in NUMBERS]
)
def test_setting_has_a_finite_lower_and_upper_bound(setting: Setting) -> None:
    low = [b.bound for b in setting.bounds if isinstance(b, Ge)]
    high = [b.bound for b in setting.bounds if isinstance(b, Le | Lt)]
    assert low
    assert high
    assert all(math.isfinite(bound) for bound in low + high)
    for value in BEYOND:
        assert [*setting.out_of_bounds(value)]
    if isinstance(setting.default, int | float | tuple):
        assert not [*setting.out_of_bounds(setting.default)]


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_option_has_finite_bounds(option: Any) -> None:
    parameter = SimpleNamespace(opts=["--this"], param_type_name="option", name="this")
    check = cast(Callable[..., Any], option.callback)
    for value in BEYOND:
        with pytest.raises(ConfigError, match=r"--this is .* but must be"):
            check(parameter, value)
        with pytest.raises(ConfigError, match=r"--this is .* but must be"):
            check(parameter, [value])
    assert check(parameter, None) is None
    assert "e+" not in (option.help or "")


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(-100, 100), st.integers(0, 100))
def test_values_without_violations_are_within_the_bounds(value: float, low: int, size: int) -> None:
    is_valid = not [*bound_violations((Ge(low), Le(low + size)), "x", value)]
    assert is_valid == (low <= value <= low + size)
    is_valid = not [*bound_violations((Ge(low), Lt(low + size)), "x", value)]
    assert is_valid == (low <= value < low + size)


def test_format_bounds() -> None:
    assert format_bounds((Ge(1), Le(1000))) == ["1 to 1000"]
    assert format_bounds((Ge(0), Lt(1))) == ["at least 0", "below 1"]
    assert format_bounds((Ge(0), Le(2**63 - 1))) == ["at least 0"]
    assert format_value(10**400) == "a number of about 400 digits"


@pytest.mark.parametrize(
    "assignment",
    [
        "training.adam_beta1=1",
        "training.adam_beta2=1.0",
        f"training.seed={2**70}",
        "training.learning_rate=inf",
        "training.max_grad_norm=nan",
        "model.d_model=1000000",
        "model.num_encoder_layers=100000",
        f"training.learning_rate={10**400}",
        f"training.max_steps=1{'0' * 5000}",  # more digits than Python parses
        f"training.max_steps={'[' * 5000}",
        f"{'a.' * 3000}b=1",
    ],
    ids=lambda text: text[:30],
)
def test_settings_out_of_bounds_are_refused(assignment: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(RunConfig, apply_overrides({"out": "x"}, [assignment]))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", [s.name for s in settings_of(SearchConfig) if s.bounds])
@pytest.mark.parametrize("value", BEYOND)
def test_search_keywords_out_of_bounds_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        build(SearchConfig, {name: value})


@pytest.mark.parametrize("value", BEYOND)
def test_other_keywords_out_of_bounds_are_refused(
    value: float, tmp_path: Path, reversal_store: Store
) -> None:
    translator = Translator.load(write_model_folder(tmp_path / "a", reversal_store), device="cpu")
    with pytest.raises(ConfigError, match="length_penalty"):
        translator.score(["a"], ["b"], length_penalty=value)
    with pytest.raises(ConfigError, match=r"max_tokens is .*but must be"):
        generator.Generator._config(with_model(bare=False), value, {})  # type: ignore[arg-type]


def test_max_length_is_refused_once() -> None:
    for bare in (False, True):
        with pytest.raises(ConfigError, match="max_extra, max_ratio cannot be set here"):
            generator.Generator._config(
                with_model(bare=bare), 10, {"max_ratio": 2.0, "max_extra": 3}
            )


def with_model(*, bare: bool) -> Any:
    return SimpleNamespace(model=SimpleNamespace(bare_prompts=bare, config=None))
