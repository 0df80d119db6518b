"""The vocabularies of HuggingFace's tokenizers: of tokenizer.json, or of the files of old."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from regard.config import Tree
from regard.errors import ModelError
from regard.exchange.huggingface.folder import READER
from regard.text.foreign import LIBRARY

Files = dict[str, bytes]
# Unicode's White_Space, which a line of vocab.txt loses at its end.
_WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def library_content(content: bytes) -> Tree:
    """A tokenizer.json; the package `tokenizers` checks the types of what its model holds."""
    tree = READER.parse(content, LIBRARY)
    model = tree.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("type", ""), str):
        raise READER.wrong(LIBRARY, "model must be a table with a type")
    return tree


def words_of(files: Files) -> dict[str, int]:
    """The ids of WordPiece's subwords."""
    if LIBRARY in files:
        return _ids(library_content(files[LIBRARY])["model"]["vocab"], LIBRARY)
    lines = files["vocab.txt"].decode().removesuffix("\n").split("\n")
    return {line.rstrip(_WHITE): number for number, line in enumerate(lines)}


def merges_of(files: Files) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The ids of BPE's subwords, and its merges."""
    if LIBRARY in files:
        model = library_content(files[LIBRARY])["model"]
        ids, rows = _ids(model["vocab"], LIBRARY), model["merges"]
    else:
        lines = files["merges.txt"].decode().split("\n")
        rows = [line for line in lines if line and not line.startswith("#version")]
        ids = _ids(READER.parse(files["vocab.json"], "vocab.json"), "vocab.json")
    pairs = (row.split(" ") if isinstance(row, str) else row for row in rows)
    return ids, [(first, second) for first, second in pairs]


class Pieces(NamedTuple):
    """A SentencePiece model."""

    scores: list[tuple[str, float]]
    rules: bytes  # its normalization
    unknown: int | None = None  # the piece for all that no other covers; None: settings say it
    control: dict[str, bool] | None = None  # pieces that are added tokens; whether it is special


def pieces_of(files: Files) -> Pieces:
    """The pieces of XLNet's SentencePiece model."""
    if LIBRARY in files:
        content = library_content(files[LIBRARY])
        scores = [(piece, score) for piece, score in content["model"]["vocab"]]
        return Pieces(scores, _rules(content.get("normalizer")))
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    try:
        model = ModelProto.FromString(files["spiece.model"])
    except DecodeError:
        raise ModelError("spiece.model is no SentencePiece model. Copy it again.") from None
    kinds = ModelProto.SentencePiece.Type
    apart = (kinds.Value("CONTROL"), kinds.Value("USER_DEFINED"))
    return Pieces(
        [(piece.piece, piece.score) for piece in model.pieces],
        model.normalizer_spec.precompiled_charsmap,
        model.trainer_spec.unk_id,
        {piece.piece: piece.type == apart[0] for piece in model.pieces if piece.type in apart},
    )


def _ids(vocabulary: Any, name: str) -> dict[str, int]:
    """Subwords and their ids; a list has them in order."""
    if isinstance(vocabulary, list):
        words = (word[0] if isinstance(word, list) else word for word in vocabulary)
        return {word: number for number, word in enumerate(words)}
    if not isinstance(vocabulary, dict) or any(
        type(number) is not int or not 0 <= number < 2**32 for number in vocabulary.values()
    ):
        raise READER.wrong(name, "the id of each token must be an integer of at least 0")
    return vocabulary


def _rules(normalizer: Any) -> bytes:
    """The first rules of SentencePiece's among the normalizers of a tokenizer.json."""
    parts = (normalizer or {}).get("normalizers") or [normalizer or {}]
    coded = (part["precompiled_charsmap"] for part in parts if part.get("type") == "Precompiled")
    return base64.b64decode(next(coded, ""))
