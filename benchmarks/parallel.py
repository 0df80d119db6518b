r"""What is gained and lost by writing all words at once: beside the teacher, in one table.

    python benchmarks/parallel.py --text multi30k --teacher runs/multi30k-en-de --parallel 5
    python benchmarks/parallel.py --text multi30k --teacher runs/multi30k-en-de --device cpu
    python benchmarks/parallel.py --write       # the table, into docs/parallel.md and docs/zh

`--text` is the folder of test_2016_flickr.en and .de. Models that are missing are trained side by
side; then each row is measured alone: BLEU and repeated words of the test set, lower-cased, the
time of a sentence at a time (of the first 200), and sentences a second in batches of 100. A CPU
has the first 200 sentences for all. Results are kept one by one for each device, so the same
command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import machine
from pages import fill
from side_by_side import Tree, all_of, regard, results_in, seconds_of, settings

RESULTS = Path("benchmarks/results")
PAGES = [Path("docs/parallel.md"), Path("docs/zh/parallel.md")]
TEST = "test_2016_flickr"
BATCH = 100
SENTENCES = {"cuda": 1000, "cpu": 200}  # a hundred candidates of each take a CPU its time
ALONE = 200  # sentences, one at a time
WARM = {"cuda": 2, "cpu": 1}  # a shape is recorded when it is met for the second time


@dataclass(frozen=True)
class Student:
    """A model that writes all words at once."""

    recipe: str
    distilled: bool = True
    after: str | None = None  # another one, which this one begins with


STUDENTS = {
    "fertilities": Student("multi30k-parallel"),
    "fertilities-undistilled": Student("multi30k-parallel", distilled=False),
    "ctc": Student("multi30k-ctc"),
    "ctc-undistilled": Student("multi30k-ctc", distilled=False),
    "fertilities-tuned": Student("multi30k-parallel-tuned", after="fertilities"),
}


@dataclass(frozen=True)
class Row:
    """A model and how it translates."""

    name: str
    student: str | None = None  # None: the teacher itself
    search: dict[str, Any] = field(default_factory=dict)
    judged: bool = False


def _by_fertilities(name: str, student: str) -> list[Row]:
    return [
        Row(f"{name}, argmax", student),
        Row(f"{name}, average", student, {"fertility": "average"}),
        Row(f"{name}, 10 candidates", student, {"candidates": 10}, judged=True),
        Row(f"{name}, 100 candidates", student, {"candidates": 100}, judged=True),
    ]


ROWS = [
    Row("teacher, beam 4", search={"beam_size": 4}),
    Row("teacher, beam 1", search={"beam_size": 1}),
    *_by_fertilities("fertilities without distillation", "fertilities-undistilled"),
    *_by_fertilities("fertilities", "fertilities"),
    *_by_fertilities("fertilities, fine-tuned", "fertilities-tuned"),
    Row("CTC without distillation", "ctc-undistilled"),
    Row("CTC", "ctc"),
    Row("CTC, 10 readings", "ctc", {"candidates": 10}),
    Row("CTC, 10 candidates", "ctc", {"candidates": 10}, judged=True),
]


def main() -> None:
    """Train what is missing, measure what is missing, and show all."""
    options = _options()
    if not options.write:
        train_all(options)
        path = RESULTS / f"parallel-{options.device}.json"
        done = {result["row"] for result in results_in(path)}
        jobs = [row for row in ROWS if row.name not in done and _is_there(row, options)]
        all_of(jobs, lambda row: measured(row, options), path, parallel=1, minutes=options.minutes)
    found = {name: results_in(RESULTS / f"parallel-{name}.json") for name in ("cuda", "cpu")}
    if options.write:
        for page in PAGES:
            fill(page, "parallel", table(found))
    print(table(found))


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--text", type=Path, default=Path("multi30k"), help="the test set's folder")
    parser.add_argument("--teacher", default="runs/multi30k-en-de")
    parser.add_argument("--data", default="data/multi30k-en-de")
    parser.add_argument("--distilled", default="data/multi30k-en-de-distilled")
    parser.add_argument("--runs", type=Path, default=Path("runs/parallel"))
    parser.add_argument("--students", nargs="+", choices=STUDENTS, default=list(STUDENTS))
    parser.add_argument("--set", nargs="+", default=[], help="settings of every training")
    parser.add_argument("--device", choices=["cuda", "cpu"])
    parser.add_argument("--parallel", type=int, default=1, help="trainings side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="measure nothing after these")
    parser.add_argument("--write", action="store_true", help="write the table into docs/")
    options = parser.parse_args()
    options.device = options.device or ("cuda" if machine.has_gpu() else "cpu")
    return options


def train_all(options: Any) -> None:
    """Those that begin with another one come after all others."""
    missing = [name for name in options.students if not _is_trained(name, options)]
    aligned = any("parallel" in STUDENTS[name].recipe for name in missing)
    for folder in (options.data, options.distilled):
        if aligned and not (Path(folder) / "train.fertilities").is_file():
            regard("align", options.teacher, "--data", folder)
    for later in (False, True):
        names = [name for name in missing if (STUDENTS[name].after is not None) == later]
        with ThreadPoolExecutor(options.parallel) as pool:
            list(pool.map(lambda name: _train(name, options), names))


def _is_trained(name: str, options: Any) -> bool:
    """A finished run has left its checkpoints behind."""
    out = options.runs / name
    return (out / "model.safetensors").is_file() and not (out / "checkpoints").is_dir()


def _is_there(row: Row, options: Any) -> bool:
    return row.student is None or _is_trained(row.student, options)


def _train(name: str, options: Any) -> None:
    student, out = STUDENTS[name], options.runs / name
    words = ["train", f"recipes/{student.recipe}.toml", "--out", str(out), "--device"]
    words += [options.device, "--data", options.distilled if student.distilled else options.data]
    if student.after:
        words += ["--from", str(options.runs / student.after)]
        words += settings(f"training.teacher={options.teacher}")
    try:
        regard(*words, *settings("training.tensorboard=false", *options.set))
    except subprocess.CalledProcessError as error:
        print(f"{name} failed: {error.stderr[-500:]}", flush=True)
        return
    shutil.rmtree(out / "checkpoints")
    print(f"{name} trained in {seconds_of(out):.0f} s", flush=True)


def measured(row: Row, options: Any) -> Tree:
    """Translate the test set, again and again."""
    from regard.decoding.translator import Translator
    from regard.evaluation.analysis import repeated_words
    from regard.evaluation.metrics import Counting

    sources, references = (
        (options.text / f"{TEST}.{side}").read_text(encoding="utf-8").splitlines()
        for side in ("en", "de")
    )
    count = SENTENCES[options.device]
    sources, references = sources[:count], references[:count]
    folder = options.runs / row.student if row.student else options.teacher
    teacher = options.teacher if row.judged else None
    gc.collect()  # recordings of the row before
    translator = Translator.load(folder, teacher=teacher, device=options.device)
    found = translator.translate(sources, batch_size=BATCH, scores=False, **row.search)
    texts = [translation.text for translation in found]
    score = Counting(lowercase=True).bleu().corpus_score(texts, [references]).score
    warm = WARM[options.device]
    alone = [[text] for text in sources[:ALONE]]
    latency = _seconds(translator, alone, row, 1, warm) / len(alone)
    together = _seconds(translator, [sources], row, BATCH, warm)
    return {
        "row": row.name,
        "sentences": len(sources),
        "bleu": score,
        "repeated": repeated_words(texts),
        "latency": latency,
        "sentences_per_second": len(sources) / together,
        "engine": translator.engine_told,
        "training_seconds": seconds_of(folder) if row.student else None,
    }


def _seconds(
    translator: Any, portions: Sequence[Sequence[str]], row: Row, batch_size: int, warm: int
) -> float:
    """How long all portions take, one after another, once that was done before."""
    begin = time.perf_counter()
    for number in range(warm + 1):
        if number == warm:
            begin = time.perf_counter()
        for portion in portions:
            translator.translate(portion, batch_size=batch_size, scores=False, **row.search)
    return time.perf_counter() - begin


def table(found: dict[str, list[Tree]]) -> str:
    """A row for each way to translate, in the order of `ROWS`, with what each device said."""
    lines = [
        "| | BLEU | repeated words | one sentence, GPU | sentences a second, GPU "
        "| one sentence, CPU | sentences a second, CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        own = {name: one for name, all_ in found.items() for one in all_ if one["row"] == row.name}
        if not own:
            continue
        most = max(own.values(), key=lambda one: one["sentences"])
        cells = [row.name, f"{most['bleu']:.2f}", f"{most['repeated']:.2f}"]
        for name in ("cuda", "cpu"):
            cells += _speeds(own.get(name), found[name])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _speeds(result: Tree | None, results: Sequence[Tree]) -> list[str]:
    """Milliseconds and sentences a second, each with how much that is of the first row."""
    if result is None:
        return ["", ""]
    first = next((one for one in results if one["row"] == ROWS[0].name), result)
    quicker = first["latency"] / result["latency"]
    more = result["sentences_per_second"] / first["sentences_per_second"]
    return [
        f"{1000 * result['latency']:.2f} ms ({quicker:.1f}x)",
        f"{result['sentences_per_second']:,.0f} ({more:.1f}x)",
    ]


if __name__ == "__main__":
    main()
