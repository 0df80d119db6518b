"""The base class of inference pipelines, and the validation of input texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.devices import resolve_device
from regard.errors import ConfigError, DataError
from regard.models.folder import ModelFolder, load_model, read_folder_for_task

Notice = Callable[[str], None]


class Pipeline:
    """A model with its tokenizers and folder; plugins inherit from it."""

    task: ClassVar[str | None] = None  # of the models that it accepts; None: any
    purpose: ClassVar[tuple[str, ...]] = (
        "can be loaded here",
    )  # for errors, with an example preset
    model: Any

    def __init__(self, path: Path, folder: ModelFolder, model: Any) -> None:
        self.path, self.folder, self.model = path, folder, model

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> Self:
        """Load a model folder; raises an error if the model has another task."""
        path = Path(folder)
        description = read_folder_for_task(path, cls.task, *cls.purpose) if cls.task else None
        return cls(path, *load_model(path, resolve_device(device), description))


def refuse_single_text(texts: Sequence[object]) -> None:
    """Raise an error for a single string or bytes, which would be read as a list of characters."""
    if isinstance(texts, str | bytes):
        raise ConfigError('A list of texts is required, not a single text: pass ["..."].')
    if not isinstance(texts, Iterable):
        raise ConfigError(f"A list of texts is required, not {type(texts).__name__}.")


def checked_texts(texts: Sequence[str], label: str = "Text") -> list[str]:
    """The texts as a list; raises an error with the number of the first invalid text."""
    refuse_single_text(texts)
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ConfigError(
                f"{label} {number} is of type {type(text).__name__}, not str. Decode it."
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{label} {number} contains an unpaired surrogate, which is not a valid character. "
                "Remove it."
            ) from None
    return texts
