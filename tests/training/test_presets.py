"""The presets, and what the help says of them."""

from __future__ import annotations

from regard.config import build
from regard.tasks import task_of
from regard.training.config import RunConfig
from regard.training.presets import PRESETS, names_of_presets


def test_the_help_names_all_presets_by_what_they_read() -> None:
    groups = dict(
        (group.partition(": ")[::2] if ": " in group else ("", group))
        for group in names_of_presets().split("; ")
    )
    listed = {name: read for read, names in groups.items() for name in names.split(", ")}
    assert {*listed} == {*PRESETS}
    words = {
        "pairs": "",
        "text": "of running text",
        "tagged": "of labels",
        "labelled": "of labels",
    }
    for name, preset in PRESETS.items():
        config = build(RunConfig, {"out": "x", **preset})
        assert listed[name] == words[task_of(config.model).content.name]
