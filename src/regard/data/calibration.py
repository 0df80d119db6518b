"""The calibration of confidences: maps that `regard calibrate` fitted on validation data.

`calibration.json` in a model folder belongs to the weights beside it: their digest is stored with
it. The calibration of an ensemble is a file of its own. This module does not import PyTorch.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

from regard.bounds import COUNT, Ge, Le
from regard.config import Doc, Settings
from regard.data.model_text import weights_file
from regard.errors import ModelError
from regard.files import write_json
from regard.regular_files import file_digest
from regard.schema import JsonReader
from regard.settings_tree import to_tree

CALIBRATION = "calibration.json"
FORMAT = 1
BINS = 10  # of equal width, in calibration curves
_CERTAIN = 1e-6  # probabilities are kept this far from 0 and 1
_CTRANSLATE2_MODEL = "ctranslate2/model.bin"
_LOWEST, _HIGHEST = Ge(0.01), Le(100)  # temperatures


@dataclass(frozen=True)
class PlattScaling(Settings):
    """Temperature scaling of log-odds, with a bias: p -> sigmoid(logit(p) / temperature + bias)."""

    temperature: Annotated[float, Doc("divides log-odds"), _LOWEST, _HIGHEST] = 1.0
    bias: Annotated[float, Doc("added to the scaled log-odds"), Ge(-100), Le(100)] = 0.0

    def __call__(self, probability: float) -> float:
        """The calibrated probability."""
        return sigmoid(logit(probability) / self.temperature + self.bias)


def logit(probability: float) -> float:
    """The log-odds of a probability, which is kept away from 0 and 1."""
    probability = min(max(probability, _CERTAIN), 1 - _CERTAIN)
    return math.log(probability / (1 - probability))


def sigmoid(x: float) -> float:
    """The logistic function."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


@dataclass(frozen=True)
class CalibrationCurve(Settings):
    """Confidence and accuracy in bins of confidence, of equal width from 0 to 1."""

    counts: Annotated[tuple[int, ...], Ge(0), COUNT]
    confidence: Annotated[tuple[float, ...], Doc("mean in each bin"), Ge(0), Le(1)]
    accuracy: Annotated[tuple[float, ...], Doc("mean in each bin"), Ge(0), Le(1)]
    nll: Annotated[float, Doc("mean negative log-likelihood"), Ge(0), Le(1e6)]

    def problems(self) -> Iterator[str]:
        """All three have a number for each bin."""
        if {len(self.counts), len(self.confidence), len(self.accuracy)} != {BINS}:
            yield f"counts, confidence and accuracy must have {BINS} numbers each"

    @property
    def ece(self) -> float:
        """The expected calibration error: mean |confidence - accuracy| of the bins, by count."""
        bins = zip(self.counts, self.confidence, self.accuracy, strict=True)
        total = sum(count * abs(confidence - accuracy) for count, confidence, accuracy in bins)
        return total / max(1, sum(self.counts))


@dataclass(frozen=True)
class CurvePair(Settings):
    """The calibration curves of the same events before and after calibration."""

    before: CalibrationCurve
    after: CalibrationCurve


class CalibratedLevel(NamedTuple):
    """The curves of tokens, words or sentences, and the parameters that were fitted to them."""

    name: str
    curves: CurvePair
    temperature: float | None = None
    bias: float | None = None


@dataclass(frozen=True)
class Calibration(Settings):
    """The content of `calibration.json`."""

    format: Annotated[int, Ge(FORMAT), Le(FORMAT)]
    weights: str  # the SHA-256 of the weights
    word_scaling: PlattScaling  # from word probabilities to confidences
    words: CurvePair
    sentences: CurvePair
    # None: not fitted, for lack of logits.
    token_temperature: Annotated[float | None, Doc("divides logits"), _LOWEST, _HIGHEST] = None
    tokens: CurvePair | None = None

    @property
    def levels(self) -> list[CalibratedLevel]:
        """What was calibrated: tokens, if their logits were available, words, and sentences."""
        scaling = self.word_scaling
        levels = [
            CalibratedLevel("words", self.words, scaling.temperature, scaling.bias),
            CalibratedLevel("sentences", self.sentences),
        ]
        if self.tokens is not None:
            levels.insert(0, CalibratedLevel("tokens", self.tokens, self.token_temperature))
        return levels

    def write(self, path: Path) -> None:
        """Write it to a file."""
        write_json(path, to_tree(self))

    def for_weights_of(self, folder: Path) -> Calibration:
        """The same calibration for an export of the model."""
        return replace(self, weights=weights_digest(folder))


def weights_digest(*folders: Path) -> str:
    """The digest of the weights of a model or an export to CTranslate2, or of an ensemble."""
    exports = [folder / _CTRANSLATE2_MODEL for folder in folders]
    digests = sorted(
        file_digest(export if export.is_file() else weights_file(folder))
        for folder, export in zip(folders, exports, strict=True)
    )
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


def read_calibration(folder: Path) -> Calibration | None:
    """The calibration of a model folder, if it has one; raises an error if it is for others."""
    path = folder / CALIBRATION
    if not path.is_file():
        return None
    return read_calibration_file(path, [folder], f"regard calibrate {folder}")


def read_calibration_file(
    path: Path, folders: Sequence[Path] = (), command: str = ""
) -> Calibration:
    """The calibration in a file; raises an error if it is for others than the models in `folders`.

    `command` is that which writes the file.
    """
    names = " ".join(map(str, folders))
    command = command or f"regard calibrate {names or 'MODEL...'} --out {path}"
    remedy = f"Run `{command}` again, or delete the file."
    calibration, _ = JsonReader(ModelError, remedy).read_versioned(Calibration, path, FORMAT)
    if folders and calibration.weights != weights_digest(*folders):
        raise ModelError(f"{path} belongs to other weights than those in {names}. {remedy}")
    return calibration
