"""The best words of each row of scores."""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK = 128


def best_words(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest scores and their words, best first: (R, V) -> (R, count) both.

    The best words lie in the chunks whose best word is highest, as many chunks as words are wanted;
    to look for them there takes a fraction of the time that sorting whole rows takes.
    """
    rows, words = scores.shape
    if count == 1 and scores.is_cuda:
        return scores.max(1, keepdim=True)
    chunks = words // _CHUNK
    if chunks < 4 * count:
        return scores.topk(count, dim=1)
    whole = scores[:, : chunks * _CHUNK].unflatten(1, (chunks, _CHUNK))
    places = whole.amax(2).topk(count, dim=1, sorted=False).indices  # (R, count)
    near = whole.gather(1, places[:, :, None].expand(-1, -1, _CHUNK)).flatten(1)
    columns = places[:, :, None] * _CHUNK + torch.arange(_CHUNK, device=scores.device)
    rest = torch.arange(chunks * _CHUNK, words, device=scores.device).expand(rows, -1)
    columns = torch.cat([columns.flatten(1), rest], 1)
    found, at = torch.cat([near, scores[:, chunks * _CHUNK :]], 1).topk(count, dim=1)
    return found, columns.gather(1, at)


def log_probabilities(logits: Tensor) -> Tensor:
    """In float32, whatever the model computes in."""
    return logits.log_softmax(-1, dtype=torch.float32)
