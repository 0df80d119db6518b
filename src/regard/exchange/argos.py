"""To a package for Argos Translate and LibreTranslate: one file, which needs no network.

NAME/metadata.json          from which language to which
NAME/sentencepiece.model    our tokenizer, with its normalisation inside
NAME/model/                 what CTranslate2 reads
NAME/minisbd/regard.onnx    where sentences end
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from regard.exchange import ctranslate2
from regard.exchange.ctranslate2 import WeightPrecision
from regard.exchange.normalizer import self_normalizing
from regard.exchange.requirements import refuse
from regard.exchange.sentence_graph import sentence_graph
from regard.files import explained, whole_file
from regard.models.base import Model
from regard.models.folder import ModelFolder


def obstacles(folder: ModelFolder) -> Iterator[str]:
    """Every reason why Argos Translate cannot use a model."""
    if folder.tokenizers.config.is_foreign:
        yield f"its tokenizer is {folder.tokenizers.config.kind}; it knows SentencePiece alone"
    if not folder.tokenizers.config.joint:
        yield "each side has a vocabulary of its own; it knows one for both"
    for side, code in folder.languages.items():
        if not code:
            yield (
                f"the {side} language is not known; write its code into the model's config.json, "
                "under languages"
            )
    yield from ctranslate2.obstacles(folder.config)


def export(
    folder: ModelFolder, model: Model, out: Path, *, precision: WeightPrecision = "int8"
) -> None:
    """Write a package."""
    refuse(obstacles(folder), "Argos Translate cannot use this model")
    source, target = str(folder.languages["source"]), str(folder.languages["target"])
    name = f"translate-{source}_{target}-1_0"
    listed = (resources.files("regard.exchange") / "languages.tsv").read_text("utf-8")
    english = dict(line.split("\t") for line in listed.splitlines())
    described = {
        "package_version": "1.0",
        "argos_version": "1.11",
        "from_code": source,
        "from_name": english.get(source, source),
        "to_code": target,
        "to_name": english.get(target, target),
    }
    with tempfile.TemporaryDirectory() as place, whole_file(out) as temporary:
        engine = Path(place) / "model"
        with explained(Path(tempfile.gettempdir())):
            ctranslate2.write_model(folder, model, engine, precision=precision)
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as package:
            package.writestr(f"{name}/metadata.json", json.dumps(described, indent=2) + "\n")
            tokenizer = self_normalizing(folder.tokenizers.source)
            package.writestr(f"{name}/sentencepiece.model", tokenizer)
            package.writestr(f"{name}/minisbd/regard.onnx", sentence_graph())
            for path in sorted(engine.iterdir()):
                package.write(path, f"{name}/model/{path.name}")
