"""Training speed of regard and its peers, in interleaved rounds with the same data and model.

    python benchmarks/training.py --text multi30k
    python benchmarks/training.py --device cuda --sizes base big
    python benchmarks/training.py --write       # write tables and pictures into docs/

On a CPU the corpus is Multi30k English-German (`--text` is the folder of train.en and train.de),
on a GPU sentences are synthetic. Speed is in target tokens per second, including EOS but not
padding. All systems have the same model, Adam, label smoothing and dropout, without gradient
clipping. Peers in PyTorch get identical batches; toolkits with their own loader get the same text
in the same subwords and the same number of target tokens per batch (`make bench-peers` installs
them).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import comparison
import machine
from comparison import System, SystemResult, Tree
from pages import fill
from peers import (
    eole,
    fairseq,
    huggingface,
    joeynmt,
    marian,
    opennmt,
    ours,
    plain_torch,
    sockeye,
)
from peers.process import Worker, environment
from peers.toolkit import ToolkitRunner
from regard.data.filters import CorpusFilterConfig
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import prepare
from regard.text.config import TokenizerConfig
from training_task import SIZES, Size, TrainingTask, matmul_flops, target_tokens

RESULTS = Path("benchmarks/results")
PAGE = Path("docs/results/benchmarks.md")
WORK = Path("build/bench")
PYTORCH_PEERS = {"torch": plain_torch, "huggingface": huggingface}
TOOLKITS = {
    "joeynmt": joeynmt.TOOLKIT,
    "eole": eole.TOOLKIT,
    "opennmt": opennmt.TOOLKIT,
    "fairseq": fairseq.TOOLKIT,
    "sockeye": sockeye.TOOLKIT,
    "marian": marian.TOOLKIT,
}
PEERS = {"cpu": [*PYTORCH_PEERS, *TOOLKITS], "cuda": [*PYTORCH_PEERS]}
DEFAULT_SIZES = {"cpu": ["tiny", "base"], "cuda": ["base", "big"]}
UNIT = "target tokens"
VOCABULARY = {"cpu": 8000, "cuda": 32768}
# updates of the warm-up, and of a round
UPDATES = {("cpu", "tiny"): (2, 6), ("cpu", "base"): (1, 2), ("cpu", "big"): (1, 1)}


def main() -> None:
    """Measure, or write the results into the documentation."""
    options = _options()
    if options.write:
        for device in DEFAULT_SIZES:
            path = RESULTS / f"training-{device}.json"
            if path.is_file():
                write(path, device)
        return
    path = options.results or RESULTS / f"training-{options.device}.json"
    about = _about(options)
    comparisons: dict[str, Sequence[SystemResult]] = {}
    for name in options.sizes:
        task = _task(options, name)

        def on_round(
            result: SystemResult, results: Sequence[SystemResult], name: str = name
        ) -> None:
            print(comparison.progress_line(result, UNIT), flush=True)
            comparisons[name] = results
            comparison.write_results(path, about, comparisons)

        with open_systems(task, options.peers, options.threads) as systems:
            comparison.run_interleaved(systems, options.rounds, on_round, attempts=options.attempts)
        print(f"\n{name}: {comparison.summary(comparisons[name])}\n", flush=True)
        print(_table(comparisons[name], about, name), flush=True)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), help="model sizes")
    parser.add_argument("--peers", nargs="+", choices=PEERS["cpu"], help="only these peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attempts", type=int, default=3, help="of a round under CPU pressure")
    parser.add_argument("--updates", type=int, help="timed updates per round")
    parser.add_argument("--text", type=Path, help="folder of Multi30k")
    parser.add_argument(
        "--lengths", type=int, nargs=2, default=[32, 32], help="range of synthetic lengths"
    )
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--note", default="", help="note for the documentation page")
    parser.add_argument("--results", type=Path, help="JSON file of the results")
    parser.add_argument("--write", action="store_true", help="only write tables and pictures")
    options = parser.parse_args(arguments)
    options.peers = options.peers or PEERS[options.device]
    options.sizes = options.sizes or DEFAULT_SIZES[options.device]
    if not set(options.peers) <= set(PEERS[options.device]):
        parser.error(f"the peers on a GPU are {' and '.join(PEERS['cuda'])}")
    if options.device == "cuda" and not options.write and not machine.has_gpu():
        parser.error("PyTorch finds no GPU; use --device cpu")
    return options


def _about(options: argparse.Namespace) -> Tree:
    about: Tree = {
        "commands": dict.fromkeys(options.sizes, _command(options)),
        "note": options.note,
        "machine": machine.describe(options.device),
        "threads": options.threads,
        "versions": {**machine.versions(), **_versions(options.peers)},
    }
    if options.device == "cuda":
        about["ceiling"] = machine.matmul_tflops()
        print(f"A large matrix product reaches {about['ceiling']:.0f} TFLOP/s.", flush=True)
        about["flops_per_token"] = {
            name: _flops_per_token(_task(options, name)) for name in options.sizes
        }
    return about


def _versions(peers: Sequence[str]) -> dict[str, str]:
    """The versions of the installed toolkits."""
    toolkits = [TOOLKITS[name] for name in peers if name in TOOLKITS]
    versions = {toolkit.name: toolkit.version() for toolkit in toolkits}
    return {name: version for name, version in versions.items() if version is not None}


def _command(options: argparse.Namespace) -> str:
    """The command that repeats the comparison, without local paths."""
    words = ["python benchmarks/training.py"]
    words += ["--text multi30k"] if options.device == "cpu" else ["--device cuda"]
    if options.sizes != DEFAULT_SIZES[options.device]:
        words += ["--sizes", *options.sizes]
    if options.peers != PEERS[options.device]:
        words += ["--peers", *options.peers]
    return " ".join([*words, "--rounds", str(options.rounds)])


def _flops_per_token(task: TrainingTask) -> float:
    batch = task.batches()[0]
    return matmul_flops(task.size, task.vocabulary, batch) / target_tokens(batch)


def _task(options: argparse.Namespace, name: str) -> TrainingTask:
    if options.device == "cuda":
        return _synthetic_task(SIZES[name], tuple(options.lengths), options.updates or 30)
    warmup, updates = UPDATES["cpu", name]
    store = _prepare_corpus(options.text)
    return TrainingTask(
        SIZES[name],
        "cpu",
        vocabulary=VOCABULARY["cpu"],
        batch_tokens=4096,
        warmup=warmup,
        updates=options.updates or updates,
        store=str(store),
    )


def _synthetic_task(size: Size, lengths: tuple[int, int], updates: int) -> TrainingTask:
    return TrainingTask(
        size,
        "cuda",
        vocabulary=VOCABULARY["cuda"],
        batch_tokens=25600,
        warmup=5,
        updates=updates,
        lengths=lengths,
    )


def _prepare_corpus(text: Path | None) -> Path:
    """The store of Multi30k, prepared if it does not exist."""
    folder = WORK / "multi30k"
    if (folder / "store.json").is_file():
        return folder
    if text is None or not (text / "train.en").is_file():
        sys.exit(
            "The benchmark on a CPU requires Multi30k. Give the folder of train.en and train.de "
            "with --text."
        )
    files = Files(text / "train.en", text / "train.de")
    tokenizer = TokenizerConfig(vocab_size=VOCABULARY["cpu"])
    prepare(PairReader({"train": [files]}, CorpusFilterConfig()), folder, tokenizer=tokenizer)
    return folder


@contextmanager
def open_systems(task: TrainingTask, peers: Sequence[str], threads: int) -> Iterator[list[System]]:
    """Runners of regard and its peers."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "task.json"
        task.write(path)
        workers = [
            _worker(peer, variant, path, threads)
            for peer in [ours, *(PYTORCH_PEERS[name] for name in peers if name in PYTORCH_PEERS)]
            for variant in peer.VARIANTS[task.device]
        ]
        for worker in workers:
            stack.callback(worker.close)
        if task.device == "cuda":  # starting is mostly CPU work, which can be parallel
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(Worker.start, workers))
        runs = [
            ToolkitRunner(TOOLKITS[name], task, WORK / "toolkits", threads)
            for name in peers
            if name in TOOLKITS
        ]
        yield [*workers, *runs]


