"""Decoding: searches, inference backends, and pipelines for text."""
