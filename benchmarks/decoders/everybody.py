"""Everybody who may take part in decoding, and how each is run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from decoders.contestants import CommandRun, DecoderRun, Judge
from exercise import Exercise
from peers import eole, fairseq, joeynmt, opennmt, sockeye
from peers.process import BENCHMARKS, Worker, environment
from peers.toolkit import Toolkit


@dataclass(frozen=True)
class Decoder:
    """A file of this folder in one of its forms."""

    name: str
    module: str
    form: str = ""
    toolkit: Toolkit | None = None  # whose Python runs it; None: ours

    @property
    def rival(self) -> bool:
        """Whether it is not regard."""
        return self.module != "ours"

    def run(
        self, exercise: Path, judge: Judge, threads: int, *, kept: bool, absence: str | None
    ) -> DecoderRun:
        """As a contestant whose loading is not counted."""
        python, chosen = sys.executable, environment(threads)
        if self.toolkit is not None:
            python = str(self.toolkit.home.resolve() / "bin" / "python")
            chosen["PYTHONPATH"] = str(BENCHMARKS)  # nothing else of ours is their business
            absence = self.toolkit.absence()
        worker = Worker(
            self.name,
            [python, "-m", "decoders.worker", self.module, self.form, str(exercise)],
            rival=self.rival,
            log=exercise.with_name(f"{self.module} {self.form}.log"),
            environment=chosen,
            kept=kept,
        )
        return DecoderRun(worker, judge, absence=absence)

    def command(
        self, exercise: Path, text: Path, judge: Judge, threads: int, *, absence: str | None
    ) -> CommandRun:
        """As a contestant that begins with nothing loaded."""
        if self.rival:
            command = ["-m", "decoders.command", self.module, self.form, str(exercise)]
        else:
            command = ["-m", "regard", "translate", *self._options(Exercise.read(exercise))]
        return CommandRun(
            self.name,
            [sys.executable, *command],
            rival=self.rival,
            text=text,
            judge=judge,
            log=exercise.with_name(f"{self.module} {self.form} command.log"),
            environment=environment(threads),
            absence=absence,
        )

    def _options(self, exercise: Exercise) -> Sequence[str]:
        search = ["--beam-size", str(exercise.beam_size), "--patience", str(exercise.patience)]
        return [str(exercise.folder), "--device", exercise.device, *search, *ENGINES[self.form]]


ENGINES: Mapping[str, Sequence[str]] = {  # our forms, and how the command is told of them
    "torch": ["--engine", "torch"],
    "torch bfloat16": ["--engine", "torch", "--precision", "bfloat16"],
    "ctranslate2 float32": ["--engine", "ctranslate2", "--precision", "float32"],
    "ctranslate2 int8": ["--engine", "ctranslate2", "--precision", "int8"],
}
_TORCH = Decoder("regard, torch", "ours", "torch")
OURS = {
    "cpu": [
        _TORCH,
        Decoder("regard, torch bfloat16", "ours", "torch bfloat16"),
        Decoder("regard, ctranslate2", "ours", "ctranslate2 float32"),
        Decoder("regard, ctranslate2 int8", "ours", "ctranslate2 int8"),
    ],
    "cuda": [_TORCH],
}
LIBRARIES = {
    "ctranslate2": [
        Decoder("CTranslate2", "ctranslate2", "float32"),
        Decoder("CTranslate2 int8", "ctranslate2", "int8"),
    ],
    "huggingface": [Decoder("HuggingFace", "huggingface")],
    "huggingface-static": [Decoder("HuggingFace, static cache", "huggingface", "static")],
}
TOOLKITS = {
    name: [Decoder(toolkit.name, name, toolkit=toolkit)]
    for name, toolkit in {
        "opennmt": opennmt.TOOLKIT,
        "fairseq": fairseq.TOOLKIT,
        "eole": eole.TOOLKIT,
        "sockeye": sockeye.TOOLKIT,
        "joeynmt": joeynmt.TOOLKIT,
    }.items()
}
# Who takes part if nobody is named; a static cache compiles on a GPU, which takes minutes.
RIVALS = {"cpu": ["ctranslate2", "huggingface", *TOOLKITS], "cuda": ["huggingface"]}
ON_GPU = ["huggingface", "huggingface-static"]
