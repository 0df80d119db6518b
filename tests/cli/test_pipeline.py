"""From two text files to a translator, by the command alone."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from cli.commands import Command, regard

__all__ = ["regard"]  # a fixture

SMALL = [
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.width=32",
    "model.heads=2",
    "model.feedforward_width=48",
    "training.max_steps=60",
    "training.learning_rate=0.02",
    "training.warmup_steps=10",
    "training.checkpoint_every=20",
    "training.log_every=5",
    "training.tensorboard=false",
]


def settings(*assignments: str) -> list[str]:
    return [word for assignment in assignments for word in ("--set", assignment)]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of letters and their reversals, in two files each."""
    folder = tmp_path_factory.mktemp("texts")
    draw = random.Random(1)
    lines = sorted({" ".join(draw.choices("abcdefghij", k=draw.randint(2, 6))) for _ in range(300)})
    for name, part in (("train", lines[20:]), ("test", lines[:20])):
        (folder / f"{name}.x").write_text("".join(line + "\n" for line in part))
        (folder / f"{name}.y").write_text("".join(line[::-1] + "\n" for line in part))
    return folder


@pytest.fixture
def run(texts: Path, regard: Command) -> Path:
    """A trained run, made once."""
    out = texts / "run"
    if not (out / "model.safetensors").exists():
        data = texts / "data"
        done = regard(
            *["prepare", "--source", texts / "train.x", "--target", texts / "train.y"],
            *["--valid-source", texts / "test.x", "--valid-target", texts / "test.y"],
            *["--source-lang", "x", "--target-lang", "y", "--tokenizer", "word"],
            *["--vocab-size", "300", "--out", data],
        )
        assert done.status == 0, done.err
        assert "pairs kept" in done.err
        done = regard("train", "--data", data, "--out", out, *settings(*SMALL))
        assert done.status == 0, done.err
        assert "validation loss" in done.err
    return out


def test_the_same_command_again_says_that_it_is_finished(
    run: Path, texts: Path, regard: Command
) -> None:
    again = regard("train", "--data", texts / "data", "--out", run, *settings(*SMALL))
    assert again.status == 0
    assert "finished" in again.err


def test_a_recipe_is_the_same_as_options(run: Path, texts: Path, regard: Command) -> None:
    recipe = texts / "my.toml"
    recipe.write_text(
        f'# my recipe\nout = "{texts / "recipe-run"}"\npreset = "tiny"\n'
        f'[data]\nfolder = "{texts / "data"}"\n'
        "[model]\nencoder_layers = 1\ndecoder_layers = 1\nwidth = 16\nheads = 2\n"
        "[training]\nmax_steps = 3\n"
    )
    assert regard("train", recipe, "--set", "training.tensorboard=false").status == 0
    saved = json.loads((texts / "recipe-run" / "run.json").read_text())["settings"]
    assert saved["model"]["width"] == 16
    assert saved["model"]["norm_order"] == "pre"  # the preset's


def test_lines_come_out_where_they_went_in(run: Path, regard: Command) -> None:
    done = regard("translate", run, stdin="a b c\n\n  d e\nf")
    assert done.status == 0, done.err
    lines = done.out.split("\n")
    assert len(lines) == 5
    assert lines[1] == lines[4] == ""
    assert lines[2].startswith("  ")


def test_ranks_and_scores(run: Path, regard: Command) -> None:
    options = ["--beam-size", "4", "--top-beams", "3"]
    plain = regard("translate", run, *options, stdin="a b c\n\nd e\n").out.splitlines()
    scored = regard("translate", run, *options, "--scores", stdin="a b c\n\nd e\n").out.splitlines()
    assert len(plain) == len(scored) == 9
    rows = [line.split("\t") for line in scored]
    assert [row[0] for row in rows] == ["1", "2", "3"] * 3
    assert [row[2] for row in rows] == plain
    numbers = [float(row[1]) for row in rows[:3]]
    assert numbers == sorted(numbers, reverse=True)


