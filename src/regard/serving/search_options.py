"""Search options of requests: the fields of the settings classes, and their limits on a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from regard.bounds import Ge, Le
from regard.config import Setting, Settings, settings_of
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import TextConfig
from regard.errors import ConfigError, format_problems
from regard.serving.config import LimitConfig

# Not for clients: paths on the server, token ids, and what is always computed.
_EXCLUDED = {"scores", "banned_sequences", "calibration", "comet_checkpoint", "rerank"}
_EXCLUDED |= {"rerank_weight"}
_EXCLUDED |= {"protect_pattern"}  # a regular expression may take exponential time
_MAX_ITEMS, _MAX_ITEM_LENGTH = 32, 200  # of lists of words
_MAX_RATIO = 10  # target tokens per source token
_BEAMS = ("beam_size", "candidates", "mbr_samples")
_LENGTHS = ("max_extra", "min_length")
_RATIOS = ("max_ratio", "min_ratio")


class StrictModel(BaseModel):
    """Base class of requests: no unknown fields, and no conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True)


def options_model(name: str, *classes: type[Settings], only: tuple[str, ...] = ()) -> Any:
    """A class of requests whose fields are those of settings classes; all are optional."""
    fields: dict[str, Any] = {}
    for cls in classes:
        for setting in settings_of(cls):
            if setting.name not in _EXCLUDED and (not only or setting.name in only):
                fields[setting.name] = _field(setting)
    return create_model(name, __base__=StrictModel, **fields)


def _field(setting: Setting) -> tuple[Any, Any]:
    """A field of pydantic: type with bounds, and the default with the documentation."""
    bounds: dict[str, Any] = {}
    for bound in setting.bounds:
        if isinstance(bound, Ge):
            bounds["ge"] = bound.bound
        elif isinstance(bound, Le):
            bounds["le"] = bound.bound
    kind: Any = setting.type
    if setting.name == "mbr":  # without COMET, which needs a path
        kind = Literal["chrf", "bleu"] | None
    if get_origin(kind) is tuple:
        word = Annotated[str, Field(min_length=1, max_length=_MAX_ITEM_LENGTH)]
        kind = Annotated[list[word], Field(max_length=_MAX_ITEMS)]
    elif bounds and get_origin(kind) in (Union, UnionType):
        [inner] = [each for each in get_args(kind) if each is not NoneType]
        kind = Annotated[inner, Field(**bounds)] | None
    elif bounds:
        kind = Annotated[kind, Field(**bounds)]
    elif kind is str or str in get_args(kind):
        kind = Annotated[str, Field(max_length=_MAX_ITEM_LENGTH)] | None
    default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
    return kind, Field(default=default, description=setting.doc)


SearchOptions = options_model("SearchOptions", TextConfig, SearchConfig)


def given_keywords(options: BaseModel, *, without: set[str]) -> dict[str, Any]:
    """The options that a client has given, as hashable keyword arguments of a search."""
    given = options.model_dump(exclude_unset=True, exclude=without)
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }


def refuse_expensive(keywords: Mapping[str, Any], limits: LimitConfig) -> None:
    """Raise a ConfigError for options beyond the limits of the server."""
    problems = [*_expensive(keywords, limits)]
    if problems:
        raise ConfigError(format_problems(problems, "This server limits the search") + ".")


def _expensive(keywords: Mapping[str, Any], limits: LimitConfig) -> Iterator[str]:
    maximum: dict[str, float] = dict.fromkeys(_BEAMS, limits.max_beam_size)
    maximum |= dict.fromkeys(_LENGTHS, limits.max_new_tokens) | dict.fromkeys(_RATIOS, _MAX_RATIO)
    maximum["num_hypotheses"] = limits.max_alternatives
    for name, largest in maximum.items():
        value = keywords.get(name)
        if value is not None and value > largest:
            yield f"{name} is {value}, but must be at most {largest:g}"
