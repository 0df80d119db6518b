"""API keys: stored as hashes, compared in constant time, with limits per key."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from regard.bounds import COUNT, Ge, Le
from regard.config import Doc, Settings
from regard.errors import ConfigError
from regard.files import atomic_file, locked_output
from regard.schema import JsonReader
from regard.serving.api_errors import ApiError
from regard.settings_tree import to_tree

_FORMAT = 1
_READER = JsonReader(ConfigError, "Correct the file, or create it again with --new-key.")
_MINUTE, _DAY = 60.0, 86_400.0


@dataclass(frozen=True)
class ApiKey(Settings):
    """A key in the file of keys."""

    name: str
    hash: str  # SHA-256 of the key, which has 256 random bits, so that no salt is needed
    requests_per_minute: Annotated[int, Doc("requests per minute; 0: any number"), Ge(0), COUNT] = 0
    characters_per_day: Annotated[int, Doc("characters per day; 0: any number"), Ge(0), COUNT] = 0


@dataclass(frozen=True)
class KeyFile(Settings):
    """The file of keys."""

    format: Annotated[int, Ge(1), Le(1000)]
    keys: tuple[ApiKey, ...] = ()


@dataclass
class KeyUsage:
    """A key and what it was used for in this process."""

    key: ApiKey
    requests: deque[float] = field(default_factory=deque)  # times in the last minute
    characters: int = 0  # in the current day
    day: float = 0.0  # when it began

    def count_request(self, now: float) -> None:
        """Count a request; raises an ApiError if there were too many."""
        limit = self.key.requests_per_minute
        if not limit:
            return
        while self.requests and self.requests[0] <= now - _MINUTE:
            self.requests.popleft()
        if len(self.requests) >= limit:
            wait = self.requests[0] + _MINUTE - now
            raise ApiError(429, f"Slowdown: {limit} requests per minute allowed.", retry_after=wait)
        self.requests.append(now)

    def count_characters(self, characters: int, now: float, status: int = 429) -> None:
        """Count characters; raises an ApiError if the limit of the day is exceeded."""
        if now >= self.day + _DAY:
            self.day, self.characters = now, 0
        limit = self.key.characters_per_day
        if limit and self.characters + characters > limit:
            wait = self.day + _DAY - now
            raise ApiError(status, f"Quota exceeded: {limit} characters per day.", None, wait)
        self.characters += characters


class Keys:
    """The keys of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._usage: dict[str, KeyUsage] = {}
        self._hashes: list[tuple[bytes, KeyUsage]] = []
        self.read()

    def read(self) -> None:
        """Read the file, also after a change; the usage of keys with the same hash is kept."""
        keys = read_keys(self._path)
        for key in keys:
            usage = self._usage.setdefault(key.hash, KeyUsage(key))
            usage.key = key
        self._hashes = [(bytes.fromhex(key.hash), self._usage[key.hash]) for key in keys]

    def find(self, key: str) -> KeyUsage | None:
        """The usage of a key; None for an unknown key."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        matching = None
        for expected, usage in self._hashes:  # all of them, so that the time tells nothing
            if hmac.compare_digest(expected, digest):
                matching = usage
        return matching


def read_keys(path: Path) -> tuple[ApiKey, ...]:
    """The keys in a file."""
    if not path.is_file():
        raise ConfigError(
            f"There is no file {path} with API keys. Create it: regard serve --keys {path} "
            "--new-key NAME"
        )
    file, _ = _READER.read_versioned(KeyFile, path, _FORMAT)
    for key in file.keys:
        if len(key.hash) != 64 or not all(letter in "0123456789abcdef" for letter in key.hash):
            raise _READER.content_error(path, f"the hash of {key.name!r} is not SHA-256")
    return file.keys


def add_key(path: Path, name: str, requests_per_minute: int, characters_per_day: int) -> str:
    """Add a new key to a file, which is created if necessary; returns the key."""
    if not name.strip():
        raise ConfigError("The name of the key (--new-key) is empty. Give a name.")
    key = f"rg-{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    with locked_output(path):
        keys = read_keys(path) if path.exists() else ()
        if any(other.name == name for other in keys):
            raise ConfigError(f"{path} has a key named {name!r} already. Choose another name.")
        added = ApiKey(name, digest, requests_per_minute, characters_per_day)
        file = KeyFile(_FORMAT, (*keys, added))
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(to_tree(file), indent=2) + "\n", encoding="utf-8")
        os.chmod(path, 0o600)
    return key


def now() -> float:
    """The time for limits."""
    return time.monotonic()
