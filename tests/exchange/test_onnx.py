"""An ONNX folder writes what the model wrote, is refused with a sentence, and runs without us."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from docs.generated import ROOT
from exchange.test_onnx_graphs import WRITTEN
from regard.config import build
from regard.data.pairs import with_ends
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.decoding.wrappers import Ensemble
from regard.errors import ConfigError, ModelError
from regard.exchange.onnx import write_onnx
from regard.exchange.onnx_graphs import PLACES
from regard.exchange.onnx_model import OnnxModel, is_onnx
from regard.models.folder import ModelFolder, Training, load_model
from regard.models.protocol import Autoregressive, Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from text.learned import ENGLISH, GERMAN, learned, lines_of
from toys import pairs, run, small_run

CPU = torch.device("cpu")
LINES = ["a b c", "d", "j i h g f e", "a a a a", "b d f h"]
SIZES = {"encoder_layers": 1, "decoder_layers": 2, "width": 16, "heads": 2, "feedforward_width": 24}
# As unlike the paper's model as one model can be.
UNLIKE = {
    "norm": "rms",
    "norm_order": "pre",
    "final_norm": False,
    "positions": "learned",
    "max_positions": 40,
    "feedforward": "gated",
    "activation": "gelu",
    "key_width": 3,
    "tied_embeddings": "none",
    "output_bias": True,
    "scale_embedding": False,
    "start_token": "end",
    "attention": {"score": "bilinear", "select": "hard"},
}


@dataclass(frozen=True)
class Exported:
    """A model, and the folder that it was written to."""

    description: ModelFolder
    model: Transformer
    folder: Path

    def loaded(self) -> OnnxModel:
        return OnnxModel(self.folder)


def with_separate_words(config: dict[str, Any]) -> tuple[ModelFolder, Transformer]:
    """A model with random weights that are far from uniform, of two languages with own subwords."""
    tokenizers = learned(lines_of(ENGLISH), lines_of(GERMAN), joint=False, vocab_size=300)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    folder = ModelFolder(
        build(TransformerConfig, {**SIZES, **config}),
        Vocabulary(*sizes, joint=False),
        tokenizers,
        {"source": "en", "target": "de"},
        Training(7, 0.0),
    )
    torch.manual_seed(1)
    model = folder.model()
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights) * 0.2)
        if model.config.norm == "batch":  # whose statistics should be those of its weights
            for number in range(30):
                model.train()(pairs(20, seed=number))
    return folder, model.eval()


@pytest.fixture(scope="module")
def reversal(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Exported:
    """The paper's model, which has learned a little."""
    place = tmp_path_factory.mktemp("reversal")
    config = small_run(place / "run", reversal_store, max_steps=100, checkpoint_every=100)
    run(config, reversal_store)
    description, model = load_model(place / "run", CPU)
    assert isinstance(model, Transformer)
    write_onnx(description, model, place / "onnx")
    return Exported(description, model, place / "onnx")


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Another model, in as many ways as there are; and as if it were too large for single files."""
    folder = tmp_path_factory.mktemp("unlike") / "onnx"
    description, model = with_separate_words(UNLIKE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.exchange.onnx._LARGEST", 1000)
        write_onnx(description, model, folder)
    return Exported(description, model, folder)


@pytest.fixture(params=["reversal", "unlike"])
def exported(request: pytest.FixtureRequest) -> Exported:
    found: Exported = request.getfixturevalue(request.param)
    return found


@torch.inference_mode()
def assert_equal_steps(theirs: OnnxModel, ours: Transformer, source: Ragged) -> None:
    """With three beams, which change places."""
    count, models = len(source.lengths), (theirs, ours)
    parents = torch.tensor([[1, 1, 0]]).repeat(count, 1)
    states: list[Any] = [model.start(source, beams=3) for model in models]
    tokens, expected = (model.first_tokens(count, 3) for model in models)
    assert torch.equal(tokens, expected)
    for step in range(4):
        for state in states:
            state.reach(step + 1, exact=True)
        logits, expected = theirs.step(tokens, states[0]), ours.step(tokens, states[1])
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
        for state in states:
            state.reorder(parents)
        tokens = expected[:, 0].topk(3).indices


@pytest.mark.parametrize("lengths", [[4, 1, 7, 7], [5], [1], [0]])
def test_logits_are_equal(exported: Exported, lengths: list[int]) -> None:
    source = with_ends([list(range(260, 260 + length)) for length in lengths])
    assert_equal_steps(exported.loaded(), exported.model, source)


@pytest.mark.parametrize(
    "settings", [{}, {"beam_size": 4, "top_beams": 3}, {"sample": True, "top_k": 5}]
)
def test_searches_find_the_same(exported: Exported, settings: dict[str, Any]) -> None:
    begins = [[265, 266][: i % 3] for i in range(12)]
    source = with_ends([list(range(260, 261 + i % 6)) for i in range(12)])
    models: list[Autoregressive[Any]] = [exported.model, exported.loaded()]
    ours, theirs = (
        search(model, source, SearchConfig(**settings), prefixes=begins, max_length=30)
        for model in models
    )
    for expected, found in zip(ours, theirs, strict=True):
        assert [h.tokens for h in found] == [h.tokens for h in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_a_sentence_never_sees_its_batch(exported: Exported) -> None:
    sources = [list(range(260, 261 + i % 7)) for i in range(9)]
    model, config = exported.loaded(), SearchConfig(beam_size=3)
    together = search(model, with_ends(sources), config)
    for ids, [expected] in zip(sources, together, strict=True):
        [[found]] = search(model, with_ends([ids]), config)
        assert found.tokens == expected.tokens
        assert found.score == pytest.approx(expected.score, abs=1e-5)


def test_both_kinds_write_together(exported: Exported) -> None:
    source, config = with_ends([[260, 261, 262]]), SearchConfig(beam_size=3)
    [[alone]] = search(exported.model, source, config)
    [[together]] = search(Ensemble([exported.loaded(), exported.model]), source, config)
    assert together.tokens == alone.tokens
    assert together.score == pytest.approx(alone.score, abs=1e-4)


def test_the_graphs_are_as_documented(unlike: Exported) -> None:
    import onnxruntime

    shapes: dict[str, dict[str, list[int | str]]] = {}
    for name in ("encoder", "decoder"):
        session = onnxruntime.InferenceSession(unlike.folder / f"{name}.onnx")
        ends = [*session.get_inputs(), *session.get_outputs()]
        shapes[name] = {end.name: end.shape for end in ends}
    parts = [(layer, part, size) for layer in (0, 1) for part, size in (("keys", 3), ("values", 8))]

    def of(kind: str, axis: str) -> dict[str, list[int | str]]:
        ahead = ["batch"] if kind == "memory" else ["batch", "beams"]
        return {f"{kind}.{layer}.{part}": [*ahead, 2, axis, size] for layer, part, size in parts}

    lengths, words = {"lengths": ["batch"]}, unlike.description.vocabulary.target
    memory = of("memory", "source")
    assert shapes["encoder"] == {"tokens": ["batch", "source"], **lengths, **memory}
    single = {"tokens": ["batch", "beams"], "logits": ["batch", "beams", words], **lengths}
    pasts = {**of("past", "past"), **of("present", "past + 1")}
    assert shapes["decoder"] == {**single, **memory, **pasts}


def test_a_folder_describes_itself(exported: Exported) -> None:
    found = ModelFolder.read(exported.folder)
    assert (found.config, found.tokenizers) == (
        exported.model.config,
        exported.description.tokenizers,
    )
    assert is_onnx(exported.folder)
    assert not is_onnx(exported.folder.parent)


def test_a_model_is_as_long_as_its_positions(reversal: Exported, unlike: Exported) -> None:
    assert unlike.loaded().max_length == unlike.model.max_length == 40
    assert reversal.loaded().max_length == PLACES
    longest = with_ends([[260] * (PLACES - 1)])
    assert_equal_steps(reversal.loaded(), reversal.model, longest)


def test_a_folder_tells_nothing_of_where_it_was_written(exported: Exported) -> None:
    for path in exported.folder.iterdir():
        assert str(ROOT).encode() not in path.read_bytes()
        assert b".py" not in path.read_bytes()


def test_more_weights_than_a_file_can_hold_lie_beside_it(
    reversal: Exported, unlike: Exported
) -> None:
    names = {path.name for path in unlike.folder.iterdir()}
    beside = {"encoder.onnx.data", "decoder.onnx.data"}
    assert beside < names
    assert not beside & {path.name for path in reversal.folder.iterdir()}
    assert (unlike.folder / "decoder.onnx.data").stat().st_size > 10_000


def test_the_guide_shows_a_program_that_needs_nothing_of_ours(
    reversal: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8").split("## ONNX\n")[1]
    [program] = re.findall(r"^```python\n(.*?)^```", section.split("\n## ")[0], re.M | re.S)
    assert "regard" not in program
    assert "torch" not in program
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "ende-onnx").symlink_to(reversal.folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(program, names)
    config = SearchConfig(beam_size=1, max_extra=11)  # as the program has it, and an end mark
    tokenizers = reversal.description.tokenizers
    source = with_ends([tokenizers.source.encode(line) for line in LINES])
    found = search(reversal.model, source, config)
    expected = [tokenizers.target.decode(best.tokens) for [best] in found]
    assert [names["translate"](line) for line in LINES] == expected
    assert len(set(expected)) > 2


def test_a_model_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    description, model = with_separate_words(
        {"feedforward": "convolution", "tied_embeddings": "none"}
    )
    with pytest.raises(ModelError, match=r"cannot be written as ONNX: model\.feedforward"):
        write_onnx(description, model, tmp_path / "onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named(
    reversal: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    finder = "regard.exchange.requirements.find_spec"
    monkeypatch.setattr(finder, lambda asked: asked != name or None)

    def use() -> None:
        write_onnx(reversal.description, reversal.model, tmp_path / "onnx")

    with pytest.raises(ConfigError, match=rf"{name} is needed .* pip install 'regard\[onnx\]'"):
        (reversal.loaded if name == "onnxruntime" else use)()


@pytest.mark.parametrize("name", ["encoder.onnx", "decoder.onnx", "onnx.json", "config.json"])
@pytest.mark.parametrize("size", [None, 0, 20])
def test_a_damaged_folder_gets_a_sentence(
    reversal: Exported, tmp_path: Path, name: str, size: int | None
) -> None:
    folder = tmp_path / "onnx"
    shutil.copytree(reversal.folder, folder)
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if size is not None:
        (folder / name).write_bytes(content[:size] if size < len(content) else b"[]")
    with pytest.raises(ModelError, match=re.escape(name)):
        OnnxModel(folder)


def test_a_folder_of_another_format_is_refused(reversal: Exported, tmp_path: Path) -> None:
    shutil.copytree(reversal.folder, tmp_path / "onnx")
    (tmp_path / "onnx" / "onnx.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(ModelError, match="has format 9, and this regard reads 1"):
        OnnxModel(tmp_path / "onnx")


@pytest.mark.long
@pytest.mark.parametrize("form", WRITTEN)
def test_every_form_is_written(form: str, tmp_path: Path) -> None:
    description, model = with_separate_words({"tied_embeddings": "decoder", **WRITTEN[form]})
    write_onnx(description, model, tmp_path / "onnx")
    for lengths in ([4, 1, 7, 7], [1], [0]):
        source = with_ends([list(range(260, 260 + length)) for length in lengths])
        assert_equal_steps(OnnxModel(tmp_path / "onnx"), model, source)
