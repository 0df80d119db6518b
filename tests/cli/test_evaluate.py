"""What `regard evaluate` says of translations that exist already, and of other tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import sacrebleu

from cli.commands import Command, regard
from cli.test_errors import assert_told
from evaluation.translations import damaged, references
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
    good, bad = damaged(right, 0.1), damaged(right, 0.5)
    good[6] = ODD
    sources = [f"source {number}" for number in range(60)]
    parts = {"right": right, "good": good, "bad": bad, "few": bad[1:], "source": sources}
    for name, lines in parts.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return tmp_path


def test_json_has_one_form(files: Path, regard: Command) -> None:
    words: Words = ["evaluate", "--reference", files / "right", "--format", "json"]
    good: Words = ["--hypotheses", files / "good"]
    bare = json.loads(regard(*words, *good).out)
    full = json.loads(
        regard(*words, *good, "--against", files / "bad", "--by-length", "--worst", "3").out
    )
    both = json.loads(regard(*words, *good, "--hypotheses", files / "bad").out)
    for found in (bare, full, both):
        assert [*found] == ["schema", "command", "results", "summary"]
        for system in found["results"]:
            assert [*system] == ["name", "metrics", "by_length", "worst", "comparison"]
    assert bare["results"][0]["metrics"] == full["results"][0]["metrics"]
    assert bare["summary"] == bare["results"][0]["comparison"] == []
    assert [metric["name"] for metric in both["summary"]] == ["BLEU", "chrF2", "TER"]
    assert full["results"][0]["comparison"][0]["p_value"] < 0.05
    assert full["results"][1]["comparison"] == []
    assert len(full["results"][0]["worst"]) == 3


def test_a_comparison_ends_in_a_sentence(files: Path, regard: Command) -> None:
    words: Words = ["evaluate", "--reference", files / "right", "--resamples", "100"]
    good, bad = files / "good", files / "bad"
    done = regard(*words, "--hypotheses", good, "--against", bad)
    assert f"{good} is better than {bad} by BLEU, chrF2 and TER (p < 0.05)." in done.out
    assert "bs:100|seed:12345" in done.out
    assert done.out == regard(*words, "--hypotheses", good, "--against", bad).out
    done = regard(*words, "--hypotheses", good, "--against", good)
    assert "By BLEU, chrF2 and TER they are equal" in done.out
    assert done.out.splitlines()[1].endswith(" 1.000")


def test_lengths_and_the_worst_as_tables(files: Path, regard: Command) -> None:
    words: Words = ["evaluate", "--hypotheses", files / "good", "--reference", files / "right"]
    done = regard(*words, "--by-length", "--worst", "1", "--source", files / "source")
    lines = done.out.splitlines()
    title = lines.index("BLEU by length")
    assert lines[title + 1].split() == ["words", "sentences", "BLEU"]
    assert sum(int(line.split()[1]) for line in lines[title + 2 : title + 7]) == 60
    title = lines.index("The worst by chrF2")
    score = sacrebleu.sentence_chrf(ODD, [references(60)[6]]).score
    assert lines[title + 2].split() == ["7", f"{score:.1f}", "source", "source", "6"]
    assert lines[title + 3].split(maxsplit=1) == ["translation", ODD]
    assert lines[title + 4].split(maxsplit=1) == ["reference", references(60)[6]]
    assert "source" not in regard(*words, "--worst", "1").out


def test_some_metrics(files: Path, regard: Command) -> None:
    words: Words = ["evaluate", "--hypotheses", files / "good", "--reference", files / "right"]
    every = regard(*words).out.splitlines()
    assert regard(*words, "--metrics", "ter,bleu").out.splitlines() == [every[2], every[0]]
    compared = regard(*words, "--metrics", "chrf", "--against", files / "bad")
    assert "by chrF2 (p < 0.05)." in compared.out
    assert_told(regard(*words, "--metrics", "bleu,comet"), "'comet'", "bleu,chrf,ter")
    assert_told(regard(*words, "--metrics", ","), "bleu,chrf,ter")


@pytest.mark.parametrize("which", ["good", "right", "bad"])
def test_ter_is_left_out_where_it_would_take_minutes(
    which: str, files: Path, regard: Command
) -> None:
    words: Words = ["evaluate", "--hypotheses", files / "good", "--reference", files / "right"]
    lines = (files / which).read_text().splitlines()
    lines[4] = " ".join(map(str, range(15_000)))
    (files / which).write_text("".join(line + "\n" for line in lines))
    done = regard(*words, "--against", files / "bad", "--resamples", "100")
    assert "Line 5 has more than 500 words" in done.err
    assert "--metrics bleu,chrf,ter" in done.err
    assert "TER" not in done.out
    assert "chrF2" in done.out
    asked = regard(*words, "--against", files / "bad", "--resamples", "100", "--metrics", "bleu")
    assert "Line 5" not in asked.err


@pytest.mark.parametrize("systems", [["good"], ["good", "bad", "right"]])
def test_a_picture(systems: list[str], files: Path, regard: Command) -> None:
    named = [word for name in systems for word in ("--hypotheses", files / name)]
    out = files / "report.png"
    done = regard("evaluate", *named, "--reference", files / "right", "--picture", out)
    assert done.status == 0, done.err
    assert f"Written: {out}" in done.err
    assert out.read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_is_one_sentence(
    files: Path, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.data.corpus.read_lines", interrupted)
    done = regard("evaluate", "--hypotheses", files / "good", "--reference", files / "right")
    assert (done.status, done.out) == (130, "")
    assert done.err == "regard: Stopped by Ctrl-C before it was done.\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], ["nothing to evaluate", "--hypotheses"]),
        (["model", "--hypotheses", "good"], ["two ways", "--against"]),
        (["model"], ["--source"]),
        (["one", "two", "--source", "source", "--against", "bad"], ["there are 2"]),
        (["one", "two", "--source", "source", "--output", "out"], ["one model", "translate"]),
        (["--hypotheses", "good", "--output", "out"], ["one model"]),
        (["--hypotheses", "few"], ["59 lines", "has 60"]),
        (["--hypotheses", "good", "--against", "few"], ["59 lines", "has 60"]),
        (["model", "--source", "few"], ["59 lines", "has 60"]),
        (["--hypotheses", "good", "--format", "xml"], ["text, json or jsonl"]),
        (["--hypotheses", "good", "--tokenize", "klingon"], ["klingon", "13a"]),
        (["--hypotheses", "nowhere"], ["There is no file"]),
    ],
)
def test_mistakes(
    words: list[str],
    told: list[str],
    files: Path,
    regard: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    assert_told(regard("evaluate", *words, "--reference", "right"), *told)
    assert not (files / "out").exists()


def test_several_references_are_counted_together(files: Path, regard: Command) -> None:
    right, good = references(60), (files / "good").read_text(encoding="utf-8").splitlines()
    second = damaged(right, 0.3, seed=8)
    (files / "second").write_text("".join(line + "\n" for line in second), encoding="utf-8")
    words: Words = ["evaluate", "--hypotheses", files / "good", "--reference", files / "right"]
    words += ["--reference", files / "second"]
    extra: Words = ["--by-length", "--worst", "1", "--against", files / "bad"]
    found = json.loads(regard(*words, *extra, "--format", "json").out)
    [bleu, chrf, ter] = found["results"][0]["metrics"]
    assert bleu["value"] == sacrebleu.corpus_bleu(good, [right, second]).score
    assert chrf["value"] == sacrebleu.corpus_chrf(good, [right, second]).score
    assert ter["value"] == sacrebleu.corpus_ter(good, [right, second]).score
    assert "nrefs:2" in bleu["signature"]
    assert "nrefs:2" in found["results"][0]["comparison"][0]["signature"]
    [sentence] = found["results"][0]["worst"]
    assert sentence["references"] == [right[sentence["line"] - 1], second[sentence["line"] - 1]]
    text = regard(*words, "--worst", "1").out
    assert f"BLEU   {bleu['value']:6.2f}   {bleu['signature']}" in text
    assert text.count(" reference ") == 2
    assert_told(regard(*words, "--reference", files / "few"), "few has 59 lines and", "no partner")


@pytest.mark.parametrize("option", [[], ["--lowercase"], ["--metrics", "ter"]])
def test_lower_case_against_cased_references_is_told(
    option: list[str], files: Path, regard: Command
) -> None:
    cased = [line.capitalize() for line in references(60)]
    (files / "cased").write_text("".join(line + "\n" for line in cased), encoding="utf-8")
    words: Words = ["evaluate", "--hypotheses", files / "bad", "--reference"]
    done = regard(*words, files / "cased", *option)
    assert ("To count without case: --lowercase" in done.err) is (not option)
    assert "without case" not in regard(*words, files / "right", *option).err
    assert "without case" not in done.out


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
            {"name": one.name, "too_long": len(one.name) - self.letters, "all": [batch_size]}
            for one in models
        ]

    def notices(self, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """A word on long names."""
        yield f"{sum(result['too_long'] > 0 for result in results)} names are too long."


def test_a_registered_test_needs_nothing_else(
    regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "EVALUATION_OPTIONS", [*EVALUATION_OPTIONS, NamesOptions])
    monkeypatch.setattr("regard.cli.evaluate.EVALUATION_OPTIONS", options.EVALUATION_OPTIONS)
    words: Words = ["evaluate", "ab", "abcd", "--letters", "3"]
    done = regard(*words)
    rows = [line.split() for line in done.out.splitlines()]
    assert rows == [["name", "too", "long"], ["ab", "-1"], ["abcd", "1"]]
    assert "1 names are too long." in done.err
    found = json.loads(regard(*words, "--batch-size", "7", "--format", "json").out)
    assert found["results"][0] == {"name": "ab", "too_long": -1, "all": [7]}
    for option in (["--lowercase"], ["--beam-size", "2"], ["--picture", "p"], ["--text", "t"]):
        assert_told(regard(*words, *option), option[0])
    assert_told(regard(*words, "--overwrite"), "--overwrite")
    assert_told(regard(*words[:1], *words[3:]), "Give a model folder")
