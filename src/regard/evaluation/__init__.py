"""Evaluation: metrics of translations, language models, labels and alignments."""
