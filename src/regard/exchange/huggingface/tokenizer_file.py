"""The parts of a `tokenizer.json` that we read, with the types that the format gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from regard.config import Tree
from regard.exchange.huggingface.folder import READER
from regard.text.foreign import LIBRARY


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
