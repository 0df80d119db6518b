"""Searches over any autoregressive model, and the translator around them."""
