r"""BLEU, chrF and time of searches: beam search, MBR, diverse beams, reranking, ensembles.

    python benchmarks/search_quality.py runs/en-de --corpus "Multi30k en-de" \\
        --source test.en --reference test.de --valid-source val.en --valid-reference val.de \\
        --reverse runs/de-en --right-to-left runs/en-de-right-to-left \\
        --language-model runs/lm-de --ensemble runs/en-de-seed2
    python benchmarks/search_quality.py --write

Weights of rerankers, and groups and penalty of diverse beams, are those with the highest BLEU on
the validation data; the test set is translated once by each search. Searches whose models are not
given are left out. The time is CPU time, which other load on the machine hardly affects.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pages import fill
from regard.data.line_reader import read_parallel
from regard.evaluation.metrics import MetricConfig, bleu
from regard.evaluation.rerank_tuning import tune_reranking
from regard.evaluation.significance import compare
from regard.pipelines.translator import Translator
from runner import read_results, write_results

PAGE = Path("docs/results/benchmarks.md")
BASELINE = "beam 4"
_METRICS = MetricConfig(names=("bleu", "chrf"))
_DIVERSE = [
    {"beam_groups": groups, "diversity_penalty": penalty}
    for groups in (5, 10)
    for penalty in (0.3, 0.8)
]
_RERANKED = 10  # hypotheses
Pairs = tuple[list[str], list[str]]
Settings = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A search: its settings, alternatives to choose from, and the models that it needs."""

    name: str
    settings: Settings
    alternatives: Sequence[Settings] = ({},)  # chosen on validation data
    rerankers: tuple[str, ...] = ()  # names of options
    ensemble: bool = False


METHODS = [
    Method(BASELINE, {"beam_size": 4}),
    Method("greedy", {"beam_size": 1}),
    Method("beam 20", {"beam_size": 20}),
    Method("MBR chrF, 20-best", {"beam_size": 20, "mbr": "chrf"}),
    Method("MBR BLEU, 20-best", {"beam_size": 20, "mbr": "bleu"}),
    Method("MBR chrF, 20 diverse beams", {"beam_size": 20, "mbr": "chrf"}, _DIVERSE),
    Method("MBR BLEU, 20 diverse beams", {"beam_size": 20, "mbr": "bleu"}, _DIVERSE),
    Method("MBR chrF, 100 samples", {"mbr": "chrf", "mbr_samples": 100, "epsilon_cutoff": 0.02}),
    Method("MBR BLEU, 100 samples", {"mbr": "bleu", "mbr_samples": 100, "epsilon_cutoff": 0.02}),
    *(
        Method(f"reranking by {name}", {"beam_size": _RERANKED}, rerankers=rerankers)
        for name, rerankers in {
            "right-to-left model": ("right_to_left",),
            "reverse direction": ("reverse",),
            "language model": ("language_model",),
            "reverse direction and language model": ("reverse", "language_model"),
            "right-to-left model and reverse direction": ("right_to_left", "reverse"),
            "all three": ("right_to_left", "reverse", "language_model"),
        }.items()
    ),
    Method("ensemble, beam 4", {"beam_size": 4}, ensemble=True),
]


