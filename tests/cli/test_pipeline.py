"""The translation pipeline with the command: prepare, train, translate, evaluate."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from cli.commands import Command, regard

__all__ = ["regard"]  # a fixture

SMALL = [
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "model.d_model=32",
    "model.num_heads=2",
    "model.ffn_dim=48",
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
        result = regard(
            *["prepare", "--source", texts / "train.x", "--target", texts / "train.y"],
            *["--valid-source", texts / "test.x", "--valid-target", texts / "test.y"],
            *["--source-lang", "x", "--target-lang", "y", "--tokenizer", "word"],
            *["--vocab-size", "300", "--out", data],
        )
        assert result.status == 0, result.err
        assert "pairs kept" in result.err
        result = regard("train", "--data", data, "--out", out, *settings(*SMALL))
        assert result.status == 0, result.err
        assert "validation loss" in result.err
    return out


def test_repeated_command_reports_finished_run(run: Path, texts: Path, regard: Command) -> None:
    again = regard("train", "--data", texts / "data", "--out", run, *settings(*SMALL))
    assert again.status == 0
    assert "finished" in again.err


def test_recipe_is_equivalent_to_options(run: Path, texts: Path, regard: Command) -> None:
    recipe = texts / "my.toml"
    recipe.write_text(
        f'# my recipe\nout = "{texts / "recipe-run"}"\npreset = "tiny"\n'
        f'[data]\nfolder = "{texts / "data"}"\n'
        "[model]\nnum_encoder_layers = 1\nnum_decoder_layers = 1\nd_model = 16\nnum_heads = 2\n"
        "[training]\nmax_steps = 3\n"
    )
    assert regard("train", recipe, "--set", "training.tensorboard=false").status == 0
    saved = json.loads((texts / "recipe-run" / "run.json").read_text())["settings"]
    assert saved["model"]["d_model"] == 16
    assert saved["model"]["norm_order"] == "pre"  # the preset's


def test_translations_keep_line_order(run: Path, regard: Command) -> None:
    result = regard("translate", run, stdin="a b c\n\n  d e\nf")
    assert result.status == 0, result.err
    lines = result.out.split("\n")
    assert len(lines) == 5
    assert lines[1] == lines[4] == ""
    assert lines[2].startswith("  ")


def test_ranks_and_scores(run: Path, regard: Command) -> None:
    options = ["--beam-size", "4", "--num-hypotheses", "3"]
    plain = regard("translate", run, *options, stdin="a b c\n\nd e\n").out.splitlines()
    scored = regard("translate", run, *options, "--scores", stdin="a b c\n\nd e\n").out.splitlines()
    assert len(plain) == len(scored) == 9
    rows = [line.split("\t") for line in scored]
    assert [row[0] for row in rows] == ["1", "2", "3"] * 3
    assert [row[2] for row in rows] == plain
    numbers = [float(row[1]) for row in rows[:3]]
    assert numbers == sorted(numbers, reverse=True)


def test_jsonl_has_source_text_score_and_alternatives(run: Path, regard: Command) -> None:
    result = regard(
        "translate", run, "--format", "jsonl", "--num-hypotheses", "2", stdin="a b\nc\n"
    )
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["source"] for row in rows] == ["a b", "c"]
    fields = ["schema", "source", "text", "score", "score_type", "alternatives", "warnings"]
    assert all([*row] == fields for row in rows)
    assert set(rows[0]["alternatives"][0]) == {"text", "score"}


LONG = "a b c d e f\n"


def test_doubtful_translations_are_named(run: Path, regard: Command) -> None:
    limits = ["--max-ratio", "0.2", "--max-extra", "1"]
    result = regard("translate", run, *limits, "--format", "jsonl", stdin="a\n\n" + LONG)
    rows = [json.loads(line) for line in result.out.splitlines()]
    warning = "did not end before the maximum length"
    assert warning in rows[2]["warnings"]
    assert rows[1]["warnings"] == []
    assert f"Line 3 has a translation that {warning}" in result.err
    text = regard("translate", run, *limits, stdin=LONG)
    assert f"Line 1 has a translation that {warning}" in text.err
    assert text.out == rows[2]["text"] + "\n"
    off = regard("translate", run, *limits, "--no-retry", "--format", "jsonl", stdin=LONG)
    assert json.loads(off.out)["warnings"] == []
    assert "Line 1" not in off.err


def test_guards_of_the_search(run: Path, regard: Command) -> None:
    plain = regard("translate", run, "--no-retry", stdin=LONG).out.split()
    options = ["--no-repeat-ngram-size", "1", "--forbid", plain[0], "--forbid", "i"]
    guarded = regard("translate", run, "--no-retry", *options, stdin=LONG)
    assert guarded.status == 0, guarded.err
    letters = guarded.out.split()
    assert len({*letters}) == len(letters)
    assert not {plain[0], "i"} & {*letters}
    penalized = regard("translate", run, "--repetition-penalty", "5", stdin=LONG)
    assert penalized.status == 0, penalized.err
    assert penalized.out.split() != plain


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--forbid", " "], "A forbidden word (--forbid) is empty."),
        (["--ngram-repeat-block", "3"], "--no-repeat-ngram-size"),
        (["--no-repeat-ngram-size", "-1"], "must be at least 0"),
        (["--repetition-penalty", "0"], "must be at least 0.01"),
    ],
)
def test_errors_of_guards(options: list[str], message: str, run: Path, regard: Command) -> None:
    result = regard("translate", run, *options, stdin=LONG)
    assert result.status != 0
    assert message in result.err


def test_score_matches_translate(run: Path, texts: Path, regard: Command) -> None:
    result = regard("translate", run, "--scores", stdin=(texts / "test.x").read_text())
    rows = [line.split("\t") for line in result.out.splitlines()]
    (texts / "found.y").write_text("".join(row[2] + "\n" for row in rows))
    scored = regard("score", run, "--source", texts / "test.x", "--target", texts / "found.y")
    assert [float(line) for line in scored.out.splitlines()] == pytest.approx(
        [float(row[1]) for row in rows], abs=2e-6
    )


def test_evaluate_prints_metrics_with_signatures(run: Path, texts: Path, regard: Command) -> None:
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    result = regard("evaluate", run, *files, "--lowercase", "--out", texts / "kept.y")
    assert [line.split()[0] for line in result.out.splitlines()] == ["BLEU", "chrF2", "TER"]
    assert "case:lc" in result.out
    assert len((texts / "kept.y").read_text().splitlines()) == 20
    [system] = json.loads(regard("evaluate", run, *files, "--format", "json").out)["results"]
    assert system["name"] == str(run)
    assert system["metrics"][0]["name"] == "BLEU"


def test_evaluate_summarises_several_models(run: Path, texts: Path, regard: Command) -> None:
    other = texts / "mean-of-two"
    assert regard("average", run, "--last", "2", "--out", other).status == 0
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    result = regard("evaluate", run, other, *files)
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[0] == ["BLEU", "chrF2", "TER"]
    assert [row[0] for row in rows[1:5]] == [str(run), str(other), "mean", "std"]
    assert float(rows[3][1]) == pytest.approx((float(rows[1][1]) + float(rows[2][1])) / 2, abs=0.01)
    alone = regard("evaluate", other, *files)
    assert alone.out.split()[1] == rows[2][1]
    late = regard("evaluate", run, texts / "nowhere", *files)
    assert "There is no model folder" in late.err
    assert "Translating" not in late.err  # told before the first has taken its time


def test_models_are_compared_with_against(run: Path, texts: Path, regard: Command) -> None:
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    result = regard("evaluate", run, *files, "--against", run / "checkpoints" / "00000020")
    assert result.status == 0, result.err
    assert "00000020" in result.out
    same = regard("evaluate", run, *files, "--against", run)
    assert "By BLEU, chrF2 and TER they are equal." in same.out
    alone = regard("evaluate", run, *files, "--ensemble")
    assert "--ensemble requires several models" in alone.err
    unsaid = regard("evaluate", "--hypotheses", texts / "test.y", *files[2:], "--against", run)
    assert "--source" in unsaid.err


def test_saved_translations_have_the_same_metrics_as_the_model(
    run: Path, texts: Path, regard: Command
) -> None:
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    model = regard("evaluate", run, *files, "--out", texts / "mine.y")
    assert regard("evaluate", "--hypotheses", texts / "mine.y", *files[2:]).out == model.out


def test_ensemble_of_one_model_twice_matches_the_model(
    run: Path, texts: Path, regard: Command
) -> None:
    lines = (texts / "test.x").read_text()
    backend = ["--backend", "torch"]  # CTranslate2 has no ensembles
    alone, twice = (
        regard("translate", *models, *backend, stdin=lines) for models in ([run], [run, run])
    )
    assert twice.out == alone.out
    files = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    together = regard("evaluate", run, run, "--ensemble", *files)
    assert together.out == regard("evaluate", run, *files, *backend).out
    pair = ["--source", texts / "test.x", "--target", texts / "test.y"]
    scores = [regard("score", *models, *pair).out.split() for models in ([run], [run, run])]
    assert [float(x) for x in scores[1]] == pytest.approx([float(x) for x in scores[0]], abs=1e-5)


def test_best_checkpoints_are_averaged(run: Path, texts: Path, regard: Command) -> None:
    result = regard("average", run, "--best", "2", "--out", texts / "best")
    assert result.status == 0, result.err
    assert regard("translate", texts / "best", stdin="a b\n").status == 0
    both = regard("average", run, "--best", "2", "--last", "2", "--out", texts / "both")
    assert "Give one of them" in both.err
    many = regard("average", run, "--best", "9", "--out", texts / "many")
    assert "has 3 validated checkpoints, but 9 are required. Use --best 3" in many.err


def test_average_is_a_complete_model(run: Path, texts: Path, regard: Command) -> None:
    out = texts / "average"
    assert regard("average", run, "--last", "3", "--out", out).status == 0
    assert regard("translate", out, stdin="a b\n").status == 0
    again = regard("average", run, "--last", "3", "--out", out)
    assert again.status == 2
    assert "exists already" in again.err
    many = regard("average", run, "--last", "9", "--out", texts / "other")
    assert many.status == 2
    assert "has 3 checkpoints" in many.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["positions", "--length", "12", "--d-model", "8"],
        ["mask", "causal"],
        ["mask", "causal", "--memory-length", "4"],
        ["mask", "padding", "--valid-length", "3"],
        ["mask", "prefix", "--prefix-length", "4"],
        ["mask", "permutation", "--seed", "3"],
        ["mask", "permutation", "--query-stream"],
        ["mask", "segments", "--segment-length", "3"],
        ["mask", "window", "--window", "1"],
        ["positions", "--dimension", "0", "--dimension", "7"],
        ["schedule", "--preset", "tiny", "--set", "training.max_steps=2000"],
    ],
)
def test_show_prints_text_and_writes_pictures(
    arguments: list[str], texts: Path, regard: Command
) -> None:
    text = regard("show", *arguments)
    assert text.status == 0
    assert len(text.out.splitlines()) >= 10
    path = texts / "picture.png"
    assert regard("show", *arguments, "--out", path, "--overwrite").status == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_show_scores_shows_saturation_without_scaling(texts: Path, regard: Command) -> None:
    rows = [line.split() for line in regard("show", "scores", "4", "1024").out.splitlines()[1:]]
    largest = {(row[0], " ".join(row[1:-3])): float(row[-2]) for row in rows}
    assert largest["1,024", "dot"] > 0.9  # one key takes all
    assert largest["1,024", "scaled dot"] < 0.3
    assert regard("show", "scores", "--out", texts / "scores.png").status == 0
    assert (texts / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert "--dimension is 64" in regard("show", "positions", "--dimension", "64").err


def test_show_attention_and_model(run: Path, texts: Path, regard: Command) -> None:
    text = regard("show", "attention", run, "a b c")
    assert "└ ▁a" in text.out
    path = texts / "attention.png"
    assert regard("show", "attention", run, "a b c", "--head", "1", "--out", path).status == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "--head is 3" in regard("show", "attention", run, "a", "--head", "3").err
    model = regard("show", "model", run)
    assert "x to y" in model.out
    assert "decoder" in model.out


def test_show_settings_lists_every_setting(regard: Command) -> None:
    from regard.config import all_settings
    from regard.training.config import RunConfig

    listing = regard("show", "settings").out
    for path, _ in all_settings(RunConfig):
        assert path in listing
    lines = listing.splitlines()
    assert max(map(len, lines)) <= 80
    assert "training.max_steps = 20000" in lines
    assert "    number of updates (integer; at least 1)" in lines
    names = ["data", "model", "training", "tracking"]
    parts = [regard("show", "settings", name).out for name in names]
    assert lines[0] == "out"  # which has no default
    assert listing.endswith("".join(parts))
    assert regard("show", "settings", "model.attention").out in parts[1]
    refused = regard("show", "settings", "modal")
    assert refused.status == 2
    assert "data, model or training" in refused.err
