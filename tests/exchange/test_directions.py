"""Exports of models of several directions translate as the model does."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import sentencepiece

from cli.commands import Command
from cli.commands import regard as command
from directions import write_directions_store
from regard.data.directions import Direction
from regard.errors import ConfigError, ModelError
from regard.exchange.export import export_model
from regard.pipelines.translator import Translator
from toys import write_model_folder

__all__ = ["command"]  # a fixture

TEXTS = ["a b c", "j i h g", "d"]
ctranslate2 = pytest.importorskip("ctranslate2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = write_directions_store(tmp_path_factory.mktemp("store"))
    return write_model_folder(tmp_path_factory.mktemp("model"), store)


def translate(folder: Path, target: str, backend: str = "torch") -> list[str]:
    model = Translator.load(folder, device="cpu", backend=backend)
    results = model.translate(TEXTS, target_lang=target, beam_size=1, retry=False)
    return [result.text for result in results]


def test_exports_have_all_directions(folder: Path, tmp_path: Path) -> None:
    export_model(folder, "ctranslate2", tmp_path / "out")
    for target in ("yy", "zz"):
        assert translate(tmp_path / "out", target, "auto") == translate(folder, target)
    with pytest.raises(ConfigError, match="translates xx-yy, xx-zz, yy-xx"):
        Translator.load(tmp_path / "out", device="cpu").translate(TEXTS)


def test_argos_packages_add_the_target_tag(folder: Path, tmp_path: Path) -> None:
    """Their results are those of CTranslate2 for sources that begin with the tag."""
    export_model(folder, "ctranslate2", tmp_path / "all")
    tagged = ctranslate2.Translator(str(tmp_path / "all" / "ctranslate2"), intra_threads=1)
    search = {"beam_size": 4, "num_hypotheses": 4, "return_scores": True}
    results = []
    for target in ("yy", "zz"):
        out = tmp_path / "any.argosmodel"
        export_model(folder, "argos", out, "float32", Direction("xx", target))
        with zipfile.ZipFile(out) as package:
            package.extractall(tmp_path)
        unpacked = tmp_path / f"translate-xx_{target}-1_0"
        processor = sentencepiece.SentencePieceProcessor(str(unpacked / "sentencepiece.model"))
        model = ctranslate2.Translator(str(unpacked / "model"), intra_threads=1)
        for text in TEXTS:
            pieces = processor.encode(text, out_type=str)
            [actual] = model.translate_batch([pieces], **search)
            [expected] = tagged.translate_batch([[f"▁<2{target}>", *pieces]], **search)
            assert actual.hypotheses == expected.hypotheses
            assert actual.scores == pytest.approx(expected.scores, abs=1e-5)
            results.append(actual.scores)
    assert results[: len(TEXTS)] != results[len(TEXTS) :]


def test_argos_packages_need_a_direction(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "any.argosmodel"
    with pytest.raises(ModelError, match="this model has several directions; it translates xx-yy"):
        export_model(folder, "argos", out)
    with pytest.raises(ModelError, match="does not translate yy-zz"):
        export_model(folder, "argos", out, direction=Direction("yy", "zz"))
    with pytest.raises(ConfigError, match="no effect on --to onnx"):
        export_model(folder, "onnx", out, direction=Direction("xx", "yy"))


def test_languages_are_options_of_the_command(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    words = ["export", folder, "--to", "argos", "--out", tmp_path / "x.argosmodel"]
    refused = command(*words, "--target-lang", "yy")
    assert "--source-lang and --target-lang must be given together" in refused.err
    result = command(*words, "--source-lang", "xx", "--target-lang", "yy")
    assert result.status == 0, result.err


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
def test_huggingface_tokenizers_know_the_tags(folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    message = export_model(folder, "huggingface", tmp_path / "out")
    assert "'<2yy> Hello'" in message
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(tmp_path / "out")).eval()
    for target in ("yy", "zz"):
        expected = translate(folder, target)
        for text, translation in zip(TEXTS, expected, strict=True):
            inputs = tokenizer(f"<2{target}> {text}", return_tensors="pt")
            limit = {"max_length": 2 * inputs["input_ids"].shape[1] + 21}
            ids = model.generate(**inputs, num_beams=1, **limit)
            assert tokenizer.decode(ids[0], skip_special_tokens=True) == translation
