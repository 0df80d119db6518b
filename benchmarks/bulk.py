"""Speed of bulk translation, text in and text out: `regard translate` and its peers.

    python benchmarks/bulk.py --model runs/multi30k-en-de --text multi30k/train.en
    python benchmarks/bulk.py --device cuda --lines 1000000 --peer-lines 32768 ...
    python benchmarks/bulk.py ... --timeline    # what the main process of regard does
    python benchmarks/bulk.py ... --timeline --echo --workers 2     # the same without a search

The lines of `--text` are repeated with one word exchanged until there are `--lines`. Each system
reads them from standard input and writes translations to standard output, in rounds that are
interleaved. Loading the model is not timed, everything else is. Words are those of the source,
separated by spaces. Slow peers get only the first `--peer-lines`.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch

import comparison
import machine
from comparison import Round, SystemResult, UnavailableError
from decoders.registry import BACKEND_OPTIONS
from decoding_corpus import DecodingCorpus
from pages import fill
from peers.process import environment, last_line, run_command
from regard.decoding.backend import BatchLimit, Hypothesis, IdPair, Request, SearchResult
from regard.decoding.config import SearchConfig
from regard.decoding.runtime import GPU_WINDOW
from regard.pipelines.text_stream import default_workers
from regard.pipelines.translator import Translator

PAGE = Path("docs/results/benchmarks.md")
WORK = Path("build/bench/bulk")
SEARCHES = {"greedy": (1, 0.0), "beam 4": (4, 0.0), "beam 4, patience 1": (4, 1.0)}
# By device: variants of regard, and peers with their variants.
OURS = {"cpu": ["ctranslate2 int8"], "cuda": ["torch"]}
PEERS = {
    "cpu": [("ctranslate2", "int8")],
    "cuda": [("huggingface", ""), ("ctranslate2", "float16")],
}


@dataclass
class BulkSystem:
    """A command that translates standard input, and whose last message gives the seconds."""

    name: str
    is_peer: bool
    command: Sequence[str]
    text: Path
    out: Path
    threads: int

    def round(self) -> Round:
        """Translate the text once."""
        log = self.out.with_suffix(".log")
        with self.text.open() as lines, self.out.open("w") as target, gpu_utilization() as gpu:
            begin = time.perf_counter()
            memory = run_command(
                [sys.executable, *self.command],
                log,
                environment(self.threads),
                stdin=lines,
                stdout=target,
            )
            wall = time.perf_counter() - begin
        match = re.search(r"lines in ([\d.]+) s", last_line(log))
        source = self.text.read_text(encoding="utf-8").splitlines()
        translations = self.out.read_text(encoding="utf-8").split("\n")
        if match is None or len(translations) != len(source) + 1:
            raise UnavailableError(f"incomplete output: {last_line(log)}")
        words = sum(len(line.split()) for line in source)
        metrics = {"lines": float(len(source)), "wall": wall}
        metrics |= {"gpu": statistics.fmean(gpu)} if gpu else {}
        return Round(words, float(match[1]), memory, metrics)


@contextmanager
def gpu_utilization() -> Iterator[list[float]]:
    """Samples of the GPU's utilization in percent; complete after the block."""
    samples: list[float] = []
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        sampler = subprocess.Popen([*command, "-lms", "200"], stdout=subprocess.PIPE, text=True)
    except OSError:  # no GPU
        yield samples
        return
    try:
        yield samples
    finally:
        sampler.terminate()
        output, _ = sampler.communicate()
        samples += [float(line) for line in output.split() if line.replace(".", "").isdigit()]


