"""Hyperparameter search: trials are runs, Optuna chooses their settings."""
