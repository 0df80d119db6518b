"""Documents: files in formats of their own, as texts to translate, and with the translations."""
