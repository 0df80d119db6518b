"""benchmarks/labels.py uses valid settings, resumes, and writes its tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import label_corpora
import labels
from regard.tasks.recipes import build_run_config
from runner import Tree, read_results

ROOT = Path(__file__).parent.parent
JOBS = labels.missing_jobs(labels._options(["--results", "nowhere", "--seeds", "1"]))


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_jobs_are_valid_runs(job: labels.Job) -> None:
    stack = labels.STACK if job.row.init_from else ()  # part of the initial model
    assignments = [word for word in (*stack, *job.settings) if "lora" not in word]
    config = build_run_config(None, preset=None, changes={"out": "x"}, assignments=assignments)
    assert config.model.kind == {"tagging": "tagger", "sentiment": "classifier"}[job.task.name]


def test_pretrained_encoder_has_the_size_of_models_from_scratch() -> None:
    pretraining = build_run_config(
        None, preset=None, changes={"out": "x"}, assignments=labels.PRETRAINING
    )
    for job in JOBS:
        if job.row.name in ("conv", "scratch"):
            config = build_run_config(
                None, preset=None, changes={"out": "x"}, assignments=job.settings
            )
            for name in ("num_layers", "d_model", "num_heads", "ffn_type", "ffn_dim"):
                assert getattr(config.model, name) == getattr(pretraining.model, name)


def test_jobs_have_unique_names_and_data() -> None:
    jobs = labels.missing_jobs(labels._options(["--results", "nowhere"]))
    assert len({job.name for job in jobs}) == len(jobs) == 3 * (3 + 2 * 5)
    few = {job.data for job in jobs if job.labelled and job.row.name == "full"}
    assert few == {f"sst2-minilm-1000-{seed}" for seed in (1, 2, 3)}


def test_resumes_with_missing_jobs(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": [{**JOBS[0].identity, "accuracy": 93.0}]}))
    options = labels._options(["--results", str(path), "--seeds", "1"])
    assert labels.missing_jobs(options) == JOBS[1:]
    sentiment = labels._options(["--results", str(path), "--tasks", "sentiment", "--rows", "full"])
    assert {(job.task.name, job.row.name) for job in labels.missing_jobs(sentiment)} == {
        ("sentiment", "full")
    }


def test_table_has_mean_standard_deviation_and_seeds() -> None:
    task = labels.TASKS[1]
    rows = [("full", 0, 1, 91.0), ("full", 0, 2, 93.0), ("full", 1000, 1, 85.5)]
    names = ("row", "labelled", "seed", "accuracy")
    results: list[Tree] = [
        {"task": "sentiment", **dict(zip(names, row, strict=True))} for row in rows
    ]
    assert labels.table(task, results).splitlines() == [
        "| encoder | 1,000 sentences | all labels |",
        "|---|---|---|",
        "| MiniLM, all weights | 85.50 | **92.00** ± 1.41 (91.00, 93.00) |",
    ]
    assert labels.table(task, results, 1).splitlines()[0] == "| 编码器 | 1,000 句 | 全部标注 |"


def test_pages_contain_the_stored_results() -> None:
    results = read_results(ROOT / "benchmarks" / "results" / "labels.json")
    for language, page in enumerate(labels.PAGES):
        text = (ROOT / page).read_text(encoding="utf-8")
        for task in labels.TASKS:
            assert not results or labels.table(task, results, language) in text


def test_phrases_are_removed() -> None:
    lines = ["1\ta fine film", "0\ta dull film , really", "1\tfine film", "0\tdull", "1\tfilm a"]
    assert label_corpora.whole_sentences(lines) == [lines[0], lines[1], lines[4]]


def test_treebank_and_books_are_read_as_documents(tmp_path: Path) -> None:
    tree = "# newdoc\n1-2\tdon't\t_\n1\tdo\t_\n2\tn't\t_\n\n1\tgo\t_\n\n# newdoc\n1\tno\t_\n"
    path = tmp_path / "tree.gz"
    path.write_bytes(gzip.compress(tree.encode()))
    assert label_corpora.tree_documents(path) == ["do n't\ngo", "no"]
    for name in ("bible.en.txt.gz", "shakespeare.txt.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"And, lo!\n\nYes.\n"))
    assert label_corpora.books(tmp_path) == 2 * ["And , lo !\nYes ."]
