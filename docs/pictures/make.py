"""Draws the pictures of the pages that no command draws: `python docs/pictures/make.py`."""

from __future__ import annotations

from pathlib import Path

import torch

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

HERE = Path(__file__).parent


def main() -> None:
    """All of them."""
    draw_shop()
    draw_connected()
    draw_masks()
    draw_fertilities()
    draw_paths()


def draw_shop() -> None:
    """Two children and three toys; the numbers are those of the page."""
    children = torch.tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    looks = torch.tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    plots.heat_map(
        HERE / "shop.png",
        attention_weights(children, looks).numpy(),
        title="attention",
        rows="child",
        columns="toy",
        row_labels=["likes wheels", "likes fur"],
        column_labels=["car", "bear", "blocks"],
    )


def draw_connected() -> None:
    """Fixed weights, and those that two sentences make for themselves."""
    fixed = [[0.2, 0.5, 0.3], [0.7, 0.1, 0.2], [0.3, 0.3, 0.4]]
    three = torch.tensor([[2.0, 0.0], [1.5, 1.5], [0.0, 2.0]])
    four = torch.tensor([[2.0, 0.0], [1.5, 1.5], [0.0, 2.0], [0.0, 2.0]])
    maps = {
        "fully connected: any three words": torch.tensor(fixed).numpy(),
        "attention: three words": attention_weights(three, three).numpy(),
        "attention: four words": attention_weights(four, four).numpy(),
    }
    plots.panels(HERE / "connected.png", maps, rows="output", columns="input")


def draw_masks() -> None:
    """One of each kind, for a row of twelve tokens: those that make a model first."""
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
        "padding (8 are real)": padding(torch.tensor([8]), n)[0, 0].expand(n, -1),
        "segments of 4": segments(parts, parts)[0, 0],
        "window of 2": window(n, n, 2),
    }
    maps = {name: mask.float().numpy() for name, mask in masks.items()}
    plots.panels(HERE / "masks.png", maps, rows="query", columns="key")


def draw_fertilities() -> None:
    """A sentence, its fertilities, the copies and the output: docs/parallel.md."""
    source = ["a", "man", "is", "sleeping", ".", "</s>"]
    written = ["ein", "mann", "schlä", "ft", "."]
    title = "fertilities: as many copies as words"
    path = HERE / "fertilities.png"
    plots.copies(path, source, [0, 1, 3, 3, 4], written, [True] * 5, title=title)


def draw_paths() -> None:
    """The same with CTC: two places for each token, of which some are not read."""
    source = ["a", "man", "is", "sleeping", ".", "</s>"]
    written = ["ein", "ein", "mann", "-", "-", "schlä", "ft", "ft", ".", ".", "-", "-"]
    read = [True, False, True, False, False, True, True, False, True, False, False, False]
    origins = [place for place in range(len(source)) for _ in range(2)]
    title = "CTC: two places for each token, blanks and repetitions dropped"
    plots.copies(HERE / "paths.png", source, origins, written, read, title=title)


if __name__ == "__main__":
    main()
