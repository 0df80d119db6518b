"""The programs in benchmarks/ use valid settings, and write tables from stored results."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ablations
import adapters
import aligners
import context
import corpus_filters
import curves
import fast
import glossaries
import growth
import guards
import lengths
import many_languages
import memory_length
import parallel
import parallel_ablations
import protected_spans
import recipes
import runner
import systems
import variants
from annotated import write_annotated_store
from regard.cli.demo import SETTINGS
from regard.config import build
from regard.data.corpora_file import read_corpora
from regard.data.store import Store
from regard.decoding.config import SearchConfig
from regard.models.folder import ModelFolder
from regard.models.nonautoregressive import NonAutoregressiveConfig
from regard.models.xl import XLConfig
from regard.settings_tree import merge_trees
from regard.tasks.recipes import build_run_config
from regard.training.config import RunConfig
from toys import write_model_folder

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("row", ablations.ROWS, ids=lambda row: row.name)
def test_ablations_are_valid_runs(row: ablations.Row) -> None:
    recipe = ROOT / ablations.RECIPE
    plain = build_run_config(recipe, preset=None, changes={}, assignments=[])
    changed = build_run_config(recipe, preset=None, changes={}, assignments=row.settings)
    assert (changed == plain) == (not row.settings)


@pytest.mark.parametrize("candidate", fast.CANDIDATES, ids=lambda candidate: candidate.name)
def test_fast_candidates_are_valid_runs(candidate: fast.Candidate) -> None:
    recipe = ROOT / fast.RECIPE
    build_run_config(recipe, preset=None, changes={}, assignments=candidate.settings)
    assert fast.Candidate.of(f"{candidate.name}: {' '.join(candidate.settings)}") == candidate


def test_fast_candidates_have_unique_names() -> None:
    names = [candidate.name for candidate in fast.CANDIDATES]
    assert len({*names}) == len(names)


def test_fast_candidates_are_sorted_by_bleu() -> None:
    def result(name: str, seed: int, bleu: float) -> runner.Tree:
        figures = {"bleu": bleu, "greedy": bleu - 1, "parameters": 2_000_000, "seconds": 60.0}
        return {"candidate": name, "seed": seed, **figures}

    rows = fast.table([result("6+1", 1, 40), result("8+1", 1, 41), result("6+1", 2, 41)])
    assert rows.splitlines()[2:] == [
        "| 8+1 | 2.00M | 41.00 |  | 40.00 | 60 | 1 |",
        "| 6+1 | 2.00M | 40.50 | 0.71 | 39.50 | 60 | 2 |",
    ]


@pytest.mark.parametrize("variant", variants.VARIANTS)
def test_variants_are_valid_runs(variant: str) -> None:
    plain, changed = (
        build(RunConfig, merge_trees(SETTINGS, {"out": "somewhere", "model": model}))
        for model in ({}, variants.VARIANTS[variant])
    )
    assert (changed == plain) == (not variants.VARIANTS[variant])


def test_pages_contain_the_stored_length_results() -> None:
    results = lengths._read_results(ROOT / "benchmarks" / "results" / "lengths.json")
    assert [result.positions for result in results] == lengths.POSITIONS
    for page, heading in lengths.PAGES.items():
        assert lengths._table(results, heading) in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("row", systems.ROWS, ids=lambda row: row.name)
def test_systems_are_valid_runs(row: systems.Row) -> None:
    recipe = ROOT / "recipes" / f"{row.recipe}.toml"
    plain = build_run_config(recipe, preset=None, changes={}, assignments=[])
    changed = build_run_config(recipe, preset=None, changes={}, assignments=row.settings)
    assert (changed == plain) == (not row.settings)


def test_systems_resume_with_missing_jobs(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    options = systems._options(["--device", "cpu", "--results", str(path), "--rounds", "2"])
    jobs = systems.missing_jobs("speed", options)
    assert [job.number for job in jobs] == [1] * len(systems.ROWS) + [2] * len(systems.ROWS)
    path.write_text(json.dumps({"results": [{**jobs[0].identity, "batch 1": 2.0}]}))
    assert systems.missing_jobs("speed", options) == jobs[1:]
    assert len(systems.missing_jobs("bleu", options)) == len(systems.ROWS)


def test_systems_table_has_a_line_per_system() -> None:
    def result(measure: str, number: int, device: str, **figures: float) -> runner.Tree:
        job = systems.Job(measure, systems.ROWS[-1], number, device)
        return {**job.identity, **figures}

    lines = systems.table(
        [
            result("bleu", 1, "cuda", bleu=42.0, parameters=2_880_000, steps=7500),
            result("bleu", 2, "cuda", bleu=43.0, parameters=2_880_000, steps=7500),
            result("training", 1, "cuda", updates=50.0, tokens=200_000.0),
            result("speed", 1, "cuda", **{"batch 1": 60.0, "batch 100": 1500.0}),
            result("speed", 1, "cpu", **{"batch 1": 10.0, "batch 100": 100.0}),
            result("speed", 2, "cpu", **{"batch 1": 20.0, "batch 100": 140.0}),
        ]
    ).splitlines()
    figures = "42.50 ± 0.71 | 2.88M | 2.5 min | 200,000 | 60 | 1,500 | 15 | 120"
    assert lines[2:] == [f"| Transformer | {figures} |"]


def test_bottleneck_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "PICTURE", tmp_path / "bottleneck.png")
    systems.draw([])
    assert not (tmp_path / "bottleneck.png").exists()
    group = {"shortest": 3, "longest": 9, "sentences": 5, "bleu": 20.0}
    figures = {"by_length": [group, group], "reach": [0.1, 0.01]}
    jobs = [systems.Job("bottleneck", row, 1, "cpu") for row in systems.ROWS]
    systems.draw([{**job.identity, **figures} for job in jobs])
    assert (tmp_path / "bottleneck.png").read_bytes().startswith(b"\x89PNG")
    assert {*systems.PLOTTED} <= {row.name for row in systems.ROWS}


def test_page_contains_the_stored_system_results() -> None:
    results = runner.read_results(ROOT / "benchmarks" / "results" / "systems.json")
    assert systems.table(results) in (ROOT / systems.PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("row", adapters.ROWS[1:], ids=lambda row: row.name)
def test_adapters_are_valid_runs(tmp_path: Path, unvalidated_store: Store, row: Any) -> None:
    model = write_model_folder(tmp_path / "model", unvalidated_store)
    changes = {"out": "somewhere", "init_from": str(model)}
    assignments = [*adapters.METHOD, *row.settings]
    config = build_run_config(None, preset=None, changes=changes, assignments=assignments)
    adapted = row.name not in ("full", "frozen")
    assert (config.training.lora.rank > 0) == adapted
    assert bool(config.training.freeze) == (row.name == "frozen")


def test_adapters_resume_and_report_the_best_learning_rate(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    arguments = ["--results", str(path), "--seeds", "1", "2", "--rates", "0.1", "0.2"]
    options = adapters._options([*arguments, "--rows", "origin", "full"])
    jobs = adapters.missing_jobs(options)
    assert [(job.row.name, job.rate, job.seed) for job in jobs] == [
        ("origin", 0.0, 1),
        *(("full", rate, seed) for seed in (1, 2) for rate in (0.1, 0.2)),
    ]
    stored = {"numbers": 2_875_904, "bytes": 2**20}
    results: list[runner.Tree] = [{**jobs[0].identity, **stored, "old": 40.0, "new": 5.0}]
    for job, loss, new in zip(jobs[1:], (3.0, 2.0, 3.0, 2.5), (9.0, 20.0, 9.0, 21.0), strict=True):
        results.append({**job.identity, **stored, "loss": loss, "old": 30.0, "new": new})
    path.write_text(json.dumps({"results": results[:3]}))
    assert adapters.missing_jobs(options) == jobs[3:]
    assert adapters.table(results).splitlines()[2:] == [
        "| nothing |  | 5.00 | 40.00 | 2,875,904 | 1.00 MB |",
        "| all weights | 0.2 | 20.50 ± 0.71 | 30.00 ± 0.00 | 2,875,904 | 1.00 MB |",
    ]


def test_measured_recipes_exist() -> None:
    for measure in recipes.MEASURES:
        assert (ROOT / "recipes" / f"{measure.recipe}.toml").is_file()


def test_ablation_table_compares_with_the_recipe() -> None:
    def result(row: str, seed: int, bleu: float, **more: Any) -> runner.Tree:
        fixed = {"loss": 1.5, "parameters": 2_000_000, "seconds": 3.0, "searches": {}}
        return {"row": row, "seed": seed, "bleu": bleu, **fixed, **more}

    lines = ablations._table(
        [
            result("recipe: as it is", 1, 40.0, searches={"beam size: 1": 39.0}),
            result("recipe: as it is", 2, 42.0, searches={"beam size: 1": 40.0}),
            result("heads: 1", 1, 38.0),
        ]
    ).splitlines()
    assert lines[2] == "| recipe | unchanged | 2.00M | 41.00 | 1.41 | +0.00 | 1.500 | 2 |"
    assert lines[3] == "| heads | 1 | 2.00M | 38.00 |  | -3.00 | 1.500 | 1 |"
    assert lines[4] == "| beam size | 1 |  | 39.50 | 0.71 | -1.50 |  | 2 |"


def test_many_languages_have_a_corpora_file_for_each_system(tmp_path: Path) -> None:
    rows = many_languages.systems([1.0, 5.0])
    assert [row.name for row in rows] == [
        *["many-T1", "many-T5", "en-de", "de-en", "zh-en", "en-zh"],
    ]
    path = tmp_path / "corpora.toml"
    for row in rows:
        path.write_text(many_languages.corpora_file(row, Path("text")))
        corpora = read_corpora(path)
        for part in ("train", "valid"):
            assert {files.direction for files in corpora[part]} == {*row.directions}
    path.write_text(many_languages.corpora_file(rows[0], Path("text")))
    sources = [str(files.source) for files in read_corpora(path)["train"]]
    assert sources == [
        *["text/multi30k/train.en", "text/multi30k/train.de"],
        *["text/tatoeba-de-en/train.en.gz", "text/tatoeba-de-en/train.de.gz"],
        *["text/3am-zh-en/train.zh", "text/3am-zh-en/train.en"],
    ]
    recipe = ROOT / many_languages.RECIPE
    build_run_config(recipe, preset=None, changes={}, assignments=[])


def test_many_languages_are_compared_by_direction() -> None:
    results = [
        {"row": "en-de", "seed": 1, "en-de Multi30k": 30.0, "en-de Tatoeba": 40.0},
        {"row": "en-de", "seed": 2, "en-de Multi30k": 32.0, "en-de Tatoeba": 40.0},
        {"row": "many-T5", "seed": 1, "en-de Multi30k": 33.0, "zh-en 3AM": 20.0},
    ]
    rows = many_languages.systems([5.0])
    lines = many_languages.table(results, rows, test=False).splitlines()
    assert lines[0] == "| direction, validation set | own model | many-T5 |"
    assert lines[2:] == [
        "| en-de Multi30k | 31.00 ± 1.41 | 33.00 |",
        "| en-de Tatoeba | 40.00 ± 0.00 |  |",
        "| zh-en 3AM |  | 20.00 |",
    ]


def test_models_with_context_are_compared(tmp_path: Path) -> None:
    context.prepare(tmp_path, documents=300)
    stores = {system.name: Store(tmp_path / system.name) for system in context.SYSTEMS}
    counts = [store.document_context.counts for store in stores.values()]
    assert counts == [(0, 0), (1, 0), (2, 0), (1, 1)]
    assert len({len(store.part("train")) for store in stores.values()}) == 1
    assert all(store.tokenizers == stores["0+0"].tokenizers for store in stores.values())
    results = [
        {"row": "1+0", "seed": seed, "BLEU": 90.0, "distance 1": value, "distance 2": 50.0}
        for seed, value in ((1, 98.0), (2, 99.0))
    ]
    line = context.table(results).splitlines()[-1]
    assert line.startswith("| 1+0 | 98.5 % (98.0 to 99.0) | 50.0 % (50.0 to 50.0) | 90.0 ")


@pytest.mark.parametrize("row", parallel_ablations.ROWS, ids=lambda row: row.name)
def test_mask_ablations_are_valid_runs(row: parallel_ablations.Row) -> None:
    recipe = ROOT / "recipes" / f"{row.recipe}.toml"
    assignments = [f"model.self_attention_mask={row.mask}"]
    build_run_config(recipe, preset=None, changes={}, assignments=assignments)


def test_mask_ablations_have_mean_and_standard_deviation() -> None:
    results = [
        {"row": "multi30k-ctc-diagonal", "seed": seed, "alone": 40.0 + seed, "ranked": 42.0}
        for seed in (1, 3)
    ]
    (line,) = parallel_ablations._table(results).splitlines()[2:]
    assert line == "| `multi30k-ctc` | `diagonal` | 42.00 | 1.41 | 42.00 | 0.00 | 2 |"


def test_failed_jobs_are_printed_and_others_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(job: int) -> runner.Tree:
        if job == 2:
            raise subprocess.CalledProcessError(2, "regard", stderr="no such luck")
        return {"job": job}

    path = tmp_path / "results.json"
    runner.run_jobs([1, 2, 3], measure, path, parallel=2, minutes=1)
    assert sorted(result["job"] for result in runner.read_results(path)) == [1, 3]
    assert "2 failed: no such luck" in capsys.readouterr().out


def test_growth_is_given_per_doubling() -> None:
    before = {"length": 64, "width": 256, "milliseconds": 10.0, "megabytes": 100.0}
    now = {"length": 256, "width": 256, "milliseconds": 40.0, "megabytes": 100.0}
    assert curves._line("length", None, before) == "| length 64 | 10.0 | 100 |  |  |"
    assert curves._line("length", before, now) == "| length 256 | 40.0 | 100 | x 2.00 | x 1.00 |"


@pytest.mark.parametrize("length", [4, 32, 4096])
def test_step_has_the_same_number_of_tokens_at_every_length(length: int) -> None:
    batch = growth.sentences(length, 4096)
    for row in batch.sides:
        assert row.lengths.total == 4096
        assert set(row.lengths.lengths.tolist()) == {length}


def test_synthetic_pairs_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    source, target, gold = aligners.synthetic_pairs(300, 1)
    for index, alignment in enumerate(gold):
        assert len(alignment.sure) <= len(target[index])
        assert all(i < len(source[index]) and j < len(target[index]) for i, j in alignment.sure)
    aligners.compare(source, target, gold)
    head, _, ours, *_ = capsys.readouterr().out.splitlines()
    assert head.startswith("| aligner | AER, forward | AER, backward |")
    assert float(ours.split("|")[2].strip(" %")) < 40


@pytest.mark.parametrize("name", parallel.STUDENTS)
def test_students_are_valid_runs(name: str, tmp_path: Path, reversal_store: Store) -> None:
    student = parallel.STUDENTS[name]
    recipe = ROOT / "recipes" / f"{student.recipe}.toml"
    changes: dict[str, Any] = {}
    if student.after:
        base = write_model_folder(tmp_path, reversal_store, kind="nonautoregressive")
        changes["init_from"] = str(base)
        assert list(parallel.STUDENTS).index(student.after) < list(parallel.STUDENTS).index(name)
    config = build_run_config(recipe, preset=None, changes=changes, assignments=[])
    assert isinstance(config.model, NonAutoregressiveConfig)
    assert config.model.needs_fertilities == ("parallel" in student.recipe)


def test_nonautoregressive_rows_are_compared_with_the_teacher() -> None:
    names = [row.name for row in parallel.ROWS]
    assert len({*names}) == len(names)
    for row in parallel.ROWS:
        build(SearchConfig, row.search)
        assert row.student is None or row.student in parallel.STUDENTS

    def result(name: str, bleu: float, latency: float, speed: float) -> runner.Tree:
        times = {"latency": latency, "sentences_per_second": speed}
        return {"row": name, "sentences": 1000, "bleu": bleu, "repeated": 0.5, **times}

    results = {
        "cuda": [result("CTC", 40, 0.001, 9000), result("teacher, beam 4", 41, 0.01, 3000)],
        "cpu": [],
    }
    assert parallel.table(results).splitlines()[2:] == [
        "| teacher, beam 4 | 41.00 | 0.50 | 10.00 ms (1.0x) | 3,000 (1.0x) |  |  |",
        "| CTC | 40.00 | 0.50 | 1.00 ms (10.0x) | 9,000 (3.0x) |  |  |",
    ]


def test_memory_lengths_are_valid_runs(tmp_path: Path) -> None:
    recipe = ROOT / memory_length.RECIPE
    shapes = [
        build_run_config(
            recipe, preset=None, changes={}, assignments=[f"model.memory_length={memory}"]
        ).model
        for memory in memory_length.TRAIN_LENGTHS
    ]
    assert {shape.kind for shape in shapes} == {"xl"}
    assert len({shape.memory_length for shape in shapes if isinstance(shape, XLConfig)}) == len(
        shapes
    )
    figures = {str(length): 40 - length / 100 for length in memory_length.EVAL_LENGTHS}
    results: list[runner.Tree] = [
        {"memory": memory, "seed": 1, "perplexity": figures}
        for memory in memory_length.TRAIN_LENGTHS
    ]
    lines = memory_length.table(results).splitlines()
    assert lines[2] == "| no memory | 40.00 | 39.68 | 39.36 | 38.72 | 37.44 | 34.88 | 29.76 |"
    assert lines[4].startswith("| 128 tokens | 40.00 |")
    memory_length.draw(results, tmp_path / "memory.png")
    assert (tmp_path / "memory.png").is_file()


def test_last_tenth_of_the_text_is_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("".join(f"{number}\n" for number in range(100)))
    monkeypatch.setattr(memory_length, "run_regard", lambda *words: "")
    memory_length.prepare(tmp_path / "text", tmp_path / "data")
    parts = [
        (tmp_path / f"data.{part}.txt").read_text().split() for part in ("train", "valid", "test")
    ]
    assert [len(part) for part in parts] == [90, 5, 5]
    assert [int(line) for part in parts for line in part] == [*range(100)]


def test_guards_are_measured_against_the_plain_search(
    reversal_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model_folder(tmp_path / "model", reversal_store)
    (tmp_path / "source").write_text("a b c\nd e\n")
    files = ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "source")]
    guards.main([str(model), *files, "--beam-size", "1", "2", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 2 * len(guards.GUARDS)
    assert all("sentences/s" in line and "BLEU" in line for line in lines)
    assert "1.00 times (1.00 to 1.00), 100.0% equal" in lines[0]
    assert "doubtful" in lines[1]


def test_noise_of_corpora_is_labelled() -> None:
    pairs = [(f"the house number {n}", f"das Haus Nummer {n}") for n in range(100)]
    corpus = corpus_filters.NoisyCorpus.of(pairs, 0.05, seed=1)
    kinds = corpus.kinds.tolist()
    assert {kind: kinds.count(kind) for kind in corpus_filters.NOISE} == dict.fromkeys(
        corpus_filters.NOISE, 5
    )
    real = [n for n in range(100) if kinds[n] == corpus_filters.REAL]
    assert corpus.real == [corpus.pairs[n] for n in real] == [pairs[n] for n in real]
    for kind, (source, target), pair in zip(kinds, corpus.pairs, pairs, strict=True):
        assert (source, target) != pair or kind in (corpus_filters.REAL, "misaligned")
        assert (target == source) == (kind == "copied")


def test_corpus_filters_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [
        (f"The house is {n * 'very '}old.", f"Das Haus ist {n * 'sehr '}alt.") for n in range(60)
    ]
    files = corpus_filters._write(tmp_path / "text", pairs)
    corpus_filters.main(
        ["--source", str(files.source), "--target", str(files.target), "--languages", "en", "de"]
    )
    header, _, *rows = (line.split(" | ") for line in capsys.readouterr().out.splitlines())
    assert [row[0] for row in rows] == [
        *("| rules", "| languages"),
        *(f"| alignment, {keep} kept" for keep in ("90%", "80%", "70%")),
        "| all",
    ]
    copied, swapped = header.index("copied"), header.index("swapped")
    assert rows[0][copied] == rows[-1][copied] == "100.0%"
    assert rows[1][swapped] == "100.0%"


def test_names_and_numbers_are_replaced_by_spans(
    reversal_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "source", tmp_path / "reference"
    test[0].write_text("Tom has a b\na b c\n12 a\nTom Tom\n")
    test[1].write_text("B a hat Tom\nc b a\na 12\nTom\n")
    pairs = protected_spans.select_pairs(*(path.read_text().splitlines() for path in test))
    assert [pair.word for pair in pairs] == ["Tom", "12"]
    model = write_model_folder(tmp_path / "model", reversal_store)
    files = "--source", str(test[0]), "--reference", str(test[1])
    protected_spans.main([str(model), *files])
    notice, *lines = capsys.readouterr().out.splitlines()
    assert notice.endswith("2 pairs")
    assert len(lines) == len(protected_spans.SPANS) * len(protected_spans.SETTINGS)
    assert all("100.0% unchanged" in line for line in lines if " protect " in line)


def test_glossaries_are_made_from_the_test_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    annotated = write_model_folder(tmp_path / "annotated", write_annotated_store(tmp_path))
    text = ModelFolder.read(annotated)
    shutil.copytree(annotated, tmp_path / "plain")
    statistics = replace(text.data_statistics, annotated_terms=0.0)
    replace(text, data_statistics=statistics).write(tmp_path / "plain")
    train = tmp_path / "train.source", tmp_path / "train.target"
    train[0].write_text("a b\nb c\nc d\na c\n" * 20)
    train[1].write_text("A B\nB C\nC D\nA C\n" * 20)
    test = tmp_path / "source", tmp_path / "reference"
    test[0].write_text("a b\nd c\n")
    test[1].write_text("A B\nD C\n")
    names = ("--source", "--reference", "--train-source", "--train-target")
    files = [part for pair in zip(names, map(str, (*test, *train)), strict=True) for part in pair]
    models = [str(tmp_path / "plain"), str(annotated)]
    glossaries.main([*models, *files, *["--beam-size", "2", "--rounds", "1", "--threads", "1"]])
    output = capsys.readouterr().out
    assert "2 terms, 2 sentences" in output
    table = [line.strip("| ").split(" | ") for line in output.splitlines() if line[:2] == "| "]
    rows = {(row[0], row[2]): dict(zip(table[0], row, strict=True)) for row in table[1:]}
    assert [*rows] == [
        *(("plain", method) for method in ("plain", "constrained")),
        *(("annotated", method) for method in ("plain", "constrained", "annotated", "both")),
    ]
    for (_, method), row in rows.items():
        enforced = method in ("constrained", "both")
        assert (row["terms realised"] == "2 of 2 (100.0%)") == enforced
        assert (row["searched again"] != "0") == enforced
        assert row["lack a term"] == ("2" if method == "annotated" else "0")
        if method == "plain":
            assert (row["times plain"], row["changed"]) == ("1.00", "0")
