"""From text files to batches: readers, filters, store, sampling, loader, demo corpora."""
