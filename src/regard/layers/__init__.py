"""What models are made of: embedding, feed-forward, residual, encoder, decoder, initialisation."""
