"""Decoders of regard and its peers, one module each; toolkits run in their own environments."""
