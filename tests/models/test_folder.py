"""Reading and writing of model folders, and the errors of damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.data.store import Store
from regard.errors import ConfigError, ModelError
from regard.models.folder import (
    AVERAGE,
    WEIGHTS,
    ModelFolder,
    load_model,
    named_weights,
    read_tensors,
    write_tensors,
)
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from toys import new_folder, run, small_run

CPU = torch.device("cpu")
CONFIG = TransformerConfig(
    num_encoder_layers=1, num_decoder_layers=1, d_model=16, num_heads=2, ffn_dim=24
)


@pytest.fixture
def folder(tmp_path: Path, reversal_store: Store) -> Path:
    description = new_folder(CONFIG, reversal_store)
    write_tensors(tmp_path / WEIGHTS, named_weights(description.model()), {})
    description.write(tmp_path)
    return tmp_path


def test_write_and_load(folder: Path, reversal_store: Store) -> None:
    description, model = load_model(folder, CPU)
    assert description.config == CONFIG
    assert description.data_statistics.longest_source == 7
    _, same = load_model(folder, CPU)
    for name, tensor in named_weights(model).items():
        assert torch.equal(tensor, named_weights(same)[name])


@pytest.mark.parametrize("name", ["config.json", "tokenizer.model", WEIGHTS])
def test_missing_files_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        load_model(folder, CPU)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.model", WEIGHTS])
@pytest.mark.parametrize("size", [0, 100])
def test_truncated_files_are_named(folder: Path, name: str, size: int) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError, match=name):
        load_model(folder, CPU)


def test_weights_of_another_model_raise_an_error(folder: Path, reversal_store: Store) -> None:
    other = TransformerConfig(
        num_encoder_layers=2, num_decoder_layers=1, d_model=16, num_heads=2, ffn_dim=24
    )
    new_folder(other, reversal_store).write(folder)
    with pytest.raises(ModelError, match=r"lacks weights \(encoder.blocks.1"):
        load_model(folder, CPU)


def test_later_formats_raise_an_error(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(ModelError, match="format"):
        load_model(folder, CPU)


def test_folders_with_architecture_instead_of_kind(folder: Path) -> None:
    path = folder / "config.json"
    description = json.loads(path.read_text())
    description["model"]["architecture"] = description["model"].pop("kind")
    path.write_text(json.dumps(description))
    assert ModelFolder.read(folder).config == CONFIG


def test_unknown_kinds_raise_an_error(folder: Path) -> None:
    path = folder / "config.json"
    description = json.loads(path.read_text())
    description["model"]["kind"] = "abacus"
    path.write_text(json.dumps(description))
    with pytest.raises(ModelError, match="abacus"):
        ModelFolder.read(folder)


def test_missing_folder_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no model folder"):
        load_model(tmp_path / "nowhere", CPU)


def test_num_heads_must_divide_d_model() -> None:
    with pytest.raises(
        ConfigError, match=r"num_heads is 6.*d_model 32; set num_heads=4 or d_model=36"
    ):
        TransformerConfig(d_model=32, num_heads=6)


def test_tied_embeddings_require_equal_vocabularies() -> None:
    with pytest.raises(ConfigError, match="tied_embeddings=decoder"):
        Transformer(CONFIG, Vocabulary(30, 40))


@pytest.mark.parametrize(("tied", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_tied_embeddings_share_parameters(tied: str, tables: int) -> None:
    config = TransformerConfig(d_model=16, num_heads=2, tied_embeddings=tied)  # type: ignore[arg-type]
    model = Transformer(config, Vocabulary(30, 30))
    shapes = [tuple(p.shape) for p in model.parameters()]
    assert shapes.count((30, 16)) == tables
    assert float(model.projection.weight.detach().std()) == pytest.approx(16**-0.5, rel=0.2)


def test_sentences_longer_than_learned_positions_raise_an_error() -> None:
    from toys import pairs, small_transformer

    model = small_transformer(positional_encoding="learned", max_positions=5)
    with pytest.raises(ConfigError, match="the 5 learned positions"):
        model(pairs(4))


def test_tied_embeddings_require_a_joint_vocabulary() -> None:
    with pytest.raises(ConfigError, match="separate vocabularies"):
        Transformer(CONFIG, Vocabulary(30, 30, joint=False))


def test_tokenizer_of_another_model_raises_an_error(folder: Path, tmp_path: Path) -> None:
    from toys import write_reversal_store

    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = write_reversal_store(other_folder, valid=False, tokenizer="unigram")
    (folder / "tokenizer.model").write_bytes(other.tokenizers.source.model)
    with pytest.raises(ModelError, match="belongs to another model"):
        load_model(folder, CPU)


def test_weights_must_be_a_regular_file(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).mkdir()
    with pytest.raises(ModelError, match="must be a regular file"):
        load_model(folder, CPU)


def test_checkpoints_load_their_moving_average(tmp_path: Path, reversal_store: Store) -> None:
    run(small_run(tmp_path / "run", reversal_store, ema_decay=0.9), reversal_store)
    path = tmp_path / "run" / "checkpoints" / "00000010"
    _, model = load_model(path, torch.device("cpu"))
    for name, tensor in read_tensors(path / AVERAGE)[0].items():
        assert torch.equal(named_weights(model)[name], tensor)


def test_equal_weights_and_metadata_give_equal_files(tmp_path: Path) -> None:
    notes = {name: name for name in "abcdefghij"}
    contents = set()
    for number in range(10):
        write_tensors(tmp_path / str(number), {"w": torch.ones(2)}, notes)
        contents.add((tmp_path / str(number)).read_bytes())
    assert len(contents) == 1
    assert read_tensors(tmp_path / "0")[1] == notes
