"""The presets, and their list in the help."""

from __future__ import annotations

from regard.config import build
from regard.tasks import task_of
from regard.training.config import RunConfig
from regard.training.presets import PRESETS, format_preset_names


def test_help_lists_all_presets_by_content() -> None:
    groups = dict(
        (group.partition(": ")[::2] if ": " in group else ("", group))
        for group in format_preset_names().split("; ")
    )
    listed = {name: heading for heading, names in groups.items() for name in names.split(", ")}
    assert {*listed} == {*PRESETS}
    headings = {
        "pairs": "",
        "text": "for plain text",
        "tagged": "for labels",
        "labelled": "for labels",
    }
    for name, preset in PRESETS.items():
        config = build(RunConfig, {"out": "x", **preset})
        assert listed[name] == headings[task_of(config.model).content.name]