def test_jsonl_has_source_text_score_and_alternatives(run: Path, regard: Command) -> None:
    done = regard("translate", run, "--format", "jsonl", "--top-beams", "2", stdin="a b\nc\n")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["source"] for row in rows] == ["a b", "c"]
    assert all([*row] == ["schema", "source", "text", "score", "alternatives"] for row in rows)
    assert set(rows[0]["alternatives"][0]) == {"text", "score"}


def test_score_prints_what_translate_said(run: Path, texts: Path, regard: Command) -> None:
    done = regard("translate", run, "--scores", stdin=(texts / "test.x").read_text())
    rows = [line.split("\t") for line in done.out.splitlines()]
    (texts / "found.y").write_text("".join(row[2] + "\n" for row in rows))
    found = regard("score", run, "--source", texts / "test.x", "--target", texts / "found.y")
    assert [float(line) for line in found.out.splitlines()] == pytest.approx(
        [float(row[1]) for row in rows], abs=2e-6
    )


def test_evaluate_prints_figures_with_signatures(run: Path, texts: Path, regard: Command) -> None:
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    done = regard("evaluate", run, *files, "--lowercase", "--out", texts / "kept.y")
    assert [line.split()[0] for line in done.out.splitlines()] == ["BLEU", "chrF2", "TER"]
    assert "case:lc" in done.out
    assert len((texts / "kept.y").read_text().splitlines()) == 20
    [system] = json.loads(regard("evaluate", run, *files, "--format", "json").out)["results"]
    assert system["name"] == str(run)
    assert system["metrics"][0]["name"] == "BLEU"


def test_evaluate_summarises_several_models(run: Path, texts: Path, regard: Command) -> None:
    other = texts / "mean-of-two"
    assert regard("average", run, "--last", "2", "--out", other).status == 0
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    done = regard("evaluate", run, other, *files)
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0] == ["BLEU", "chrF2", "TER"]
    assert [row[0] for row in rows[1:5]] == [str(run), str(other), "mean", "spread"]
    assert float(rows[3][1]) == pytest.approx((float(rows[1][1]) + float(rows[2][1])) / 2, abs=0.01)
    alone = regard("evaluate", other, *files)
    assert alone.out.split()[1] == rows[2][1]
    late = regard("evaluate", run, texts / "nowhere", *files)
    assert "There is no model folder" in late.err
    assert "Translating" not in late.err  # told before the first has taken its time


def test_a_model_is_held_against_another(run: Path, texts: Path, regard: Command) -> None:
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    done = regard("evaluate", run, *files, "--against", run / "checkpoints" / "00000020")
    assert done.status == 0, done.err
    assert "00000020" in done.out
    same = regard("evaluate", run, *files, "--against", run)
    assert "By BLEU, chrF2 and TER they are equal." in same.out
    alone = regard("evaluate", run, *files, "--ensemble")
    assert "--ensemble is for several models" in alone.err
    unsaid = regard("evaluate", "--hypotheses", texts / "test.y", *files[2:], "--against", run)
    assert "--source" in unsaid.err


def test_translations_kept_from_a_model_are_measured_as_the_model(
    run: Path, texts: Path, regard: Command
) -> None:
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    model = regard("evaluate", run, *files, "--out", texts / "mine.y")
    assert regard("evaluate", "--hypotheses", texts / "mine.y", *files[2:]).out == model.out


def test_one_model_twice_translates_as_that_model(run: Path, texts: Path, regard: Command) -> None:
    lines = (texts / "test.x").read_text()
    engine = ["--backend", "torch"]  # which alone can run two
    alone, twice = (
        regard("translate", *models, *engine, stdin=lines) for models in ([run], [run, run])
    )
    assert twice.out == alone.out
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    together = regard("evaluate", run, run, "--ensemble", *files)
    assert together.out == regard("evaluate", run, *files, *engine).out
    pair = ["--source", texts / "test.x", "--target", texts / "test.y"]
    given = [regard("score", *models, *pair).out.split() for models in ([run], [run, run])]
    assert [float(x) for x in given[1]] == pytest.approx([float(x) for x in given[0]], abs=1e-5)


