"""The vocabularies of HuggingFace's tokenizers: of tokenizer.json, or of the files of old.

The parts of a tokenizer.json that are read have the types that its format gives them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from regard.config import Tree
from regard.errors import ModelError
from regard.exchange.huggingface.folder import READER
from regard.text.config import ForeignKind
from regard.text.foreign import LIBRARY

Files = dict[str, bytes]
# Unicode's White_Space, which a line of vocab.txt loses at its end.
_WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def library_content(content: bytes) -> Tree:
    """A tokenizer.json, whose model, added tokens and normalizer have the right types."""
    tree = READER.parse(content, LIBRARY)
    problem = next(_problems(tree), None)
    if problem is not None:
        raise READER.wrong(LIBRARY, problem)
    return tree


def token_table(content: bytes, name: str) -> dict[str, int]:
    """A vocabulary: tokens and their ids."""
    table = READER.parse(content, name)
    if not _are_ids(table.values()):
        raise READER.wrong(name, "the id of each token must be an integer of at least 0")
    return table


def _problems(tree: Tree) -> Iterator[str]:
    model = tree.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("type", ""), str):
        yield "model must be a table with a type"
        return
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        if not _are_ids(vocabulary.values()):
            yield "model.vocab must have an integer of at least 0 for each token"
    elif not isinstance(vocabulary, list) or not all(map(_is_piece, vocabulary)):
        yield "model.vocab must be a table of ids, or a list of tokens with their scores"
    merges = model.get("merges", [])
    if not isinstance(merges, list) or not all(map(_is_merge, merges)):
        yield "model.merges must be a list of pairs"
    if not _are_tokens(tree.get("added_tokens")):
        yield "added_tokens must be a list of tables with id and content"
    if not _is_normalizer(tree.get("normalizer")):
        yield "normalizer must be a table with a type"


def _are_ids(values: Iterable[Any]) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _is_piece(piece: Any) -> bool:
    if isinstance(piece, str):
        return True
    pair = isinstance(piece, list) and len(piece) == 2
    return pair and isinstance(piece[0], str) and type(piece[1]) in (int, float)


def _is_merge(merge: Any) -> bool:
    pair = merge.split(" ") if isinstance(merge, str) else merge
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(p, str) for p in pair)


def _are_tokens(tokens: Any) -> bool:
    if tokens is None:
        return True
    return isinstance(tokens, list) and all(
        isinstance(one, dict) and _are_ids([one.get("id")]) and isinstance(one.get("content"), str)
        for one in tokens
    )


def _is_normalizer(normalizer: Any) -> bool:
    if normalizer is None:
        return True
    if not isinstance(normalizer, dict) or not isinstance(normalizer.get("type", ""), str):
        return False
    rules = normalizer.get("precompiled_charsmap", "")
    parts = normalizer.get("normalizers") or []
    return (
        isinstance(rules, str)
        and isinstance(parts, list)
        and all(part is not None and _is_normalizer(part) for part in parts)
    )


@dataclass(frozen=True)
class Vocabulary:
    """What a tokenizer has learned; what its kind does not have is empty."""

    ids: dict[str, int] = field(default_factory=dict)
    merges: list[tuple[str, str]] = field(default_factory=list)
    pieces: list[tuple[str, float]] = field(default_factory=list)
    unknown: int | None = None  # the piece for all that no other covers; None: settings say it
    rules: bytes = b""  # SentencePiece's normalization
    control: dict[str, bool] | None = None  # pieces that are added tokens; whether it is special


def _words(files: Files) -> Vocabulary:
    if LIBRARY in files:
        return Vocabulary(ids=_numbered(_model(files)["vocab"]))
    lines = files["vocab.txt"].decode().removesuffix("\n").split("\n")
    return Vocabulary(ids={line.rstrip(_WHITE): number for number, line in enumerate(lines)})


def _merged(files: Files) -> Vocabulary:
    if LIBRARY in files:
        model = _model(files)
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        return Vocabulary(ids=_numbered(model["vocab"]), merges=[(a, b) for a, b in pairs])
    rows = files["merges.txt"].decode().split("\n")
    pairs = [row.split(" ") for row in rows if row and not row.startswith("#version")]
    return Vocabulary(
        ids=token_table(files["vocab.json"], "vocab.json"), merges=[(a, b) for a, b in pairs]
    )


def _pieces(files: Files) -> Vocabulary:
    if LIBRARY in files:
        content = library_content(files[LIBRARY])
        pieces = [(piece, score) for piece, score in content["model"]["vocab"]]
        return Vocabulary(pieces=pieces, rules=_rules(content.get("normalizer")))
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    try:
        model = ModelProto.FromString(files["spiece.model"])
    except DecodeError:
        raise ModelError("spiece.model is no SentencePiece model. Copy it again.") from None
    kinds = type(model.pieces.add()).Type
    del model.pieces[-1]
    apart = (kinds.CONTROL, kinds.USER_DEFINED)
    return Vocabulary(
        pieces=[(piece.piece, piece.score) for piece in model.pieces],
        unknown=model.trainer_spec.unk_id,
        rules=model.normalizer_spec.precompiled_charsmap,
        control={p.piece: p.type == kinds.CONTROL for p in model.pieces if p.type in apart},
    )


def _model(files: Files) -> dict[str, Any]:
    model: dict[str, Any] = library_content(files[LIBRARY])["model"]
    return model


def _numbered(vocabulary: Any) -> dict[str, int]:
    """A vocabulary may also be a list."""
    if isinstance(vocabulary, dict):
        return vocabulary
    words = (word[0] if isinstance(word, list) else word for word in vocabulary)
    return {word: number for number, word in enumerate(words)}


def _rules(normalizer: Any) -> bytes:
    """The first rules of SentencePiece's among the normalizers of a tokenizer.json."""
    parts = (normalizer or {}).get("normalizers") or [normalizer or {}]
    coded = (part["precompiled_charsmap"] for part in parts if part.get("type") == "Precompiled")
    return base64.b64decode(next(coded, ""))


READERS: dict[ForeignKind, Callable[[Files], Vocabulary]] = {
    "wordpiece": _words,
    "byte_bpe": _merged,
    "xlnet": _pieces,
}
