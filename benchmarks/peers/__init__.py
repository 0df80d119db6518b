"""Training with regard and with its peers, one module each."""
