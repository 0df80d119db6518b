"""The special and added tokens of a HuggingFace folder, which four files may name.

tokenizer_config.json     named tokens, further special tokens, and added_tokens_decoder: by id
special_tokens_map.json   named tokens, where there is no added_tokens_decoder
added_tokens.json         ids by token, likewise
tokenizer.json            added tokens, likewise
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import ModelError
from regard.exchange.huggingface.folder import TOKENIZER, ForeignFolder
from regard.exchange.huggingface.vocabularies import library_content
from regard.text.added import AddedToken
from regard.text.foreign import LIBRARY

_NAMED = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_MAP, _ADDED, _DECODER = "special_tokens_map.json", "added_tokens.json", "added_tokens_decoder"
_MORE, _OLD_MORE = "extra_special_tokens", "additional_special_tokens"


Token = str | AddedToken


@dataclass(frozen=True)
class SpecialTokens:
    """Tokens that are not learned."""

    named: dict[str, Token | None]  # unk_token and so on
    defaults: frozenset[str]  # tokens that no file names
    more: list[Token]  # further special tokens
    more_is_stated: bool
    added: dict[int, AddedToken]  # by id

    def with_control(self, control: Mapping[str, bool] | None) -> SpecialTokens:
        """With the control pieces of a SentencePiece model in place of a class's default."""
        if control is None or self.more_is_stated:
            return self
        more: list[Token] = [
            AddedToken(name, normalized=False, special=own) for name, own in control.items()
        ]
        return replace(self, more=more)

    def to_add(self, before: Iterable[Any]) -> list[AddedToken]:
        """What to add to a tokenizer that has some, in their order: new tokens get the next ids."""
        first: list[Token] = [self.added[number] for number in sorted(self.added)]
        known, found = {str(token) for token in [*before, *first]}, first
        for token in [*self.named.values(), *self.more]:
            if token is not None and str(token) not in known and token not in found:
                found.append(token)
        tokens = [AddedToken(x, special=True) if isinstance(x, str) else x for x in found]
        # A token that was special once is left out of decoded text, whatever is said later.
        special = {str(token) for token in [*before, *tokens] if token.special}
        special |= {str(token) for token in self.named.values() if token is not None}
        return [replace(token, special=str(token) in special) for token in tokens]


def special_tokens(
    folder: ForeignFolder, usual: Mapping[str, str], usual_more: Iterable[str]
) -> SpecialTokens:
    """What the files say, and a class's defaults where they say nothing."""
    try:
        settings = {name: _token(value, name) for name, value in folder.json(TOKENIZER).items()}
        if not settings.get(_MORE) and _OLD_MORE in settings:
            settings[_MORE] = settings.pop(_OLD_MORE)
        if _DECODER in settings:
            pairs = {int(i): _described(form) for i, form in (settings[_DECODER] or {}).items()}
        else:
            settings |= _of_map(folder, settings)
            pairs = _of_files(folder, settings)
        if wrong := [number for number in pairs if type(number) is not int or number < 0]:
            raise ValueError(f"{wrong[0]!r} is no id")
        further = {
            name: value
            for name, value in settings.items()
            if name.endswith("_token") and name not in _NAMED and isinstance(value, Token)
        }
        if isinstance(settings.get(_MORE), dict):
            further |= settings.pop(_MORE)
        more = settings.get(_MORE, settings.get(_OLD_MORE, [*usual_more])) or []
        by_name = {str(token): token for token in pairs.values()}
        stated = {name: settings[name] for name in _NAMED if name in settings}
        named = {name: by_name.get(str(value), value) for name, value in stated.items()}
        ordered = {name: (dict(usual) | named).get(name) for name in _NAMED} | further
        left = {text for name, text in usual.items() if name not in stated}
        told = {
            str(token) for token in [*pairs.values(), *named.values(), *further.values(), *more]
        }
        if more == [*usual_more]:
            left, told = left | {*usual_more}, told - {*usual_more}
        return SpecialTokens(ordered, frozenset(left - told), more, _MORE in settings, pairs)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"The special tokens of {folder.path} cannot be read ({error}): {TOKENIZER}, {_MAP}, "
            f"{_ADDED} or {LIBRARY} is damaged. Copy the whole folder again."
        ) from None


def _token(value: Any, name: str) -> Any:
    """A setting with its tokens as `AddedToken`."""
    if isinstance(value, dict) and value.get("__type") == "AddedToken":
        return _described({key: part for key, part in value.items() if key != "__type"})
    if isinstance(value, dict) and name in _NAMED:
        raise ModelError(
            f"{name} in {TOKENIZER} is {value}, which is neither a text nor an AddedToken."
        )
    if isinstance(value, dict):
        return {key: _token(part, "") for key, part in value.items()}
    return [_token(part, "") for part in value] if isinstance(value, list) else value


def _described(form: Any, **more: Any) -> AddedToken:
    try:
        token = AddedToken(**form, **more)
    except TypeError as error:
        raise ModelError(f"{form} is no added token ({error}).") from None
    if not isinstance(token.content, str):
        raise ModelError(f"{form} is no added token: content is a text.")
    return token


def _of_map(folder: ForeignFolder, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of special_tokens_map.json, where a token may be described without saying that it is one."""

    def special(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        form = {key: part for key, part in value.items() if key not in ("special", "__type")}
        return _described(form, special=True)

    found: dict[str, Any] = {}
    for name, value in folder.json(_MAP).items():
        if name in (_MORE, _OLD_MORE) and isinstance(value, list):
            first = list(settings.get(_MORE) or []) if name == _MORE else []
            found[name] = first + [token for token in map(special, value) if token not in first]
        else:
            found[name] = value if name == _MORE else special(value)
    return found


def _of_files(folder: ForeignFolder, settings: Mapping[str, Any]) -> dict[int, AddedToken]:
    """Of added_tokens.json and tokenizer.json, by id."""
    more = settings.get(_MORE) or []
    special = {str(settings[name]) for name in _NAMED if settings.get(name)} | {*map(str, more)}
    found = {
        number: _described(
            {"content": text, "normalized": text not in special, "special": text in special}
        )
        for text, number in folder.json(_ADDED).items()
    }
    for content in folder.files(LIBRARY).values():
        for form in library_content(content).get("added_tokens") or []:
            parts = {key: part for key, part in form.items() if key != "id"}
            found[form["id"]] = _described(parts)
    return found
