"""Inference pipelines: texts in, texts out, as a stream through a backend."""
