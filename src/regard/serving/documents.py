"""Documents that clients send: formats, and jobs that outlive the request that started them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from regard.errors import RegardError
from regard.files import write_text
from regard.serving.api_errors import ApiError
from regard.serving.batcher import QueueFullError
from regard.serving.logs import LOGGER

Markup = Literal["html", "xml", "markdown"]
# Translates texts with a kind of markup, or without.
TranslateTexts = Callable[[Sequence[str], Markup | None], Awaitable[list[str]]]
_LINES = 64  # texts that are translated at a time
_SAMPLE = 2000  # characters from which the language is detected
_ID = re.compile(r"[0-9A-F]{32}\Z")
_KEPT = 3600.0  # seconds for which a translated document is kept
_RETRY = 1.0  # seconds between attempts if the queue is full


class OpenDocument(NamedTuple):
    """A document that has been read: its texts, and how it is written with their translations."""

    ending: str  # of its name
    texts: Sequence[str]
    markup: Markup | None
    write: Callable[[Sequence[str]], bytes]

    @property
    def characters(self) -> int:
        """The number of characters to translate, those of markup included."""
        return sum(map(len, self.texts))

    @property
    def sample(self) -> str:
        """Text from which the language is detected."""
        return " ".join(self.texts[:_LINES])[:_SAMPLE]


_MARKUP: dict[str, Markup | None] = {
    ".txt": None,
    ".html": "html",
    ".htm": "html",
    ".xml": "xml",
    ".md": "markdown",
}
FORMATS = (*_MARKUP,)  # endings of names


def open_document(name: str, data: bytes) -> OpenDocument:
    """Read a document in the format of its name, of which only the ending is used."""
    ending = Path(name.replace("\\", "/").replace("\0", "")).suffix.lower()
    if ending not in _MARKUP:
        message = f"Files of type {ending[:20]!r} are not supported. Use {', '.join(FORMATS)}."
        raise ApiError(400, message, "file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"The document is not UTF-8 text (byte {error.start:,}). Convert it."
        raise ApiError(400, message) from None
    markup = _MARKUP[ending]
    texts = [text] if markup else text.splitlines(keepends=True)
    return OpenDocument(ending, texts, markup, lambda texts: "".join(texts).encode())


async def translate_document(document: OpenDocument, translate: TranslateTexts) -> bytes:
    """The translated document; some texts at a time, so that they do not fill the queue."""
    texts: list[str] = []
    for start in range(0, len(document.texts), _LINES):
        texts += await translate(document.texts[start : start + _LINES], document.markup)
    return await asyncio.to_thread(document.write, texts)


async def patiently(call: Callable[[], Awaitable[list[str]]], deadline: float) -> list[str]:
    """Call a function again while the queue of the model is full."""
    until = time.monotonic() + deadline
    while True:
        try:
            return await call()
        except QueueFullError:
            if time.monotonic() + _RETRY > until:
                raise
            await asyncio.sleep(_RETRY)


@dataclass(frozen=True)
class DocumentState:
    """How far a document is; stored beside it, so that all server processes see it."""

    id: str
    key_hash: str
    ending: str
    status: Literal["queued", "translating", "done", "error"] = "queued"
    characters: int = 0
    error: str = ""
    created: float = 0.0


class DocumentStore:
    """The documents in a folder, and the jobs of this process."""

    def __init__(self, folder: Path, limit: int, deadline: float) -> None:
        self._folder, self._limit, self._deadline = folder, limit, deadline
        folder.mkdir(parents=True, exist_ok=True)
        self._jobs: set[asyncio.Task[None]] = set()

    def start(self, document: OpenDocument, translate: TranslateTexts) -> tuple[str, str]:
        """Start to translate a document; returns its id and key."""
        self._remove_old()
        if len([*self._folder.iterdir()]) >= self._limit:
            raise ApiError(429, "Too many documents are kept. Try again later.", retry_after=60)
        identifier, key = secrets.token_hex(16).upper(), secrets.token_hex(32).upper()
        (self._folder / identifier).mkdir(mode=0o700)
        state = DocumentState(
            identifier,
            _hash(key),
            document.ending,
            characters=document.characters,
            created=time.time(),
        )
        self._write(state)
        job = asyncio.create_task(self._run(state, document, translate))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return identifier, key

    async def _run(
        self, state: DocumentState, document: OpenDocument, translate: TranslateTexts
    ) -> None:
        """Translate a document, and note how it went."""
        await asyncio.to_thread(self._write, replace(state, status="translating"))
        try:
            async with asyncio.timeout(self._deadline):
                translated = await translate_document(document, translate)
            await asyncio.to_thread(self._result(state).write_bytes, translated)
            state = replace(state, status="done")
        except (RegardError, ApiError, QueueFullError) as error:
            state = replace(state, status="error", error=str(error) or "The server is overloaded.")
        except TimeoutError:
            message = f"It was not translated within {self._deadline:g} seconds."
            state = replace(state, status="error", error=message)
        except Exception:
            LOGGER.exception("a document failed")
            state = replace(state, status="error", error="Internal error.")
        with suppress(OSError, RegardError):  # removed meanwhile
            await asyncio.to_thread(self._write, state)

    def state(self, identifier: str, key: str) -> DocumentState:
        """The state of a document; raises an ApiError for a wrong id or key."""
        path = self._folder / identifier / "state.json"
        if not _ID.match(identifier) or not path.is_file():
            raise ApiError(404, "Document not found")
        state = DocumentState(**json.loads(path.read_text(encoding="utf-8")))
        if not hmac.compare_digest(state.key_hash, _hash(key)):
            raise ApiError(404, "Document not found")
        return state

    def take(self, state: DocumentState) -> bytes:
        """The translated document, which is removed."""
        data = self._result(state).read_bytes()
        shutil.rmtree(self._folder / state.id, ignore_errors=True)
        return data

    async def wait(self, timeout: float) -> None:
        """Wait for the jobs of this process."""
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=timeout)

    async def wait_for(self, identifier: str, key: str) -> DocumentState:
        """Wait for a document that this process translates."""
        while True:
            state = self.state(identifier, key)
            if state.status in ("done", "error"):
                return state
            await asyncio.wait(self._jobs or {asyncio.create_task(asyncio.sleep(0.1))}, timeout=1)

    def _result(self, state: DocumentState) -> Path:
        return self._folder / state.id / "result"

    def _write(self, state: DocumentState) -> None:
        write_text(self._folder / state.id / "state.json", json.dumps(asdict(state)))

    def _remove_old(self) -> None:
        """Remove documents that were not fetched."""
        for folder in self._folder.iterdir():
            with suppress(OSError):
                if folder.stat().st_mtime < time.time() - _KEPT:
                    shutil.rmtree(folder, ignore_errors=True)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
