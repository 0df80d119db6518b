"""One file, one architecture, all with the same anatomy. Their names are in this literal dict."""

from __future__ import annotations

from regard.models.transformer import Transformer, TransformerConfig

ARCHITECTURES = {"transformer": (TransformerConfig, Transformer)}

__all__ = ["ARCHITECTURES", "Transformer", "TransformerConfig"]
