"""Draws the illustrations of the documentation: `python docs/pictures/make.py`."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure

from regard import plots
from regard.attention import (
    attention_weights,
    causal,
    padding,
    permutation,
    prefix,
    segments,
    window,
)

FOLDER = Path(__file__).parent


def main() -> None:
    """Draw all illustrations."""
    draw_shop()
    draw_connected()
    draw_masks()
    draw_fertilities()
    draw_paths()


def draw_shop() -> None:
    """Attention of two children to three toys, with the numbers of docs/concepts/attention.md."""
    queries = torch.tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    keys = torch.tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    figure = Figure(figsize=(3.4, 2.4), layout="constrained")
    axes = figure.add_subplot()
    figure.colorbar(axes.imshow(attention_weights(queries, keys), aspect="auto"), ax=axes)
    axes.set(title="attention", ylabel="child", xlabel="toy")
    axes.set_yticks(range(2), ["likes wheels", "likes fur"])
    axes.set_xticks(range(3), ["car", "bear", "blocks"])
    figure.savefig(FOLDER / "shop.png", dpi=120)


def draw_connected() -> None:
    """Fixed weights of a fully connected layer, and attention weights of two sentences."""
    fixed = [[0.2, 0.5, 0.3], [0.7, 0.1, 0.2], [0.3, 0.3, 0.4]]
    three = torch.tensor([[2.0, 0.0], [1.5, 1.5], [0.0, 2.0]])
    four = torch.tensor([[2.0, 0.0], [1.5, 1.5], [0.0, 2.0], [0.0, 2.0]])
    maps = {
        "fully connected: any three words": torch.tensor(fixed).numpy(),
        "attention: three words": attention_weights(three, three).numpy(),
        "attention: four words": attention_weights(four, four).numpy(),
    }
    plots.heat_map_grid(FOLDER / "connected.png", maps, rows="output", columns="input")


def draw_masks() -> None:
    """A mask of each kind for twelve tokens, those of model kinds first."""
    n = 12
    ranks = torch.randperm(n, generator=torch.Generator().manual_seed(1)).argsort()
    parts = torch.arange(n)[None] // 4
    masks = {
        "all (BERT)": torch.ones(n, n),
        "causal (GPT)": causal(n, n),
        "prefix of 5 (UniLM)": prefix(torch.tensor([5]), n)[0, 0],
        "permutation: content (XLNet)": permutation(ranks)[0],
        "permutation: query (XLNet)": permutation(ranks, itself=False)[0],
        "memory of 6 (Transformer-XL)": causal(n, 6 + n),
        "padding (8 tokens)": padding(torch.tensor([8]), n)[0, 0].expand(n, -1),
        "segments of 4": segments(parts, parts)[0, 0],
        "window of 2": window(n, n, 2),
    }
    maps = {name: mask.float().numpy() for name, mask in masks.items()}
    plots.heat_map_grid(FOLDER / "masks.png", maps, rows="query", columns="key")


def draw_fertilities() -> None:
    """A sentence, its fertilities, the copies and the output (non-autoregressive.md)."""
    source = ["a", "man", "is", "sleeping", ".", "</s>"]
    output = ["ein", "mann", "schlä", "ft", "."]
    title = "fertilities: one copy per output token"
    path = FOLDER / "fertilities.png"
    plots.fertilities(path, source, [0, 1, 3, 3, 4], output, [True] * 5, title=title)


def draw_paths() -> None:
    """The same with CTC: two positions per source token, some of which are dropped."""
    source = ["a", "man", "is", "sleeping", ".", "</s>"]
    output = ["ein", "ein", "mann", "-", "-", "schlä", "ft", "ft", ".", ".", "-", "-"]
    kept = [True, False, True, False, False, True, True, False, True, False, False, False]
    sources = [position for position in range(len(source)) for _ in range(2)]
    title = "CTC: two positions per token, blanks and repetitions dropped"
    plots.fertilities(FOLDER / "paths.png", source, sources, output, kept, title=title)


if __name__ == "__main__":
    main()
