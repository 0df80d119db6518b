"""What all inference pipelines share: how a model folder is loaded, and which texts are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.devices import device_named
from regard.errors import ConfigError, DataError
from regard.models.folder import ModelFolder, load_model, refuse_other_task

Notice = Callable[[str], None]


class Pipeline:
    """A model, its tokenizers and its description: the base of a plugin's pipeline."""

    task: ClassVar[str | None] = None  # whose models it takes; None: any
    purpose: ClassVar[tuple[str, ...]] = ("can be loaded here",)  # of these, and a preset for one
    model: Any

    def __init__(self, path: Path, folder: ModelFolder, model: Any) -> None:
        self.path, self.folder, self.model = path, folder, model

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> Self:
        """Read a model folder; one of another task is refused."""
        path = Path(folder)
        described = refuse_other_task(path, cls.task, *cls.purpose) if cls.task else None
        return cls(path, *load_model(path, device_named(device), described))


def refuse_one_text(texts: Sequence[object]) -> None:
    """A string would be taken for a list of letters, and bytes for a list of numbers."""
    if isinstance(texts, str | bytes):
        raise ConfigError('A list of texts is needed, not one text: write ["..."].')
    if not isinstance(texts, Iterable):
        raise ConfigError(f"A list of texts is needed, not {type(texts).__name__}.")


def checked_texts(texts: Sequence[str], what: str = "Text") -> list[str]:
    """The texts as a list; refused, by their number, where one is no text that can be encoded."""
    refuse_one_text(texts)
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ConfigError(
                f"{what} {number} is of type {type(text).__name__}, not str. Decode it."
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{what} {number} has half a surrogate pair, which is no character."
            ) from None
    return texts
