"""Training: losses, optimizer and schedules, training loop, checkpoints, best model."""
