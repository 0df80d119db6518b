"""A model folder is complete, or a sentence says what is wrong with it."""

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
    read_tensors,
    weights_of,
    write_tensors,
)
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from toys import new_folder, run, small_run

CPU = torch.device("cpu")
CONFIG = TransformerConfig(
    encoder_layers=1, decoder_layers=1, width=16, heads=2, feedforward_width=24
)


@pytest.fixture
def folder(tmp_path: Path, reversal_store: Store) -> Path:
    description = new_folder(CONFIG, reversal_store)
    write_tensors(tmp_path / WEIGHTS, weights_of(description.model()), {})
    description.write(tmp_path)
    return tmp_path


def test_what_was_written_is_read(folder: Path, reversal_store: Store) -> None:
    description, model = load_model(folder, CPU)
    assert description.config == CONFIG
    assert description.seen.longest_source == 7
    _, same = load_model(folder, CPU)
    for name, tensor in weights_of(model).items():
        assert torch.equal(tensor, weights_of(same)[name])


@pytest.mark.parametrize("name", ["config.json", "tokenizer.model", WEIGHTS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        load_model(folder, CPU)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.model", WEIGHTS])
@pytest.mark.parametrize("size", [0, 100])
def test_a_truncated_file_is_named(folder: Path, name: str, size: int) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError, match=name):
        load_model(folder, CPU)


def test_weights_of_another_model_are_refused(folder: Path, reversal_store: Store) -> None:
    other = TransformerConfig(
        encoder_layers=2, decoder_layers=1, width=16, heads=2, feedforward_width=24
    )
    new_folder(other, reversal_store).write(folder)
    with pytest.raises(ModelError, match=r"lacks weights \(encoder.blocks.1"):
        load_model(folder, CPU)


def test_a_later_format_is_refused(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(ModelError, match="format"):
        load_model(folder, CPU)


def test_a_folder_from_before_there_were_kinds_is_read(folder: Path) -> None:
    path = folder / "config.json"
    description = json.loads(path.read_text())
    description["model"]["architecture"] = description["model"].pop("kind")
    path.write_text(json.dumps(description))
    assert ModelFolder.read(folder).config == CONFIG


def test_a_kind_that_is_not_known_is_refused(folder: Path) -> None:
    path = folder / "config.json"
    description = json.loads(path.read_text())
    description["model"]["kind"] = "abacus"
    path.write_text(json.dumps(description))
    with pytest.raises(ModelError, match="abacus"):
        ModelFolder.read(folder)


def test_no_folder_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no model folder"):
        load_model(tmp_path / "nowhere", CPU)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"heads is 6.*width 32.*take 4 heads, or a width of 36"):
        TransformerConfig(width=32, heads=6)


def test_one_table_for_two_vocabularies_is_refused() -> None:
    with pytest.raises(ConfigError, match="tied_embeddings=decoder"):
        Transformer(CONFIG, Vocabulary(30, 40))


@pytest.mark.parametrize(("tied", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_tied_tables_are_one_parameter(tied: str, tables: int) -> None:
    config = TransformerConfig(width=16, heads=2, tied_embeddings=tied)  # type: ignore[arg-type]
    model = Transformer(config, Vocabulary(30, 30))
    shapes = [tuple(p.shape) for p in model.parameters()]
    assert shapes.count((30, 16)) == tables
    assert float(model.projection.weight.detach().std()) == pytest.approx(16**-0.5, rel=0.2)


def test_learned_positions_say_when_they_end() -> None:
    from toys import pairs, small_model

    model = small_model(positions="learned", max_positions=5)
    with pytest.raises(ConfigError, match=r"the 5 that\s+this model learned"):
        model(pairs(4))


def test_equal_sizes_do_not_make_separate_vocabularies_one() -> None:
    with pytest.raises(ConfigError, match="separate vocabularies"):
        Transformer(CONFIG, Vocabulary(30, 30, joint=False))


def test_the_tokenizer_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    from toys import write_reversal_store

    place = tmp_path / "other"
    place.mkdir()
    other = write_reversal_store(place, valid=False, tokenizer="unigram")
    (folder / "tokenizer.model").write_bytes(other.tokenizers.source.model)
    with pytest.raises(ModelError, match="belongs to another model"):
        load_model(folder, CPU)


def test_weights_that_are_no_file_are_said_so(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).mkdir()
    with pytest.raises(ModelError, match="must be a regular file"):
        load_model(folder, CPU)


def test_a_checkpoint_is_the_model_at_that_time(tmp_path: Path, reversal_store: Store) -> None:
    run(small_run(tmp_path / "run", reversal_store, ema_decay=0.9), reversal_store)
    path = tmp_path / "run" / "checkpoints" / "00000010"
    _, model = load_model(path, torch.device("cpu"))
    for name, tensor in read_tensors(path / AVERAGE)[0].items():
        assert torch.equal(weights_of(model)[name], tensor)


def test_equal_weights_and_notes_are_equal_files(tmp_path: Path) -> None:
    notes = {name: name for name in "abcdefghij"}
    contents = set()
    for number in range(10):
        write_tensors(tmp_path / str(number), {"w": torch.ones(2)}, notes)
        contents.add((tmp_path / str(number)).read_bytes())
    assert len(contents) == 1
    assert read_tensors(tmp_path / "0")[1] == notes
