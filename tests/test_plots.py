"""Pictures show what they are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard import plots
from regard.data.calibration import CurvePair
from regard.evaluation.reliability import calibration_curve


def test_text_heat_map_shades_by_value() -> None:
    text = plots.text_heat_map([[0.0, 1.0], [0.5, 0.0]], ["a", "bb"], ["x", "y"])
    lines = text.splitlines()
    assert lines[0] == " a |  ██|"
    assert lines[1] == "bb |▒▒  |"
    assert lines[2].endswith("└ x")


def test_constant_matrix_is_drawn_full() -> None:
    assert "█" in plots.text_heat_map(np.ones((2, 2)))


def test_text_curve_follows_values() -> None:
    lines = plots.text_curve([0.0, 1.0, 2.0], height=3).splitlines()
    assert [line.index("•") for line in lines[:3]] == [13, 12, 11]
    assert "2 |" in lines[0]


def test_missing_glyphs_are_reported(tmp_path: Path) -> None:
    def drawn(word: str) -> bool:
        return plots.plot_attention_heads(
            tmp_path / "a.png",
            np.ones((1, 1, 1, 1), dtype=np.float32),
            title="t",
            row_labels=[word],
            column_labels=["x"],
        )

    assert drawn("été")
    assert not drawn("\ue000")  # for private use: in no font
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_quality_draws_a_bar_per_length_and_system(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: drawn.append(figure))
    plots.plot_quality(
        tmp_path / "q.png",
        lengths=["1-4", "5-9"],
        bleu={name: [10.0, 20.0 + number] for number, name in enumerate(names)},
        scores={name: [0.0, 50.0, 100.0] for name in names},
    )
    left, right = drawn[0].axes
    bars = [bar for bar in left.patches if isinstance(bar, Rectangle)]
    heights = sorted(bar.get_height() for bar in bars)
    assert heights == [10.0] * len(names) + [20.0 + number for number in range(len(names))]
    middles = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    assert len({round(middle, 6) for middle in middles}) == 2 * len(names)  # none hides another
    assert np.mean(middles) == pytest.approx(0.5)
    assert len(right.patches) == len(names)


def test_heat_map_grid_has_three_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: drawn.append(figure))
    maps = {name: np.eye(size) for name, size in (("a", 2), ("b", 3), ("c", 4), ("d", 5))}
    plots.plot_heat_map_grid(tmp_path / "a.png", maps, rows="query", columns="key")
    [figure] = drawn
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c", "d"]
    for axes, values in zip(figure.axes, maps.values(), strict=True):
        assert np.array_equal(np.asarray(axes.images[0].get_array()), values)


def test_alignment_draws_a_line_per_link_and_a_text_per_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    save = plots._save

    def remember(figure: Figure, path: Path) -> bool:
        drawn.append(figure)
        return save(figure, path)

    monkeypatch.setattr(plots, "_save", remember)
    links = {(0, 0), (1, 2), (1, 1)}
    assert plots.plot_alignment(
        tmp_path / "a.png", ["a", "dog"], ["der", "Hund", "da"], links, title=""
    )
    [axes] = drawn[0].axes
    places = {text.get_text(): text.get_position() for text in axes.texts}
    assert list(places) == ["a", "dog", "der", "Hund", "da"]
    ends = {tuple(np.asarray(line.get_xdata()).tolist()) for line in axes.lines}
    assert ends == {
        (places[s][0], places[t][0]) for s, t in [("a", "der"), ("dog", "Hund"), ("dog", "da")]
    }
    middles = [(places["a"][0] + places["dog"][0]) / 2, places["Hund"][0]]
    assert abs(middles[0] - middles[1]) < 2  # the shorter line stands in the middle


def test_line_plot_grid_skips_missing_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: drawn.append(figure))
    lines: dict[str, list[float | None]] = {"a": [1.0, 10.0, None], "b": [2.0, 20.0, 200.0]}
    panel = plots.Panel("t", "x", [1, 2, 4], lines, ["one", "two", "four"], logarithmic=True)
    plots.plot_line_panels(tmp_path / "p.png", [panel, panel])
    [figure] = drawn
    first, second = figure.axes
    assert first.get_yscale() == second.get_yscale() == "log"
    assert [label.get_text() for label in first.get_xticklabels()] == ["one", "two", "four"]
    known = [np.isfinite(np.asarray(line.get_ydata())).sum() for line in first.lines]
    assert known == [2, 3]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_fertilities_draws_copies_below_their_tokens(tmp_path: Path) -> None:
    path = tmp_path / "copies.png"
    complete = plots.plot_fertilities(
        path, ["a", "dog", "</s>"], [0, 1, 1], ["ein", "hund", "-"], [True, True, False], title="t"
    )
    assert complete
    assert path.read_bytes().startswith(b"\x89PNG")


def test_confusion_matrix_shows_proportions_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: drawn.append(figure))
    plots.plot_confusion_matrix(
        tmp_path / "a.png", [[3, 1, 0], [0, 2, 0], [0, 0, 0]], ["a", "b", "c"]
    )
    axes = drawn[0].axes[0]
    expected = [[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert np.array_equal(np.asarray(axes.images[0].get_array()), expected)
    assert [(*text.get_position(), text.get_text()) for text in axes.texts] == [
        (0, 0, "3"),
        (1, 0, "1"),
        (1, 1, "2"),
    ]


def test_calibration_curves_skip_empty_bins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: drawn.append(figure))
    before = calibration_curve([0.15, 0.95, 0.96], [0, 1, 0])
    after = calibration_curve([0.35, 0.65, 0.66], [0, 1, 0])
    plots.plot_calibration(tmp_path / "c.png", {"words": CurvePair(before, after)})
    [axes] = drawn[0].axes
    diagonal, *curves = (np.asarray(line.get_xydata()) for line in axes.lines)
    assert diagonal.tolist() == [[0, 0], [1, 1]]
    assert curves[0] == pytest.approx(np.array([[0.15, 0], [0.955, 0.5]]))
    assert curves[1] == pytest.approx(np.array([[0.35, 0], [0.655, 0.5]]))


def test_trials_are_drawn_by_number_and_by_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: drawn.append(figure))
    rates, names = [0.1, 0.01, 0.001], ["adam", "adamw", "adam"]
    values = {0: 3.0, 2: 1.0, 5: 2.0}
    for maximized, best in ((False, [3, 1, 1]), (True, [3, 3, 3])):
        plots.plot_trials(
            tmp_path / "t.png",
            values,
            {"rate": rates, "optimizer": names, "layers": [2, 4, 6]},
            metric="loss",
            maximized=maximized,
            logarithmic=["rate"],
        )
        history, rate, optimizer, layers = drawn.pop().axes
        assert np.asarray(history.lines[0].get_ydata()).tolist() == best
        offsets = [axes.collections[0].get_offsets() for axes in (history, rate, layers)]
        assert [np.asarray(points)[:, 0].tolist() for points in offsets] == [
            *([0, 2, 5], rates, [2, 4, 6])
        ]
        assert (rate.get_xscale(), layers.get_xscale()) == ("log", "linear")
        assert [label.get_text() for label in optimizer.get_xticklabels()] == ["adam", "adamw"]
        assert [axes.get_ylabel() for axes in (history, rate, layers)] == ["loss", "", "loss"]
