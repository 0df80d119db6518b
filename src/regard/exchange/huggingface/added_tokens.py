"""The special and added tokens of a HuggingFace folder, from up to four files.

tokenizer_config.json     named tokens, extra special tokens, and added_tokens_decoder: by id
special_tokens_map.json   named tokens, if there is no added_tokens_decoder
added_tokens.json         ids by token, if there is no added_tokens_decoder
tokenizer.json            added tokens, if there is no added_tokens_decoder
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import ModelError
from regard.exchange.huggingface.folder import TOKENIZER, HuggingFaceFolder
from regard.exchange.huggingface.vocabularies import parse_tokenizer_json
from regard.text.added import AddedToken
from regard.text.imported import TOKENIZER_JSON

_NAMED = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_MAP, _ADDED, _DECODER = "special_tokens_map.json", "added_tokens.json", "added_tokens_decoder"
_EXTRA, _ADDITIONAL = "extra_special_tokens", "additional_special_tokens"


Token = str | AddedToken


@dataclass(frozen=True)
class SpecialTokens:
    """The special and added tokens of a tokenizer."""

    named: dict[str, Token | None]  # such as unk_token
    defaults: frozenset[str]  # tokens that are in no file
    extra: list[Token]  # extra special tokens
    extra_is_in_files: bool  # rather than the default of the class
    added: dict[int, AddedToken]  # by id

    def with_control_symbols(self, control: Mapping[str, bool] | None) -> SpecialTokens:
        """Replace default extra special tokens by control symbols of SentencePiece."""
        if control is None or self.extra_is_in_files:
            return self
        extra: list[Token] = [
            AddedToken(name, normalized=False, special=special) for name, special in control.items()
        ]
        return replace(self, extra=extra)

    def tokens_to_add(self, existing: Iterable[Any]) -> list[AddedToken]:
        """Return the tokens to add to a tokenizer with tokens `existing`, in order of new ids."""
        missing: list[Token] = [self.added[number] for number in sorted(self.added)]
        known = {str(token) for token in [*existing, *missing]}
        for token in [*self.named.values(), *self.extra]:
            if token is not None and str(token) not in known and token not in missing:
                missing.append(token)
        tokens = [AddedToken(x, special=True) if isinstance(x, str) else x for x in missing]
        # A token that is special in any file is omitted from decoded text.
        special = {str(token) for token in [*existing, *tokens] if token.special}
        special |= {str(token) for token in self.named.values() if token is not None}
        return [replace(token, special=str(token) in special) for token in tokens]


def read_special_tokens(
    folder: HuggingFaceFolder, default_named: Mapping[str, str], default_extra: Iterable[str]
) -> SpecialTokens:
    """Read the special tokens of a folder; default_...: defaults of the tokenizer class."""
    try:
        settings = {name: _token(value, name) for name, value in folder.json(TOKENIZER).items()}
        if not settings.get(_EXTRA) and _ADDITIONAL in settings:
            settings[_EXTRA] = settings.pop(_ADDITIONAL)
        if _DECODER in settings:
            pairs = {
                int(i): _added_token(fields) for i, fields in (settings[_DECODER] or {}).items()
            }
        else:
            settings |= _read_special_tokens_map(folder, settings)
            pairs = _read_added_tokens(folder, settings)
        if wrong := [number for number in pairs if type(number) is not int or number < 0]:
            raise ValueError(f"{wrong[0]!r} is not an id")
        other_named = {
            name: value
            for name, value in settings.items()
            if name.endswith("_token") and name not in _NAMED and isinstance(value, Token)
        }
        if isinstance(settings.get(_EXTRA), dict):
            other_named |= settings.pop(_EXTRA)
        extra = settings.get(_EXTRA, settings.get(_ADDITIONAL, [*default_extra])) or []
        by_name = {str(token): token for token in pairs.values()}
        named_in_files = {name: settings[name] for name in _NAMED if name in settings}
        named = {name: by_name.get(str(value), value) for name, value in named_in_files.items()}
        ordered = {name: (dict(default_named) | named).get(name) for name in _NAMED} | other_named
        defaults = {text for name, text in default_named.items() if name not in named_in_files}
        in_files = {
            str(token)
            for token in [*pairs.values(), *named.values(), *other_named.values(), *extra]
        }
        if extra == [*default_extra]:
            defaults, in_files = defaults | {*default_extra}, in_files - {*default_extra}
        return SpecialTokens(
            ordered, frozenset(defaults - in_files), extra, _EXTRA in settings, pairs
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"The special tokens of {folder.path} cannot be read ({error}): {TOKENIZER}, {_MAP}, "
            f"{_ADDED} or {TOKENIZER_JSON} is damaged. Copy the whole folder again."
        ) from None


def _token(value: Any, name: str) -> Any:
    """Convert the tokens in a setting to `AddedToken`."""
    if isinstance(value, dict) and value.get("__type") == "AddedToken":
        return _added_token({key: part for key, part in value.items() if key != "__type"})
    if isinstance(value, dict) and name in _NAMED:
        raise ModelError(
            f"{name} in {TOKENIZER} is {value}, but must be a string or an AddedToken."
        )
    if isinstance(value, dict):
        return {key: _token(part, "") for key, part in value.items()}
    return [_token(part, "") for part in value] if isinstance(value, list) else value


def _added_token(fields: Any, **more: Any) -> AddedToken:
    try:
        token = AddedToken(**fields, **more)
    except TypeError as error:
        raise ModelError(f"{fields} is not an added token ({error}).") from None
    if not isinstance(token.content, str):
        raise ModelError(f"{fields} is not an added token: content must be a string.")
    return token


def _read_special_tokens_map(
    folder: HuggingFaceFolder, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Read special_tokens_map.json, in which added tokens may lack their __type."""

    def special(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fields = {key: part for key, part in value.items() if key not in ("special", "__type")}
        return _added_token(fields, special=True)

    tokens: dict[str, Any] = {}
    for name, value in folder.json(_MAP).items():
        if name in (_EXTRA, _ADDITIONAL) and isinstance(value, list):
            first = list(settings.get(_EXTRA) or []) if name == _EXTRA else []
            tokens[name] = first + [token for token in map(special, value) if token not in first]
        else:
            tokens[name] = value if name == _EXTRA else special(value)
    return tokens


def _read_added_tokens(
    folder: HuggingFaceFolder, settings: Mapping[str, Any]
) -> dict[int, AddedToken]:
    """Read the added tokens of added_tokens.json and tokenizer.json by id."""
    extra = settings.get(_EXTRA) or []
    special = {str(settings[name]) for name in _NAMED if settings.get(name)} | {*map(str, extra)}
    tokens = {
        number: _added_token(
            {"content": text, "normalized": text not in special, "special": text in special}
        )
        for text, number in folder.json(_ADDED).items()
    }
    for content in folder.files(TOKENIZER_JSON).values():
        for fields in parse_tokenizer_json(content).get("added_tokens") or []:
            parts = {key: part for key, part in fields.items() if key != "id"}
            tokens[fields["id"]] = _added_token(parts)
    return tokens
