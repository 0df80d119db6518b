"""A rule-based sentence splitter as a small ONNX graph, which MiniSBD runs for Argos Translate.

A sentence ends at a full stop, question or exclamation mark before a space, unless the next letter
is lowercase; and at their full-width forms, which need no space. MiniSBD's input is a class id per
character, and it takes the argmax of three outputs: 0 none, 1 end of word, 2 end of sentence. The
protocol buffers are encoded here, so that no library is needed.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Sequence

# Character classes; in MiniSBD 0 is padding and 1 is any other character.
_STOP, _WIDE_STOP, _SPACE, _LOWERCASE = 2, 3, 4, 5
_INT64, _FLOAT = 7, 1  # ONNX's data types
_INT_ATTRIBUTE = 2


def sentence_splitter_graph() -> bytes:
    """Return the content of the ONNX file."""
    nodes = [
        _node("Pad", ["units", "behind"], "padded"),
        _node("Slice", ["padded", "one", "minus_one", "one"], "next"),
        _node("Slice", ["padded", "two", "end", "one"], "next_but_one"),
        _node("Equal", ["units", "stop"], "is_stop"),
        _node("Equal", ["next", "space"], "before_space"),
        _node("Equal", ["next_but_one", "small"], "goes_on"),
        _node("Not", ["goes_on"], "begins"),
        _node("And", ["is_stop", "before_space"], "may_end"),
        _node("And", ["may_end", "begins"], "ends"),
        _node("Equal", ["units", "wide_stop"], "is_wide"),
        _node("Equal", ["next", "wide_stop"], "before_wide"),
        _node("Not", ["before_wide"], "last_wide"),
        _node("And", ["is_wide", "last_wide"], "ends_wide"),
        _node("Or", ["ends", "ends_wide"], "any_end"),
        _node("Cast", ["any_end"], "number", to=_INT64),
        _node("Mul", ["number", "two"], "label"),
        _node("OneHot", ["label", "three", "off_on"], "answers"),
    ]
    integers = {
        "behind": [0, 0, 0, 2],  # two more positions at the end of each row
        "one": [1],
        "minus_one": [-1],
        "two": [2],
        "end": [sys.maxsize],
        "stop": [_STOP],
        "space": [_SPACE],
        "small": [_LOWERCASE],
        "wide_stop": [_WIDE_STOP],
        "three": [3],
    }
    constants = [_tensor(name, _INT64, "q", values) for name, values in integers.items()]
    constants.append(_tensor("off_on", _FLOAT, "f", [0.0, 1.0]))
    graph = b"".join(
        [
            *(_bytes(1, node) for node in nodes),
            _text(2, "sentences"),
            *(_bytes(5, constant) for constant in constants),
            _bytes(11, _value("units", _INT64, ["rows", "length"])),
            _bytes(11, _value("features", _FLOAT, ["rows", "length", "none"])),
            _bytes(12, _value("answers", _FLOAT, ["rows", "length", "answers"])),
        ]
    )
    config = json.dumps({"max_seqlen": 1000, "batch_size": 1, "feat_funcs": []})
    metadata = {"config": config, "vocab": _vocabulary(), "lexicon": "null", "lang_code": "any"}
    return b"".join(
        [
            _number(1, 8),  # format version
            _text(2, "regard"),
            _bytes(7, graph),
            _bytes(8, _number(2, 13)),  # opset version
            *(_bytes(14, _text(1, key) + _text(2, value)) for key, value in metadata.items()),
        ]
    )


def _vocabulary() -> str:
    """Return MiniSBD's vocabulary: the class of each character."""
    classes = {"<PAD>": 0, "<UNK>": 1, " ": _SPACE}
    classes |= dict.fromkeys(".!?…", _STOP) | dict.fromkeys("。！？", _WIDE_STOP)
    lowercase = (chr(point) for point in range(0x10000) if chr(point).islower())
    classes |= dict.fromkeys(lowercase, _LOWERCASE)
    units = ["<PAD>", "<UNK>", ".", "。", " ", "a"]
    state = {"lang": "", "idx": 0, "cutoff": 0, "lower": False}
    return json.dumps({**state, "_unit2id": classes, "_id2unit": units})


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    encoded_attributes = [
        _bytes(5, _text(1, name) + _number(3, value) + _number(20, _INT_ATTRIBUTE))
        for name, value in attributes.items()
    ]
    return b"".join(
        [
            *(_text(1, name) for name in inputs),
            _text(2, output),
            _text(4, kind),
            *encoded_attributes,
        ]
    )


def _tensor(name: str, type_: int, code: str, values: Sequence[float]) -> bytes:
    raw = struct.pack(f"<{len(values)}{code}", *values)
    return _number(1, len(values)) + _number(2, type_) + _text(8, name) + _bytes(9, raw)


def _value(name: str, type_: int, dimensions: Sequence[str]) -> bytes:
    shape = b"".join(_bytes(1, _text(2, dimension)) for dimension in dimensions)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, type_) + _bytes(2, shape)))


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    """Encode an integer as a protocol buffer varint."""
    encoded = []
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
