"""Alignments by the command: from text, from a model, and fertilities into a prepared folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import Command, regard
from cli.test_pipeline import run, texts
from data.corpora import prepared, some_pairs, write_pairs
from regard.data.fertilities import read_fertilities
from regard.data.store import Store

__all__ = ["regard", "run", "texts"]  # fixtures


@pytest.fixture
def text(tmp_path: Path) -> list[str | Path]:
    """Pairs that are aligned word by word, as options."""
    files = write_pairs(tmp_path / "own", "text", [*some_pairs(), ("", "")])
    return ["--source", files.source, "--target", files.target]


def diagonal(count: int) -> list[str]:
    return [f"{place}-{place}" for place in range(count)]


def test_words_are_aligned_by_their_text_alone(
    text: list[str | Path], tmp_path: Path, regard: Command
) -> None:
    done = regard("align", *text, "--picture", tmp_path / "a.png", "--line", "3")
    assert done.status == 0, done.err
    lines = done.out.split("\n")
    lengths = [len(source.split()) for source, _ in some_pairs()]
    right = [line.split() == diagonal(n) for line, n in zip(lines, lengths, strict=False)]
    assert sum(right) >= 55
    assert lines[60:] == ["", ""]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_gold_links_are_compared_with(
    text: list[str | Path], tmp_path: Path, regard: Command
) -> None:
    gold = tmp_path / "gold"
    lines = [" ".join(diagonal(len(source.split()))) for source, _ in some_pairs()]
    gold.write_text("\n".join([*lines, ""]) + "\n")
    done = regard("align", *text, "--gold", gold, "--rule", "intersection")
    assert done.status == 0
    [told] = [line for line in done.err.splitlines() if "Alignment error rate" in line]
    assert float(told.split()[3]) < 5


def test_a_store_gets_fertilities(tmp_path: Path, regard: Command) -> None:
    prepared(tmp_path / "data", some_pairs(200), some_pairs(20, seed=9))
    done = regard("align", "--data", tmp_path / "data")
    assert done.status == 0, done.err
    assert done.out == ""
    store = Store(tmp_path / "data")
    for name in ("train", "valid"):
        part, found = store.part(name), read_fertilities(store.folder, name)
        assert [found[i].sum() for i in range(len(part))] == part.target.lengths().tolist()
        assert f"Written: fertilities of {name}, {len(part)} pairs" in done.err


def test_a_models_attention_aligns(
    run: Path, texts: Path, text: list[str | Path], regard: Command, tmp_path: Path
) -> None:
    folder = texts / "data"
    done = regard("align", run, *text, "--data", folder, "--device", "cpu")
    assert done.status == 0, done.err
    assert len(done.out.split("\n")) == 62
    assert "alignment error rate, %" in done.err
    [best] = [line for line in done.err.splitlines() if line.startswith("Best on ")]
    layer, head = (word.rstrip(",") for word in best.split(": ")[1].split()[1:4:2])
    if best.split(": ")[1].split()[2] == "head":
        chosen = ["--layer", layer, "--head", head]
        chosen += [] if "is read" in best else ["--written"]
        again = regard("align", run, *text, *chosen, "--device", "cpu")
        assert again.out == done.out
    told = regard("align", run, "--data", folder, "--layer", "1", "--device", "cpu")
    assert told.status == 0, told.err
    lengths = Store(folder).part("train").target.lengths()
    assert read_fertilities(folder, "train").flat().sum() == lengths.sum()


def test_subwords_can_be_linked(run: Path, text: list[str | Path], regard: Command) -> None:
    options = ["--layer", "1", "--written", "--device", "cpu"]
    words = regard("align", run, *text, *options).out.split("\n")
    parts = regard("align", run, *text, *options, "--subwords").out.split("\n")
    assert len(words) == len(parts)
    assert sum(map(len, parts)) > sum(map(len, words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Give a text by --source and --target"),
        (["TEXT", "--rule", "best"], "There is no rule 'best'. Rules are forward"),
        (["TEXT", "--head", "1"], "--head: no effect without a model"),
        (["TEXT", "--layer", "1", "--written"], "--layer, --written: no effect without a model"),
        (["TEXT", "--device", "cpu"], "--device: no effect without a model"),
        (["RUN", "TEXT", "--head", "1"], "--head: a layer is needed. Give --layer."),
        (["RUN", "TEXT", "--written"], "--written: a layer is needed. Give --layer."),
        (["TEXT", "--line", "2"], "--line: no effect without --picture"),
        (["TEXT", "--overwrite"], "--overwrite: nothing is written without --picture"),
        (["--data", "DATA", "--subwords"], "--subwords: a text is needed"),
        (["TEXT", "--subwords"], "needs a model or --data"),
        (["TEXT", "--line", "99", "--picture", "x.png"], "There is no line 99: the text has 61"),
        (
            ["--data", "DATA", "--picture", "x.png"],
            "--picture: a text is needed. Give --source and --target.",
        ),
        (["RUN", "TEXT", "--layer", "9"], "There is no layer 9, all heads, as a word is read"),
        (["RUN", "TEXT", "--data", "OTHER"], "is cut in another way than"),
    ],
)
def test_mistakes_get_a_sentence(
    run: Path,
    texts: Path,
    text: list[str | Path],
    regard: Command,
    tmp_path: Path,
    words: list[str],
    message: str,
) -> None:
    if "OTHER" in words:
        prepared(tmp_path / "other", some_pairs(30, seed=7))
    places = {"RUN": run, "DATA": texts / "data", "OTHER": tmp_path / "other"}
    given = [
        part for word in words for part in (text if word == "TEXT" else [places.get(word, word)])
    ]
    done = regard("align", *given)
    assert done.status == 2
    assert message in done.err
