"""A model in an ONNX folder, run by onnxruntime, for use with all search methods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.cache import Indices
from regard.config import Settings
from regard.data.ragged import Ragged
from regard.errors import ModelError
from regard.exchange.digests import verify_digests
from regard.exchange.onnx import DECODER, DESCRIPTION, ENCODER, FORMAT, kv_names
from regard.exchange.onnx_graphs import MAX_POSITIONS
from regard.exchange.requirements import require_packages
from regard.models.folder import ModelFolder
from regard.models.transformer import TransformerConfig
from regard.regular_files import open_regular_file
from regard.schema import JsonReader

_READER = JsonReader(ModelError, "Export the model again, or update regard.")


@dataclass(frozen=True)
class _Description(Settings):
    """The fields of `onnx.json`."""

    format: int


def is_onnx(folder: Path) -> bool:
    """Whether a folder is an ONNX export."""
    return (folder / DESCRIPTION).is_file()


@dataclass
class OnnxState:
    """KV caches of each layer, for W beams of B sentences."""

    lengths: Tensor  # (B,) of the sources
    cross: list[Tensor]  # (B, H, S, d)
    past: list[Tensor]  # (B, W, H, T, d)

    def reserve(self, length: int, *, exact: bool) -> None:
        """Do nothing: the past grows with each step."""

    def reorder(self, parents: Tensor) -> None:
        """Replace each beam by a parent beam of its sentence. (B, W)"""
        first_rows = torch.arange(len(parents))[:, None] * parents.shape[1]
        rows = (first_rows + parents).flatten()
        self.past = [
            part.flatten(0, 1).index_select(0, rows).view(part.shape) for part in self.past
        ]

    def select(self, sentences: Indices) -> OnnxState:
        """Select sentences of the batch."""
        cross, past = ([part[sentences] for part in parts] for parts in (self.cross, self.past))
        return OnnxState(self.lengths[sentences], cross, past)


class OnnxModel:
    """An autoregressive model on the CPU; see `regard.models.protocol.Autoregressive`."""

    step_capturable = False
    start_capturable = False
    scoring_unsupported_reason = (
        "Models exported to ONNX cannot score given translations. Use the model that was exported."
    )

    def __init__(self, path: Path, folder: ModelFolder | None = None) -> None:
        """Load a model written by `export_onnx`; folder: its description, if read already."""
        require_packages("onnxruntime", extra="onnx")
        if not is_onnx(path):
            raise ModelError(
                f"{path} is not an ONNX folder: it has no {DESCRIPTION}. "
                "Write one with: regard export MODEL --to onnx"
            )
        _READER.read_versioned(_Description, path / DESCRIPTION, FORMAT)
        verify_digests(path)
        config = (folder or ModelFolder.read(path)).config
        assert isinstance(config, TransformerConfig), "other models cannot be exported"
        self.config, layers = config, config.num_decoder_layers
        self._cross, self._past = kv_names("memory", layers), kv_names("past", layers)
        self._encoder = _load_session(path / ENCODER, ["tokens", "lengths"], self._cross)
        steps = ["tokens", "lengths", *self._cross, *self._past]
        self._decoder = _load_session(
            path / DECODER, steps, ["logits", *kv_names("present", layers)]
        )

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> OnnxState:
        """Encode source sentences; capacity has no effect, as the past grows with each step."""
        lengths = source.lengths.lengths
        tokens = source.lengths.pad(source.tokens)
        cross = _run_graph(self._encoder, {"tokens": tokens, "lengths": lengths})
        shapes = [(len(part), beams, part.shape[1], 0, part.shape[3]) for part in cross]
        return OnnxState(lengths, cross, [torch.empty(shape) for shape in shapes])

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """Return the decoder start token of each beam. (B, W)"""
        return torch.full((sentences, beams), self.config.decoder_start_id)

    def step(self, tokens: Tensor, state: OnnxState) -> Tensor:
        """Read a token per beam, update the state, and return next-token logits. -> (B, W, V)"""
        inputs = {"tokens": tokens, "lengths": state.lengths}
        inputs |= zip(self._cross, state.cross, strict=True)
        inputs |= zip(self._past, state.past, strict=True)
        logits, *state.past = _run_graph(self._decoder, inputs)
        return logits

    @property
    def max_length(self) -> int | None:
        """The maximum sequence length; None: unlimited."""
        limits = {"learned": self.config.max_positions, "sinusoidal": MAX_POSITIONS}
        return limits.get(self.config.positional_encoding)


def _run_graph(session: Any, inputs: dict[str, Tensor]) -> list[Tensor]:
    """Run a graph; return its outputs in order."""
    outputs = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    return [torch.from_numpy(array) for array in outputs]


def _load_session(path: Path, inputs: list[str], outputs: list[str]) -> Any:
    """Load a graph, to run with PyTorch's number of threads, and check its inputs and outputs."""
    import onnxruntime

    open_regular_file(path).close()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    try:
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common base class
        raise ModelError(f"{path} cannot be read ({error}). Export the model again.") from None
    actual_inputs = [tensor.name for tensor in session.get_inputs()]
    actual_outputs = [tensor.name for tensor in session.get_outputs()]
    if ({*actual_inputs}, actual_outputs) != ({*inputs}, outputs):
        raise ModelError(
            f"{path} has other inputs ({', '.join(actual_inputs[:3])}) or outputs "
            f"({', '.join(actual_outputs[:3])}) than its description. Export the model again."
        )
    return session
