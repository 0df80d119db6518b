"""Length generalization of positional encodings: lines longer than those in training.

    python benchmarks/lengths.py
    python benchmarks/lengths.py --write    # write table and picture into docs/ and docs/zh/

A small Transformer (2 + 2 layers of width 64) is trained to copy lines of 1 to 20 random letters,
once for each positional encoding, and then copies lines of up to 60 letters by greedy search. Each
result is stored at once, so the same command resumes after an interruption.
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
from regard.data.pairs import with_eos
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.machine import keep_freed_memory
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.step import Updater

PICTURE = Path("docs/pictures/lengths.png")
PAGES = {Path("docs/concepts/attention.md"): "positions", Path("docs/zh/attention.md"): "位置"}
POSITIONS: list[PositionName] = ["sinusoidal", "learned", "rotary", "relative", "none"]
LETTERS = range(4, 30)  # ids below 4 are special tokens
MAX_TRAIN_LENGTH = 20
LENGTHS = [10, 20, 22, 25, 30, 40, 60]
TESTS = 200  # lines of each length


@dataclass(frozen=True)
class Result:
    """One positional encoding: by length, the fraction of correct lines and of correct letters."""

    positions: PositionName
    seconds: float
    loss: float  # per token, over the last 100 updates
    lines: list[float]
    letters: list[float]


def main() -> None:
    """Run the missing measurements, or write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/lengths.json"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="only write table and picture")
    options = parser.parse_args()
    results = _read_results(options.results)
    if options.write:
        _draw(results)
        for page, heading in PAGES.items():
            fill(page, "lengths", _table(results, heading))
        return
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    for positions in POSITIONS:
        if positions not in {result.positions for result in results}:
            results.append(_measure(positions, options.steps, options.seed))
            _write_results(options.results, results, options.steps, options.seed)
            print(results[-1], flush=True)


def _measure(positions: PositionName, steps: int, seed: int) -> Result:
    """Train and test one encoding; lines and their order are the same for all."""
    begin = time.perf_counter()
    rng = random.Random(seed)
    model, loss = _train(positions, steps, seed, rng)
    seconds = time.perf_counter() - begin
    tests = random.Random(seed + 1)
    fractions = [_accuracies(model, _lines(tests, TESTS, n, n)) for n in LENGTHS]
    lines, letters = map(list, zip(*fractions, strict=True))
    return Result(positions, round(seconds, 1), loss, lines, letters)


def _train(
    positions: PositionName, steps: int, seed: int, rng: random.Random
) -> tuple[Transformer, float]:
    torch.manual_seed(seed)
    shape = TransformerConfig(
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=64,
        num_heads=4,
        ffn_dim=256,
        dropout=0.0,
        norm_order="pre",
        positional_encoding=positions,
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
        lines = with_eos(_lines(rng, 64, 1, MAX_TRAIN_LENGTH))
        rate = learning_rate(step, config, shape.d_model)
        result = update([Batch(lines, lines)], step=step, rate=rate)
        if step > steps - 100:
            sums, tokens = sums + result.sums, tokens + result.tokens
    return model, float(sums[0]) / tokens


def _lines(rng: random.Random, count: int, shortest: int, longest: int) -> list[list[int]]:
    return [rng.choices(LETTERS, k=rng.randint(shortest, longest)) for _ in range(count)]


@torch.inference_mode()
def _accuracies(model: Transformer, lines: list[list[int]]) -> tuple[float, float]:
    """The fraction of lines copied exactly, and of letters at the correct position."""
    greedy = SearchConfig(beam_size=1)
    translations = search(model.eval(), with_eos(lines), greedy, max_length=model.max_length)
    copies = [list(hypotheses[0].tokens) for hypotheses in translations]
    pairs = list(zip(copies, lines, strict=True))
    letters = sum(a == b for pair in pairs for a, b in zip(*pair, strict=False))
    return sum(a == b for a, b in pairs) / len(pairs), letters / sum(map(len, lines))


def _read_results(path: Path) -> list[Result]:
    if not path.is_file():
        return []
    return [Result(**result) for result in json.loads(path.read_text())["results"]]


def _write_results(path: Path, results: list[Result], steps: int, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__}
    run = {"threads": torch.get_num_threads(), "steps": steps, "seed": seed, "lengths": LENGTHS}
    tree = {**about, **run, "results": [asdict(result) for result in results]}
    path.write_text(json.dumps(tree, indent=1) + "\n")


def _draw(results: list[Result]) -> None:
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    plots.plot_bars(
        PICTURE,
        {result.positions: [100 * fraction for fraction in result.letters] for result in results},
        labels=[str(length) for length in LENGTHS],
        title=f"copying lines by length, trained on 1 to {MAX_TRAIN_LENGTH} letters",
        y="correct letters, %",
    )


def _table(results: list[Result], heading: str) -> str:
    lengths = " | ".join(map(str, LENGTHS))
    lines = [f"| {heading} | {lengths} |", "|---|" + "---|" * len(LENGTHS)]
    for result in results:
        fractions = zip(result.lines, result.letters, strict=True)
        cells = " | ".join(f"{100 * a:.1f} / {100 * b:.1f}" for a, b in fractions)
        lines.append(f"| {result.positions} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
