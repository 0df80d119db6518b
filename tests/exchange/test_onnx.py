"""ONNX export: equal results, errors for damaged folders, and use without regard."""

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
from exchange.test_onnx_graphs import SUPPORTED
from regard.config import build
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.backend import ContextLengths
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.decoding.wrappers import Ensemble
from regard.errors import ConfigError, ModelError
from regard.exchange.onnx import export_onnx
from regard.exchange.onnx_graphs import MAX_POSITIONS
from regard.exchange.onnx_model import OnnxModel, is_onnx
from regard.models.folder import DataStatistics, ModelFolder, load_model
from regard.models.protocol import Autoregressive, Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from text.toy_tokenizers import ENGLISH, GERMAN, random_lines, train_toy_tokenizers
from toys import pairs, run, small_run

CPU = torch.device("cpu")
LINES = ["a b c", "d", "j i h g f e", "a a a a", "b d f h"]
SIZES = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
    "d_model": 16,
    "num_heads": 2,
    "ffn_dim": 24,
}
# Differs from the defaults in as many settings as possible.
UNUSUAL = {
    "norm": "rms",
    "norm_order": "pre",
    "final_norm": False,
    "positional_encoding": "learned",
    "max_positions": 40,
    "ffn_type": "gated",
    "activation": "gelu",
    "key_dim": 3,
    "tied_embeddings": "none",
    "output_bias": True,
    "scale_embedding": False,
    "decoder_start_token": "eos",
    "attention": {"score": "bilinear", "select": "hard"},
}


@dataclass(frozen=True)
class Exported:
    """A model, and its ONNX folder."""

    description: ModelFolder
    model: Transformer
    folder: Path

    def loaded(self) -> OnnxModel:
        return OnnxModel(self.folder)


def with_separate_vocabularies(config: dict[str, Any]) -> tuple[ModelFolder, Transformer]:
    """Return a model with large random weights and separate vocabularies."""
    tokenizers = train_toy_tokenizers(
        random_lines(ENGLISH), random_lines(GERMAN), joint=False, vocab_size=300
    )
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    folder = ModelFolder(
        Vocabulary(*sizes, joint=False),
        tokenizers,
        {"source": "en", "target": "de"},
        DataStatistics(7, 0.0),
        build(TransformerConfig, {**SIZES, **config}),
    )
    torch.manual_seed(1)
    model = folder.model()
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights) * 0.2)
        if model.config.norm == "batch":  # update the running statistics
            for number in range(30):
                model.train()(pairs(20, seed=number))
    return folder, model.eval()


