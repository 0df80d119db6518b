"""Files to batches: corpus, doctor, store, ragged batch, sampling, loader, demo corpora."""
