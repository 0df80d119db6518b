"""Who trains fastest: regard and its rivals in turn, on the same data, model and machine.

    python benchmarks/training.py --text multi30k
    python benchmarks/training.py --device cuda --sizes base big
    python benchmarks/training.py --write       # tables and pictures, into docs/

On a CPU the data is Multi30k English-German (`--text` is the folder of its train.en and train.de),
on a GPU made-up sentences. Counted are real target tokens, end marks included, never padding. All
have the same model, Adam, label smoothing and dropout; no gradient is clipped. Rivals in PyTorch
get the very same batches; toolkits with a loader of their own get the same text in the same
subwords and the same number of target tokens a batch (`make bench-peers` installs them).
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

import contest
import machine
from contest import Contestant, Entry, Tree
from lesson import SIZES, Lesson, Size, product_flops, target_tokens
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
from peers.toolkit import ToolkitRun
from regard.data.doctor import DoctorConfig
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import prepare
from regard.text.config import TokenizerConfig

RESULTS = Path("benchmarks/results")
PAGE = Path("docs/benchmarks.md")
WORK = Path("build/bench")
IN_PYTORCH = {"torch": plain_torch, "huggingface": huggingface}
TOOLKITS = {
    "joeynmt": joeynmt.TOOLKIT,
    "eole": eole.TOOLKIT,
    "opennmt": opennmt.TOOLKIT,
    "fairseq": fairseq.TOOLKIT,
    "sockeye": sockeye.TOOLKIT,
    "marian": marian.TOOLKIT,
}
PEERS = {"cpu": [*IN_PYTORCH, *TOOLKITS], "cuda": [*IN_PYTORCH]}
SHOWN = {"cpu": ["tiny", "base"], "cuda": ["base", "big"]}  # sizes
UNIT = "target tokens"
VOCABULARY = {"cpu": 8000, "cuda": 32768}
# updates before the clock runs, and while it does
UPDATES = {("cpu", "tiny"): (2, 6), ("cpu", "base"): (1, 2), ("cpu", "big"): (1, 1)}


def main() -> None:
    """Measure, or write what was measured into the documentation."""
    options = _options()
    if options.write:
        for device in SHOWN:
            path = RESULTS / f"training-{device}.json"
            if path.is_file():
                write(path, device)
        return
    path = options.results or RESULTS / f"training-{options.device}.json"
    about = _about(options)
    contests: dict[str, Sequence[Entry]] = {}
    for name in options.sizes:
        lesson = _lesson(options, name)

        def after(entry: Entry, entries: Sequence[Entry], name: str = name) -> None:
            print(contest.news(entry, UNIT), flush=True)
            contests[name] = entries
            contest.keep(path, about, contests)

        with contestants(lesson, options.peers, options.threads) as taking_part:
            contest.in_turn(taking_part, options.rounds, after, tries=options.tries)
        print(f"\n{name}: {contest.verdict(contests[name])}\n", flush=True)
        print(_table(contests[name], about, name), flush=True)


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), help="tiny base; base big")
    parser.add_argument("--peers", nargs="+", choices=PEERS["cpu"], help="some rivals only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tries", type=int, default=3, help="of a turn, while others want cores")
    parser.add_argument("--updates", type=int, help="in a round")
    parser.add_argument("--text", type=Path, help="the folder of Multi30k")
    parser.add_argument("--lengths", type=int, nargs=2, default=[32, 32], help="if made up")
    parser.add_argument("--threads", type=int, default=2, help="on a CPU")
    parser.add_argument("--note", default="", help="what readers of the page should know")
    parser.add_argument("--results", type=Path, help="where they are kept, as JSON")
    parser.add_argument("--write", action="store_true", help="tables and pictures; run nothing")
    options = parser.parse_args(words)
    options.peers = options.peers or PEERS[options.device]
    options.sizes = options.sizes or SHOWN[options.device]
    if not set(options.peers) <= set(PEERS[options.device]):
        parser.error(f"on a GPU, the rivals are {' and '.join(PEERS['cuda'])}")
    if options.device == "cuda" and not options.write and not machine.has_gpu():
        parser.error("there is no GPU that PyTorch can use here; use --device cpu")
    return options


def _about(options: argparse.Namespace) -> Tree:
    about: Tree = {
        "commands": dict.fromkeys(options.sizes, _command(options)),
        "note": options.note,
        "machine": machine.described(options.device),
        "threads": options.threads,
        "versions": {**machine.versions(), **_versions(options.peers)},
    }
    if options.device == "cuda":
        about["ceiling"] = machine.product_ceiling()
        print(f"A large matrix product reaches {about['ceiling']:.0f} TFLOP/s.", flush=True)
        about["flops_per_token"] = {
            name: _flops_per_token(_lesson(options, name)) for name in options.sizes
        }
    return about


def _versions(peers: Sequence[str]) -> dict[str, str]:
    """Of the toolkits that are installed."""
    found = {TOOLKITS[name].name: TOOLKITS[name].version() for name in peers if name in TOOLKITS}
    return {name: version for name, version in found.items() if version is not None}


def _command(options: argparse.Namespace) -> str:
    """What to type for the same contest; where the text lies is everybody's own business."""
    words = ["python benchmarks/training.py"]
    words += ["--text multi30k"] if options.device == "cpu" else ["--device cuda"]
    if options.sizes != SHOWN[options.device]:
        words += ["--sizes", *options.sizes]
    if options.peers != PEERS[options.device]:
        words += ["--peers", *options.peers]
    return " ".join([*words, "--rounds", str(options.rounds)])


