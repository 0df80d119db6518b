"""Text processing: special tokens, tokenizers, sentence splitting."""
