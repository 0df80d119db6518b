"""Files of scores: what is written is read again, for the same pairs only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.pair_files import Files, Pair
from regard.data.score_files import read_scores, write_scores
from regard.data.score_filter import Scores
from regard.errors import DataError

FILES = Files(Path("a"), Path("b"))
PAIRS = [Pair(line, FILES, f"source {line}", f"Ziel {line}") for line in (1, 3, 4, 9)]
SCORES: Scores = {"dual": np.array([0.5, 0.25, 1e-9, 1]), "alignment": np.array([-1.5, -2, 0, -9])}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "scores.tsv"
    write_scores(path, PAIRS, SCORES)
    return path


@given(st.sets(st.integers(0, 3)))
def test_scores_of_some_pairs_are_read(
    tmp_path_factory: pytest.TempPathFactory, numbers: set[int]
) -> None:
    path = tmp_path_factory.mktemp("scores") / "scores.tsv"
    write_scores(path, PAIRS, SCORES)
    selected = sorted(numbers)
    scores = read_scores(path, [PAIRS[number] for number in selected])
    assert [*scores] == [*SCORES]
    for name, values in scores.items():
        np.testing.assert_allclose(values, SCORES[name][selected], rtol=1e-5)


def test_files_are_tables(path: Path) -> None:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    assert rows[0] == ["line", "checksum", "dual", "alignment"]
    assert [row[0] for row in rows[1:]] == ["1", "3", "4", "9"]
    assert rows[1][2:] == ["0.5", "-1.5"]


@pytest.mark.parametrize(
    "pair",
    [
        Pair(2, FILES, "source 2", "Ziel 2"),
        Pair(1, FILES, "source 1", "Ziel 2"),
        Pair(1, FILES, "source", "Ziel 1"),
        Pair(12, FILES, "source 12", "Ziel 12"),
    ],
)
def test_scores_of_other_pairs_are_refused(path: Path, pair: Pair) -> None:
    with pytest.raises(DataError, match=f"no scores of the pair in line {pair.line} of the corpus"):
        read_scores(path, [pair])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "its first line must be line checksum and the names"),
        ("line\tchecksum\n1\tab\n", "its first line must be"),
        ("0.5\n", "its first line must be"),
        ("line\tchecksum\tdual\n1\tab\n", "line 2: not 3 columns"),
        ("line\tchecksum\tdual\n1\tab\tlow\n", "line 2: not 3 columns"),
        ("line\tchecksum\tdual\n1\tab\tnan\n", "line 2: not 3 columns"),
        ("line\tchecksum\tdual\nx\tab\t1\n", "line 2: not 3 columns"),
    ],
)
def test_other_files_are_refused(path: Path, content: str, message: str) -> None:
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_scores(path, PAIRS)
