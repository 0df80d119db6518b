"""The public functions: what they accept, what they return, what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import RegardError
from toys import write_reversal_store

STORED = Path(__file__).parent / "stored" / "models"
pytestmark = pytest.mark.filterwarnings("ignore::regard.config.RenamedWarning")
PIPELINES: dict[str, type[Any]] = {
    "transformer": regard.Translator,
    "recurrent": regard.Translator,
    "ctc": regard.Translator,
    "unilm": regard.Translator,
    "causal": regard.Generator,
    "xl": regard.Generator,
    "masked": regard.MaskFiller,
    "permuted": regard.Embedder,
    "tagger": regard.Tagger,
    "classifier": regard.Classifier,
}
SMALL: dict[str, Any] = {
    "model": {"d_model": 16, "num_heads": 2, "ffn_dim": 16, "num_encoder_layers": 1},
    "training.max_steps": 4,
    "training.checkpoint_every": 2,
    "training.tensorboard": False,
}


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    lines = [f"{a} {b} {c}" for a in "abcd" for b in "efgh" for c in "ijk"]
    return write(tmp_path, "s", *lines), write(tmp_path, "t", *(line[::-1] for line in lines))


@pytest.mark.parametrize("kind", PIPELINES)
def test_folder_is_loaded_as_pipeline_of_its_task(kind: str) -> None:
    model = regard.load(STORED / kind, device="cpu")
    assert type(model) is PIPELINES[kind]
    assert model.path == STORED / kind


def test_embeddings_of_a_permutation_language_model() -> None:
    embedder = regard.load(STORED / "permuted", device="cpu")
    texts = ["mira sen kapi", "lume dov"]
    together = embedder.embed(texts)
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regard.load(), "No model folder is given"),
        (lambda: regard.load(STORED / "tagger", backend="torch"), "backend: no effect in tagging"),
        (lambda: regard.load(STORED / "causal", precision="int8"), "precision: no effect"),
        (lambda: regard.load(STORED / "tagger", STORED / "tagger"), "Several folders"),
        (lambda: regard.load(STORED / "transformer", STORED / "causal"), "does not translate"),
        (lambda: regard.load(STORED / "missing"), "There is no model folder"),
        (lambda: regard.Tagger.load(STORED / "classifier"), "only a model for tagging"),
    ],
)
def test_load_errors(call: Any, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        call()


def test_prepare_accepts_one_file_or_several(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    source, target = pair
    common: dict[str, Any] = {"vocab_size": 300, "source_lang": "en"}
    single = regard.prepare(
        source=source, target=str(target), valid=(source, target), out=tmp_path / "one", **common
    )
    assert single.has("valid")
    assert single.languages["source"] == "en"
    double = regard.prepare(
        source=[source, source],
        target=[target, target],
        tag=["", "<bt>"],
        skip_duplicates=False,
        out=tmp_path / "two",
        **common,
    )
    assert len(double.part("train")) == 2 * len(single.part("train"))
    text = regard.prepare(text=source, valid=target, out=tmp_path / "text", tokenizer="char")
    assert text.content == "text"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": None}, "given without --target"),
        ({"valid": "only"}, "valid has 1 files, but must have 2"),
        ({"column": "upos"}, "--column: no effect on pairs of sentences"),
        ({"text": "x"}, "are mutually exclusive files"),
        ({"vocabulary": 5}, "vocabulary does not exist"),
        ({"vocab_size": -1}, "vocab_size is -1"),
        (
            {"tokenizer_from": "somewhere", "vocab_size": 300},
            "cannot be combined with tokenizer settings",
        ),
        ({"source": "missing"}, "There is no file missing"),
    ],
)
def test_prepare_errors(
    tmp_path: Path, pair: tuple[Path, Path], changes: dict[str, Any], message: str
) -> None:
    options = {"source": pair[0], "target": pair[1], "out": tmp_path / "out", **changes}
    with pytest.raises(RegardError, match=message):
        regard.prepare(**options)
    assert not (tmp_path / "out").exists()


def test_existing_folder_is_not_overwritten(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    options: dict[str, Any] = {"source": pair[0], "target": pair[1], "vocab_size": 300}
    out = tmp_path / "out"
    regard.prepare(out=out, **options)
    with pytest.raises(RegardError, match="overwrite=True"):
        regard.prepare(out=out, **options)
    regard.prepare(out=out, overwrite=True, **options)


class RecordingCallback:
    """A callback that counts its calls."""

    def __init__(self) -> None:
        self.began, self.steps, self.rows = -1, 0, 0

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        self.began = step

    def on_step_end(self, step: int) -> None:
        self.steps += 1

    def on_log(self, row: dict[str, Any]) -> None:
        self.rows += 1


def test_train_calls_callbacks_and_resumes(tmp_path: Path) -> None:
    store = write_reversal_store(tmp_path, valid=True)
    first, second = RecordingCallback(), RecordingCallback()
    out = tmp_path / "run"
    run = regard.train(preset="tiny", data=store, out=out, device="cpu", callbacks=[first], **SMALL)
    assert (first.began, first.steps) == (0, 4)
    assert first.rows == len(run.metrics)
    assert run.progress.step == 4
    longer = {**SMALL, "training.max_steps": 6}
    again = regard.train(
        preset="tiny", data=store.folder, out=out, device="cpu", callbacks=[second], **longer
    )
    assert (second.began, second.steps, again.progress.step) == (4, 2, 6)
    translator = again.load(device="cpu")
    assert translator.translate(["a b"])[0].source == "a b"
    results = translator.evaluate(["a b", "c"], ["b a", "c"], metrics=["bleu"], beam_size=1)
    assert [result.name for result in results] == ["BLEU"]
    with pytest.raises(RegardError, match="2 sources and 1 references"):
        translator.evaluate(["a", "b"], ["a"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": {"max_step": 3}}, "did you mean training.max_steps"),
        ({"training.best_metric": "accuracy"}, "which is not a metric of translation"),
        ({"training.glancing": 0.5}, "training.glancing has no effect on translation"),
        ({"preset": "huge"}, "Unknown preset"),
        ({"nonsense": 1}, "nonsense does not exist"),
    ],
)
def test_train_errors(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    store = write_reversal_store(tmp_path, valid=False)
    options: dict[str, Any] = {"preset": "tiny", "data": store, "out": tmp_path / "run", **changes}
    with pytest.raises(RegardError, match=message):
        regard.train(**options)
    assert not (tmp_path / "run").exists()


def test_export_does_not_overwrite(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    model = regard.load(STORED / "transformer", device="cpu", backend="torch")
    assert "regard translate" in model.export(tmp_path / "theirs", to="ctranslate2")
    exported = regard.load(tmp_path / "theirs", device="cpu")
    assert exported.translate(["mira"])[0].text == model.translate(["mira"])[0].text
    with pytest.raises(RegardError, match="exists"):
        model.export(tmp_path / "theirs", to="ctranslate2")
    with pytest.raises(RegardError, match="Unknown export format 'tensorflow'"):
        model.export(tmp_path / "others", to="tensorflow")
    both = regard.load(STORED / "transformer", STORED / "transformer", device="cpu")
    with pytest.raises(RegardError, match="An ensemble has no model folder"):
        both.export(tmp_path / "both", to="ctranslate2")


def test_wrong_types_are_refused(tmp_path: Path) -> None:
    translator = regard.load(STORED / "transformer", device="cpu", backend="torch")
    calls: list[tuple[Any, str]] = [
        (lambda: regard.prepare(out=5, source="a", target="b"), "out is int"),  # type: ignore[arg-type]
        (lambda: regard.prepare(out=tmp_path / "x", source=[5], target="b"), "source is int"),
        (lambda: regard.prepare(out=tmp_path / "x", text="a", valid=5), "valid is int"),  # type: ignore[arg-type]
        (lambda: regard.train(callbacks=[print]), "needs the methods on_train_begin"),  # type: ignore[list-item]
        (lambda: translator.evaluate(["a"], ["a"], metrics=["blue"]), "metrics is"),
        (lambda: translator.evaluate([], []), "nothing to evaluate"),
        (lambda: regard.load(STORED / "masked").embed, "no attribute"),
        (
            lambda: regard.Embedder.load(STORED / "masked").embed(["a"], pool="x"),  # type: ignore[arg-type]
            "Unknown pooling 'x'",
        ),
    ]
    for call, message in calls:
        with pytest.raises((RegardError, AttributeError), match=message):
            call()
