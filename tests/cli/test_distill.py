"""Distillation by the command: what it says, shares, kills, and a shortlist for the student."""

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
        done = regard("distill", run, "--data", texts / "data", "--out", out, *SEARCH)
        assert done.status == 0, done.err
        [count] = re.findall(r"(\d+) pairs have a new target; [1-9]", done.err)
        assert f"BLEU of new targets against old ones, {count} pairs" in done.err
        assert "training.word_distillation" in done.err
    return out


def test_a_student_is_trained_on_it(distilled: Path, texts: Path, regard: Command) -> None:
    out = texts / "student"
    assert regard("train", "--data", distilled, "--out", out, *settings(*SMALL)).status == 0
    done = regard("shortlist", out, "--data", distilled, "--likeliest", "3", "--frequent", "2")
    assert done.status == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines()[2:4]] == ["3", "5"]
    tokenizers = Store(distilled).tokenizers
    rows = Shortlist.read(out, tokenizers).rows
    assert max(map(len, rows)) == 4  # three, and its copy


def test_distributions_lie_beside_it(distilled: Path) -> None:
    found, target = read_distributions(Store(distilled)), Store(distilled).part("train").target
    assert found.lengths().tolist() == (target.lengths() + 1).tolist()
    probabilities = found.flat()["probabilities"].astype(float)
    assert probabilities.shape[1] == 2
    assert (probabilities.sum(1) <= 1.001).all()
    assert (probabilities[:, 0] >= probabilities[:, 1]).all()


def test_the_same_command_again_says_that_it_is_finished(
    distilled: Path, run: Path, texts: Path, regard: Command
) -> None:
    before = contents(distilled)
    again = regard("distill", run, "--data", texts / "data", "--out", distilled, *SEARCH)
    assert again.status == 0
    assert "finished" in again.err
    assert contents(distilled) == before
    assert not distilled.with_name("distilled.portions").exists()


def test_shares_and_what_they_say(distilled: Path, run: Path, texts: Path, regard: Command) -> None:
    words = ["distill", run, "--data", texts / "data", "--out", texts / "shared", *SEARCH]
    words += ["--portion", "2000"]
    first = regard(*words, "--share", "2/2")  # nothing: there is one portion
    assert first.status == 0
    assert f"{pairs(texts)} sentences of other shares are not" in first.err
    second = regard(*words, "--share", "1/2")
    assert "Written" in second.err
    assert contents(texts / "shared") == contents(distilled)


def test_mixed_and_nearest(run: Path, texts: Path, regard: Command) -> None:
    out = texts / "mixed"
    done = regard(
        *["distill", run, "--data", texts / "data", "--out", out, *SEARCH, "--mix", "--nearest"]
    )
    assert done.status == 0, done.err
    assert "data.weights=[1,1]" in done.err
    store, old = Store(out), Store(texts / "data")
    new = texts_of(store)[: pairs(texts)]
    others = [pair for pair in texts_of(old) if pair not in new]
    assert [len(corpus) for corpus in store.part("train").corpora] == [len(new), len(others)]
    assert texts_of(store)[len(new) :] == others


def test_kills_at_random_moments_change_nothing(distilled: Path, run: Path, texts: Path) -> None:
    out = texts / "killed"
    command = [sys.executable, "-m", "regard", "distill", str(run), "--data", str(texts / "data")]
    command += ["--out", str(out), *SEARCH, "--portion", "7"]
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
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert not out.with_name("killed.portions").exists()
    found, expected = contents(out), contents(distilled)
    about = [json.loads(each.pop("store.json")) for each in (found, expected)]
    for tree in about:
        del tree["files"], tree["checksum"]  # last digits of probabilities, see below
    about[0]["distilled"]["portion"] = 2000
    assert about[0] == about[1]
    found.pop(DISTRIBUTIONS), expected.pop(DISTRIBUTIONS)
    assert found == expected
    ours, theirs = (
        np.sort(read_distributions(Store(folder)).flat()["probabilities"].astype(float))
        for folder in (out, distilled)
    )
    assert ours == pytest.approx(theirs, abs=2e-3)  # in other batches, the last digits are others


@pytest.mark.parametrize("left", [(), (LOCK,)])
def test_a_share_that_a_kill_left_without_a_plan_is_removed(
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
def test_a_share_that_is_none(share: str, run: Path, texts: Path, regard: Command) -> None:
    words = ["distill", run, "--data", texts / "data", "--out", texts / "none"]
    done = regard(*words, "--share", share)
    assert done.status == 2
    assert "the second of four" in done.err


def test_a_shortlist_needs_the_models_tokenizer(run: Path, texts: Path, regard: Command) -> None:
    files = ["--source", texts / "train.y", "--target", texts / "train.x"]
    regard("prepare", *files, "--tokenizer", "char", "--vocab-size", "300", "--out", texts / "yx")
    done = regard("shortlist", run, "--data", texts / "yx")
    assert done.status == 2
    assert "--tokenizer-from" in done.err
    assert not (run / SHORTLIST).exists()


def test_data_of_another_direction_is_refused(
    tmp_path: Path, reversal_store: Store, texts: Path, regard: Command
) -> None:
    model, other = write_model_folder(tmp_path / "model", reversal_store), tmp_path / "backwards"
    files = ["--source", texts / "train.y", "--target", texts / "train.x"]
    languages = ["--source-lang", "yy", "--target-lang", "xx"]
    made = regard("prepare", *files, *languages, "--tokenizer-from", model, "--out", other)
    assert made.status == 0, made.err
    out = ["--out", tmp_path / "never"]
    for words in (["shortlist", model], ["align", model], ["distill", model, *out]):
        done = regard(*words, "--data", other)
        assert done.status == 2, words
        assert "translates xx to yy, and the source of" in done.err
    assert not (other / "train.fertilities").exists()


def test_a_teacher_that_cannot_teach_is_told_first(run: Path, texts: Path, regard: Command) -> None:
    exported, out = texts / "exported", texts / "never"
    assert regard("export", run, "--to", "ctranslate2", "--out", exported).status == 0
    words = ["--data", texts / "data", "--out", out]
    done = regard("distill", exported, *words, "--distributions", "2")
    assert "use the model that it was made from" in done.err
    assert not out.with_name("never.portions").exists()
    done = regard("distill", run, *words, "--nearest", "--beam-size", "1")
    assert "nearest chooses from a beam" in done.err
