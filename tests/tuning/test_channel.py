"""Messages over pipes."""

from __future__ import annotations

import os

import pytest

from regard.tuning.channel import Channel


def test_messages_arrive_whole_and_in_order() -> None:
    read, write = os.pipe()
    channel = Channel(read, write)
    os.write(write, b'{"a": 1}\n{"b": "\xc3\xa4"}\n{"c"')
    assert channel.receive() == [{"a": 1}, {"b": "ä"}]
    os.write(write, b": null}\n")
    assert channel.receive() == [{"c": None}]
    channel.send({"value": float("nan"), "text": "\udc80"})
    assert channel.receive() == [{"value": None, "text": "?"}]
    os.write(write, b'{"incomplete"')
    os.close(write)
    assert channel.receive() is None
    os.close(read)


def test_lost_reader_is_an_error() -> None:
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(BrokenPipeError):
        Channel(0, write).send({})
    os.close(write)
