"""Labelled files: CoNLL-U, columns and TSV, as people have them and as they should not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.examples import Layout, has_header, read_examples
from regard.errors import ConfigError, DataError

CONLLU = """\
# sent_id = 1
# text = I didn't
1\tI\tI\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\tVBD\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# the mark for a number is a word, and spaces may lie in one
1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
2\t10 000\t10000\tNUM\tCD\t_\t1\tdep\t_\t_
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "file"
    path.write_text(text, encoding="utf-8")
    return path


def test_conllu(tmp_path: Path) -> None:
    one, two = read_examples(written(tmp_path, CONLLU), "tagged")
    assert one.texts == ("I", "did", "n't")
    assert one.labels == ("PRON", "AUX", "PART")
    assert (one.line, two.line) == (1, 9)
    assert two.texts == ("#", "10 000")
    other = read_examples(written(tmp_path, CONLLU), "tagged", "XPOS")
    assert other[0].labels == ("PRP", "VBD", "RB")
    assert read_examples(written(tmp_path, CONLLU), "tagged", "8")[0].labels[0] == "nsubj"
    with pytest.raises(ConfigError, match="no column 'tag'"):
        read_examples(written(tmp_path, CONLLU), "tagged", "tag")


def test_columns(tmp_path: Path) -> None:
    text = "the\tDET\n#\tSYM\n\n\n\ndog\tNOUN"
    one, two = read_examples(written(tmp_path, text), "tagged")
    assert (one.texts, one.labels) == (("the", "#"), ("DET", "SYM"))
    assert (two.texts, two.labels, two.line) == (("dog",), ("NOUN",), 6)
    spaces = "EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n"
    assert read_examples(written(tmp_path, spaces), "tagged")[0].labels == ("B-ORG", "O")
    assert read_examples(written(tmp_path, spaces), "tagged", "2")[0].labels == ("NNP", "VBZ")
    with pytest.raises(ConfigError, match="from 1 to 4"):
        read_examples(written(tmp_path, spaces), "tagged", "5")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("the\tDET\ndog\n", "line 2: has 1 columns, and 2"),
        ("the\tDET\n\tNOUN\n", "line 2"),
        ("the\tDET\ndog\tNOUN\tx\n", "line 2: has 3"),
        (CONLLU.replace("\tn't\t", "\t"), "line 6: has 9"),
        ("\n\n", "no sentence"),
    ],
)
def test_columns_that_cannot_be_read(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=told):
        read_examples(written(tmp_path, text), "tagged")


def test_labels_are_put_back() -> None:
    lines = CONLLU.splitlines()
    layout = Layout.of(lines[2])
    assert layout.with_label(lines[2], "X") == lines[2].replace("PRON", "X")
    assert [layout.has_word(line) for line in lines[:7]] == [
        False,
        False,
        True,
        False,
        True,
        True,
        False,
    ]
    assert Layout.of("word\tO").with_label("other\tB-x", "O") == "other\tO"
    assert Layout.of("word").with_label("word", "O") == "word\tO"
    assert Layout.of("EU NNP B").with_label("a b c", "d") == "a b d"


def test_labelled_texts(tmp_path: Path) -> None:
    text = "label\tsentence\n1\ta good film\n0\ta bad one\n1\tgood\n"
    found = read_examples(written(tmp_path, text), "labelled")
    assert [(one.labels, one.texts) for one in found[:2]] == [
        (("1",), ("a good film",)),
        (("0",), ("a bad one",)),
    ]
    assert len(read_examples(written(tmp_path, text), "labelled", header=False)) == 4
    pairs = "yes\tone\ttwo\nno\tthree\tfour\nyes\tfive\tsix\n"
    assert read_examples(written(tmp_path, pairs), "labelled")[1].texts == ("three", "four")
    with pytest.raises(DataError, match="line 2: has 4 columns"):
        read_examples(written(tmp_path, "1\ta\n1\ta\tb\tc\n"), "labelled")
    with pytest.raises(DataError, match="line 1: has 1 columns"):
        read_examples(written(tmp_path, "text alone\n"), "labelled")
    with pytest.raises(DataError, match="nothing to evaluate"):
        read_examples(written(tmp_path, "\n"), "labelled")


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["label", "0", "1", "0"], True),
        (["0", "1", "0"], False),
        (["label", "0", "1"], False),  # nothing says that these are not three labels
        (["0"], False),
        ([], False),
    ],
)
def test_a_header_is_a_label_that_never_comes_again(labels: list[str], found: bool) -> None:
    lines = [(number, f"{label}\ttext") for number, label in enumerate(labels, 1)]
    assert has_header(lines) == found
