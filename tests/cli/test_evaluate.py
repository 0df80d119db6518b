"""`regard evaluate` with existing translations, and registered evaluations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import sacrebleu

from cli.commands import Command, regard
from cli.test_errors import assert_error
from evaluation.translations import corrupt, references
from regard.bounds import Ge, Le
from regard.config import Doc
from regard.evaluation import options
from regard.evaluation.options import EVALUATION_OPTIONS, EvaluationOptions

__all__ = ["regard"]  # a fixture

Words = list[str | Path]
ODD = "[b] :cat: " + "猫" * 60  # to rich, an instruction, a picture, and more than a line


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A reference, a good and a bad translation, one line too few, and a source."""
    right = references(60)
    good, bad = corrupt(right, 0.1), corrupt(right, 0.5)
    good[6] = ODD
    sources = [f"source {number}" for number in range(60)]
    parts = {"right": right, "good": good, "bad": bad, "few": bad[1:], "source": sources}
    for name, lines in parts.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return tmp_path


FIELDS = ["name", "metrics", "by_length", "worst", "rerank_weights"]


def test_json_has_the_same_fields(files: Path, regard: Command) -> None:
    arguments: Words = ["evaluate", "--reference", files / "right", "--format", "json"]
    good: Words = ["--hypotheses", files / "good"]
    bare = json.loads(regard(*arguments, *good).out)
    full = json.loads(
        regard(*arguments, *good, "--against", files / "bad", "--by-length", "--worst", "3").out
    )
    both = json.loads(regard(*arguments, *good, "--hypotheses", files / "bad").out)
    for document in (bare, full, both):
        assert [*document] == ["schema", "command", "results", "summary"]
        for system in document["results"]:
            assert [*system] == [*FIELDS, "comparison"]
    assert bare["results"][0]["metrics"] == full["results"][0]["metrics"]
    assert bare["summary"] == bare["results"][0]["comparison"] == []
    assert [metric["name"] for metric in both["summary"]] == ["BLEU", "chrF2", "TER"]
    assert full["results"][0]["comparison"][0]["p_value"] < 0.05
    assert full["results"][1]["comparison"] == []
    assert len(full["results"][0]["worst"]) == 3


def test_comparison_prints_a_summary(files: Path, regard: Command) -> None:
    arguments: Words = ["evaluate", "--reference", files / "right", "--resamples", "100"]
    good, bad = files / "good", files / "bad"
    outcome = regard(*arguments, "--hypotheses", good, "--against", bad)
    assert f"{good} is better than {bad} by BLEU, chrF2 and TER (p < 0.05)." in outcome.out
    assert "bs:100|seed:12345" in outcome.out
    assert outcome.out == regard(*arguments, "--hypotheses", good, "--against", bad).out
    outcome = regard(*arguments, "--hypotheses", good, "--against", good)
    assert "By BLEU, chrF2 and TER they are equal" in outcome.out
    assert outcome.out.splitlines()[1].endswith(" 1.000")


def test_tables_by_length_and_of_worst_translations(files: Path, regard: Command) -> None:
    arguments: Words = ["evaluate", "--hypotheses", files / "good", "--reference", files / "right"]
    outcome = regard(*arguments, "--by-length", "--worst", "1", "--source", files / "source")
    lines = outcome.out.splitlines()
    title = lines.index("BLEU by length")
    assert lines[title + 1].split() == ["words", "sentences", "BLEU"]
    assert sum(int(line.split()[1]) for line in lines[title + 2 : title + 7]) == 60
    title = lines.index("Worst translations by chrF2")
    score = sacrebleu.sentence_chrf(ODD, [references(60)[6]]).score
    assert lines[title + 2].split() == ["7", f"{score:.1f}", "source", "source", "6"]
    assert lines[title + 3].split(maxsplit=1) == ["translation", ODD]
    assert lines[title + 4].split(maxsplit=1) == ["reference", references(60)[6]]
    assert "source" not in regard(*arguments, "--worst", "1").out


def test_selected_metrics(files: Path, regard: Command) -> None:
    arguments: Words = ["evaluate", "--hypotheses", files / "good", "--reference", files / "right"]
    every = regard(*arguments).out.splitlines()
    assert regard(*arguments, "--metrics", "ter,bleu").out.splitlines() == [every[2], every[0]]
    compared = regard(*arguments, "--metrics", "chrf", "--against", files / "bad")
    assert "by chrF2 (p < 0.05)." in compared.out
    assert_error(regard(*arguments, "--metrics", "bleu,comet"), "'comet'", "bleu,chrf,ter")
    assert_error(regard(*arguments, "--metrics", ","), "bleu,chrf,ter")


@pytest.mark.parametrize("which", ["good", "right", "bad"])
def test_ter_is_skipped_if_slow(which: str, files: Path, regard: Command) -> None:
    arguments: Words = ["evaluate", "--hypotheses", files / "good", "--reference", files / "right"]
    lines = (files / which).read_text().splitlines()
    lines[4] = " ".join(map(str, range(15_000)))
    (files / which).write_text("".join(line + "\n" for line in lines))
    outcome = regard(*arguments, "--against", files / "bad", "--resamples", "100")
    assert "line 5 has more than 500 words" in outcome.err
    assert "--metrics bleu,chrf,ter" in outcome.err
    assert "TER" not in outcome.out
    assert "chrF2" in outcome.out
    asked = regard(
        *arguments, "--against", files / "bad", "--resamples", "100", "--metrics", "bleu"
    )
    assert "Line 5" not in asked.err


