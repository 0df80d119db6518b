"""Pictures show what they are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regard import plots


def test_a_text_heat_map_shades_by_value() -> None:
    text = plots.text_heat_map([[0.0, 1.0], [0.5, 0.0]], ["a", "bb"], ["x", "y"])
    lines = text.splitlines()
    assert lines[0] == " a |  ██|"
    assert lines[1] == "bb |▒▒  |"
    assert lines[2].endswith("└ x")


def test_a_constant_matrix_is_drawn_full() -> None:
    assert "█" in plots.text_heat_map(np.ones((2, 2)))


def test_a_text_curve_goes_up_where_the_values_do() -> None:
    lines = plots.text_curve([0.0, 1.0, 2.0], height=3).splitlines()
    assert [line.index("•") for line in lines[:3]] == [13, 12, 11]
    assert "2 |" in lines[0]


def test_characters_without_a_glyph_are_noticed(tmp_path: Path) -> None:
    def drawn(word: str) -> bool:
        return plots.attention_heads(
            tmp_path / "a.png",
            np.ones((1, 1, 1, 1), dtype=np.float32),
            title="t",
            row_labels=[word],
            column_labels=["x"],
        )

    assert drawn("été")
    assert not drawn("\ue000")  # for private use: in no font
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
