"""The commands of the page about fine-tuning, one after the other, on small files."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cli.commands import Command, regard
from docs.generated import DOCS
from exchange.language_models import write_bert

__all__ = ["regard"]  # a fixture

PAGES = [DOCS / "guides" / "pretraining.md", DOCS / "zh" / "pretraining.md"]
FEW = ["training.max_steps=4", "training.checkpoint_every=2", "training.tensorboard=false"]
SETTINGS = [
    argument for assignment in (*FEW, "data.batch_tokens=256") for argument in ("--set", assignment)
]
LEXICON = {"DET": "the a", "ADJ": "old green small", "NOUN": "dog cat house", "VERB": "runs sleeps"}
ORDER = ["DET", "ADJ", "NOUN", "VERB"]


def commands(page: Path) -> list[str]:
    """Every `regard ...` line, continuation lines joined."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    return re.findall(r"^ {4,}(regard .*)$", text, re.M)


Sentence = list[tuple[str, str]]


def sentence(draw: random.Random) -> Sentence:
    """Words and their parts of speech; some have no adjective."""
    order = [label for label in ORDER if label != "ADJ" or draw.random() < 0.5]
    return [(draw.choice(LEXICON[label].split()), label) for label in order]


def conllu(words: Sentence) -> str:
    rows = enumerate(words, 1)
    return "".join(f"{n}\t{w}\t_\t{label}\t_\t_\t_\t_\t_\t_\n" for n, (w, label) in rows) + "\n"


def columns(words: Sentence) -> str:
    """Adjective and noun are a name."""
    first, rows = True, ""
    for word, label in words:
        inside = label in ("ADJ", "NOUN")
        rows += f"{word}\t{('B-x' if first else 'I-x') if inside else 'O'}\n"
        first = first and not inside
    return rows + "\n"


def tsv(words: Sentence) -> str:
    return f"{int(words[0][0] == 'the')}\t{plain(words)}"


def plain(words: Sentence) -> str:
    return " ".join(word for word, _ in words) + "\n"


FILES: dict[str, tuple[Callable[[Sentence], str], int]] = {
    "train.conllu": (conllu, 60),
    "dev.conllu": (conllu, 12),
    "names.tsv": (columns, 60),
    "names.dev.tsv": (columns, 12),
    "train.tsv": (tsv, 60),
    "dev.tsv": (tsv, 12),
    "books.txt": (plain, 100),
    "held-out.txt": (plain, 20),
    "lines.txt": (plain, 5),
}


def write_files(folder: Path) -> None:
    draw = random.Random(1)
    for name, (form, count) in FILES.items():
        text = "".join(form(sentence(draw)) for _ in range(count))
        (folder / name).write_text(text, encoding="utf-8")
    write_bert(folder / "all-MiniLM-L6-v2", "BertModel")


def call(regard: Command, line: str) -> str:
    """Run a line of the page; what is trained is trained for a few updates."""
    command, _, input_path = line.partition(" < ")
    _, *arguments = shlex.split(command)
    more: Sequence[str] = SETTINGS if arguments[0] == "train" else ()
    stdin = Path(input_path).read_bytes() if input_path else b""
    result = regard(*arguments, *more, stdin=stdin)
    assert result.status == 0, f"{line}\n{result.err}"
    return result.out


def test_every_command_runs(
    tmp_path: Path, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    lines = commands(PAGES[0])
    assert len(lines) >= 20
    outputs = {line: call(regard, line) for line in lines}
    tagged = outputs["regard tag runs/tagger < lines.txt"]
    assert {len(row.split("\t")) for row in tagged.splitlines() if row} == {2}
    assert len(outputs["regard classify runs/sentiment < lines.txt"].splitlines()) == 5
    assert (tmp_path / "tags.png").read_bytes().startswith(b"\x89PNG")
    adapter, merged = tmp_path / "runs" / "lora", tmp_path / "models" / "sentiment"
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (adapter, merged)]
    assert 5 * sizes[0] < sizes[1]


def test_both_languages_show_the_same_commands() -> None:
    first, second = map(commands, PAGES)
    assert first == second


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.parent.name)
def test_generated_sections_have_markers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in ("tagging", "sentiment"):
        begin = f"<!-- {name}: made by benchmarks/labels.py --write -->"
        assert text.count(begin) == text.count(f"<!-- /{name} -->") == 1
        assert text.index(begin) < text.index(f"<!-- /{name} -->")