@dataclass
class Comparison:
    """The models and texts of a comparison."""

    paths: Mapping[str, Any]  # the model folders, by option
    test: Pairs
    valid: Pairs
    baseline: list[str]  # the translations by the baseline

    def run(self, method: Method) -> dict[str, Any]:
        """The result of one search."""
        paths = [self.paths["model"], *(self.paths["ensemble"] if method.ensemble else ())]
        translator = Translator.load(*paths, device="cpu", backend="torch")
        settings = self.tuned(translator, method)
        translate(translator, self.test[0][:20], settings)  # loads the models
        begin = time.process_time()
        texts = translate(translator, self.test[0], settings)
        seconds = time.process_time() - begin
        if method.name == BASELINE:
            self.baseline = texts
        compared = compare(texts, self.baseline, [self.test[1]], _METRICS, resamples=1000)
        return {
            "scores": {each.name: round(each.system.value, 3) for each in compared},
            "p_values": {each.name: round(each.p_value, 4) for each in compared},
            "seconds": round(seconds, 1),
            "chosen": {
                name: value
                for name, value in settings.items()
                if name not in method.settings and name != "rerank"
            },
            "models": len(paths),
        }

    def tuned(self, translator: Translator, method: Method) -> Settings:
        """The settings of a search with the highest BLEU on the validation data."""
        sources, references = self.valid
        if method.rerankers:
            models = tuple(self.paths[name] for name in method.rerankers)
            tuned = tune_reranking(
                translator,
                lambda **settings: translator.translate(sources, **settings),
                sources,
                {"beam_size": _RERANKED},
                text={"rerank": models},
                references=[references],
                metric_config=_METRICS,
            )
            weights = {"rerank": models, "rerank_weight": tuple(tuned.weights)}
            return method.settings | weights
        if len(method.alternatives) == 1:
            return method.settings | method.alternatives[0]
        return max(
            (method.settings | each for each in method.alternatives),
            key=lambda settings: bleu(translate(translator, sources, settings), references),
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure searches, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?", help="model folder")
    parser.add_argument("--corpus", default="", help="name of corpus and direction")
    for name in ("--source", "--reference", "--valid-source", "--valid-reference"):
        parser.add_argument(name, type=Path, help="one sentence per line")
    for name in ("--right-to-left", "--reverse", "--language-model"):
        parser.add_argument(name, type=Path, help="model folder")
    parser.add_argument("--ensemble", type=Path, nargs="+", default=[], help="further models")
    parser.add_argument("--methods", nargs="+", help="names in the table; default: all")
    parser.add_argument("--threads", type=int, default=1)
    results = Path("benchmarks/results/search_quality.json")
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--write", action="store_true", help="only write the table")
    options = parser.parse_args(arguments)
    if options.write:
        fill(PAGE, "search-quality", table(read_results(options.results)))
        return
    torch.set_num_threads(options.threads)
    comparison = Comparison(
        vars(options),
        read_parallel(options.source, options.reference),
        read_parallel(options.valid_source, options.valid_reference),
        [],
    )
    for method in selected(options.methods, vars(options)):
        identity = {"corpus": options.corpus, "method": method.name}
        result = {**identity, **comparison.run(method)}
        stored = read_results(options.results)
        others = [each for each in stored if not identity.items() <= each.items()]
        write_results(options.results, [*others, result])
        print(result, flush=True)


def selected(names: Sequence[str] | None, paths: Mapping[str, Any]) -> Iterator[Method]:
    """The baseline, and the searches with these names whose models are given."""
    for method in METHODS:
        has_models = all(paths[name] for name in method.rerankers)
        is_named = names is None or method.name in (*names, BASELINE)
        if is_named and has_models and (paths["ensemble"] or not method.ensemble):
            yield method


def translate(translator: Translator, lines: Sequence[str], settings: Settings) -> list[str]:
    """The best translation of each line."""
    return [each.text for each in translator.translate(lines, **settings)]


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """A table in Markdown for each corpus, in the order of the searches."""
    order = {method.name: number for number, method in enumerate(METHODS)}
    parts = []
    for corpus in dict.fromkeys(result["corpus"] for result in results):
        rows = [result for result in results if result["corpus"] == corpus]
        rows.sort(key=lambda result: order[result["method"]])
        parts += [
            f"#### {corpus}",
            "",
            "| search | BLEU | chrF2 | CPU seconds | chosen on validation data |",
            "|---|---|---|---|---|",
            *map(_row, rows),
            "",
        ]
    return "\n".join(parts).rstrip()


def _row(result: Mapping[str, Any]) -> str:
    """A line of the table; a star marks a significant difference from the baseline."""
    scores = [
        f"{score:.2f}" + ("*" if result["p_values"][name] < 0.05 else "")
        for name, score in result["scores"].items()
    ]
    name, chosen = result["method"], result["chosen"]
    if result["models"] > 1:
        name += f" ({result['models']} models)"
    if "rerank_weight" in chosen:
        text = "weights " + ", ".join(f"{weight:g}" for weight in chosen["rerank_weight"])
    else:
        text = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in chosen.items())
    return f"| {name} | {' | '.join(scores)} | {result['seconds']:,.0f} | {text} |"


if __name__ == "__main__":
    main()
