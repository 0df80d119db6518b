"""The files that CTranslate2 reads, checked before it does: some damage ends the whole process.

`vmap.txt` is a shortlist, used with `use_vmap`: a line for each source subword with the subword, a
tab, and the target subwords that it allows, between spaces. The line of the empty subword allows
always. CTranslate2 itself adds special tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from regard.config import Ge, Le, Settings
from regard.data.shortlist import Shortlist
from regard.errors import ModelError
from regard.files import write_text
from regard.regular import open_regular, read_regular
from regard.schema import MEBIBYTE, JsonReader
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers

_READER = JsonReader(ModelError, "Export the model again.", limit=256 * MEBIBYTE)
VMAP = "vmap.txt"


@dataclass(frozen=True)
class EngineConfig(Settings):
    """The fields of CTranslate2's `config.json`; `max_length` is ours."""

    max_length: Annotated[int | None, Ge(1), Le(2**31 - 1)]
    unk_token: str
    bos_token: str
    eos_token: str
    decoder_start_token: str
    add_source_bos: bool
    add_source_eos: bool
    layer_norm_epsilon: Annotated[float | None, Ge(0), Le(1)] = None
    multi_query_attention: bool = False


def checked_config(folder: Path, tokenizers: Tokenizers) -> EngineConfig:
    """CTranslate2's settings of a model, whose other files must belong to these tokenizers."""
    for name in ("model.bin", "config.json"):
        if not (folder / name).exists():
            raise ModelError(f"{folder} is incomplete: {name} is missing. Export the model again.")
        open_regular(folder / name).close()
    path = folder / "config.json"
    found = _READER.build(EngineConfig, _READER.table(path), path)
    target = tokenizers.target.pieces(range(tokenizers.target.vocab_size))
    marks = {"unk_token": SPECIAL.unknown, "bos_token": SPECIAL.start, "eos_token": SPECIAL.end}
    for name, mark in marks.items():
        if getattr(found, name) != target[mark]:
            raise _READER.wrong(path, f"{name} must be {target[mark]}")
    if found.decoder_start_token not in target[:4] or not found.add_source_eos:
        raise _READER.wrong(path, "decoder_start_token or add_source_eos is not that of the model")
    source = tokenizers.source.pieces(range(tokenizers.source.vocab_size))
    _refuse_other_vocabulary(folder, "source", source)
    _refuse_other_vocabulary(folder, "target", target)
    if (folder / VMAP).exists():
        _refuse_unusable_vmap(folder / VMAP, source, target)
    return found


def _refuse_other_vocabulary(folder: Path, side: str, pieces: list[str]) -> None:
    """CTranslate2 reads beyond the end of a table that is too short."""
    names = ("shared_vocabulary.json", f"{side}_vocabulary.json")
    path = next((folder / name for name in names if (folder / name).exists()), None)
    if path is None:
        raise ModelError(f"{folder} has no {side} vocabulary. Export the model again.")
    if _READER.texts(path) != pieces:
        raise _READER.wrong(path, f"it is not the {side} vocabulary of the tokenizer beside it")


def _refuse_unusable_vmap(path: Path, source: list[str], target: list[str]) -> None:
    """An empty table ends the process, and one of other subwords makes translations empty."""
    try:
        lines = read_regular(path, 256 * MEBIBYTE).decode().split("\n")
    except UnicodeDecodeError as error:
        raise _READER.wrong(path, f"byte {error.start:,} is not UTF-8") from None
    first, _, always = lines[0].partition("\t")
    if first or not always or lines.pop() != "":
        raise _READER.wrong(path, "it has no line of subwords that are always allowed")
    sources, targets = {"", *source}, {*target}
    for number, line in enumerate(lines, 1):
        name, tab, allowed = line.partition("\t")
        if not tab or name not in sources or not targets.issuperset(allowed.split(" ")):
            raise _READER.wrong(path, f"line {number} is not of subwords of the tokenizer")


def write_vmap(listed: Shortlist, tokenizers: Tokenizers, folder: Path) -> None:
    """Write the lists into the folder of an exported model."""
    source, target = tokenizers.source, tokenizers.target
    names = ["", *source.pieces(range(source.vocab_size))]
    rows = [listed.always, *listed.rows]
    lines = [
        f"{name}\t{' '.join(filter(_is_plain, target.pieces(row.tolist())))}\n"
        for name, row in zip(names, rows, strict=True)
        if len(row) and _is_plain(name)
    ]
    write_text(folder / VMAP, "".join(lines))


def _is_plain(piece: str) -> bool:
    """Whether a subword has no white space, which would end it."""
    return not any(letter.isspace() for letter in piece)
