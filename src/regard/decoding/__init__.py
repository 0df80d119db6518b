"""Decoding: searches over token ids, their settings, and forced decoding."""