def test_the_best_checkpoints_are_averaged(run: Path, texts: Path, regard: Command) -> None:
    done = regard("average", run, "--best", "2", "--out", texts / "best")
    assert done.status == 0, done.err
    assert regard("translate", texts / "best", stdin="a b\n").status == 0
    both = regard("average", run, "--best", "2", "--last", "2", "--out", texts / "both")
    assert "Give one of them" in both.err
    many = regard("average", run, "--best", "9", "--out", texts / "many")
    assert "has 3 validated checkpoints, not 9. Use --best 3" in many.err


def test_average_is_a_model_of_its_own(run: Path, texts: Path, regard: Command) -> None:
    out = texts / "average"
    assert regard("average", run, "--last", "3", "--out", out).status == 0
    assert regard("translate", out, stdin="a b\n").status == 0
    again = regard("average", run, "--last", "3", "--out", out)
    assert again.status == 2
    assert "left as it is" in again.err
    many = regard("average", run, "--last", "9", "--out", texts / "other")
    assert many.status == 2
    assert "has 3 checkpoints" in many.err


@pytest.mark.parametrize(
    "words",
    [
        ["positions", "--length", "12", "--width", "8"],
        ["mask", "causal"],
        ["mask", "causal", "--memory", "4"],
        ["mask", "padding", "--real", "3"],
        ["mask", "prefix", "--prefix", "4"],
        ["mask", "permutation", "--seed", "3"],
        ["mask", "permutation", "--no-itself"],
        ["mask", "segments", "--segment", "3"],
        ["mask", "window", "--width", "1"],
        ["positions", "--dimension", "0", "--dimension", "7"],
        ["schedule", "--preset", "tiny", "--set", "training.max_steps=2000"],
    ],
)
def test_show_draws_text_and_pictures(words: list[str], texts: Path, regard: Command) -> None:
    text = regard("show", *words)
    assert text.status == 0
    assert len(text.out.splitlines()) >= 10
    path = texts / "picture.png"
    assert regard("show", *words, "--out", path, "--overwrite").status == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_show_scores_says_why_they_are_scaled(texts: Path, regard: Command) -> None:
    rows = [line.split() for line in regard("show", "scores", "4", "1024").out.splitlines()[1:]]
    largest = {(row[0], " ".join(row[1:-3])): float(row[-2]) for row in rows}
    assert largest["1,024", "dot"] > 0.9  # one key takes all
    assert largest["1,024", "scaled dot"] < 0.3
    assert regard("show", "scores", "--out", texts / "scores.png").status == 0
    assert (texts / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert "There is no dimension 64" in regard("show", "positions", "--dimension", "64").err


def test_show_attention_and_model(run: Path, texts: Path, regard: Command) -> None:
    text = regard("show", "attention", run, "a b c")
    assert "└ ▁a" in text.out
    path = texts / "attention.png"
    assert regard("show", "attention", run, "a b c", "--head", "1", "--out", path).status == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "There is no head 3" in regard("show", "attention", run, "a", "--head", "3").err
    model = regard("show", "model", run)
    assert "x to y" in model.out
    assert "decoder" in model.out


def test_show_settings_lists_every_setting(regard: Command) -> None:
    from regard.config import all_settings
    from regard.training.config import RunConfig

    shown = regard("show", "settings").out
    for path, _ in all_settings(RunConfig):
        assert path in shown
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert "training.max_steps = 20000" in lines
    assert "    updates in all (integer; at least 1)" in lines
    parts = [regard("show", "settings", part).out for part in ("data", "model", "training")]
    assert lines[0] == "out"  # which has no default
    assert shown.endswith("".join(parts))
    assert regard("show", "settings", "model.attention").out in parts[1]
    refused = regard("show", "settings", "modal")
    assert refused.status == 2
    assert "data, model or training" in refused.err
