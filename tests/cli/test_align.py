"""`regard align`: trained aligner, attention alignment, and fertilities."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import Command, regard
from cli.test_pipeline import run, texts
from data.corpora import prepare_pairs, some_pairs, write_pairs
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


def test_words_are_aligned_by_a_trained_aligner(
    text: list[str | Path], tmp_path: Path, regard: Command
) -> None:
    result = regard("align", *text, "--picture", tmp_path / "a.png", "--line", "3")
    assert result.status == 0, result.err
    lines = result.out.split("\n")
    lengths = [len(source.split()) for source, _ in some_pairs()]
    right = [line.split() == diagonal(n) for line, n in zip(lines, lengths, strict=False)]
    assert sum(right) >= 55
    assert lines[60:] == ["", ""]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_gold_alignments_are_evaluated(
    text: list[str | Path], tmp_path: Path, regard: Command
) -> None:
    gold = tmp_path / "gold"
    lines = [" ".join(diagonal(len(source.split()))) for source, _ in some_pairs()]
    gold.write_text("\n".join([*lines, ""]) + "\n")
    result = regard("align", *text, "--gold", gold, "--symmetrization", "intersection")
    assert result.status == 0
    [notice] = [line for line in result.err.splitlines() if "Alignment error rate" in line]
    assert float(notice.split()[3]) < 5


def test_fertilities_are_written_to_a_store(tmp_path: Path, regard: Command) -> None:
    prepare_pairs(tmp_path / "data", some_pairs(200), some_pairs(20, seed=9))
    result = regard("align", "--data", tmp_path / "data")
    assert result.status == 0, result.err
    assert result.out == ""
    store = Store(tmp_path / "data")
    for name in ("train", "valid"):
        part, fertilities = store.part(name), read_fertilities(store.folder, name)
        assert [fertilities[i].sum() for i in range(len(part))] == part.target.lengths().tolist()
        assert f"Wrote fertilities of {name}, {len(part)} pairs" in result.err


def test_alignment_by_attention(
    run: Path, texts: Path, text: list[str | Path], regard: Command, tmp_path: Path
) -> None:
    folder = texts / "data"
    result = regard("align", run, *text, "--data", folder, "--device", "cpu")
    assert result.status == 0, result.err
    assert len(result.out.split("\n")) == 62
    assert "alignment error rate, %" in result.err
    [best] = [
        line
        for line in result.err.splitlines()
        if line.startswith("Lowest alignment error rate on ")
    ]
    layer, head = (word.rstrip(",") for word in best.split(": ")[1].split()[1:4:2])
    if best.split(": ")[1].split()[2] == "head":
        chosen = ["--layer", layer, "--head", head]
        chosen += [] if "SHIFT-ATT" in best else ["--naive-att"]
        again = regard("align", run, *text, *chosen, "--device", "cpu")
        assert again.out == result.out
    notice = regard("align", run, "--data", folder, "--layer", "1", "--device", "cpu")
    assert notice.status == 0, notice.err
    lengths = Store(folder).part("train").target.lengths()
    assert read_fertilities(folder, "train").flat().sum() == lengths.sum()


def test_subwords_are_aligned(run: Path, text: list[str | Path], regard: Command) -> None:
    options = ["--layer", "1", "--naive-att", "--device", "cpu"]
    arguments = regard("align", run, *text, *options).out.split("\n")
    parts = regard("align", run, *text, *options, "--subwords").out.split("\n")
    assert len(arguments) == len(parts)
    assert sum(map(len, parts)) > sum(map(len, arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Use --source and --target, or --data"),
        (
            ["TEXT", "--symmetrization", "best"],
            "--symmetrization is 'best', but must be one of forward",
        ),
        (["TEXT", "--head", "1"], "--head: no effect without a model"),
        (
            ["TEXT", "--layer", "1", "--naive-att"],
            "--layer, --naive-att: no effect without a model",
        ),
        (["TEXT", "--device", "cpu"], "--device: no effect without a model"),
        (["RUN", "TEXT", "--head", "1"], "--head: no effect without --layer."),
        (["RUN", "TEXT", "--naive-att"], "--naive-att: no effect without --layer."),
        (["TEXT", "--line", "2"], "--line: no effect without --picture"),
        (["TEXT", "--overwrite"], "--overwrite: no effect without --picture"),
        (["--data", "DATA", "--subwords"], "--subwords: no effect without --source"),
        (["TEXT", "--subwords"], "Give a model folder, or use --data"),
        (["TEXT", "--line", "99", "--picture", "x.png"], "--line is 99, but the text has 61 lines"),
        (
            ["--data", "DATA", "--picture", "x.png"],
            "--picture: no effect without --source and --target.",
        ),
        (["RUN", "TEXT", "--layer", "9"], "This model has no layer 9, all heads, SHIFT-ATT"),
        (["RUN", "TEXT", "--data", "OTHER"], "use different tokenizers"),
    ],
)
def test_user_errors(
    run: Path,
    texts: Path,
    text: list[str | Path],
    regard: Command,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    if "OTHER" in arguments:
        prepare_pairs(tmp_path / "other", some_pairs(30, seed=7))
    places = {"RUN": run, "DATA": texts / "data", "OTHER": tmp_path / "other"}
    arguments_of_case = [
        part
        for word in arguments
        for part in (text if word == "TEXT" else [places.get(word, word)])
    ]
    result = regard("align", *arguments_of_case)
    assert result.status == 2
    assert message in result.err
