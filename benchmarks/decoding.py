"""Decoding speed of regard and its peers, in interleaved rounds with the same weights.

    python benchmarks/decoding.py --text multi30k
    python benchmarks/decoding.py --device cuda --text multi30k     # without text: synthetic only
    python benchmarks/decoding.py --write       # write tables and pictures into docs/

The corpus is Multi30k's test set (`--text` is the folder of test_2016_flickr.en and .de), the model
is one trained on Multi30k (`--model`). Its weights are converted for each peer, so that all systems
decode with the same model; the tables give the fraction of translations that are identical to
regard's. On a GPU there are also synthetic sentences for a model with random weights and a forced
output length of 32 tokens.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import comparison
import machine
from comparison import Spread, System, SystemResult, Tree
from decoders.registry import DEFAULT_PEERS, LIBRARIES, ON_GPU, OURS, TOOLKITS, Decoder
from decoders.runners import Evaluator, LengthEvaluator
from decoding_corpus import DecodingCorpus
from decoding_task import DecodingTask
from pages import fill
from synthetic import synthetic_task
from training_task import SIZES

RESULTS = Path("benchmarks/results")
PAGE = Path("docs/results/benchmarks.md")
WORK = Path("build/bench/decoding")
TEST = "test_2016_flickr"
# Beam size, and patience: with 1, regard stops where CTranslate2, fairseq and others do.
SEARCHES = {"greedy": (1, 0.0), "beam 5": (5, 0.0), "beam 5, patience 1": (5, 1.0)}
ONE_BY_ONE = 200  # sentences
FORCED_LENGTH = 32  # tokens of the translation of a synthetic sentence
# Beam size, batch size, and batches per round.
SYNTHETIC = {
    "greedy, 256 at a time": (1, 256, 4),
    "beam 4, 64 at a time": (4, 64, 4),
    "greedy, one at a time": (1, 1, 32),
}
VOCABULARY = 32768
SAME_LIBRARY = {
    "regard, ctranslate2": "CTranslate2",
    "regard, ctranslate2 int8": "CTranslate2 int8",
}


def _median(name: str, spec: str) -> comparison.Column:
    """A column: the median of a metric over the valid rounds."""

    def cell(result: SystemResult) -> str:
        values = [round_.metrics[name] for round_ in result.valid_rounds]
        return format(statistics.median(values), spec)

    return cell


_QUALITY = {"identical": _median("same", ".1%"), "BLEU": _median("bleu", ".2f")}


@dataclass(frozen=True)
class Scenario:
    """Comparisons with several searches, in one picture."""

    title: str
    unit: str
    columns: Mapping[str, comparison.Column]


SCENARIOS = {
    "batch": Scenario("Batches of sentences", "sentences", _QUALITY),
    "latency": Scenario(
        "One sentence at a time",
        "sentences",
        {"p50, ms": _median("p50", ".1f"), "p99, ms": _median("p99", ".1f"), **_QUALITY},
    ),
    "command": Scenario("The whole command", "sentences", _QUALITY),
    "synthetic": Scenario(f"Synthetic sentences of {FORCED_LENGTH} tokens", "tokens", {}),
}


def _scenario_of(name: str) -> Scenario:
    """The scenario of a comparison such as "batch: greedy"."""
    return SCENARIOS[name.split(": ")[0]]


DEFAULT_SCENARIOS = {
    "cpu": ["batch", "latency", "command"],
    "cuda": ["synthetic", "batch", "command"],
}


def main() -> None:
    """Measure, or write the results into the documentation."""
    options = _options()
    if options.write:
        for device in DEFAULT_SCENARIOS:
            path = RESULTS / f"decoding-{device}.json"
            if path.is_file():
                write(path, device)
        return
    path = options.results or RESULTS / f"decoding-{options.device}.json"
    about = _about(options)
    measured: dict[str, Sequence[SystemResult]] = {}
    for name, systems in comparisons(options):
        scenario = _scenario_of(name)
        about["commands"][name] = _command(options)
        print(f"\n{name}", flush=True)

        def on_round(
            result: SystemResult, results: Sequence[SystemResult], name: str = name
        ) -> None:
            print(comparison.progress_line(result, _scenario_of(name).unit), flush=True)
            measured[name] = results
            comparison.write_results(path, about, measured)

        comparison.run_interleaved(systems, options.rounds, on_round, attempts=options.attempts)
        print("\n".join(["", *_report(scenario, measured[name])]), flush=True)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS), help="only these")
    searches = [*SEARCHES, *SYNTHETIC]
    parser.add_argument("--searches", nargs="+", choices=searches, help="only these")
    all_peers = [*LIBRARIES, *TOOLKITS]
    parser.add_argument("--peers", nargs="+", choices=all_peers, help="only these")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attempts", type=int, default=3, help="of a round under CPU pressure")
    parser.add_argument("--text", type=Path, help="folder of Multi30k")
    parser.add_argument("--model", type=Path, default=Path("runs/multi30k-en-de"))
    parser.add_argument("--sentences", type=int, help="number of sentences; all by default")
    parser.add_argument("--batch-size", type=int, help="sentences per batch, for all systems")
    parser.add_argument("--size", choices=list(SIZES), default="base", help="of synthetic models")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--note", default="", help="note for the documentation page")
    parser.add_argument("--results", type=Path, help="JSON file of the results")
    parser.add_argument("--write", action="store_true", help="only write tables and pictures")
    options = parser.parse_args(arguments)
    options.peers = options.peers or DEFAULT_PEERS[options.device]
    without_text = options.device == "cuda" and options.text is None
    options.scenarios = options.scenarios or (
        ["synthetic"] if without_text else DEFAULT_SCENARIOS[options.device]
    )
    if options.device == "cuda" and not set(options.peers) <= set(ON_GPU):
        parser.error(f"the peers on a GPU are {' and '.join(ON_GPU)}")
    if options.device == "cuda" and not options.write and not machine.has_gpu():
        parser.error("PyTorch finds no GPU; use --device cpu")
    return options


def _about(options: argparse.Namespace) -> Tree:
    toolkits = [TOOLKITS[name][0].toolkit for name in options.peers if name in TOOLKITS]
    installed = {toolkit.name: toolkit.version() for toolkit in toolkits if toolkit is not None}
    versions = machine.versions("sentencepiece", "ctranslate2")
    return {
        "commands": {},
        "note": options.note,
        "machine": machine.describe(options.device),
        "threads": options.threads,
        "versions": {**versions, **{name: number for name, number in installed.items() if number}},
    }


def _command(options: argparse.Namespace) -> str:
    """The command that repeats the comparisons, without local paths."""
    words = ["python benchmarks/decoding.py"]
    if options.scenarios != ["synthetic"]:
        words.append("--text multi30k")
    if options.device == "cuda":
        words.append("--device cuda")
    synthetic = ["synthetic"] if options.device == "cuda" else None
    if options.scenarios not in (DEFAULT_SCENARIOS[options.device], synthetic):
        words += ["--scenarios", *options.scenarios]
    if options.searches:
        words += ["--searches", *(f'"{search}"' for search in options.searches)]
    if options.peers != DEFAULT_PEERS[options.device]:
        words += ["--peers", *options.peers]
    if options.sentences is not None:
        words += ["--sentences", str(options.sentences)]
    if options.batch_size is not None:
        words += ["--batch-size", str(options.batch_size)]
    return " ".join([*words, "--rounds", str(options.rounds)])


def comparisons(options: argparse.Namespace) -> Iterator[tuple[str, list[System]]]:
    """The name and the systems of each comparison."""
    corpus = _corpus(options)
    problems = {}
    if corpus is not None and "ctranslate2" in options.peers:
        problems["ctranslate2"] = corpus.export()
    for scenario in options.scenarios:
        for search, task, evaluator in _tasks(scenario, corpus, options):
            if options.searches and search not in options.searches:
                continue
            with _open_systems(scenario, task, evaluator, problems, options) as systems:
                yield f"{scenario}: {search}", systems


def _corpus(options: argparse.Namespace) -> DecodingCorpus | None:
    """The test set and the model; None if only synthetic sentences are measured."""
    if options.scenarios == ["synthetic"]:
        return None
    if options.text is None or not (options.text / f"{TEST}.en").is_file():
        sys.exit(f"Give the folder of Multi30k's {TEST}.en and {TEST}.de with --text.")
    if not (options.model / "model.safetensors").is_file():
        sys.exit(
            f"There is no model in {options.model}. Train one with `regard train "
            "recipes/multi30k-en-de.toml`, or give another folder with --model."
        )
    source, target = (
        (options.text / f"{TEST}.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("en", "de")
    )
    lines = slice(options.sentences)
    return DecodingCorpus(source[lines], target[lines], options.model, WORK, options.device)


def _tasks(
    scenario: str, corpus: DecodingCorpus | None, options: argparse.Namespace
) -> Iterator[tuple[str, DecodingTask, Evaluator]]:
    if corpus is None or scenario == "synthetic":
        for name, (beam_size, batch_size, batches) in SYNTHETIC.items():
            task = synthetic_task(
                options.size,
                VOCABULARY,
                options.device,
                beam_size=beam_size,
                batch_size=batch_size,
                batches=batches,
                forced_length=FORCED_LENGTH,
                use_bfloat16=options.device == "cuda",
            )
            yield name, task, LengthEvaluator(FORCED_LENGTH)
        return
    for name, search in SEARCHES.items():
        one_by_one = ONE_BY_ONE if scenario == "latency" else None
        task = corpus.task(*search, one_by_one=one_by_one, batch_size=options.batch_size)
        yield name, task, corpus.evaluator(task)


@contextmanager
def _open_systems(
    scenario: str,
    task: DecodingTask,
    evaluator: Evaluator,
    problems: Mapping[str, str | None],
    options: argparse.Namespace,
) -> Iterator[list[System]]:
    """Runners of regard and its peers; models are not loaded yet."""
    persistent = options.device == "cuda"  # keeps compiled code and CUDA graphs
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "task.json"
        task.write(path)
        text = Path(folder) / "text"
        text.write_text("".join(f"{line}\n" for line in task.lines or []), encoding="utf-8")
        systems: list[System] = []
        for decoder in select_decoders(scenario, options.device, options.peers):
            problem, threads = problems.get(decoder.module), options.threads
            if scenario == "command":
                systems.append(decoder.command(path, text, evaluator, threads, problem=problem))
                continue
            runner = decoder.run(path, evaluator, threads, persistent=persistent, problem=problem)
            stack.callback(runner.close)
            systems.append(runner)
        yield systems


def select_decoders(scenario: str, device: str, peers: Sequence[str]) -> list[Decoder]:
    """The decoders of a scenario: toolkits only run batches, random weights are not exported."""
    others = [decoder for name in peers for decoder in (LIBRARIES | TOOLKITS)[name]]
    if scenario == "synthetic":
        return [d for d in [*OURS["cuda"], *others] if d.module in ("ours", "huggingface")]
    return [d for d in [*OURS[device], *others] if d.toolkit is None or scenario == "batch"]


def _report(scenario: Scenario, results: Sequence[SystemResult]) -> list[str]:
    """The summary and the table of a comparison."""
    summary = " ".join(summary_sentences(results))
    return [summary, "", comparison.table(results, scenario.unit, scenario.columns)]


def summary_sentences(results: Sequence[SystemResult]) -> Iterator[str]:
    """Compare regard with the fastest PyTorch peer, and its CTranslate2 with CTranslate2."""
    measured = {result.name: result for result in results if result.rounds}
    in_pytorch = [result for name, result in measured.items() if "ctranslate2" not in name.lower()]
    fastest = comparison.fastest_peer(in_pytorch)
    if fastest is not None:
        for ours in (result for result in in_pytorch if not result.is_peer):
            yield comparison.speedup_sentence(ours, fastest, "the fastest PyTorch peer, ")
    for name, library in SAME_LIBRARY.items():
        if name in measured and library in measured:
            yield comparison.speedup_sentence(measured[name], measured[library])


def write(path: Path, device: str) -> None:
    """Write the tables and pictures of a device into the documentation."""
    about, comparisons = comparison.read_results(path)
    for name, panels in group_by_scenario(comparisons).items():
        picture = PAGE.parents[1] / "pictures" / _picture(name, device)
        if name == "latency":
            comparison.draw(picture, panels, x="milliseconds, p50 and p99", of=_latency)
        else:
            comparison.draw(picture, panels, x=f"{SCENARIOS[name].unit} per second")
    fill(PAGE, f"decoding-{device}", page_part(about, comparisons, device))


def _picture(scenario: str, device: str) -> str:
    return f"decoding-{scenario}-{device}.svg"


def _latency(result: SystemResult) -> Spread:
    p50, p99 = (
        statistics.median(round_.metrics[name] for round_ in result.valid_rounds)
        for name in ("p50", "p99")
    )
    return Spread(p50, p50, p99)


def group_by_scenario(
    comparisons: Mapping[str, Sequence[SystemResult]],
) -> dict[str, dict[str, Sequence[SystemResult]]]:
    """Comparisons by scenario and search: "batch: greedy" is `["batch"]["greedy"]`."""
    groups: dict[str, dict[str, Sequence[SystemResult]]] = {}
    for name, results in comparisons.items():
        scenario, search = name.split(": ")
        groups.setdefault(scenario, {})[search] = results
    return groups


def page_part(about: Tree, comparisons: Mapping[str, Sequence[SystemResult]], device: str) -> str:
    """The section of the page about one device."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    parts = [
        f"{about['date']}, {about['machine']['device']}, {about['machine']['cores']} cores; "
        f"{versions}. {about['note']}".strip(),
        "\n".join(f"    {command}" for command in dict.fromkeys(about["commands"].values())),
    ]
    for name, searches in group_by_scenario(comparisons).items():
        scenario = SCENARIOS[name]
        parts += [
            f"#### {scenario.title}",
            f"![{scenario.title}](../pictures/{_picture(name, device)})",
        ]
        for search, results in searches.items():
            summary, _, table = _report(scenario, results)
            parts += [f"**{search.capitalize()}.** {summary}".strip(), table]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