def _flops_per_token(lesson: Lesson) -> float:
    batch = lesson.batches()[0]
    return product_flops(lesson.size, lesson.vocabulary, batch) / target_tokens(batch)


def _lesson(options: argparse.Namespace, name: str) -> Lesson:
    if options.device == "cuda":
        return _made_up(SIZES[name], tuple(options.lengths), options.updates or 30)
    warmup, updates = UPDATES["cpu", name]
    store = _prepared(options.text)
    return Lesson(
        SIZES[name],
        "cpu",
        vocabulary=VOCABULARY["cpu"],
        batch_tokens=4096,
        warmup=warmup,
        updates=options.updates or updates,
        store=str(store),
    )


def _made_up(size: Size, lengths: tuple[int, int], updates: int) -> Lesson:
    return Lesson(
        size,
        "cuda",
        vocabulary=VOCABULARY["cuda"],
        batch_tokens=25600,
        warmup=5,
        updates=updates,
        lengths=lengths,
    )


def _prepared(text: Path | None) -> Path:
    """The store of Multi30k, made once."""
    folder = WORK / "multi30k"
    if (folder / "store.json").is_file():
        return folder
    if text is None or not (text / "train.en").is_file():
        sys.exit(
            "The benchmark on a CPU reads Multi30k. Say with --text which folder holds its "
            "train.en and train.de."
        )
    files = Files(text / "train.en", text / "train.de")
    tokenizer = TokenizerConfig(vocab_size=VOCABULARY["cpu"])
    prepare(PairReader({"train": [files]}, DoctorConfig()), folder, tokenizer=tokenizer)
    return folder


@contextmanager
def contestants(lesson: Lesson, peers: Sequence[str], threads: int) -> Iterator[list[Contestant]]:
    """Regard and its rivals, ready to begin."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "lesson.json"
        lesson.write(path)
        workers = [
            _worker(peer, form, path, threads)
            for peer in [ours, *(IN_PYTORCH[name] for name in peers if name in IN_PYTORCH)]
            for form in peer.FORMS[lesson.device]
        ]
        for worker in workers:
            stack.callback(worker.close)
        if lesson.device == "cuda":  # most of a start is Python's work, which goes side by side
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(Worker.start, workers))
        runs = [
            ToolkitRun(TOOLKITS[name], lesson, WORK / "toolkits", threads)
            for name in peers
            if name in TOOLKITS
        ]
        yield [*workers, *runs]


def _worker(peer: ModuleType, form: str, lesson: Path, threads: int) -> Worker:
    """A learner of `peers/` in a process of its own."""
    name = peer.__name__.removeprefix("peers.")
    return Worker(
        f"{peer.NAME}, {form}" if form else peer.NAME,
        [sys.executable, "-m", "peers.worker", name, form, str(lesson)],
        rival=peer is not ours,
        log=lesson.parent / f"{name}-{form}.log",
        environment=environment(threads),
        kept=Lesson.read(lesson).device == "cuda" or form == "compiled",
    )


def _table(entries: Sequence[Entry], about: Tree, size: str) -> str:
    """The table of a contest; on a GPU, with TFLOP/s and what share of the ceiling they are."""
    columns: dict[str, contest.Column] = {"loss": _loss}
    if "ceiling" in about:

        def reached(entry: Entry) -> float:
            return entry.speed.middle * float(about["flops_per_token"][size]) / 1e12

        columns |= {
            "TFLOP/s": lambda entry: f"{reached(entry):.0f}",
            "of the ceiling": lambda entry: f"{reached(entry) / about['ceiling']:.0%}",
        }
    return contest.table(entries, UNIT, columns)


def _loss(entry: Entry) -> str:
    """Of the first round, which comes after equally many updates for all."""
    loss = entry.rounds[0].figures.get("loss")
    return "" if loss is None else f"{loss:.2f}"


def write(path: Path, device: str) -> None:
    """The tables of a device and its picture, into the documentation."""
    about, contests = contest.kept(path)
    picture = PAGE.parent / "pictures" / f"training-{device}.svg"
    contest.draw(picture, contests, x="target tokens a second")
    fill(PAGE, f"training-{device}", page_part(about, contests, picture.name))


def page_part(about: Tree, contests: Mapping[str, Sequence[Entry]], picture: str) -> str:
    """What the page says of one device."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    parts = [
        f"{about['date']}, {about['machine']['device']}, {about['machine']['cores']} cores; "
        f"{versions}. {about['note']}".strip(),
        "\n".join(f"    {command}" for command in dict.fromkeys(about["commands"].values())),
        f"![Target tokens a second](pictures/{picture})",
    ]
    if "ceiling" in about:
        parts.append(f"The ceiling: {about['ceiling']:.0f} TFLOP/s for a large matrix product.")
    for size, entries in contests.items():
        parts += [f"#### {size}", contest.verdict(entries), _table(entries, about, size)]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
