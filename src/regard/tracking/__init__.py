"""Experiment trackers: copies of the metrics log for Weights & Biases and MLflow."""
