"""Export to a package for Argos Translate and LibreTranslate: one file for offline use.

NAME/metadata.json          source and target language
NAME/sentencepiece.model    the tokenizer, including its normalization
NAME/model/                 the CTranslate2 model
NAME/minisbd/regard.onnx    the sentence splitter
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from regard.data.directions import Direction, format_directions
from regard.errors import ModelError
from regard.exchange import ctranslate2
from regard.exchange.ctranslate2 import WeightPrecision
from regard.exchange.normalizer import sentencepiece_with_normalizer
from regard.exchange.requirements import raise_problems
from regard.exchange.sentence_graph import sentence_splitter_graph
from regard.files import atomic_file, explain_os_errors
from regard.models.base import Model
from regard.models.folder import ModelFolder
from regard.text.tags import target_tag


def export_problems(folder: ModelFolder) -> Iterator[str]:
    """Yield every reason why a model cannot be exported to Argos Translate."""
    if folder.tokenizers.config.is_imported:
        yield f"its tokenizer is {folder.tokenizers.config.kind}; supported: SentencePiece"
    if not folder.tokenizers.config.joint:
        yield "source and target have separate vocabularies; a joint vocabulary is required"
    for side, code in folder.languages.items():
        if not code and not folder.directions:
            yield (
                f"the {side} language is not set; add its code to languages in the model's "
                "config.json"
            )
    yield from ctranslate2.export_problems(folder.config)


def export(
    folder: ModelFolder,
    model: Model,
    out: Path,
    *,
    precision: WeightPrecision = "int8",
    direction: Direction | None = None,
) -> None:
    """Write an Argos Translate package; of a model of several directions, for one of them.

    CTranslate2 then adds the target tag to each source.
    """
    raise_problems(export_problems(folder), "Argos Translate cannot use this model")
    source, target = _languages(folder, direction)
    tokens = folder.tokenizers.source.encode(target_tag(target)) if direction else []
    start = folder.tokenizers.source.ids_to_tokens(tokens)[0] if direction else None
    name = f"translate-{source}_{target}-1_0"
    rows = (resources.files("regard.exchange") / "languages.tsv").read_text("utf-8").splitlines()
    language_names = dict(row.split("\t") for row in rows)
    metadata = {
        "package_version": "1.0",
        "argos_version": "1.11",
        "from_code": source,
        "from_name": language_names.get(source, source),
        "to_code": target,
        "to_name": language_names.get(target, target),
    }
    with tempfile.TemporaryDirectory() as temporary_folder, atomic_file(out) as temporary:
        model_folder = Path(temporary_folder) / "model"
        with explain_os_errors(Path(tempfile.gettempdir())):
            ctranslate2.write_model(
                folder, model, model_folder, precision=precision, source_start=start
            )
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as package:
            package.writestr(f"{name}/metadata.json", json.dumps(metadata, indent=2) + "\n")
            tokenizer = sentencepiece_with_normalizer(folder.tokenizers.source)
            package.writestr(f"{name}/sentencepiece.model", tokenizer)
            package.writestr(f"{name}/minisbd/regard.onnx", sentence_splitter_graph())
            for path in sorted(model_folder.iterdir()):
                package.write(path, f"{name}/model/{path.name}")


def _languages(folder: ModelFolder, direction: Direction | None) -> tuple[str, str]:
    """The source and target language of a package."""
    if direction is None and not folder.directions:
        return str(folder.languages["source"]), str(folder.languages["target"])
    known = [each.direction for each in folder.directions]
    if direction not in known:
        problem = f"does not translate {direction}" if direction else "has several directions"
        raise ModelError(
            f"A package of Argos Translate is for one direction, but this model {problem}; it "
            f"translates {format_directions(known)}. Choose one of them with --source-lang and "
            "--target-lang."
        )
    if not folder.tokenizers.source.has_token(target_tag(direction.target)):
        raise ModelError(
            f"The tokenizer of this model has no token {target_tag(direction.target)}, which "
            "CTranslate2 has to add to each source. Train it on data with a tokenizer of its own."
        )
    return direction
