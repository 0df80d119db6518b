"""The examples of docs/guides/python.md and docs/guides/extending.md, run as they stand."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard as package
from docs.generated import DOCS

WORDS = {
    "the": "DET",
    "a": "DET",
    "two": "NUM",
    "red": "ADJ",
    "blue": "ADJ",
    "house": "NOUN",
    "bird": "NOUN",
    "is": "VERB",
    "sees": "VERB",
}


def python_blocks(page: str) -> list[str]:
    return re.findall(
        r"```python\n(.*?)```", (DOCS / "guides" / page).read_text(encoding="utf-8"), re.DOTALL
    )


def sentences(count: int, seed: int) -> Iterator[list[str]]:
    draw = random.Random(seed)
    for _ in range(count):
        yield draw.choices([*WORDS], k=draw.randint(2, 7))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with small files of each kind."""
    for name, rows in (("train", [*sentences(300, 1)]), ("valid", [*sentences(20, 2)])):
        lines = [" ".join(row) for row in rows]
        files = {
            f"{name}.en": lines,
            f"{name}.de": [" ".join(reversed(row)) for row in rows],
            "text.txt" if name == "train" else "valid.txt": lines,
            f"{name}.conll": ["\n".join(f"{w}\t{WORDS[w]}" for w in row) + "\n" for row in rows],
            f"{name}.tsv": [
                f"{'red' in row}\t{line}" for row, line in zip(rows, lines, strict=True)
            ],
            f"{name}.numbers": [
                f"{len(row)}\t{line}" for row, line in zip(rows, lines, strict=True)
            ],
        }
        for file, content in files.items():
            (tmp_path / file).write_text("\n".join(content) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_public_names_are_documented() -> None:
    page = (DOCS / "guides" / "python.md").read_text(encoding="utf-8")
    for name in dir(package):
        assert name == "__version__" or name in page, name
        assert getattr(package, name) is not None


def test_api_examples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in python_blocks("python.md")[:-3]:  # the last ones need trained models
        exec(compile(block, "docs/guides/python.md", "exec"), names)  # trusted code
    output = capsys.readouterr().out
    assert "BLEU" in output
    assert "There is no model folder runs/missing" in output


def regard(*arguments: str) -> str:
    """A command, in a process of its own: plugins stay registered."""
    result = subprocess.run(
        [sys.executable, "-m", "regard", *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


SMALL = [
    *["--set", "model.d_model=32", "--set", "training.learning_rate=0.02"],
    *["--set", "training.warmup_steps=20", "--set", "training.tensorboard=false"],
    *["--set", "training.label_smoothing=0", "--set", "data.batch_tokens=500"],
]


def test_model_kind_plugin(folder: Path) -> None:
    Path("averaging.py").write_text(python_blocks("extending.md")[0])
    plugin = ["--plugin", "averaging.py"]
    valid = ["--valid-source", "valid.en", "--valid-target", "valid.de"]
    regard("prepare", "--source", "train.en", "--target", "train.de", *valid, "--out", "data")
    kind = ["--set", "model.kind=averaging", "--set", "training.checkpoint_every=100"]
    for seed in ("1", "2"):
        more = ["--set", "training.max_steps=200", "--set", f"training.seed={seed}"]
        out = f"runs/{seed}"
        regard(*plugin, "train", "--data", "data", "--out", out, *kind, *SMALL, *more)
    test = ["--source", "valid.en", "--reference", "valid.de", "--format", "json"]
    alone = regard(*plugin, "evaluate", "runs/1", *test, "--beam-size", "3")
    assert '"BLEU"' in alone
    together = regard(*plugin, "evaluate", "runs/1", "runs/2", "--ensemble", *test)
    assert "runs/1 + runs/2" in together
    pairs = ["--source", "valid.en", "--target", "valid.de"]
    scores = [float(x) for x in regard(*plugin, "score", "runs/1", *pairs).splitlines()]
    assert len(scores) == 20
    assert max(scores) < 0
    # Scores of the search match `score`, and batching does not change translations.
    code = (
        "import averaging, regard\n"
        "model = regard.load('runs/1')\n"
        "texts = open('valid.en').read().splitlines()\n"
        "results = model.translate(texts, beam_size=1)\n"
        "again = model.score(texts, [result.text for result in results])\n"
        "assert max(abs(a.score - b) for a, b in zip(results, again)) < 1e-4\n"
        "single = [model.translate([text], beam_size=1)[0].text for text in texts]\n"
        "assert single == [result.text for result in results]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_task_plugin(folder: Path) -> None:
    Path("predict_numbers.py").write_text(python_blocks("extending.md")[1])
    plugin = ["--plugin", "predict_numbers.py"]
    files = ["--numbers", "train.numbers", "--valid-numbers", "valid.numbers"]
    regard(*plugin, "prepare", *files, "--out", "data", "--vocab-size", "400")
    kind = ["--set", "model.kind=numbers", "--set", "training.checkpoint_every=50"]
    more = [*SMALL, "--set", "training.best_metric=within_half"]
    for steps in ("50", "150"):  # the second resumes
        limit = ["--set", f"training.max_steps={steps}"]
        regard(*plugin, "train", "--data", "data", "--out", "runs/n", *kind, *more, *limit)
    evaluated = regard(
        *plugin, "evaluate", "runs/n", "--numbers", "valid.numbers", "--format", "jsonl"
    )
    error = re.search(r'"mean_error": ([0-9.e-]+)', evaluated)
    assert error is not None
    assert float(error[1]) < 0.5
    code = python_blocks("extending.md")[2]
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert abs(float(output.stdout.strip("[]\n")) - 4) < 1
