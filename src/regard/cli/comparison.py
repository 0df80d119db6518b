"""What regard compare has found: as JSON, as tables, as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.cli.evaluate_translations import print_by_length
from regard.cli.screen import show, table
from regard.evaluation.contest import Compared
from regard.evaluation.growth import Point
from regard.training.metrics_log import Effort

_MEMORY = {
    "cuda": "Memory: the peak of PyTorch's allocator in a pass, beside weights and input.",
    "cpu": "Memory: what forward keeps for backward, beside weights and input.",
}
_LEGEND = (
    "Of one sentence, by formula: multiply-adds; steps that must follow each other; path: layers "
    "or steps\nbetween its first and last word (convolutions: with gaps that widen layer by layer)."
    "\nOf the batch: the median of the rounds."
)


@dataclass(frozen=True)
class LayersTold:
    """Layers at some lengths."""

    points: Sequence[Point]
    device: str
    document: ClassVar[Mapping[str, Any]] = {}

    def rows(self) -> list[dict[str, Any]]:
        """Every point."""
        return [asdict(point) for point in self.points]

    def print_text(self) -> None:
        """One table, and how to read it."""
        columns = ["words", "layer", "multiply-adds", "steps", "path"]
        columns += ["forward, ms", "backward, ms", "memory, MB"]
        rows = [
            [p.length, p.layer, p.operations, p.steps, p.path, *_figures(p)] for p in self.points
        ]
        show(table("", columns, rows))
        print(f"\n{_LEGEND} {_MEMORY[self.device]}")

    def draw(self, path: Path) -> bool:
        """Operations, time and memory against the length, each in steps of the same factor."""
        from regard import plots

        lengths = sorted({point.length for point in self.points})
        layers = list(dict.fromkeys(point.layer for point in self.points))

        def panel(title: str, of: str) -> plots.Panel:
            lines = {
                layer: [getattr(p, of) for p in self.points if p.layer == layer] for layer in layers
            }
            places = [math.log2(length) for length in lengths]
            labels = [str(length) for length in lengths]
            return plots.Panel(title, "words", places, lines, labels, logarithmic=True)

        panels = [panel("multiply-adds of a sentence", "operations")]
        panels += [panel("forward, ms", "forward"), panel("backward, ms", "backward")]
        return plots.line_panels(path, [*panels, panel("memory, MB", "memory")])


def _figures(point: Point) -> list[float | str]:
    if point.forward is None or point.backward is None or point.memory is None:
        return [point.missing, "", ""]
    return [point.forward, point.backward, point.memory]


@dataclass(frozen=True)
class ModelsTold:
    """Trained models, and what each run says that it took."""

    models: Sequence[Compared]
    efforts: Sequence[Effort | None]
    batch_size: int
    document: ClassVar[Mapping[str, Any]] = {}

    def rows(self) -> list[dict[str, Any]]:
        """Everything; `training` is null where a folder has no metrics.jsonl."""
        return [
            {
                **asdict(model),
                "batch_size": self.batch_size,
                "training": asdict(effort) if effort else None,
            }
            for model, effort in zip(self.models, self.efforts, strict=True)
        ]

    def print_text(self) -> None:
        """The table of all figures, BLEU by length, and how far gradients reach."""
        columns = ["model", "kind", "BLEU", "parameters", "training, s", "target tokens/s"]
        columns += ["sentences/s, one by one", f"{self.batch_size} at a time"]
        show(table("", columns, [*map(_row, self.models, self.efforts)]))
        print(f"\n{self.models[0].quality.signature}\n")
        names = [model.name for model in self.models]
        print_by_length(names, [model.quality.by_length for model in self.models])
        for when, norms in self._reaches().items():
            places = enumerate(zip(*norms.values(), strict=False), 1)  # that all models have
            rows = [[str(place), *(f"{x:.2g}" for x in row)] for place, row in places]
            print(f"\nThe gradient that reaches the first source word, {when} training,")
            show(table("", ["from subword", *norms], rows))

    def _reaches(self) -> dict[str, dict[str, list[float]]]:
        """Before and after training: place by place, of the models of which that is known."""
        known = {model.name: model.reach for model in self.models if model.reach}
        if not known:
            return {}
        return {
            "before": {name: reach.before for name, reach in known.items()},
            "after": {name: reach.after for name, reach in known.items()},
        }

    def draw(self, path: Path) -> bool:
        """BLEU by length, speeds, and how far gradients reach."""
        from regard import plots

        groups = self.models[0].quality.by_length
        panels = [
            plots.Panel(
                "BLEU by length",
                "words of the reference",
                range(len(groups)),
                {m.name: [group.bleu for group in m.quality.by_length] for m in self.models},
                [group.words for group in groups],
            ),
            plots.Panel(
                "sentences a second",
                "",
                range(2),
                {m.name: [m.speed.one_by_one, m.speed.in_batches] for m in self.models},
                ["one by one", f"{self.batch_size} at a time"],
                logarithmic=True,
            ),
        ]
        for when, norms in self._reaches().items():
            places = range(1, min(map(len, norms.values())) + 1)
            lines = {name: own[: len(places)] for name, own in norms.items()}
            title = f"gradient at the first word, {when} training"
            panels.append(plots.Panel(title, "subword written", places, lines, logarithmic=True))
        return plots.line_panels(path, panels)


def _row(model: Compared, effort: Effort | None) -> list[str | int | float]:
    training = (
        [f"{effort.seconds:,.0f}", f"{effort.tokens_per_second:,.0f}"] if effort else ["", ""]
    )
    speeds = model.speed.one_by_one, model.speed.in_batches
    return [model.name, model.kind, model.quality.bleu, model.parameters, *training, *speeds]
