"""Check CTranslate2's files before it loads them: damaged files can crash the process.

`vmap.txt` is a shortlist, used with `use_vmap`: each line has a source subword, a tab, and its
target subwords separated by spaces. Subwords in the line of the empty source subword are always
allowed. CTranslate2 adds special tokens itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from regard.config import Ge, Le, Settings
from regard.data.shortlist import Shortlist
from regard.errors import ModelError
from regard.files import write_text
from regard.regular_files import open_regular_file, read_regular_file
from regard.schema import MEBIBYTE, JsonReader
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers

_READER = JsonReader(ModelError, "Export the model again.", limit=256 * MEBIBYTE)
VMAP = "vmap.txt"
CTRANSLATE2_FOLDER = "ctranslate2"  # subfolder of the exported folder


@dataclass(frozen=True)
class CTranslate2Config(Settings):
    """The fields of CTranslate2's `config.json`; `max_length` is specific to regard."""

    max_length: Annotated[int | None, Ge(1), Le(2**31 - 1)]
    unk_token: str
    bos_token: str
    eos_token: str
    decoder_start_token: str
    add_source_bos: bool
    add_source_eos: bool
    layer_norm_epsilon: Annotated[float | None, Ge(0), Le(1)] = None
    multi_query_attention: bool = False


def is_installed() -> bool:
    """Whether CTranslate2 is installed."""
    return find_spec("ctranslate2") is not None


def ctranslate2_folder(folder: Path) -> Path | None:
    """Return the CTranslate2 model in an exported folder; None if there is none."""
    return folder / CTRANSLATE2_FOLDER if (folder / CTRANSLATE2_FOLDER).is_dir() else None


def read_checked_config(folder: Path, tokenizers: Tokenizers) -> CTranslate2Config:
    """Read CTranslate2's config, and check that all files match the tokenizers."""
    for name in ("model.bin", "config.json"):
        if not (folder / name).exists():
            raise ModelError(f"{folder} is incomplete: {name} is missing. Export the model again.")
        open_regular_file(folder / name).close()
    path = folder / "config.json"
    config = _READER.build(CTranslate2Config, _READER.read_object(path), path)
    target = tokenizers.target.ids_to_tokens(range(tokenizers.target.vocab_size))
    special = {"unk_token": SPECIAL.unk, "bos_token": SPECIAL.bos, "eos_token": SPECIAL.eos}
    for name, token_id in special.items():
        if getattr(config, name) != target[token_id]:
            raise _READER.content_error(path, f"{name} must be {target[token_id]}")
    if config.decoder_start_token not in target[:4] or not config.add_source_eos:
        raise _READER.content_error(
            path, "decoder_start_token or add_source_eos does not match the model"
        )
    source = tokenizers.source.ids_to_tokens(range(tokenizers.source.vocab_size))
    _check_vocabulary(folder, "source", source)
    _check_vocabulary(folder, "target", target)
    if (folder / VMAP).exists():
        _check_vmap(folder / VMAP, source, target)
    return config


def _check_vocabulary(folder: Path, side: str, tokens: list[str]) -> None:
    """Raise an error if the vocabulary differs: a short one causes out-of-bounds reads."""
    names = ("shared_vocabulary.json", f"{side}_vocabulary.json")
    path = next((folder / name for name in names if (folder / name).exists()), None)
    if path is None:
        raise ModelError(f"{folder} has no {side} vocabulary. Export the model again.")
    if _READER.read_strings(path) != tokens:
        raise _READER.content_error(path, f"it differs from the {side} vocabulary of the tokenizer")


def _check_vmap(path: Path, source: list[str], target: list[str]) -> None:
    """Raise an error for an empty vmap, which crashes the process, or unknown subwords."""
    try:
        lines = read_regular_file(path, 256 * MEBIBYTE).decode().split("\n")
    except UnicodeDecodeError as error:
        raise _READER.content_error(path, f"byte {error.start:,} is not UTF-8") from None
    first, _, always = lines[0].partition("\t")
    if first or not always or lines.pop() != "":
        raise _READER.content_error(
            path, "the first line, of subwords that are always allowed, is missing"
        )
    sources, targets = {"", *source}, {*target}
    for number, line in enumerate(lines, 1):
        name, tab, allowed = line.partition("\t")
        if not tab or name not in sources or not targets.issuperset(allowed.split(" ")):
            raise _READER.content_error(
                path, f"line {number} has subwords that the tokenizer does not have"
            )


def write_vmap(shortlist: Shortlist, tokenizers: Tokenizers, folder: Path) -> None:
    """Write a shortlist as vmap.txt into the folder of an exported model."""
    source, target = tokenizers.source, tokenizers.target
    tokens = ["", *source.ids_to_tokens(range(source.vocab_size))]
    rows = [shortlist.always, *shortlist.rows]
    lines = [
        f"{token}\t{' '.join(filter(_has_no_space, target.ids_to_tokens(row.tolist())))}\n"
        for token, row in zip(tokens, rows, strict=True)
        if len(row) and _has_no_space(token)
    ]
    write_text(folder / VMAP, "".join(lines))


def _has_no_space(token: str) -> bool:
    """Whether a subword has no whitespace, which separates subwords in the file."""
    return not any(character.isspace() for character in token)
