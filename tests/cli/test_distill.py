"""`regard distill`: notices, shards, kills; and `regard shortlist`."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cli.commands import Command, regard
from cli.test_pipeline import SMALL, run, settings, texts
from data.corpora import texts_of
from regard.data.distributions import DISTRIBUTIONS, read_distributions
from regard.data.shortlist import SHORTLIST, Shortlist
from regard.data.store import Store
from regard.files import LOCK
from toys import write_model_folder

__all__ = ["regard", "run", "texts"]  # fixtures

SEARCH = ["--beam-size", "2", "--distributions", "2", "--device", "cpu"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def pairs(texts: Path) -> int:
    return len(Store(texts / "data").part("train"))


@pytest.fixture
def distilled(run: Path, texts: Path, regard: Command) -> Path:
    """The data as the run translates it, made once."""
    out = texts / "distilled"
    if not out.exists():
        result = regard("distill", run, "--data", texts / "data", "--out", out, *SEARCH)
        assert result.status == 0, result.err
        [count] = re.findall(r"(\d+) pairs have a new target; [1-9]", result.err)
        assert f"BLEU of new against original targets, {count} pairs" in result.err
        assert "training.word_distillation" in result.err
    return out


def test_student_is_trained_on_distilled_data(
    distilled: Path, texts: Path, regard: Command
) -> None:
    out = texts / "student"
    assert regard("train", "--data", distilled, "--out", out, *settings(*SMALL)).status == 0
    result = regard("shortlist", out, "--data", distilled, "--likeliest", "3", "--frequent", "2")
    assert result.status == 0, result.err
    assert [line.split()[0] for line in result.out.splitlines()[2:4]] == ["3", "5"]
    tokenizers = Store(distilled).tokenizers
    rows = Shortlist.read(out, tokenizers).rows
    assert max(map(len, rows)) == 4  # three, and its copy


def test_teacher_distributions_are_stored(distilled: Path) -> None:
    actual, target = read_distributions(Store(distilled)), Store(distilled).part("train").target
    assert actual.lengths().tolist() == (target.lengths() + 1).tolist()
    probabilities = actual.flat()["probabilities"].astype(float)
    assert probabilities.shape[1] == 2
    assert (probabilities.sum(1) <= 1.001).all()
    assert (probabilities[:, 0] >= probabilities[:, 1]).all()


def test_repeated_command_reports_finished_distillation(
    distilled: Path, run: Path, texts: Path, regard: Command
) -> None:
    before = contents(distilled)
    again = regard("distill", run, "--data", texts / "data", "--out", distilled, *SEARCH)
    assert again.status == 0
    assert "finished" in again.err
    assert contents(distilled) == before
    assert not distilled.with_name("distilled.portions").exists()


def test_shards(distilled: Path, run: Path, texts: Path, regard: Command) -> None:
    arguments = ["distill", run, "--data", texts / "data", "--out", texts / "shared", *SEARCH]
    arguments += ["--chunk-size", "2000"]
    first = regard(*arguments, "--shard", "2/2")  # nothing: there is one portion
    assert first.status == 0
    assert f"{pairs(texts)} sentences of other shards are not" in first.err
    second = regard(*arguments, "--shard", "1/2")
    assert "Wrote" in second.err
    assert contents(texts / "shared") == contents(distilled)


def test_mix_and_select_best_bleu(run: Path, texts: Path, regard: Command) -> None:
    out = texts / "mixed"
    result = regard(
        *[
            "distill",
            run,
            "--data",
            texts / "data",
            "--out",
            out,
            *SEARCH,
            "--mix",
            "--select",
            "best-bleu",
        ]
    )
    assert result.status == 0, result.err
    assert "data.corpus_weights=[1,1]" in result.err
    store, old = Store(out), Store(texts / "data")
    new = texts_of(store)[: pairs(texts)]
    others = [pair for pair in texts_of(old) if pair not in new]
    assert [len(corpus) for corpus in store.part("train").corpora] == [len(new), len(others)]
    assert texts_of(store)[len(new) :] == others


def test_random_kills_do_not_change_the_result(distilled: Path, run: Path, texts: Path) -> None:
    out = texts / "killed"
    command = [sys.executable, "-m", "regard", "distill", str(run), "--data", str(texts / "data")]
    command += ["--out", str(out), *SEARCH, "--chunk-size", "7"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    draw = random.Random()
    for number in range(3):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        if number < 2:
            for _ in range(600):
                if len([*out.with_name("killed.portions").rglob("*.txt")]) > 3 * number:
                    break
                time.sleep(0.1)
            time.sleep(draw.random() * 0.3)
            process.kill()
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert not out.with_name("killed.portions").exists()
    actual, expected = contents(out), contents(distilled)
    about = [json.loads(each.pop("store.json")) for each in (actual, expected)]
    for tree in about:
        del tree["files"], tree["checksum"]  # last digits of probabilities, see below
    about[0]["distilled"]["portion"] = 2000
    assert about[0] == about[1]
    actual.pop(DISTRIBUTIONS), expected.pop(DISTRIBUTIONS)
    assert actual == expected
    ours, theirs = (
        np.sort(read_distributions(Store(folder)).flat()["probabilities"].astype(float))
        for folder in (out, distilled)
    )
    assert ours == pytest.approx(theirs, abs=2e-3)  # in other batches, the last digits are others


@pytest.mark.parametrize("left", [(), (LOCK,)])
def test_shard_without_a_plan_is_removed(
    left: tuple[str, ...], run: Path, texts: Path, regard: Command
) -> None:
    out = texts / f"left{len(left)}"
    share = out.with_name(f"{out.name}.portions") / "1-of-2"
    share.mkdir(parents=True)
    for name in left:
        (share / name).touch()
    regard("distill", run, "--data", texts / "data", "--out", out, *SEARCH)
    assert out.is_dir()
    assert not share.parent.exists()


@pytest.mark.parametrize("share", ["0/2", "3/2", "2", "a/b", "1/0"])
def test_invalid_shards(share: str, run: Path, texts: Path, regard: Command) -> None:
    arguments = ["distill", run, "--data", texts / "data", "--out", texts / "none"]
    result = regard(*arguments, "--shard", share)
    assert result.status == 2
    assert "the second of four" in result.err


def test_shortlist_needs_the_tokenizer_of_the_model(
    run: Path, texts: Path, regard: Command
) -> None:
    files = ["--source", texts / "train.y", "--target", texts / "train.x"]
    regard("prepare", *files, "--tokenizer", "char", "--vocab-size", "300", "--out", texts / "yx")
    result = regard("shortlist", run, "--data", texts / "yx")
    assert result.status == 2
    assert "--tokenizer-from" in result.err
    assert not (run / SHORTLIST).exists()


def test_data_of_another_direction_is_refused(
    tmp_path: Path, reversal_store: Store, texts: Path, regard: Command
) -> None:
    model, other = write_model_folder(tmp_path / "model", reversal_store), tmp_path / "backwards"
    files = ["--source", texts / "train.y", "--target", texts / "train.x"]
    languages = ["--source-lang", "yy", "--target-lang", "xx"]
    prepared = regard("prepare", *files, *languages, "--tokenizer-from", model, "--out", other)
    assert prepared.status == 0, prepared.err
    out = ["--out", tmp_path / "never"]
    for arguments in (["shortlist", model], ["align", model], ["distill", model, *out]):
        result = regard(*arguments, "--data", other)
        assert result.status == 2, arguments
        assert "translates xx to yy, but the source language of" in result.err
    assert not (other / "train.fertilities").exists()


def test_unsuitable_teacher_is_refused_first(run: Path, texts: Path, regard: Command) -> None:
    exported, out = texts / "exported", texts / "never"
    assert regard("export", run, "--to", "ctranslate2", "--out", exported).status == 0
    arguments = ["--data", texts / "data", "--out", out]
    result = regard("distill", exported, *arguments, "--distributions", "2")
    assert "use the model that it was exported from" in result.err
    assert not out.with_name("never.portions").exists()
    result = regard("distill", run, *arguments, "--select", "best-bleu", "--beam-size", "1")
    assert "requires search.beam_size above 1" in result.err
