r"""Quality and speed of non-autoregressive models, compared with their autoregressive teacher.

    python benchmarks/parallel.py --text multi30k --teacher runs/multi30k-en-de --parallel 5
    python benchmarks/parallel.py --text multi30k --teacher runs/multi30k-en-de --device cpu
    python benchmarks/parallel.py --write       # write the table into docs/ and docs/zh/

`--text` is the folder of test_2016_flickr.en and .de. Missing models are trained in parallel; then
each row is measured, one at a time: lowercased BLEU and repeated words on the test set, the latency
of single sentences (the first 200), and sentences per second in batches of 100. On a CPU, only the
first 200 sentences are translated. Each result is stored at once, by device, so the same command
resumes after an interruption.
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
from runner import Tree, read_results, run_jobs, run_regard, setting_options, training_seconds

RESULTS = Path("benchmarks/results")
PAGES = [Path("docs/concepts/non-autoregressive.md"), Path("docs/zh/non-autoregressive.md")]
TEST = "test_2016_flickr"
BATCH = 100
SENTENCES = {"cuda": 1000, "cpu": 200}  # 100 candidates per sentence are slow on a CPU
SINGLE_SENTENCES = 200  # sentences, one at a time
WARM_UP = {"cuda": 2, "cpu": 1}  # CUDA graphs are captured at the second use of a shape


@dataclass(frozen=True)
class Student:
    """A non-autoregressive model."""

    recipe: str
    distilled: bool = True
    after: str | None = None  # the student that initializes it


STUDENTS = {
    "fertilities": Student("multi30k-parallel"),
    "fertilities-undistilled": Student("multi30k-parallel", distilled=False),
    "ctc": Student("multi30k-ctc"),
    "ctc-undistilled": Student("multi30k-ctc", distilled=False),
    "fertilities-tuned": Student("multi30k-parallel-tuned", after="fertilities"),
}


@dataclass(frozen=True)
class Row:
    """A model and its search."""

    name: str
    student: str | None = None  # None: the teacher itself
    search: dict[str, Any] = field(default_factory=dict)
    reranked: bool = False


def _by_fertilities(name: str, student: str) -> list[Row]:
    return [
        Row(f"{name}, argmax", student),
        Row(f"{name}, average", student, {"fertility": "average"}),
        Row(f"{name}, 10 candidates", student, {"candidates": 10}, reranked=True),
        Row(f"{name}, 100 candidates", student, {"candidates": 100}, reranked=True),
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
    Row("CTC, 10 candidates", "ctc", {"candidates": 10}, reranked=True),
]


def main() -> None:
    """Train missing models, measure missing rows, and print the table."""
    options = _options()
    if not options.write:
        train_all(options)
        path = RESULTS / f"parallel-{options.device}.json"
        finished = {result["row"] for result in read_results(path)}
        jobs = [row for row in ROWS if row.name not in finished and _is_available(row, options)]
        run_jobs(jobs, lambda row: run_job(row, options), path, parallel=1, minutes=options.minutes)
    results_by_device = {
        name: read_results(RESULTS / f"parallel-{name}.json") for name in ("cuda", "cpu")
    }
    if options.write:
        for page in PAGES:
            fill(page, "parallel", table(results_by_device))
    print(table(results_by_device))


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--text", type=Path, default=Path("multi30k"), help="folder of the test set"
    )
    parser.add_argument("--teacher", default="runs/multi30k-en-de")
    parser.add_argument("--data", default="data/multi30k-en-de")
    parser.add_argument("--distilled", default="data/multi30k-en-de-distilled")
    parser.add_argument("--runs", type=Path, default=Path("runs/parallel"))
    parser.add_argument("--students", nargs="+", choices=STUDENTS, default=list(STUDENTS))
    parser.add_argument("--set", nargs="+", default=[], help="settings of all runs")
    parser.add_argument("--device", choices=["cuda", "cpu"])
    parser.add_argument("--parallel", type=int, default=1, help="number of parallel trainings")
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="time limit for starting measurements"
    )
    parser.add_argument("--write", action="store_true", help="only write the table into docs/")
    options = parser.parse_args()
    options.device = options.device or ("cuda" if machine.has_gpu() else "cpu")
    return options


def train_all(options: Any) -> None:
    """Train missing students; those that start from another one come last."""
    missing = [name for name in options.students if not _is_trained(name, options)]
    aligned = any("parallel" in STUDENTS[name].recipe for name in missing)
    for folder in (options.data, options.distilled):
        if aligned and not (Path(folder) / "train.fertilities").is_file():
            run_regard("align", options.teacher, "--data", folder)
    for later in (False, True):
        names = [name for name in missing if (STUDENTS[name].after is not None) == later]
        with ThreadPoolExecutor(options.parallel) as pool:
            list(pool.map(lambda name: _train(name, options), names))


def _is_trained(name: str, options: Any) -> bool:
    """Whether a run is finished: its checkpoints are removed."""
    out = options.runs / name
    return (out / "model.safetensors").is_file() and not (out / "checkpoints").is_dir()


def _is_available(row: Row, options: Any) -> bool:
    return row.student is None or _is_trained(row.student, options)


def _train(name: str, options: Any) -> None:
    student, out = STUDENTS[name], options.runs / name
    arguments = ["train", f"recipes/{student.recipe}.toml", "--out", str(out), "--device"]
    arguments += [
        options.device,
        "--data",
        options.distilled if student.distilled else options.data,
    ]
    if student.after:
        arguments += ["--from", str(options.runs / student.after)]
        arguments += setting_options(f"training.teacher={options.teacher}")
    try:
        run_regard(*arguments, *setting_options("training.tensorboard=false", *options.set))
    except subprocess.CalledProcessError as error:
        print(f"{name} failed: {error.stderr[-500:]}", flush=True)
        return
    shutil.rmtree(out / "checkpoints")
    print(f"{name} trained in {training_seconds(out):.0f} s", flush=True)


def run_job(row: Row, options: Any) -> Tree:
    """Translate the test set: BLEU, latency and throughput."""
    from regard.evaluation.analysis import repetition_rate
    from regard.evaluation.metrics import MetricConfig
    from regard.pipelines.translator import Translator

    sources, references = (
        (options.text / f"{TEST}.{side}").read_text(encoding="utf-8").splitlines()
        for side in ("en", "de")
    )
    count = SENTENCES[options.device]
    sources, references = sources[:count], references[:count]
    folder = options.runs / row.student if row.student else options.teacher
    teacher = options.teacher if row.reranked else None
    gc.collect()  # CUDA graphs of the previous row
    translator = Translator.load(folder, teacher=teacher, device=options.device)
    translations = translator.translate(sources, batch_size=BATCH, scores=False, **row.search)
    texts = [translation.text for translation in translations]
    score = MetricConfig(lowercase=True).bleu().corpus_score(texts, [references]).score
    warm_up = WARM_UP[options.device]
    single_calls = [[text] for text in sources[:SINGLE_SENTENCES]]
    latency = _seconds(translator, single_calls, row, 1, warm_up) / len(single_calls)
    batch_seconds = _seconds(translator, [sources], row, BATCH, warm_up)
    return {
        "row": row.name,
        "sentences": len(sources),
        "bleu": score,
        "repeated": repetition_rate(texts),
        "latency": latency,
        "sentences_per_second": len(sources) / batch_seconds,
        "engine": translator.backend_notice,
        "training_seconds": training_seconds(folder) if row.student else None,
    }


def _seconds(
    translator: Any, calls: Sequence[Sequence[str]], row: Row, batch_size: int, warm_up: int
) -> float:
    """The time of all calls after the warm-up."""
    begin = time.perf_counter()
    for number in range(warm_up + 1):
        if number == warm_up:
            begin = time.perf_counter()
        for sentences in calls:
            translator.translate(sentences, batch_size=batch_size, scores=False, **row.search)
    return time.perf_counter() - begin


def table(results_by_device: dict[str, list[Tree]]) -> str:
    """A line for each row, in the order of `ROWS`, with the results of each device."""
    lines = [
        "| | BLEU | repeated words | latency, GPU | sentences/s, GPU "
        "| latency, CPU | sentences/s, CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        row_results = {
            name: result
            for name, device_results in results_by_device.items()
            for result in device_results
            if result["row"] == row.name
        }
        if not row_results:
            continue
        largest = max(row_results.values(), key=lambda result: result["sentences"])
        cells = [row.name, f"{largest['bleu']:.2f}", f"{largest['repeated']:.2f}"]
        for name in ("cuda", "cpu"):
            cells += _speeds(row_results.get(name), results_by_device[name])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _speeds(result: Tree | None, results: Sequence[Tree]) -> list[str]:
    """Latency and sentences per second, each with the speedup over the first row."""
    if result is None:
        return ["", ""]
    first = next((result for result in results if result["row"] == ROWS[0].name), result)
    quicker = first["latency"] / result["latency"]
    more = result["sentences_per_second"] / first["sentences_per_second"]
    return [
        f"{1000 * result['latency']:.2f} ms ({quicker:.1f}x)",
        f"{result['sentences_per_second']:,.0f} ({more:.1f}x)",
    ]


if __name__ == "__main__":
    main()
