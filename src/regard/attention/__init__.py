"""Attention, usable alone: scores, selection, masks, `attend`, positions, heads, caches."""

from regard.attention.attend import attend
from regard.attention.drop_in import MultiheadAttention
from regard.attention.masks import causal, padding
from regard.attention.positions import sinusoids
from regard.attention.scores import scaled_dot
from regard.attention.select import soft

__all__ = ["MultiheadAttention", "attend", "causal", "padding", "scaled_dot", "sinusoids", "soft"]
