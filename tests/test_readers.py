"""Damaged input files are read or refused with a message, but do not crash."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from labelled import write_tagged_store
from mutations import byte_mutations, json_mutations, outcomes, some
from regard.config import build
from regard.data.shortlist import SHORTLIST, Shortlist
from regard.data.store import Store
from regard.errors import DataError, ModelError, RegardError, RunError
from regard.exchange.ctranslate2 import export
from regard.exchange.ctranslate2_files import (
    CTRANSLATE2_FOLDER,
    VMAP,
    is_installed,
    read_checked_config,
)
from regard.exchange.digests import DIGESTS, verify_digests
from regard.models import ARCHITECTURES, meta_model, new_model, uninitialized_model
from regard.models.folder import (
    CONFIG,
    WEIGHTS,
    ModelFolder,
    load_model,
    merged_weights,
    named_weights,
)
from regard.models.protocol import Vocabulary
from regard.models.tensor_files import read_tensors, tensor_specs, write_tensors
from regard.text.folder import load_folder_tokenizers
from regard.text.special import SPECIAL
from regard.training import checkpoint
from regard.training.ema import MovingAverage
from regard.training.metrics_log import METRICS, MetricsLog, training_cost
from regard.training.run_folder import RUN, locked_run
from toys import (
    TINY,
    altered,
    run,
    small_run,
    write_model_folder,
    write_reversal_store,
    write_text_store,
)

CPU = torch.device("cpu")


@pytest.fixture
def store(reversal_store: Store, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reversal_store.folder, tmp_path / "store"))


@pytest.fixture
def model(reversal_store: Store, tmp_path: Path) -> Path:
    return write_model_folder(tmp_path / "model", reversal_store)


def texts(path: Path, count: int) -> Any:
    """A sample of mutations of a JSON file."""
    return some(json_mutations(path.read_text()), count)


def read_store(folder: Path) -> None:
    """Read everything that training reads from a store."""
    store = Store(folder)
    for name in store.description["parts"]:
        if store.content == "pairs":
            store.part(name)
        elif store.content == "text":
            store.text(name)
        else:
            store.labelled(name)


def test_json_is_parsed_in_one_module_and_written_without_nan() -> None:
    root = Path(regard.__file__).parent
    for path in root.rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        if name != "schema.py":
            assert "json.load" not in text, f"{name}: read JSON with regard.schema"
        if name.startswith("cli/"):
            assert "json.dumps" not in text, f"{name}: write JSON with regard.json_text"


def test_damaged_model_descriptions_are_read_or_refused(model: Path) -> None:
    for _ in outcomes(model / CONFIG, texts(model / CONFIG, 300), lambda: load_model(model, CPU)):
        pass


def test_damaged_adapter_descriptions_are_read_or_refused(
    reversal_store: Store, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    config = small_run(origin, reversal_store, max_steps=5)
    run(config, reversal_store)
    changes = {"init_from": str(origin), "out": str(tmp_path / "run")}
    run(altered(config, **changes, training={"lora": {"rank": 2}}), reversal_store)
    path = tmp_path / "run" / CONFIG
    adapter = json.loads(path.read_text())["adapter"]
    mutations = (
        json.dumps({**json.loads(path.read_text()), "adapter": json.loads(text)}).encode()
        for text in json_mutations(json.dumps(adapter))
        if text.startswith("{") and len(text) < 5000 and "NaN" not in text
    )
    for _ in outcomes(path, mutations, lambda: load_model(tmp_path / "run", CPU)):
        pass
    itself = {**adapter, "origin": ".", "origin_once": "."}
    path.write_text(json.dumps({**json.loads(path.read_text()), "adapter": itself}))
    with pytest.raises(ModelError):
        load_model(tmp_path / "run", CPU)


def store_of(kind: str, pairs: Path, folder: Path) -> Path:
    """The store of a content: that of pairs, or another one, written to the folder."""
    if kind == "pairs":
        return pairs
    (folder / kind).mkdir()
    write = {"text": write_text_store, "tagged": write_tagged_store}[kind]
    return write(folder / kind).folder


@pytest.mark.parametrize("kind", ["pairs", "text", "tagged"])
def test_damaged_store_descriptions_are_read_or_refused(
    kind: str, store: Path, tmp_path: Path
) -> None:
    store = store_of(kind, store, tmp_path)
    path = store / "store.json"
    for _ in outcomes(path, texts(path, 400), lambda: read_store(store)):
        pass
    for _ in outcomes(path, texts(path, 100), lambda: load_folder_tokenizers(store)):
        pass


@pytest.mark.parametrize("kind", ["pairs", "text", "tagged"])
def test_every_change_of_a_store_is_detected(kind: str, store: Path, tmp_path: Path) -> None:
    store = store_of(kind, store, tmp_path)
    for path in sorted(store.iterdir()):
        if path.suffix not in (".ids", ".offsets", ".model"):
            continue
        original = path.read_bytes()
        accepted = [
            content
            for content, _ in outcomes(
                path, byte_mutations(original, 12), lambda: read_store(store)
            )
            if content != original
        ]
        assert not accepted, path.name


def test_zeroed_ids_and_another_tokenizer_are_refused(store: Path, tmp_path: Path) -> None:
    ids = store / "train.source.ids"
    content = ids.read_bytes()
    ids.write_bytes(bytes(len(content)))
    with pytest.raises(DataError, match=r"train\.\*\.ids .*not those that were prepared"):
        Store(store).part("train")
    ids.write_bytes(b"\xff" * len(content))
    with pytest.raises(DataError, match="has ids up to 65535"):
        Store(store).part("train")
    (tmp_path / "other").mkdir()
    other = write_reversal_store(tmp_path / "other", valid=False, tokenizer="char")
    shutil.copy(other.folder / "tokenizer.model", store / "tokenizer.model")
    with pytest.raises(DataError, match="Run `regard prepare` again"):
        Store(store)


def test_store_of_an_earlier_version_is_verified(store: Path) -> None:
    path = store / "store.json"
    tree = json.loads(path.read_text())
    del tree["tokenizer_fingerprint"], tree["checksum"], tree["files"]
    path.write_text(json.dumps(tree))
    read_store(store)


@pytest.mark.parametrize("kind", ["pairs", "text", "tagged"])
def test_every_change_of_a_store_description_is_detected(
    kind: str, store: Path, tmp_path: Path
) -> None:
    store = store_of(kind, store, tmp_path)
    path = store / "store.json"
    original = json.loads(path.read_text())
    for content, _ in outcomes(path, texts(path, 400), lambda: read_store(store)):
        changed = json.loads(content)
        changed["languages"] = original["languages"]  # a user may set them later
        assert {**changed, "checksum": 0} == {**original, "checksum": 0}, content
    tokenizer = store / "tokenizer.model"
    content = tokenizer.read_bytes()
    for _ in outcomes(tokenizer, byte_mutations(content, 20), lambda: Store(store)):
        pytest.fail("another tokenizer was accepted")


def test_every_change_of_a_tokenizer_is_detected(model: Path) -> None:
    path = model / "tokenizer.model"
    for _ in outcomes(path, byte_mutations(path.read_bytes(), 40), lambda: ModelFolder.read(model)):
        pytest.fail("another tokenizer was accepted")
    tree = json.loads((model / CONFIG).read_text())
    tree["tokenizer"]["lowercase"] = True
    (model / CONFIG).write_text(json.dumps(tree))
    with pytest.raises(ModelError, match="belongs to another model"):
        ModelFolder.read(model)


def test_model_of_an_earlier_version_without_fingerprint_is_read(model: Path) -> None:
    tree = json.loads((model / CONFIG).read_text())
    del tree["tokenizer_fingerprint"]
    (model / CONFIG).write_text(json.dumps(tree))
    load_model(model, CPU)


def test_damaged_weights_are_read_or_refused(model: Path) -> None:
    path = model / WEIGHTS
    for _, (_, loaded) in outcomes(
        path, byte_mutations(path.read_bytes(), 60), lambda: load_model(model, CPU)
    ):
        assert all(weight.isfinite().all() for weight in named_weights(loaded).values())


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(model: Path, number: float) -> None:
    tensors, notes = read_tensors(model / WEIGHTS)
    for name in [*tensors][::7]:
        bad = {**tensors, name: tensors[name].clone()}
        bad[name].view(-1)[-1] = number
        write_tensors(model / WEIGHTS, bad, notes)
        for read in (lambda: load_model(model, CPU), lambda: merged_weights(model)):
            with pytest.raises(ModelError, match=rf"NaN or infinite \({name}"):
                read()


@pytest.mark.parametrize("number", [3e38, -1e30, 1e16])
def test_weights_whose_products_overflow_are_refused(model: Path, number: float) -> None:
    tensors, notes = read_tensors(model / WEIGHTS)
    for name in [*tensors][::7]:
        bad = {**tensors, name: tensors[name].clone()}
        bad[name].view(-1)[-1] = number
        write_tensors(model / WEIGHTS, bad, notes)
        with pytest.raises(ModelError, match=rf"beyond 1e\+15 \({name}; 1 in all\)"):
            load_model(model, CPU)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integer_weights_are_refused(model: Path, dtype: torch.dtype) -> None:
    tensors, notes = read_tensors(model / WEIGHTS)
    name = min(tensors)
    write_tensors(model / WEIGHTS, {**tensors, name: tensors[name].to(dtype)}, notes)
    with pytest.raises(ModelError, match=rf"mismatched weights \({name}: .*, not float32"):
        load_model(model, CPU)


def test_weights_of_other_float_types_are_read(model: Path) -> None:
    tensors, notes = read_tensors(model / WEIGHTS)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        write_tensors(model / WEIGHTS, {n: t.to(dtype) for n, t in tensors.items()}, notes)
        assert {w.dtype for w in named_weights(load_model(model, CPU)[1]).values()} == {
            torch.float32
        }
    write_tensors(model / WEIGHTS, {n: t.double() * 1e300 for n, t in tensors.items()}, notes)
    with pytest.raises(ModelError, match="NaN or infinite"):
        load_model(model, CPU)


def test_huge_models_are_refused_before_allocation(model: Path) -> None:
    tree = json.loads((model / CONFIG).read_text())
    for name, value in (
        ("width", 100_000),
        ("feedforward_width", 100_000),
        ("decoder_layers", 900),
    ):
        (model / CONFIG).write_text(json.dumps({**tree, "model": {**tree["model"], name: value}}))
        with pytest.raises(RegardError):
            load_model(model, CPU)


@pytest.mark.parametrize("kind", [*ARCHITECTURES])
def test_meta_model_has_the_shapes_and_uses_no_random_numbers(kind: str) -> None:
    labels = ("a", "b") if kind in ("tagger", "classifier") else ()
    config, _ = ARCHITECTURES[kind]
    settings = build(config, {**TINY[kind]})
    vocabulary = Vocabulary(40, 40, labels=labels)
    before = torch.get_rng_state()
    shape, unset = meta_model(settings, vocabulary), uninitialized_model(settings, vocabulary)
    assert torch.equal(torch.get_rng_state(), before)
    wanted = tensor_specs(named_weights(new_model(settings, vocabulary)))
    assert tensor_specs(named_weights(shape)) == tensor_specs(named_weights(unset)) == wanted
    assert all(weight.is_meta for weight in named_weights(shape).values())


def test_pipes_in_place_of_files_do_not_block(model: Path, store: Path) -> None:
    for path, read in (
        (model / WEIGHTS, lambda: load_model(model, CPU)),
        (model / "tokenizer.model", lambda: ModelFolder.read(model)),
        (model / CONFIG, lambda: ModelFolder.read(model)),
        (store / "train.target.ids", lambda: Store(store).part("train")),
        (store / "train.target.offsets", lambda: Store(store).part("train")),
        (store / "store.json", lambda: Store(store)),
    ):
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(RegardError):
            read()
        path.unlink()
        path.write_bytes(content)


@pytest.fixture(scope="module")
def finished(reversal_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(small_run(folder, reversal_store, max_steps=10, ema_decay=0.9), reversal_store)
    return folder


def test_damaged_progress_is_read_or_refused(finished: Path) -> None:
    folder = checkpoint.checkpoint_folders(finished)[-1]
    path = folder / checkpoint.PROGRESS

    def read() -> None:
        progress = checkpoint.read_progress(folder)
        assert progress.step == int(folder.name)
        checkpoint.sort_by_metric([folder])

    for _ in outcomes(path, texts(path, 1000), read):
        pass


def test_damaged_runs_and_metrics_are_read_or_refused(
    finished: Path, reversal_store: Store
) -> None:
    config = small_run(finished, reversal_store, max_steps=10, ema_decay=0.9)

    def hold() -> None:
        with locked_run(config, reversal_store):
            pass

    for content, _ in outcomes(finished / RUN, texts(finished / RUN, 200), hold):
        assert json.loads(content)["format"] == 1

    def log() -> None:
        training_cost(finished)
        with MetricsLog(finished, 10, tensorboard=False):
            pass

    path = finished / METRICS
    first, *rest = path.read_text().splitlines()
    lines = ("\n".join([text.replace("\n", " "), *rest]).encode() for text in json_mutations(first))
    for _ in outcomes(path, lines, log):
        pass
    for _ in outcomes(path, byte_mutations(path.read_bytes(), 40), log):
        pass


def test_metrics_line_that_is_not_utf8_is_reported(finished: Path) -> None:
    path = finished / METRICS
    content = path.read_bytes()
    path.write_bytes(b'{"step": 1}\n{"step": "\xff"}\n' + content)
    with pytest.raises(RunError, match=r"metrics\.jsonl, line 2, is damaged .*not UTF-8"):
        training_cost(finished)
    path.write_bytes(content + b'{"step": 1')
    assert training_cost(finished) is not None, "an incomplete last line of a killed process"
    path.write_bytes(content)


def test_damaged_checkpoints_are_restored_or_refused(finished: Path, reversal_store: Store) -> None:
    folder = checkpoint.checkpoint_folders(finished)[-1]
    _, model = load_model(folder, CPU)
    optimizer = torch.optim.Adam(model.parameters())
    for name in (WEIGHTS, "average.safetensors", checkpoint.OPTIMIZER):
        path = folder / name

        def read() -> None:
            checkpoint.restore(folder, model, optimizer, MovingAverage(model, 0.9))

        for _ in outcomes(path, byte_mutations(path.read_bytes(), 30), read):
            pass
        assert all(w.isfinite().all() for w in named_weights(model).values())
        original, notes = read_tensors(path)
        key = max(original)
        damaged: Tensor
        for damaged in (
            torch.full_like(original[key], float("nan")),
            original[key].long(),
            original[key][..., None],
        ):
            write_tensors(path, {**original, key: damaged}, notes)
            with pytest.raises(RunError, match="resume from the previous one"):
                read()
        write_tensors(path, original, notes)


def test_damaged_shortlists_are_read_or_refused(model: Path) -> None:
    tokenizers = ModelFolder.read(model).tokenizers
    rows = [np.array([4]) for _ in range(tokenizers.source.vocab_size)]
    Shortlist(np.array([SPECIAL.eos]), rows).write(model, tokenizers)
    path = model / SHORTLIST
    tree = json.loads(path.read_text())
    tree["allowed"] = dict([*tree["allowed"].items()][:3])
    path.write_text(json.dumps(tree))
    for _ in outcomes(path, texts(path, 400), lambda: Shortlist.read(model, tokenizers)):
        pass
    path.write_text(json.dumps({**tree, "always": []}))
    with pytest.raises(ModelError, match="always lacks </s>"):
        Shortlist.read(model, tokenizers)


@pytest.mark.skipif(not is_installed(), reason="CTranslate2 is not installed")
def test_damaged_ctranslate2_exports_are_refused_before_they_run(
    model: Path, tmp_path: Path
) -> None:
    folder, loaded = load_model(model, CPU)
    rows = [np.array([4]) for _ in range(folder.tokenizers.source.vocab_size)]
    out = tmp_path / "export"
    export(folder, loaded, out, shortlist=Shortlist(np.array([SPECIAL.eos, 5]), rows))
    place = out / CTRANSLATE2_FOLDER
    read_checked_config(place, folder.tokenizers)
    verify_digests(out)

    def check() -> None:
        read_checked_config(place, folder.tokenizers)

    for name in ("config.json", "shared_vocabulary.json"):
        for _ in outcomes(place / name, texts(place / name, 200), check):
            assert name == "config.json", "a vocabulary of other pieces was accepted"
    vmap = place / VMAP
    for content, _ in outcomes(vmap, byte_mutations(vmap.read_bytes(), 40), check):
        assert content.startswith(b"\t")
    for content in (b"", b"\t\n", b"\n", b"a\tb\n", b"\tno such\n", b"\t</s>"):
        vmap.write_bytes(content)
        with pytest.raises(ModelError, match=r"vmap\.txt is damaged"):
            check()
    for path in sorted([*place.iterdir(), out / "config.json", out / "tokenizer.model"]):
        content = path.read_bytes()
        for _ in outcomes(path, byte_mutations(content, 10), lambda: verify_digests(out)):
            pytest.fail(f"{path.name} was accepted")
    for _ in outcomes(out / DIGESTS, texts(out / DIGESTS, 200), lambda: verify_digests(out)):
        pass
