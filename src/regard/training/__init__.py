"""From a prepared store to a trained model: losses, schedules, step, loop, checkpoints."""
