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
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from starlette.datastructures import UploadFile

from regard.decoding.text_config import IGNORED_TAGS
from regard.documents.document import Document, ReadOptions
from regard.documents.formats import FORMATS as DOCUMENT_FORMATS
from regard.documents.formats import format_of, read_document
from regard.errors import DataError, RegardError
from regard.files import write_text
from regard.pipelines.markup import Markup
from regard.schema import JsonReader
from regard.serving.api_errors import ApiError
from regard.serving.batcher import QueueFullError
from regard.serving.logs import LOGGER

_LINES = 64  # texts that are translated at a time
_SAMPLE = 2000  # characters from which the language is detected
_ID = re.compile(r"[0-9A-F]{32}\Z")
_KEPT = 3600.0  # seconds for which a translated document is kept
_NAME = 100  # characters of a name in messages
_READER = JsonReader(DataError, "Remove it.")  # of the states of documents
_RETRY = 1.0  # seconds between attempts if the queue is full


class TextTranslation(NamedTuple):
    """How the texts of a document are translated."""

    # Called with texts, and with their markup if they have any.
    translate: Callable[[Sequence[str], Markup | None], Awaitable[list[str]]]
    language: str | None  # of the translations


class OpenDocument(NamedTuple):
    """A document that has been read; it can be translated once."""

    ending: str  # of its name
    document: Document

    @property
    def characters(self) -> int:
        """The number of characters to translate, those of markup included."""
        return sum(len(text.text) for text in self.document.texts)

    @property
    def sample(self) -> str:
        """Text from which the language is detected."""
        return " ".join(text.text for text in self.document.texts[:_LINES])[:_SAMPLE]


# Endings of names.
FORMATS = tuple(suffix for format in DOCUMENT_FORMATS.values() for suffix in format.suffixes)


def open_document(name: str, data: bytes) -> OpenDocument:
    """Read a document in the format of its name, of which only the last part is used."""
    name = PurePath(name.replace("\\", "/").replace("\0", "")).name[-_NAME:]
    format, ending = format_of(name), PurePath(name).suffix.lower()
    if format is None:
        message = f"Files of type {ending[:20]!r} are not supported. Use {', '.join(FORMATS)}."
        raise ApiError(400, message, "file")
    return OpenDocument(ending, read_document(data, format, ReadOptions(name, IGNORED_TAGS)))


async def translate_document(opened: OpenDocument, translation: TextTranslation) -> bytes:
    """The translated document; some texts at a time, so that they do not fill the queue."""
    sources = [text.text for text in opened.document.texts]
    markup: Markup | None = "xml" if opened.document.has_markup else None  # of parsed blocks
    texts: list[str] = []
    for start in range(0, len(sources), _LINES):
        texts += await translation.translate(sources[start : start + _LINES], markup)
    return await asyncio.to_thread(opened.document.write, texts, translation.language)


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
        # Documents can be large in memory, so they are read one at a time.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="documents")

    async def read(self, name: str, file: UploadFile) -> OpenDocument:
        """Read an uploaded document in the format of this name."""
        loop, data = asyncio.get_running_loop(), await file.read()
        return await loop.run_in_executor(self._reader, open_document, name, data)

    def start(self, document: OpenDocument, translation: TextTranslation) -> tuple[str, str]:
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
        job = asyncio.create_task(self._run(state, document, translation))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return identifier, key

    async def _run(
        self, state: DocumentState, document: OpenDocument, translation: TextTranslation
    ) -> None:
        """Translate a document, and note how it went."""
        await asyncio.to_thread(self._write, replace(state, status="translating"))
        try:
            async with asyncio.timeout(self._deadline):
                translated = await translate_document(document, translation)
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
        state = DocumentState(**_READER.read_object(path))
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