def _worker(peer: ModuleType, variant: str, task: Path, threads: int) -> Worker:
    """A worker process for a module of `peers/`."""
    name = peer.__name__.removeprefix("peers.")
    return Worker(
        f"{peer.NAME}, {variant}" if variant else peer.NAME,
        [sys.executable, "-m", "peers.worker", name, variant, str(task)],
        is_peer=peer is not ours,
        log=task.parent / f"{name}-{variant}.log",
        environment=environment(threads),
        persistent=TrainingTask.read(task).device == "cuda" or variant == "compiled",
    )


def _table(results: Sequence[SystemResult], about: Tree, size: str) -> str:
    """The table of a comparison; on a GPU, with TFLOP/s and utilization."""
    columns: dict[str, comparison.Column] = {"loss": _loss}
    if "ceiling" in about:

        def tflops(result: SystemResult) -> float:
            return result.speed.median * float(about["flops_per_token"][size]) / 1e12

        columns |= {
            "TFLOP/s": lambda result: f"{tflops(result):.0f}",
            "utilization": lambda result: f"{tflops(result) / about['ceiling']:.0%}",
        }
    return comparison.table(results, UNIT, columns)


def _loss(result: SystemResult) -> str:
    """The loss of the first round, which follows the same number of updates in all systems."""
    loss = result.rounds[0].metrics.get("loss")
    return "" if loss is None else f"{loss:.2f}"


def write(path: Path, device: str) -> None:
    """Write the tables and the picture of a device into the documentation."""
    about, comparisons = comparison.read_results(path)
    picture = PAGE.parents[1] / "pictures" / f"training-{device}.svg"
    comparison.draw(picture, comparisons, x="target tokens per second")
    fill(PAGE, f"training-{device}", page_part(about, comparisons, picture.name))


def page_part(about: Tree, comparisons: Mapping[str, Sequence[SystemResult]], picture: str) -> str:
    """The section of the page about one device."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    parts = [
        f"{about['date']}, {about['machine']['device']}, {about['machine']['cores']} cores; "
        f"{versions}. {about['note']}".strip(),
        "\n".join(f"    {command}" for command in dict.fromkeys(about["commands"].values())),
        f"![Target tokens per second](../pictures/{picture})",
    ]
    if "ceiling" in about:
        peak = about["ceiling"]
        parts.append(f"Utilization is relative to {peak:.0f} TFLOP/s of a large matrix product.")
    for size, results in comparisons.items():
        parts += [f"#### {size}", comparison.summary(results), _table(results, about, size)]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