@pytest.fixture(scope="module")
def reversal(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Exported:
    """A default model after a short training."""
    folder = tmp_path_factory.mktemp("reversal")
    config = small_run(folder / "run", reversal_store, max_steps=100, checkpoint_every=100)
    run(config, reversal_store)
    description, model = load_model(folder / "run", CPU)
    assert isinstance(model, Transformer)
    export_onnx(description, model, folder / "onnx")
    return Exported(description, model, folder / "onnx")


@pytest.fixture(scope="module")
def unusual(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A model with unusual settings, whose weights are stored in separate files."""
    folder = tmp_path_factory.mktemp("unusual") / "onnx"
    description, model = with_separate_vocabularies(UNUSUAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.exchange.onnx._MAX_FILE_SIZE", 1000)
        export_onnx(description, model, folder)
    return Exported(description, model, folder)


@pytest.fixture(params=["reversal", "unusual"])
def exported(request: pytest.FixtureRequest) -> Exported:
    fixture: Exported = request.getfixturevalue(request.param)
    return fixture


@torch.inference_mode()
def assert_equal_steps(onnx_model: OnnxModel, torch_model: Transformer, source: Ragged) -> None:
    """Compare steps with three beams, which are reordered."""
    count, models = len(source.lengths), (onnx_model, torch_model)
    parents = torch.tensor([[1, 1, 0]]).repeat(count, 1)
    states: list[Any] = [model.start(source, beams=3) for model in models]
    tokens, expected = (model.first_tokens(count, 3) for model in models)
    assert torch.equal(tokens, expected)
    for step in range(4):
        for state in states:
            state.reserve(step + 1, exact=True)
        logits, expected = onnx_model.step(tokens, states[0]), torch_model.step(tokens, states[1])
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
        for state in states:
            state.reorder(parents)
        tokens = expected[:, 0].topk(3).indices


@pytest.mark.parametrize("lengths", [[4, 1, 7, 7], [5], [1], [0]])
def test_logits_are_equal(exported: Exported, lengths: list[int]) -> None:
    source = with_eos([list(range(260, 260 + length)) for length in lengths])
    assert_equal_steps(exported.loaded(), exported.model, source)


@pytest.mark.parametrize("context", [0, 1])
@pytest.mark.parametrize(
    "settings", [{}, {"beam_size": 4, "num_hypotheses": 3}, {"sample": True, "top_k": 5}]
)
def test_search_results_are_equal(
    exported: Exported, settings: dict[str, Any], context: int
) -> None:
    prefixes = [[265, 266][: i % 3] for i in range(12)]
    source = with_eos([list(range(260, 261 + i % 6)) for i in range(12)])
    models: list[Autoregressive[Any]] = [exported.model, exported.loaded()]
    config = SearchConfig(**settings)
    contexts = [ContextLengths(0, context * len(prefix)) for prefix in prefixes]
    torch_results, onnx_results = (
        search(model, source, config, prefixes=prefixes, contexts=contexts, max_length=30)
        for model in models
    )
    for expected, actual in zip(torch_results, onnx_results, strict=True):
        assert [h.tokens for h in actual] == [h.tokens for h in expected]
        assert [h.score for h in actual] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_results_do_not_depend_on_the_batch(exported: Exported) -> None:
    sources = [list(range(260, 261 + i % 7)) for i in range(9)]
    model, config = exported.loaded(), SearchConfig(beam_size=3)
    together = search(model, with_eos(sources), config)
    for ids, [expected] in zip(sources, together, strict=True):
        [[actual]] = search(model, with_eos([ids]), config)
        assert actual.tokens == expected.tokens
        assert actual.score == pytest.approx(expected.score, abs=1e-5)


def test_ensemble_of_onnx_and_torch_model(exported: Exported) -> None:
    source, config = with_eos([[260, 261, 262]]), SearchConfig(beam_size=3)
    [[single]] = search(exported.model, source, config)
    [[ensembled]] = search(Ensemble([exported.loaded(), exported.model]), source, config)
    assert ensembled.tokens == single.tokens
    assert ensembled.score == pytest.approx(single.score, abs=1e-4)


def test_tensor_names_and_shapes_are_as_documented(unusual: Exported) -> None:
    import onnxruntime

    shapes: dict[str, dict[str, list[int | str]]] = {}
    for name in ("encoder", "decoder"):
        session = onnxruntime.InferenceSession(unusual.folder / f"{name}.onnx")
        tensors = [*session.get_inputs(), *session.get_outputs()]
        shapes[name] = {tensor.name: tensor.shape for tensor in tensors}
    parts = [(layer, part, size) for layer in (0, 1) for part, size in (("keys", 3), ("values", 8))]

    def expected_shapes(kind: str, axis: str) -> dict[str, list[int | str]]:
        batch_axes = ["batch"] if kind == "memory" else ["batch", "beams"]
        return {
            f"{kind}.{layer}.{part}": [*batch_axes, 2, axis, size] for layer, part, size in parts
        }

    lengths, vocab_size = {"lengths": ["batch"]}, unusual.description.vocabulary.target
    cross = expected_shapes("memory", "source")
    assert shapes["encoder"] == {"tokens": ["batch", "source"], **lengths, **cross}
    step_tensors = {
        "tokens": ["batch", "beams"],
        "logits": ["batch", "beams", vocab_size],
        **lengths,
    }
    caches = {**expected_shapes("past", "past"), **expected_shapes("present", "past + 1")}
    assert shapes["decoder"] == {**step_tensors, **cross, **caches}


def test_config_and_tokenizers_are_exported(exported: Exported) -> None:
    description = ModelFolder.read(exported.folder)
    assert (description.config, description.tokenizers) == (
        exported.model.config,
        exported.description.tokenizers,
    )
    assert is_onnx(exported.folder)
    assert not is_onnx(exported.folder.parent)


def test_max_length_is_that_of_the_positions(reversal: Exported, unusual: Exported) -> None:
    assert unusual.loaded().max_length == unusual.model.max_length == 40
    assert reversal.loaded().max_length == MAX_POSITIONS
    longest = with_eos([[260] * (MAX_POSITIONS - 1)])
    assert_equal_steps(reversal.loaded(), reversal.model, longest)


def test_files_contain_no_source_paths(exported: Exported) -> None:
    for path in exported.folder.iterdir():
        assert str(ROOT).encode() not in path.read_bytes()
        assert b".py" not in path.read_bytes()


def test_large_weights_are_stored_in_separate_files(reversal: Exported, unusual: Exported) -> None:
    names = {path.name for path in unusual.folder.iterdir()}
    beside = {"encoder.onnx.data", "decoder.onnx.data"}
    assert beside < names
    assert not beside & {path.name for path in reversal.folder.iterdir()}
    assert (unusual.folder / "decoder.onnx.data").stat().st_size > 10_000


def test_program_in_the_guide_runs_without_regard(
    reversal: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = (
        (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8").split("## ONNX\n")[1]
    )
    [program] = re.findall(r"^```python\n(.*?)^```", section.split("\n## ")[0], re.M | re.S)
    assert "regard" not in program
    assert "torch" not in program
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "ende-onnx").symlink_to(reversal.folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(program, names)
    config = SearchConfig(beam_size=1, max_extra=11)  # as in the program, plus EOS
    tokenizers = reversal.description.tokenizers
    source = with_eos([tokenizers.source.encode(line) for line in LINES])
    results = search(reversal.model, source, config)
    expected = [tokenizers.target.decode(best.tokens) for [best] in results]
    assert [names["translate"](line) for line in LINES] == expected
    assert len(set(expected)) > 2


def test_failed_export_leaves_no_files(tmp_path: Path) -> None:
    description, model = with_separate_vocabularies(
        {"ffn_type": "convolution", "tied_embeddings": "none"}
    )
    with pytest.raises(ModelError, match=r"cannot be exported to ONNX: model\.ffn_type"):
        export_onnx(description, model, tmp_path / "onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_missing_package_is_reported(
    reversal: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    finder = "regard.exchange.requirements.find_spec"
    monkeypatch.setattr(finder, lambda package: package != name or None)

    def use() -> None:
        export_onnx(reversal.description, reversal.model, tmp_path / "onnx")

    with pytest.raises(ConfigError, match=rf"{name} is required.* pip install 'regard\[onnx\]'"):
        (reversal.loaded if name == "onnxruntime" else use)()


@pytest.mark.parametrize("name", ["encoder.onnx", "decoder.onnx", "onnx.json", "config.json"])
@pytest.mark.parametrize("size", [None, 0, 20])
def test_damaged_folders_are_refused(
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


def test_other_format_versions_are_refused(reversal: Exported, tmp_path: Path) -> None:
    shutil.copytree(reversal.folder, tmp_path / "onnx")
    (tmp_path / "onnx" / "onnx.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(ModelError, match="has format 9; this version of regard reads format 1"):
        OnnxModel(tmp_path / "onnx")


@pytest.mark.long
@pytest.mark.parametrize("variant", SUPPORTED)
def test_all_supported_variants_are_exported(variant: str, tmp_path: Path) -> None:
    description, model = with_separate_vocabularies(
        {"tied_embeddings": "decoder", **SUPPORTED[variant]}
    )
    export_onnx(description, model, tmp_path / "onnx")
    for lengths in ([4, 1, 7, 7], [1], [0]):
        source = with_eos([list(range(260, 260 + length)) for length in lengths])
        assert_equal_steps(OnnxModel(tmp_path / "onnx"), model, source)
