"""Conversion to and from other toolkits: HuggingFace, CTranslate2, ONNX, Argos Translate."""