@pytest.mark.parametrize("systems", [["good"], ["good", "bad", "right"]])
def test_picture_is_written(systems: list[str], files: Path, regard: Command) -> None:
    named = [word for name in systems for word in ("--hypotheses", files / name)]
    out = files / "report.png"
    outcome = regard("evaluate", *named, "--reference", files / "right", "--picture", out)
    assert outcome.status == 0, outcome.err
    assert f"Wrote {out}" in outcome.err
    assert out.read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_prints_one_line(
    files: Path, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.data.line_reader.read_lines", interrupted)
    outcome = regard("evaluate", "--hypotheses", files / "good", "--reference", files / "right")
    assert (outcome.status, outcome.out) == (130, "")
    assert outcome.err == "regard: Stopped by Ctrl-C before the command finished.\n"


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ([], ["nothing to evaluate", "--hypotheses"]),
        (["model", "--hypotheses", "good"], ["are mutually exclusive", "--against"]),
        (["model"], ["--source"]),
        (["one", "two", "--source", "source", "--against", "bad"], ["but 2 were given"]),
        (["one", "two", "--source", "source", "--out", "out"], ["one model", "translate"]),
        (["--hypotheses", "good", "--out", "out"], ["one model"]),
        (["--hypotheses", "few"], ["59 lines", "has 60"]),
        (["--hypotheses", "good", "--against", "few"], ["59 lines", "has 60"]),
        (["model", "--source", "few"], ["59 lines", "has 60"]),
        (["--hypotheses", "good", "--format", "xml"], ["text, json or jsonl"]),
        (["--hypotheses", "good", "--tokenize", "klingon"], ["klingon", "13a"]),
        (["--hypotheses", "nowhere"], ["There is no file"]),
    ],
)
def test_user_errors(
    arguments: list[str],
    fragments: list[str],
    files: Path,
    regard: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    assert_error(regard("evaluate", *arguments, "--reference", "right"), *fragments)
    assert not (files / "out").exists()


def test_multiple_references(files: Path, regard: Command) -> None:
    right, good = references(60), (files / "good").read_text(encoding="utf-8").splitlines()
    second = corrupt(right, 0.3, seed=8)
    (files / "second").write_text("".join(line + "\n" for line in second), encoding="utf-8")
    arguments: Words = ["evaluate", "--hypotheses", files / "good", "--reference", files / "right"]
    arguments += ["--reference", files / "second"]
    extra: Words = ["--by-length", "--worst", "1", "--against", files / "bad"]
    document = json.loads(regard(*arguments, *extra, "--format", "json").out)
    [bleu, chrf, ter] = document["results"][0]["metrics"]
    assert bleu["value"] == sacrebleu.corpus_bleu(good, [right, second]).score
    assert chrf["value"] == sacrebleu.corpus_chrf(good, [right, second]).score
    assert ter["value"] == sacrebleu.corpus_ter(good, [right, second]).score
    assert "nrefs:2" in bleu["signature"]
    assert "nrefs:2" in document["results"][0]["comparison"][0]["signature"]
    [sentence] = document["results"][0]["worst"]
    assert sentence["references"] == [right[sentence["line"] - 1], second[sentence["line"] - 1]]
    text = regard(*arguments, "--worst", "1").out
    assert f"BLEU   {bleu['value']:6.2f}   {bleu['signature']}" in text
    assert text.count(" reference ") == 2
    assert_error(
        regard(*arguments, "--reference", files / "few"), "few has 59 lines and", "no counterpart"
    )


@pytest.mark.parametrize("option", [[], ["--lowercase"], ["--metrics", "ter"]])
def test_lowercased_output_is_reported(option: list[str], files: Path, regard: Command) -> None:
    cased = [line.capitalize() for line in references(60)]
    (files / "cased").write_text("".join(line + "\n" for line in cased), encoding="utf-8")
    arguments: Words = ["evaluate", "--hypotheses", files / "bad", "--reference"]
    outcome = regard(*arguments, files / "cased", *option)
    assert ("Use --lowercase for case-insensitive metrics" in outcome.err) is (not option)
    assert "without case" not in regard(*arguments, files / "right", *option).err
    assert "without case" not in outcome.out


@dataclass(frozen=True)
class NamesOptions(EvaluationOptions):
    """A test of a task that is registered."""

    main = "letters"
    title = "names"
    letters: Annotated[int | None, Doc("how long a good name is"), Ge(1), Le(9)] = None

    def run(
        self, models: Sequence[Path], device: str = "auto", batch_size: int | None = None
    ) -> list[dict[str, Any]]:
        """How far each name is from a good one."""
        assert self.letters is not None
        return [
            {"name": model.name, "too_long": len(model.name) - self.letters, "all": [batch_size]}
            for model in models
        ]

    def notices(self, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """A word on long names."""
        yield f"{sum(result['too_long'] > 0 for result in results)} names are too long."


def test_registered_evaluation(regard: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "EVALUATION_OPTIONS", [*EVALUATION_OPTIONS, NamesOptions])
    monkeypatch.setattr("regard.cli.evaluate.EVALUATION_OPTIONS", options.EVALUATION_OPTIONS)
    arguments: Words = ["evaluate", "ab", "abcd", "--letters", "3"]
    outcome = regard(*arguments)
    rows = [line.split() for line in outcome.out.splitlines()]
    assert rows == [["name", "too", "long"], ["ab", "-1"], ["abcd", "1"]]
    assert "1 names are too long." in outcome.err
    document = json.loads(regard(*arguments, "--batch-size", "7", "--format", "json").out)
    assert document["results"][0] == {"name": "ab", "too_long": -1, "all": [7]}
    for option in (["--lowercase"], ["--beam-size", "2"], ["--picture", "p"], ["--text", "t"]):
        assert_error(regard(*arguments, *option), option[0])
    assert_error(regard(*arguments, "--overwrite"), "--overwrite")
    assert_error(regard(*arguments[:1], *arguments[3:]), "Give a model folder")
