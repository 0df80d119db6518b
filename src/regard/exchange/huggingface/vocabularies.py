"""Read the vocabularies of HuggingFace tokenizers from tokenizer.json or from older files."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from regard.config import Tree
from regard.errors import ModelError
from regard.exchange.huggingface.folder import READER
from regard.text.imported import TOKENIZER_JSON

Files = dict[str, bytes]
# Unicode's White_Space, which is stripped from the end of lines in vocab.txt.
_WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def parse_tokenizer_json(content: bytes) -> Tree:
    """Parse a tokenizer.json; the types of its model are checked by the package `tokenizers`."""
    tree = READER.parse(content, TOKENIZER_JSON)
    model = tree.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("type", ""), str):
        raise READER.content_error(TOKENIZER_JSON, "model must be a table with a type")
    return tree


def read_wordpiece_vocab(files: Files) -> dict[str, int]:
    """Return the ids of WordPiece subwords."""
    if TOKENIZER_JSON in files:
        return _to_ids(
            parse_tokenizer_json(files[TOKENIZER_JSON])["model"]["vocab"], TOKENIZER_JSON
        )
    lines = files["vocab.txt"].decode().removesuffix("\n").split("\n")
    return {line.rstrip(_WHITE): number for number, line in enumerate(lines)}


def read_bpe_vocab(files: Files) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the ids of BPE subwords, and the merges."""
    if TOKENIZER_JSON in files:
        model = parse_tokenizer_json(files[TOKENIZER_JSON])["model"]
        ids, rows = _to_ids(model["vocab"], TOKENIZER_JSON), model["merges"]
    else:
        lines = files["merges.txt"].decode().split("\n")
        rows = [line for line in lines if line and not line.startswith("#version")]
        ids = _to_ids(READER.parse(files["vocab.json"], "vocab.json"), "vocab.json")
    pairs = (row.split(" ") if isinstance(row, str) else row for row in rows)
    return ids, [(first, second) for first, second in pairs]


class SentencePieceVocab(NamedTuple):
    """The vocabulary and normalization rules of a SentencePiece model."""

    scores: list[tuple[str, float]]
    charsmap: bytes  # normalization rules
    unk_id: int | None = None  # None: as in the settings
    control: dict[str, bool] | None = None  # added tokens, and whether they are special


def read_sentencepiece_vocab(files: Files) -> SentencePieceVocab:
    """Return the vocabulary of XLNet's SentencePiece model."""
    if TOKENIZER_JSON in files:
        content = parse_tokenizer_json(files[TOKENIZER_JSON])
        scores = [(piece, score) for piece, score in content["model"]["vocab"]]
        return SentencePieceVocab(scores, _charsmap(content.get("normalizer")))
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    try:
        model = ModelProto.FromString(files["spiece.model"])
    except DecodeError:
        raise ModelError("spiece.model is not a SentencePiece model. Copy it again.") from None
    types = ModelProto.SentencePiece.Type
    added = (types.Value("CONTROL"), types.Value("USER_DEFINED"))
    return SentencePieceVocab(
        [(piece.piece, piece.score) for piece in model.pieces],
        model.normalizer_spec.precompiled_charsmap,
        model.trainer_spec.unk_id,
        {piece.piece: piece.type == added[0] for piece in model.pieces if piece.type in added},
    )


def _to_ids(vocabulary: Any, name: str) -> dict[str, int]:
    """Return the ids of subwords; a list is in the order of ids."""
    if isinstance(vocabulary, list):
        tokens = (item[0] if isinstance(item, list) else item for item in vocabulary)
        return {token: number for number, token in enumerate(tokens)}
    if not isinstance(vocabulary, dict) or any(
        type(number) is not int or not 0 <= number < 2**32 for number in vocabulary.values()
    ):
        raise READER.content_error(name, "the id of each token must be an integer of at least 0")
    return vocabulary


def _charsmap(normalizer: Any) -> bytes:
    """Return the first SentencePiece rules among the normalizers of a tokenizer.json."""
    parts = (normalizer or {}).get("normalizers") or [normalizer or {}]
    charsmaps = (p["precompiled_charsmap"] for p in parts if p.get("type") == "Precompiled")
    return base64.b64decode(next(charsmaps, ""))
