"""Import and export of Marian's tokenizer: two SentencePiece models, and ids of subwords."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from regard.errors import ModelError
from regard.exchange.huggingface.added_tokens import read_special_tokens
from regard.exchange.huggingface.folder import TOKENIZER, HuggingFaceFolder
from regard.exchange.normalizer import sentencepiece_with_normalizer
from regard.text.added import AddedToken, AddedTokens
from regard.text.config import TokenizerConfig
from regard.text.id_mapping import IdMapping
from regard.text.imported import (
    SENTENCEPIECE_MODELS,
    SPECIAL_TOKENS,
    VOCABULARIES,
    ImportedTokenizer,
    MarianTokenizer,
    build_imported_tokenizers,
    parse_vocabulary,
)
from regard.text.tokenizer import Tokenizers

_CLASS = "MarianTokenizer"
_UNK, _EOS, _PAD = "<unk>", "</s>", "<pad>"
_DEFAULTS = {"unk_token": _UNK, "eos_token": _EOS, "pad_token": _PAD}


class SpecialTokenIds(NamedTuple):
    """HuggingFace's ids of special tokens, and the vocabulary sizes."""

    source_size: int
    target_size: int
    pad: int | None
    bos: int | None
    eos: int


def _is_joint(folder: HuggingFaceFolder) -> bool:
    return not folder.json(TOKENIZER).get("separate_vocabs", False)


def tokenizer_import_problems(
    folder: HuggingFaceFolder, special_ids: SpecialTokenIds
) -> Iterator[str]:
    """Yield every reason why the tokenizer cannot be imported."""
    settings = folder.json(TOKENIZER)
    name = str(settings.get("tokenizer_class") or _CLASS).removesuffix("Fast")
    if name != _CLASS:
        yield f"tokenizer_class is {name}; supported: {_CLASS}"
    if settings.get("auto_map"):
        yield f"auto_map of {TOKENIZER} refers to Python code, which regard does not run"
    if settings.get("sp_model_kwargs"):
        yield "sp_model_kwargs is not empty; SentencePiece options are not supported"
    names = [*SENTENCEPIECE_MODELS, *VOCABULARIES[: 1 if _is_joint(folder) else 2]]
    missing = [name for name in names if not (folder.path / name).is_file()]
    if missing:
        yield f"its tokenizer is incomplete: {', '.join(missing)} not found"
        return
    for name, size in zip(
        names[2:], (special_ids.source_size, special_ids.target_size), strict=False
    ):
        table = parse_vocabulary(folder.files(name)[name], folder.path / name)
        if max(table.values(), default=0) >= size:
            yield f"{name} has ids up to {max(table.values())}, but the vocabulary size is {size}"
    if all(_UNK in folder.json(name) for name in names[2:]):
        yield from _special_token_problems(folder, special_ids, names[2:])


def _special_token_problems(
    folder: HuggingFaceFolder, special_ids: SpecialTokenIds, tables: Sequence[str]
) -> Iterator[str]:
    """Yield every problem of special and added tokens."""
    named = read_special_tokens(folder, _DEFAULTS, ()).named
    for name in ("unk_token", "eos_token"):
        if str(named[name]) != _DEFAULTS[name]:
            yield f"{name} is {named[name]}; supported: {_DEFAULTS[name]}"
            return
    added = _added_tokens(folder, special_ids)
    if added.ids[_EOS] != special_ids.eos:
        yield f"the id of {_EOS} is {added.ids[_EOS]}, but eos_token_id is {special_ids.eos}"
    for name, size in zip(tables, (special_ids.source_size, special_ids.target_size), strict=False):
        table = folder.json(name)
        for text, number in added.ids.items():
            if number >= size:
                yield f"the id of {text!r} is {number}, but the vocabulary size is {size}"
            elif table.get(text, number) != number:
                yield f"the id of {text!r} is {number}, but {table[text]} in {name}"


