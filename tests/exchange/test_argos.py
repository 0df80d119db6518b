"""The package for Argos Translate: its parts, and what they do."""

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
from regard.exchange.normalizer import self_normalizing
from regard.exchange.sentence_graph import sentence_graph
from regard.models.folder import ModelFolder
from regard.models.transformer import TransformerConfig
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizers
from toys import new_folder


def described(store: Store, **changes: Any) -> ModelFolder:
    torch.manual_seed(3)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2}
    config = build(TransformerConfig, {**sizes, "feedforward_width": 24, **changes})
    return new_folder(config, store)


def test_a_package_has_all_that_argos_reads(reversal_store: Store, tmp_path: Path) -> None:
    folder = described(reversal_store)
    folder = dataclasses.replace(folder, languages={"source": "en", "target": "xx"})
    out = tmp_path / "any.argosmodel"
    export(folder, folder.model().eval(), out)
    with zipfile.ZipFile(out) as package:
        assert {name.split("/")[0] for name in package.namelist()} == {"translate-en_xx-1_0"}
        package.extractall(tmp_path)
    inside = tmp_path / "translate-en_xx-1_0"
    metadata = json.loads((inside / "metadata.json").read_text())
    assert (metadata["from_code"], metadata["from_name"]) == ("en", "English")
    assert (metadata["to_code"], metadata["to_name"]) == ("xx", "xx")
    assert (inside / "minisbd" / "regard.onnx").read_bytes() == sentence_graph()
    translate_as_argos_does(inside)


def translate_as_argos_does(inside: Path) -> None:
    import ctranslate2

    processor = sentencepiece.SentencePieceProcessor(str(inside / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(inside / "model"), intra_threads=1)
    [found] = translator.translate_batch(
        [processor.encode("a b c", out_type=str)], beam_size=4, replace_unknowns=True
    )
    assert isinstance(processor.decode_pieces(found.hypotheses[0]), str)


def test_all_obstacles_are_named_at_once(reversal_store: Store, tmp_path: Path) -> None:
    folder = described(reversal_store, norm="batch")
    config = dataclasses.replace(folder.tokenizers.config, joint=False)
    folder = dataclasses.replace(
        folder,
        tokenizers=dataclasses.replace(folder.tokenizers, config=config),
        languages={"source": None, "target": "de"},
    )
    with pytest.raises(ModelError, match="3 problems") as error:
        export(folder, folder.model(), tmp_path / "any.argosmodel")
    for what in ("vocabulary of its own", "the source language is not known", "norm is batch"):
        assert what in str(error.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("nfkc", [False, True])
def test_sentencepiece_alone_cuts_as_we_do(
    nfkc: bool, lowercase: bool, reversal_store: Store
) -> None:
    model = reversal_store.tokenizers.source.model
    tokenizer = SentencePieceTokenizer(model, TokenizerConfig(nfkc=nfkc, lowercase=lowercase))
    alone = sentencepiece.SentencePieceProcessor()
    alone.LoadFromSerializedProto(self_normalizing(tokenizer))
    draw = random.Random(1)
    letters = [chr(point) for point in (*range(32, 0x400), *range(0xFF01, 0xFF60), 0x2163, 0xFB01)]
    texts = ["A b. C", "Straße ÄÖÜ İ ẞ", "ﬁ Ⅳ ｆｕｌｌ", "e\u0301 A\u030a", "  two  spaces "]
    texts += ["".join(draw.choices([x for x in letters if x != "Σ"], k=8)) for _ in range(300)]
    texts = [
        text for text in texts if not any("\u0300" <= letter < "\u0370" for letter in text[1:])
    ]
    assert [alone.encode(text) for text in texts] == tokenizer.encode_all(texts)


def test_sentences_end_where_they_should() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(sentence_graph())
    notes = session.get_modelmeta().custom_metadata_map
    kinds = json.loads(notes["vocab"])["_unit2id"]

    def cut(text: str) -> list[str]:
        units = np.array([[kinds.get(letter, 1) for letter in text] + [0]])
        features = np.zeros((*units.shape, 0), np.float32)
        [answers] = session.run(None, {"units": units, "features": features})
        ends = [at + 1 for at in np.flatnonzero(answers[0].argmax(-1) == 2).tolist()]
        return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if text[a:b]]

    assert cut("A dog runs. A cat sleeps! Why?") == ["A dog runs.", " A cat sleeps!", " Why?"]
    assert cut("It has 3.5 km, e.g. here") == ["It has 3.5 km, e.g. here"]
    assert cut("狗跑了。猫睡了！！") == ["狗跑了。", "猫睡了！！"]


def test_a_tokenizer_without_rules_stays_as_it_is(reversal_store: Store) -> None:
    tokenizers: Tokenizers = reversal_store.tokenizers
    assert self_normalizing(tokenizers.source) == tokenizers.source.model