def main() -> None:
    """Measure all searches, and print a table for each."""
    options = _options()
    WORK.mkdir(parents=True, exist_ok=True)
    lines = [*varied_lines(options.text, options.lines)]
    text, short = write_lines(lines, "all"), write_lines(lines[: options.peer_lines], "first")
    if options.timeline:
        print(timeline(options.model, text, options))
        return
    corpus = DecodingCorpus(lines[:100], lines[:100], options.model, WORK, options.device)
    problem = corpus.export()
    parts = [_about(options, lines)]
    for name in options.searches:
        systems = _systems(name, corpus, options, text, short)
        if problem is not None:
            systems = [system for system in systems if "CTranslate2" not in system.name]

        def on_round(result: SystemResult, results: Sequence[SystemResult]) -> None:
            print(comparison.progress_line(result, "words"), flush=True)

        results = comparison.run_interleaved(systems, options.rounds, on_round)
        columns = {"lines/s": _lines_per_second, "with loading, s": _metric("wall", ".1f")}
        if options.device == "cuda":
            columns["GPU utilization"] = _metric("gpu", ".0f")
        parts += [f"**{name.capitalize()}.**", comparison.table(results, "words", columns)]
    print("\n\n".join(parts))
    if options.write:
        fill(PAGE, f"bulk-{options.device}", "\n\n".join(parts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="source text files")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--peer-lines", type=int, help="lines for PyTorch peers; default: all")
    parser.add_argument("--searches", nargs="+", choices=list(SEARCHES), default=[*SEARCHES])
    parser.add_argument("--batch-size", type=int, help="of peers; default: the best for each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--timeline", action="store_true", help="profile regard's main process")
    parser.add_argument("--echo", action="store_true", help="profile it without a search")
    parser.add_argument("--workers", type=int, help="tokenizing processes of the profile")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/")
    return parser.parse_args()


def varied_lines(files: Sequence[Path], count: int) -> Iterator[str]:
    """The lines of all files, repeated with a random word replaced by one of another line."""
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    draw = random.Random(1)
    for number in range(count):
        words = lines[number % len(lines)].split()
        others = draw.choice(lines).split()
        if number >= len(lines) and words and others:
            words[draw.randrange(len(words))] = draw.choice(others)
        yield " ".join(words)


def write_lines(lines: Sequence[str], name: str) -> Path:
    """Write lines to a file for the systems."""
    path = WORK / f"{name}.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _systems(
    search: str, corpus: DecodingCorpus, options: argparse.Namespace, text: Path, short: Path
) -> list[BulkSystem]:
    beam_size, patience = SEARCHES[search]
    task = corpus.task(beam_size, patience, batch_size=options.batch_size)
    path = WORK / "task.json"
    task.write(path)
    given = ["--beam-size", str(beam_size), *(["--patience", str(patience)] if patience else [])]
    command = ["-m", "regard", "translate", str(options.model), "--device", options.device, *given]
    systems = [
        BulkSystem(
            f"regard, {variant}",
            False,
            [*command, *BACKEND_OPTIONS[variant]],
            text,
            WORK / f"regard {variant}.out",
            options.threads,
        )
        for variant in OURS[options.device]
    ]
    names = {"ctranslate2": "CTranslate2", "huggingface": "HuggingFace"}
    for module, variant in PEERS[options.device]:
        peer = ["-m", "decoders.bulk", module, variant, str(path)]
        lines = short if module == "huggingface" else text
        name = f"{names[module]} {variant}".rstrip()
        out = WORK / f"{module}.out"
        systems.append(BulkSystem(name, True, peer, lines, out, options.threads))
    return systems


def _lines_per_second(result: SystemResult) -> str:
    speeds = (round_.metrics["lines"] / round_.seconds for round_ in result.valid_rounds)
    return f"{statistics.median(speeds):,.0f}"


def _metric(name: str, spec: str) -> comparison.Column:
    def cell(result: SystemResult) -> str:
        values = [r.metrics[name] for r in result.valid_rounds if name in r.metrics]
        return format(statistics.median(values), spec) if values else ""

    return cell


def _about(options: argparse.Namespace, lines: Sequence[str]) -> str:
    hardware = machine.describe(options.device)
    words = sum(len(line.split()) for line in lines)
    return (
        f"{hardware['device']}, {hardware['cores']} cores; {len(lines):,} lines, {words:,} words."
    )


class EchoBackend:
    """Returns the source as the translation, which takes no time: what is left is the host's."""

    max_length: int | None = None
    device: torch.device | None = None
    window = GPU_WINDOW

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        """As on a GPU."""
        return BatchLimit(256)

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        """A hypothesis per request."""
        requests = (request for batch in batches for request in batch)
        for number, request in enumerate(requests):
            yield SearchResult(number, [Hypothesis(request.source, -1.0, -1.0)])

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """Zeros."""
        return [[0.0] * (len(target) + 1) for _, target in pairs]


def timeline(model: Path, text: Path, options: argparse.Namespace) -> str:
    """Shares of the time of the main thread by function of regard, from samples of its stack."""
    translator = Translator.load(model, device=options.device)
    if options.echo:
        translator.backend = EchoBackend()
    beam_size, _ = SEARCHES[options.searches[0]]
    workers = default_workers(translator.backend.device)
    workers = workers if options.workers is None else options.workers
    lines = text.read_text(encoding="utf-8").splitlines()
    stream = translator.translate_iterable(
        lines, beam_size=beam_size, scores=False, workers=workers
    )
    next(stream)  # starts the workers
    begin, processor = time.perf_counter(), time.process_time()
    with stack_samples() as samples:
        count = sum(1 for _ in stream)
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    total = sum(samples.values())
    rows = [f"| {name} | {100 * n / total:.1f} % |" for name, n in samples.most_common(20)]
    head = (
        f"{count:,} lines in {seconds:.1f} s with {workers} workers; processor time of the main "
        f"process {1e6 * processor / count:.1f} us per line."
    )
    return "\n".join([head, "", "| function | time |", "|---|---|", *rows])


@contextmanager
def stack_samples() -> Iterator[Counter[str]]:
    """Counts of the innermost function of regard in the main thread, every two milliseconds."""
    samples: Counter[str] = Counter()
    thread = threading.main_thread().ident
    stopped = threading.Event()

    def sample() -> None:
        while not stopped.wait(0.002):
            samples[_innermost(sys._current_frames().get(thread or 0))] += 1

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield samples
    finally:
        stopped.set()
        sampler.join()


def _innermost(frame: FrameType | None) -> str:
    """The innermost function of regard, or of this program."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if "regard" in path.parts:
            return f"{path.stem}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "other"


if __name__ == "__main__":
    main()
