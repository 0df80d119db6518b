"""regard serve: an HTTP server for models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from regard.bounds import COUNT, Ge
from regard.cli.command import Fields, refuse_options
from regard.cli.options import argument
from regard.config import Doc, Settings
from regard.decoding.runtime import Runtime
from regard.errors import ConfigError
from regard.exchange.requirements import require_packages
from regard.progress import notify
from regard.serving.config import LimitConfig, ServerConfig


@dataclass(frozen=True)
class KeyOptions(Settings):
    """Creation of API keys."""

    new_key: Annotated[
        str | None, Doc("add a key with this name to the file of --keys, print it, and exit")
    ] = None
    key_requests: Annotated[
        int, Doc("--new-key: requests per minute; 0: any number"), Ge(0), COUNT
    ] = 0
    key_characters: Annotated[
        int, Doc("--new-key: characters per day; 0: any number"), Ge(0), COUNT
    ] = 0


def serve(
    context: typer.Context,
    server: ServerConfig,
    limits: LimitConfig,
    runtime: Annotated[Runtime, Fields(without=("batch_size",))],
    new_key: KeyOptions,
    models: Annotated[
        list[str] | None,
        argument("Paths of model folders, or NAME=PATH to give a model a name.", "MODEL..."),
    ] = None,
) -> None:
    """Serve models over HTTP: LibreTranslate, DeepL, Hugging Face, OpenAI and our own API."""
    require_packages("fastapi", "uvicorn", "prometheus_client", "multipart", extra="serve")
    if new_key.new_key is not None:
        _create_key(server, new_key, models)
        return
    refuse_options(context, ["key_requests", "key_characters"], "no effect without --new-key.")
    if not models:
        raise ConfigError("No model folder is given. Give one or several: regard serve runs/ende")
    from regard.serving.processes import run_server
    from regard.serving.registry import named_paths

    paths = named_paths(models)
    if not server.is_loopback and server.keys is None:
        notify(
            f"Anyone who can reach {server.host} can use this server: it listens on more than this "
            "machine, and needs no keys. Use --keys, and a reverse proxy for TLS."
        )
    run_server(paths, runtime, server, limits)


def _create_key(server: ServerConfig, options: KeyOptions, models: list[str] | None) -> None:
    from regard.serving.keys import add_key

    if server.keys is None or models:
        raise ConfigError("--new-key needs --keys FILE, to which it is added, and no models.")
    assert options.new_key is not None
    print(add_key(server.keys, options.new_key, options.key_requests, options.key_characters))
