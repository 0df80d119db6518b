"""Attention functions and modules: scores, selection, masks, positions, multi-head, KV caches."""

from regard.attention.attend import attend, attend_with_weights, attention_weights
from regard.attention.drop_in import MultiheadAttention
from regard.attention.masks import causal, padding, permutation, prefix, segments, window
from regard.attention.positions import rotate, sinusoids
from regard.attention.relative import RelativeScore
from regard.attention.saliency import Gate, max_pooling
from regard.attention.scores import Additive, Bilinear, ProjectedDot, dot, scaled_dot
from regard.attention.select import hard, reinforce, sampled, soft, straight_through, with_log_probs

__all__ = [
    "Additive",
    "Bilinear",
    "Gate",
    "MultiheadAttention",
    "ProjectedDot",
    "RelativeScore",
    "attend",
    "attend_with_weights",
    "attention_weights",
    "causal",
    "dot",
    "hard",
    "max_pooling",
    "padding",
    "permutation",
    "prefix",
    "reinforce",
    "rotate",
    "sampled",
    "scaled_dot",
    "segments",
    "sinusoids",
    "soft",
    "straight_through",
    "window",
    "with_log_probs",
]
