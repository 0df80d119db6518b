"""Registry of the decoders, with their commands."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from decoders.runners import CommandRunner, DecoderRunner, Evaluator
from decoding_task import DecodingTask
from peers import eole, fairseq, joeynmt, opennmt, sockeye
from peers.process import BENCHMARKS, Worker, environment
from peers.toolkit import Toolkit


@dataclass(frozen=True)
class Decoder:
    """A variant of a decoder module of this package."""

    name: str
    module: str
    variant: str = ""
    toolkit: Toolkit | None = None  # whose environment runs it; None: this one

    @property
    def is_peer(self) -> bool:
        """Whether it is another system than regard."""
        return self.module != "ours"

    def run(
        self,
        task: Path,
        evaluator: Evaluator,
        threads: int,
        *,
        persistent: bool,
        problem: str | None,
    ) -> DecoderRunner:
        """A runner of a worker process; loading is not timed."""
        python, variables = sys.executable, environment(threads)
        if self.toolkit is not None:
            python = str(self.toolkit.home.resolve() / "bin" / "python")
            variables["PYTHONPATH"] = str(BENCHMARKS)  # the environment does not contain regard
            problem = self.toolkit.problem()
        worker = Worker(
            self.name,
            [python, "-m", "decoders.worker", self.module, self.variant, str(task)],
            is_peer=self.is_peer,
            log=task.with_name(f"{self.module} {self.variant}.log"),
            environment=variables,
            persistent=persistent,
        )
        return DecoderRunner(worker, evaluator, problem=problem)

    def command(
        self, task: Path, text: Path, evaluator: Evaluator, threads: int, *, problem: str | None
    ) -> CommandRunner:
        """A runner of a translation command, including loading."""
        if self.is_peer:
            command = ["-m", "decoders.command", self.module, self.variant, str(task)]
        else:
            command = ["-m", "regard", "translate", *self._options(DecodingTask.read(task))]
        return CommandRunner(
            self.name,
            [sys.executable, *command],
            is_peer=self.is_peer,
            text=text,
            evaluator=evaluator,
            log=task.with_name(f"{self.module} {self.variant} command.log"),
            environment=environment(threads),
            problem=problem,
        )

    def _options(self, task: DecodingTask) -> Sequence[str]:
        search = ["--beam-size", str(task.beam_size), "--patience", str(task.patience)]
        return [str(task.folder), "--device", task.device, *search, *BACKEND_OPTIONS[self.variant]]


BACKEND_OPTIONS: Mapping[str, Sequence[str]] = {  # command options of regard's variants
    "torch": ["--backend", "torch"],
    "torch bfloat16": ["--backend", "torch", "--precision", "bfloat16"],
    "ctranslate2 float32": ["--backend", "ctranslate2", "--precision", "float32"],
    "ctranslate2 int8": ["--backend", "ctranslate2", "--precision", "int8"],
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
# Peers by default; a static cache is compiled on a GPU, which takes minutes.
DEFAULT_PEERS = {"cpu": ["ctranslate2", "huggingface", *TOOLKITS], "cuda": ["huggingface"]}
ON_GPU = ["huggingface", "huggingface-static"]
