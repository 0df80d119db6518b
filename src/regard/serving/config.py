"""Settings of the server: address, processes, limits, logs; does not import PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from regard.bounds import COUNT, Ge, Le
from regard.config import Doc, Settings

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SECONDS = Le(86_400)


@dataclass(frozen=True)
class ServerConfig(Settings):
    """Address, processes, keys and logs of the server."""

    host: Annotated[str, Doc("address to listen on; 0.0.0.0: all, which requires --keys")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Doc("port to listen on; 0: any free one"), Ge(0), Le(65_535)] = 8000
    workers: Annotated[
        int,
        Doc("server processes on the port, each with the models; each gets a part of the cores"),
        Ge(1),
        Le(256),
    ] = 1
    keys: Annotated[
        Path | None, Doc("file with hashed API keys; without one, requests need no key")
    ] = None
    state: Annotated[
        Path | None,
        Doc("folder for glossaries and documents; default: a temporary folder, removed at the end"),
    ] = None
    cors_origin: Annotated[
        tuple[str, ...],
        Doc("origin whose pages may send requests, such as https://example.org; repeatable"),
    ] = ()
    log_format: Annotated[Literal["text", "json"], Doc("format of the log on standard error")] = (
        "text"
    )
    log_texts: Annotated[bool, Doc("write the texts of requests to the log")] = False

    def problems(self) -> Iterator[str]:
        """A host is needed."""
        if not self.host.strip():
            yield "host is empty; use 127.0.0.1 for this machine only"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK or self.host.startswith("127.")


@dataclass(frozen=True)
class LimitConfig(Settings):
    """Limits of requests; a request beyond them is refused with status 400, 413 or 429."""

    max_characters: Annotated[int, Doc("characters of all texts of a request"), Ge(1), COUNT] = (
        20_000
    )
    max_texts: Annotated[int, Doc("texts of a request"), Ge(1), Le(1_000_000)] = 128
    max_alternatives: Annotated[
        int, Doc("hypotheses of a text, including the best"), Ge(1), Le(1000)
    ] = 10
    max_beam_size: Annotated[int, Doc("beam size, candidates or samples"), Ge(1), Le(1000)] = 20
    max_new_tokens: Annotated[
        int, Doc("tokens that a language model generates for a prompt"), Ge(1), Le(1_000_000)
    ] = 1024
    max_body: Annotated[int, Doc("bytes of a request"), Ge(1024), COUNT] = 2_000_000
    max_document: Annotated[int, Doc("bytes of an uploaded document"), Ge(1024), COUNT] = 20_000_000
    max_document_characters: Annotated[int, Doc("characters of a document"), Ge(1), COUNT] = (
        1_000_000
    )
    max_documents: Annotated[int, Doc("documents that are kept at a time"), Ge(1), Le(100_000)] = (
        100
    )
    max_glossaries: Annotated[int, Doc("glossaries that are kept"), Ge(0), Le(1_000_000)] = 1000
    max_requests: Annotated[
        int, Doc("requests that are processed at the same time"), Ge(1), Le(100_000)
    ] = 256
    max_streams: Annotated[
        int, Doc("texts that are generated token by token at the same time"), Ge(1), Le(1000)
    ] = 4
    max_queue: Annotated[int, Doc("sentences that wait for the model"), Ge(1), Le(10_000_000)] = (
        10_000
    )
    batch_tokens: Annotated[
        int,
        Doc("source tokens of a batch; larger batches are faster, smaller ones answer sooner"),
        Ge(1),
        Le(10_000_000),
    ] = 1024
    deadline: Annotated[
        float, Doc("seconds after which a request is given up"), Ge(0.1), _SECONDS
    ] = 60.0
    document_deadline: Annotated[
        float, Doc("seconds after which a document is given up"), Ge(0.1), _SECONDS
    ] = 1800.0
    receive_timeout: Annotated[
        float, Doc("seconds in which a request must arrive completely"), Ge(0.1), _SECONDS
    ] = 30.0
    keep_alive: Annotated[
        int, Doc("seconds for which an idle connection is kept"), Ge(1), Le(3600)
    ] = 5
    drain: Annotated[
        float, Doc("seconds that requests in progress have after SIGTERM"), Ge(0), _SECONDS
    ] = 60.0
