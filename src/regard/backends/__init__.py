"""Inference backends: PyTorch, CTranslate2 and onnxruntime, and wrappers around them."""
