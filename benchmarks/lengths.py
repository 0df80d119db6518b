"""How each kind of position does on lines longer than any it was trained on.

    python benchmarks/lengths.py
    python benchmarks/lengths.py --write    # the table and the picture, into docs/ and docs/zh/

A small Transformer (2 + 2 layers of width 64) learns to copy random letters, 1 to 20 in a line,
once for each kind of position, and then copies lines of up to 60, greedily. Results are kept one
by one, so the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from pages import fill
from regard import plots
from regard.attention.config import PositionName
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.devices import keep_freed_memory
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.step import Updater

PICTURE = Path("docs/pictures/lengths.png")
PAGES = {Path("docs/attention.md"): "positions", Path("docs/zh/attention.md"): "位置"}
POSITIONS: list[PositionName] = ["sinusoidal", "learned", "rotary", "relative", "none"]
LETTERS = range(4, 30)  # ids below 4 are marks
LONGEST = 20  # of the lines that are learned from
LENGTHS = [10, 20, 22, 25, 30, 40, 60]
TESTS = 200  # lines of each length


@dataclass(frozen=True)
class Result:
    """One kind of position: of each length, the share of lines and of letters copied right."""

    positions: PositionName
    seconds: float
    loss: float  # of the last hundred updates, a token
    lines: list[float]
    letters: list[float]


def main() -> None:
    """Measure what is missing, or write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/lengths.json"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the table, train nothing")
    options = parser.parse_args()
    results = _read(options.results)
    if options.write:
        _draw(results)
        for page, heading in PAGES.items():
            fill(page, "lengths", _table(results, heading))
        return
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    for positions in POSITIONS:
        if positions not in {result.positions for result in results}:
            results.append(_measured(positions, options.steps, options.seed))
            _keep(options.results, results, options.steps, options.seed)
            print(results[-1], flush=True)


def _measured(positions: PositionName, steps: int, seed: int) -> Result:
    """The same lines in the same order for each kind."""
    begin = time.perf_counter()
    draw = random.Random(seed)
    model, loss = _trained(positions, steps, seed, draw)
    seconds = time.perf_counter() - begin
    tests = random.Random(seed + 1)
    shares = [_shares(model, _lines(tests, TESTS, n, n)) for n in LENGTHS]
    lines, letters = map(list, zip(*shares, strict=True))
    return Result(positions, round(seconds, 1), loss, lines, letters)


def _trained(
    positions: PositionName, steps: int, seed: int, draw: random.Random
) -> tuple[Transformer, float]:
    torch.manual_seed(seed)
    shape = TransformerConfig(
        encoder_layers=2,
        decoder_layers=2,
        width=64,
        heads=4,
        feedforward_width=256,
        dropout=0.0,
        norm_order="pre",
        positions=positions,
        max_positions=128,
    )
    config = TrainingConfig(
        max_steps=steps,
        learning_rate=3e-3,
        warmup_steps=200,
        schedule="cosine",
        label_smoothing=0.0,
        seed=seed,
    )
    model = Transformer(shape, Vocabulary(LETTERS.stop, LETTERS.stop))
    update = Updater(model.train(), make_optimizer(model, config), Objective(config))
    sums, tokens = torch.zeros(2), 0
    for step in range(1, steps + 1):
        lines = with_ends(_lines(draw, 64, 1, LONGEST))
        rate = learning_rate(step, config, shape.width)
        done = update([Batch(lines, lines)], step=step, rate=rate)
        if step > steps - 100:
            sums, tokens = sums + done.sums, tokens + done.tokens
    return model, float(sums[0]) / tokens


def _lines(draw: random.Random, count: int, shortest: int, longest: int) -> list[list[int]]:
    return [draw.choices(LETTERS, k=draw.randint(shortest, longest)) for _ in range(count)]


@torch.inference_mode()
def _shares(model: Transformer, lines: list[list[int]]) -> tuple[float, float]:
    """Of lines copied as they are, and of letters that stand where they should."""
    greedy = SearchConfig(beam_size=1)
    found = search(model.eval(), with_ends(lines), greedy, max_length=model.max_length)
    copies = [list(hypotheses[0].tokens) for hypotheses in found]
    pairs = list(zip(copies, lines, strict=True))
    letters = sum(a == b for pair in pairs for a, b in zip(*pair, strict=False))
    return sum(a == b for a, b in pairs) / len(pairs), letters / sum(map(len, lines))


def _read(path: Path) -> list[Result]:
    if not path.is_file():
        return []
    return [Result(**result) for result in json.loads(path.read_text())["results"]]


def _keep(path: Path, results: list[Result], steps: int, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__}
    run = {"threads": torch.get_num_threads(), "steps": steps, "seed": seed, "lengths": LENGTHS}
    tree = {**about, **run, "results": [asdict(result) for result in results]}
    path.write_text(json.dumps(tree, indent=1) + "\n")


def _draw(results: list[Result]) -> None:
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    plots.bars(
        PICTURE,
        {result.positions: [100 * share for share in result.letters] for result in results},
        labels=[str(length) for length in LENGTHS],
        title=f"copying lines of so many letters, trained on 1 to {LONGEST}",
        y="letters in their place, %",
    )


def _table(results: list[Result], heading: str) -> str:
    lengths = " | ".join(map(str, LENGTHS))
    lines = [f"| {heading} | {lengths} |", "|---|" + "---|" * len(LENGTHS)]
    for result in results:
        shares = zip(result.lines, result.letters, strict=True)
        cells = " | ".join(f"{100 * a:.1f} / {100 * b:.1f}" for a, b in shares)
        lines.append(f"| {result.positions} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
