"""Export to Argos Translate packages."""

from __future__ import annotations

import dataclasses
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch

from regard.config import build
from regard.data.store import Store
from regard.errors import ModelError
from regard.exchange.argos import export
from regard.exchange.normalizer import sentencepiece_with_normalizer
from regard.exchange.sentence_graph import sentence_splitter_graph
from regard.models.folder import ModelFolder
from regard.models.transformer import TransformerConfig
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizers
from toys import new_folder


def describe_model(store: Store, **changes: Any) -> ModelFolder:
    torch.manual_seed(3)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16, "num_heads": 2}
    config = build(TransformerConfig, {**sizes, "ffn_dim": 24, **changes})
    return new_folder(config, store)


def test_package_has_all_files(reversal_store: Store, tmp_path: Path) -> None:
    folder = describe_model(reversal_store)
    folder = dataclasses.replace(folder, languages={"source": "en", "target": "xx"})
    out = tmp_path / "any.argosmodel"
    export(folder, folder.model().eval(), out)
    with zipfile.ZipFile(out) as package:
        assert {name.split("/")[0] for name in package.namelist()} == {"translate-en_xx-1_0"}
        package.extractall(tmp_path)
    folder_path = tmp_path / "translate-en_xx-1_0"
    metadata = json.loads((folder_path / "metadata.json").read_text())
    assert (metadata["from_code"], metadata["from_name"]) == ("en", "English")
    assert (metadata["to_code"], metadata["to_name"]) == ("xx", "xx")
    assert (folder_path / "minisbd" / "regard.onnx").read_bytes() == sentence_splitter_graph()
    translate_like_argos(folder_path)


def translate_like_argos(folder_path: Path) -> None:
    import ctranslate2

    processor = sentencepiece.SentencePieceProcessor(str(folder_path / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(folder_path / "model"), intra_threads=1)
    [result] = translator.translate_batch(
        [processor.encode("a b c", out_type=str)], beam_size=4, replace_unknowns=True
    )
    assert isinstance(processor.decode_pieces(result.hypotheses[0]), str)


def test_all_export_problems_are_reported(reversal_store: Store, tmp_path: Path) -> None:
    folder = describe_model(reversal_store, norm="batch")
    config = dataclasses.replace(folder.tokenizers.config, joint=False)
    folder = dataclasses.replace(
        folder,
        tokenizers=dataclasses.replace(folder.tokenizers, config=config),
        languages={"source": None, "target": "de"},
    )
    with pytest.raises(ModelError, match="3 problems") as error:
        export(folder, folder.model(), tmp_path / "any.argosmodel")
    for problem in ("separate vocabularies", "the source language is not set", "norm is batch"):
        assert problem in str(error.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("nfkc", [False, True])
def test_exported_sentencepiece_model_tokenizes_equally(
    nfkc: bool, lowercase: bool, reversal_store: Store
) -> None:
    model = reversal_store.tokenizers.source.model
    tokenizer = SentencePieceTokenizer(model, TokenizerConfig(nfkc=nfkc, lowercase=lowercase))
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(sentencepiece_with_normalizer(tokenizer))
    draw = random.Random(1)
    letters = [chr(point) for point in (*range(32, 0x400), *range(0xFF01, 0xFF60), 0x2163, 0xFB01)]
    texts = ["A b. C", "Straße ÄÖÜ İ ẞ", "ﬁ Ⅳ ｆｕｌｌ", "e\u0301 A\u030a", "  two  spaces "]
    texts += ["".join(draw.choices([x for x in letters if x != "Σ"], k=8)) for _ in range(300)]
    texts = [
        text for text in texts if not any("\u0300" <= letter < "\u0370" for letter in text[1:])
    ]
    assert [processor.encode(text) for text in texts] == tokenizer.encode_all(texts)


def test_sentence_splitter() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(sentence_splitter_graph())
    notes = session.get_modelmeta().custom_metadata_map
    classes = json.loads(notes["vocab"])["_unit2id"]

    def split(text: str) -> list[str]:
        units = np.array([[classes.get(letter, 1) for letter in text] + [0]])
        features = np.zeros((*units.shape, 0), np.float32)
        [answers] = session.run(None, {"units": units, "features": features})
        ends = [at + 1 for at in np.flatnonzero(answers[0].argmax(-1) == 2).tolist()]
        return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if text[a:b]]

    assert split("A dog runs. A cat sleeps! Why?") == ["A dog runs.", " A cat sleeps!", " Why?"]
    assert split("It has 3.5 km, e.g. here") == ["It has 3.5 km, e.g. here"]
    assert split("狗跑了。猫睡了！！") == ["狗跑了。", "猫睡了！！"]


def test_tokenizer_without_normalization_is_unchanged(reversal_store: Store) -> None:
    tokenizers: Tokenizers = reversal_store.tokenizers
    assert sentencepiece_with_normalizer(tokenizers.source) == tokenizers.source.model