def _added_tokens(folder: HuggingFaceFolder, special_ids: SpecialTokenIds) -> AddedTokens:
    """Return special and added tokens, with the source vocabulary's ids for both sides."""
    settings, tokens = folder.json(TOKENIZER), read_special_tokens(folder, _DEFAULTS, ())
    added, known = dict(tokens.added), folder.json(VOCABULARIES[0])
    known |= {token.content: number for number, token in added.items()}
    special = [str(x) for x in [*tokens.named.values(), *tokens.extra] if x is not None and str(x)]
    new = iter(range(len(known), len(known) + len(special)))
    ids = {text: known[text] if text in known else next(new) for text in dict.fromkeys(special)}
    for text, number in ids.items():
        if not (text in tokens.defaults and text != _EOS and number >= special_ids.source_size):
            token = added.setdefault(number, AddedToken(text, normalized=False, special=True))
            if token.content != text:
                raise ModelError(
                    f"The tokenizer of {folder.path} has the same id ({number}) for {text!r} and "
                    f"{token.content!r}. Copy the whole folder again."
                )
    return AddedTokens(
        added,
        frozenset(ids.values()),
        splits=not settings.get("split_special_tokens"),
        clean_up=bool(settings.get("clean_up_tokenization_spaces")),
    )


def import_tokenizers(folder: HuggingFaceFolder, special_ids: SpecialTokenIds) -> Tokenizers:
    """Return the tokenizers with internal ids.

    HuggingFace can generate UNK unless bad_words_ids excludes it, and regard never generates its
    UNK. So an excluded UNK is mapped to regard's; otherwise it is an ordinary token.
    """
    config = TokenizerConfig(
        kind="marian",
        joint=_is_joint(folder),
        vocab_size=max(special_ids.source_size, special_ids.target_size),
    )
    files = folder.files(*SENTENCEPIECE_MODELS, *VOCABULARIES[: 1 if config.joint else 2])
    files[SPECIAL_TOKENS] = _added_tokens(folder, special_ids).to_json()
    tables = [parse_vocabulary(files[name], name) for name in files if name in VOCABULARIES]
    excluded = folder.bad_words_ids()
    unk = tables[-1][_UNK] if [tables[-1][_UNK]] in excluded else None
    source, target = (
        IdMapping(
            size, pad=special_ids.pad, unknown=unk, start=special_ids.bos, end=special_ids.eos
        )
        for size in (special_ids.source_size, special_ids.target_size)
    )
    if not config.joint:
        source = IdMapping(
            special_ids.source_size,
            pad=tables[0].get(_PAD),
            unknown=tables[0][_UNK],
            end=tables[0].get(_EOS, special_ids.eos),
        )
    try:
        return Tokenizers(*build_imported_tokenizers(files, source, target, config), config)
    except RuntimeError:
        raise ModelError(
            f"{' or '.join(SENTENCEPIECE_MODELS)} of {folder.path} is not a SentencePiece model. "
            "Copy it again."
        ) from None


def tokenizer_export_problems(tokenizers: Tokenizers) -> Iterator[str]:
    """Yield every reason why tokenizers cannot be exported to Marian's."""
    config = tokenizers.config
    if config.is_imported and config.kind != "marian":
        yield f"its tokenizer is {config.kind}; supported: SentencePiece"


def tokenizer_settings(tokenizers: Tokenizers) -> dict[str, Any]:
    """Return the fields of tokenizer_config.json on special and added tokens."""
    target = tokenizers.target
    if not isinstance(target, MarianTokenizer):
        return {"split_special_tokens": True}  # regard treats "<unk>" in a text as text
    added = target.added
    silent = (added.tokens[i].content for i in sorted(added.silent or ()) if i in added.tokens)
    return {
        "added_tokens_decoder": {str(i): asdict(token) for i, token in added.tokens.items()},
        "extra_special_tokens": [text for text in silent if text not in _DEFAULTS.values()],
        "split_special_tokens": not added.splits,
        "clean_up_tokenization_spaces": added.clean_up,
    }


def tokenizer_files(tokenizers: Tokenizers) -> dict[str, bytes]:
    """Return the tokenizer files without tokenizer_config.json."""
    both = tokenizers.source, tokenizers.target
    files: dict[str, bytes] = {}
    for tokenizer, model_file, vocab_file in zip(
        both, SENTENCEPIECE_MODELS, VOCABULARIES, strict=True
    ):
        if isinstance(tokenizer, ImportedTokenizer):
            files.update(tokenizer.files)
            continue
        files[model_file] = sentencepiece_with_normalizer(tokenizer)
        tokens = tokenizer.ids_to_tokens(range(tokenizer.vocab_size))
        ids = {token: number for number, token in enumerate(tokens)}
        files[vocab_file] = json.dumps(ids, ensure_ascii=False, indent=2).encode()
    files.pop(SPECIAL_TOKENS, None)
    if tokenizers.config.joint:
        files.pop(VOCABULARIES[1], None)
    return files
