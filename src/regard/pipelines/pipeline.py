"""The base class of inference pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from regard.decoding.backend import DEFAULT_BATCH_SIZE, refuse_bad_batch_size
from regard.decoding.runtime import default_window
from regard.devices import resolve_device
from regard.models.folder import ModelFolder, load_model, read_folder_for_task
from regard.pipelines.codec import Codec
from regard.pipelines.text_stream import Remarked, TextStream, model_stage

I = TypeVar("I")  # noqa: E741  # inputs
X = TypeVar("X")  # items
Y = TypeVar("Y")  # outputs
R = TypeVar("R")  # results


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

    def text_stream(
        self,
        codec: Codec[I, X, Y, Remarked[R]],
        run_batch: Callable[[list[X]], Iterable[Y]],
        length: Callable[[X], int],
        batch_size: int | None,
    ) -> TextStream[I, X, Y, R]:
        """A stream from texts to results; `run_batch` runs the model on items of similar length."""
        refuse_bad_batch_size(batch_size)
        stage = model_stage(run_batch, length, batch_size or DEFAULT_BATCH_SIZE)
        return TextStream(codec, stage, default_window(self.model.device))
