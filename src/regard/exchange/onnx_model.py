"""A model in an ONNX folder, for all our searches: onnxruntime runs its two graphs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.cache import Some
from regard.config import Settings
from regard.data.ragged import Ragged
from regard.errors import ModelError
from regard.exchange.digests import verify_digests
from regard.exchange.onnx import DECODER, DESCRIPTION, ENCODER, FORMAT, names
from regard.exchange.onnx_graphs import PLACES
from regard.exchange.requirements import need
from regard.models.folder import ModelFolder
from regard.models.transformer import TransformerConfig
from regard.regular import open_regular
from regard.schema import JsonReader

_READER = JsonReader(ModelError, "Export the model again, or update regard.")


@dataclass(frozen=True)
class _Description(Settings):
    """The fields of `onnx.json`."""

    format: int


def is_onnx(folder: Path) -> bool:
    """Whether a folder says that it is an ONNX one."""
    return (folder / DESCRIPTION).is_file()


@dataclass
class OnnxState:
    """Keys and values of each layer, for W beams of B sentences."""

    lengths: Tensor  # (B,) of the sources
    memory: list[Tensor]  # (B, H, S, d)
    past: list[Tensor]  # (B, W, H, T, d)

    def reach(self, places: int, *, exact: bool) -> None:
        """A step looks at all of its past, which is no longer than it must be."""

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        firsts = torch.arange(len(parents))[:, None] * parents.shape[1]
        rows = (firsts + parents).flatten()
        self.past = [
            part.flatten(0, 1).index_select(0, rows).view(part.shape) for part in self.past
        ]

    def select(self, sentences: Some) -> OnnxState:
        """Some sentences alone."""
        memory, past = ([part[sentences] for part in parts] for parts in (self.memory, self.past))
        return OnnxState(self.lengths[sentences], memory, past)


class OnnxModel:
    """Writes one token after another, on the CPU; see `regard.models.protocol.Autoregressive`."""

    can_be_recorded = False
    start_can_be_recorded = False

    def __init__(self, path: Path, folder: ModelFolder | None = None) -> None:
        """The model that `write_onnx` wrote; its description, if that is read already, is taken."""
        need("onnxruntime", extra="onnx")
        if not is_onnx(path):
            raise ModelError(
                f"{path} is not an ONNX folder: it has no {DESCRIPTION}. "
                "Write one with: regard export MODEL --to onnx"
            )
        _READER.versioned(_Description, path / DESCRIPTION, FORMAT)
        verify_digests(path)
        config = (folder or ModelFolder.read(path)).config
        assert isinstance(config, TransformerConfig), "nothing else is written"
        self.config, layers = config, config.decoder_layers
        self._memory, self._past = names("memory", layers), names("past", layers)
        self._encoder = _session(path / ENCODER, ["tokens", "lengths"], self._memory)
        steps = ["tokens", "lengths", *self._memory, *self._past]
        self._decoder = _session(path / DECODER, steps, ["logits", *names("present", layers)])

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> OnnxState:
        """A state for the source sentences; a past grows, so it needs no room."""
        lengths = source.lengths.lengths
        tokens = source.lengths.pad(source.tokens)
        memory = _run(self._encoder, {"tokens": tokens, "lengths": lengths})
        shapes = [(len(part), beams, part.shape[1], 0, part.shape[3]) for part in memory]
        return OnnxState(lengths, memory, [torch.empty(shape) for shape in shapes])

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The start mark for each beam. (B, W)"""
        return torch.full((sentences, beams), self.config.start_mark)

    def step(self, tokens: Tensor, state: OnnxState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V); the state moves on."""
        inputs = {"tokens": tokens, "lengths": state.lengths}
        inputs |= zip(self._memory, state.memory, strict=True)
        inputs |= zip(self._past, state.past, strict=True)
        logits, *state.past = _run(self._decoder, inputs)
        return logits

    @property
    def max_length(self) -> int | None:
        """The longest sentence that the positions allow; None: any."""
        limits = {"learned": self.config.max_positions, "sinusoidal": PLACES}
        return limits.get(self.config.positions)


def _run(session: Any, inputs: dict[str, Tensor]) -> list[Tensor]:
    """Tensors in, tensors out, by name and in order."""
    found = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    return [torch.from_numpy(array) for array in found]


def _session(path: Path, inputs: list[str], outputs: list[str]) -> Any:
    """A graph that is ready to run, with as many threads as PyTorch takes."""
    import onnxruntime

    open_regular(path).close()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    try:
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    except Exception as error:  # each kind of damage has a class of its own
        raise ModelError(f"{path} cannot be read ({error}). Export the model again.") from None
    found = [one.name for one in session.get_inputs()], [one.name for one in session.get_outputs()]
    if ({*found[0]}, found[1]) != ({*inputs}, outputs):
        raise ModelError(
            f"{path} is another graph: it has the inputs {', '.join(found[0][:3])} and the outputs "
            f"{', '.join(found[1][:3])}. Export the model again."
        )
    return session
