"""Strings to ids and back: special tokens, tokenizers, sentence ends."""
