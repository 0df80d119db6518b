"""Draws the pictures of docs/attention.md that no command draws: `python docs/pictures/make.py`."""

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
    """One of each kind, for a row of twelve tokens."""
    n = 12
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    parts = torch.arange(n)[None] // 4
    masks = {
        "padding (8 are real)": padding(torch.tensor([8]), n)[0, 0].expand(n, -1),
        "causal": causal(n, n),
        "prefix of 5": prefix(torch.tensor([5]), n)[0, 0],
        "permutation": permutation(order.argsort())[0],
        "segments of 4": segments(parts, parts)[0, 0],
        "window of 2": window(n, n, 2),
    }
    maps = {name: mask.float().numpy() for name, mask in masks.items()}
    plots.panels(HERE / "masks.png", maps, rows="query", columns="key")


if __name__ == "__main__":
    main()
