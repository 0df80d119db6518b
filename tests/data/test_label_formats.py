"""File formats of labelled text: CoNLL-U, columns and TSV, valid and invalid."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.label_formats import Layout, has_header, read_examples
from regard.errors import ConfigError, DataError

CONLLU = """\
# sent_id = 1
# text = I didn't
1\tI\tI\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\tVBD\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# the number sign is a word, and words may contain spaces
1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
2\t10 000\t10000\tNUM\tCD\t_\t1\tdep\t_\t_
"""


def write_file(folder: Path, text: str) -> Path:
    path = folder / "file"
    path.write_text(text, encoding="utf-8")
    return path


def test_conllu(tmp_path: Path) -> None:
    first, second = read_examples(write_file(tmp_path, CONLLU), "tagged")
    assert first.texts == ("I", "did", "n't")
    assert first.labels == ("PRON", "AUX", "PART")
    assert (first.line, second.line) == (1, 9)
    assert second.texts == ("#", "10 000")
    xpos = read_examples(write_file(tmp_path, CONLLU), "tagged", "XPOS")
    assert xpos[0].labels == ("PRP", "VBD", "RB")
    assert read_examples(write_file(tmp_path, CONLLU), "tagged", "8")[0].labels[0] == "nsubj"
    with pytest.raises(ConfigError, match="no column 'tag'"):
        read_examples(write_file(tmp_path, CONLLU), "tagged", "tag")


def test_columns(tmp_path: Path) -> None:
    text = "the\tDET\n#\tSYM\n\n\n\ndog\tNOUN"
    first, second = read_examples(write_file(tmp_path, text), "tagged")
    assert (first.texts, first.labels) == (("the", "#"), ("DET", "SYM"))
    assert (second.texts, second.labels, second.line) == (("dog",), ("NOUN",), 6)
    spaces = "EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n"
    assert read_examples(write_file(tmp_path, spaces), "tagged")[0].labels == ("B-ORG", "O")
    assert read_examples(write_file(tmp_path, spaces), "tagged", "2")[0].labels == ("NNP", "VBZ")
    with pytest.raises(ConfigError, match="from 1 to 4"):
        read_examples(write_file(tmp_path, spaces), "tagged", "5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the\tDET\ndog\n", "line 2: has 1 columns, but needs 2"),
        ("the\tDET\n\tNOUN\n", "line 2"),
        ("the\tDET\ndog\tNOUN\tx\n", "line 2: has 3"),
        (CONLLU.replace("\tn't\t", "\t"), "line 6: has 9"),
        ("\n\n", "no sentence"),
    ],
)
def test_invalid_columns_are_rejected(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_examples(write_file(tmp_path, text), "tagged")


def test_with_label_replaces_the_label() -> None:
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
    examples = read_examples(write_file(tmp_path, text), "labelled")
    assert [(example.labels, example.texts) for example in examples[:2]] == [
        (("1",), ("a good film",)),
        (("0",), ("a bad one",)),
    ]
    assert len(read_examples(write_file(tmp_path, text), "labelled", header=False)) == 4
    pairs = "yes\tone\ttwo\nno\tthree\tfour\nyes\tfive\tsix\n"
    assert read_examples(write_file(tmp_path, pairs), "labelled")[1].texts == ("three", "four")
    with pytest.raises(DataError, match="line 2: has 4 columns"):
        read_examples(write_file(tmp_path, "1\ta\n1\ta\tb\tc\n"), "labelled")
    with pytest.raises(DataError, match="line 1: has 1 columns"):
        read_examples(write_file(tmp_path, "text alone\n"), "labelled")
    with pytest.raises(DataError, match="nothing to evaluate"):
        read_examples(write_file(tmp_path, "\n"), "labelled")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["label", "0", "1", "0"], True),
        (["0", "1", "0"], False),
        (["label", "0", "1"], False),  # may be three labels
        (["0"], False),
        ([], False),
    ],
)
def test_header_detection(labels: list[str], expected: bool) -> None:
    lines = [(number, f"{label}\ttext") for number, label in enumerate(labels, 1)]
    assert has_header(lines) == expected
