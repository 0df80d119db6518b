"""Every file that we read, damaged: it is accepted as it is, or refused in a sentence."""

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
from regard.exchange.ctranslate2 import ENGINE, export, is_installed
from regard.exchange.ctranslate2_files import VMAP, checked_config
from regard.exchange.digests import DIGESTS, verify_digests
from regard.models import ARCHITECTURES, new_model, shape_only, unset_model
from regard.models.folder import CONFIG, WEIGHTS, ModelFolder, load_model, weights_of, whole_weights
from regard.models.protocol import Vocabulary
from regard.models.tensor_files import read_tensors, specs, write_tensors
from regard.text.folder import tokenizers_in
from regard.text.special import SPECIAL
from regard.training import checkpoint
from regard.training.ema import MovingAverage
from regard.training.metrics_log import METRICS, MetricsLog, effort
from regard.training.run import RUN, held
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
    """Some mutations of a JSON file."""
    return some(json_mutations(path.read_text()), count)


def read_store(folder: Path) -> None:
    """All that training reads of a store."""
    store = Store(folder)
    for name in store.description["parts"]:
        if store.content == "pairs":
            store.part(name)
        elif store.content == "text":
            store.text(name)
        else:
            store.labelled(name)


def test_one_module_parses_json_and_no_output_has_nan() -> None:
    root = Path(regard.__file__).parent
    for path in root.rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        if name != "schema.py":
            assert "json.load" not in text, f"{name}: read JSON with regard.schema"
        if name.startswith("cli/"):
            assert "json.dumps" not in text, f"{name}: write JSON with regard.json_text"


def test_any_description_of_a_model_is_read_or_refused(model: Path) -> None:
    for _ in outcomes(model / CONFIG, texts(model / CONFIG, 300), lambda: load_model(model, CPU)):
        pass


def test_any_description_of_an_adapter_is_read_or_refused(
    reversal_store: Store, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    config = small_run(origin, reversal_store, max_steps=5)
    run(config, reversal_store)
    changes = {"init_from": str(origin), "out": str(tmp_path / "run")}
    run(altered(config, **changes, training={"lora": {"rank": 2}}), reversal_store)
    path = tmp_path / "run" / CONFIG
    found = json.loads(path.read_text())["adapter"]
    mutations = (
        json.dumps({**json.loads(path.read_text()), "adapter": json.loads(text)}).encode()
        for text in json_mutations(json.dumps(found))
        if text.startswith("{") and len(text) < 5000 and "NaN" not in text
    )
    for _ in outcomes(path, mutations, lambda: load_model(tmp_path / "run", CPU)):
        pass
    itself = {**found, "origin": ".", "origin_once": "."}
    path.write_text(json.dumps({**json.loads(path.read_text()), "adapter": itself}))
    with pytest.raises(ModelError):
        load_model(tmp_path / "run", CPU)


def store_of(kind: str, pairs: Path, folder: Path) -> Path:
    """The store of a kind: that of pairs, which exists, or another, written into the folder."""
    if kind == "pairs":
        return pairs
    (folder / kind).mkdir()
    write = {"text": write_text_store, "tagged": write_tagged_store}[kind]
    return write(folder / kind).folder


@pytest.mark.parametrize("kind", ["pairs", "text", "tagged"])
def test_any_description_of_a_store_is_read_or_refused(
    kind: str, store: Path, tmp_path: Path
) -> None:
    store = store_of(kind, store, tmp_path)
    path = store / "store.json"
    for _ in outcomes(path, texts(path, 400), lambda: read_store(store)):
        pass
    for _ in outcomes(path, texts(path, 100), lambda: tokenizers_in(store)):
        pass


@pytest.mark.parametrize("kind", ["pairs", "text", "tagged"])
def test_no_change_of_a_store_goes_unseen(kind: str, store: Path, tmp_path: Path) -> None:
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


def test_a_store_of_an_earlier_version_is_still_verified(store: Path) -> None:
    path = store / "store.json"
    tree = json.loads(path.read_text())
    del tree["tokenizer_fingerprint"], tree["checksum"], tree["files"]
    path.write_text(json.dumps(tree))
    read_store(store)


@pytest.mark.parametrize("kind", ["pairs", "text", "tagged"])
def test_no_change_of_a_description_of_a_store_goes_unseen(
    kind: str, store: Path, tmp_path: Path
) -> None:
    store = store_of(kind, store, tmp_path)
    path = store / "store.json"
    original = json.loads(path.read_text())
    for content, _ in outcomes(path, texts(path, 400), lambda: read_store(store)):
        found = json.loads(content)
        found["languages"] = original["languages"]  # a user may name them later
        assert {**found, "checksum": 0} == {**original, "checksum": 0}, content
    tokenizer = store / "tokenizer.model"
    content = tokenizer.read_bytes()
    for _ in outcomes(tokenizer, byte_mutations(content, 20), lambda: Store(store)):
        pytest.fail("another tokenizer was accepted")


def test_no_change_of_a_tokenizer_goes_unseen(model: Path) -> None:
    path = model / "tokenizer.model"
    for _ in outcomes(path, byte_mutations(path.read_bytes(), 40), lambda: ModelFolder.read(model)):
        pytest.fail("another tokenizer was accepted")
    tree = json.loads((model / CONFIG).read_text())
    tree["tokenizer"]["lowercase"] = True
    (model / CONFIG).write_text(json.dumps(tree))
    with pytest.raises(ModelError, match="belongs to another model"):
        ModelFolder.read(model)


def test_a_model_of_an_earlier_version_has_no_fingerprint(model: Path) -> None:
    tree = json.loads((model / CONFIG).read_text())
    del tree["tokenizer_fingerprint"]
    (model / CONFIG).write_text(json.dumps(tree))
    load_model(model, CPU)


def test_damaged_weights_are_read_or_refused(model: Path) -> None:
    path = model / WEIGHTS
    for _, (_, loaded) in outcomes(
        path, byte_mutations(path.read_bytes(), 60), lambda: load_model(model, CPU)
    ):
        assert all(weight.isfinite().all() for weight in weights_of(loaded).values())


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(model: Path, number: float) -> None:
    tensors, notes = read_tensors(model / WEIGHTS)
    for name in [*tensors][::7]:
        bad = {**tensors, name: tensors[name].clone()}
        bad[name].view(-1)[-1] = number
        write_tensors(model / WEIGHTS, bad, notes)
        for read in (lambda: load_model(model, CPU), lambda: whole_weights(model)):
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
def test_weights_of_integers_are_refused(model: Path, dtype: torch.dtype) -> None:
    tensors, notes = read_tensors(model / WEIGHTS)
    name = min(tensors)
    write_tensors(model / WEIGHTS, {**tensors, name: tensors[name].to(dtype)}, notes)
    with pytest.raises(ModelError, match=rf"misshapen weights \({name}: .*, not float32"):
        load_model(model, CPU)


def test_weights_of_other_floats_are_read(model: Path) -> None:
    tensors, notes = read_tensors(model / WEIGHTS)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        write_tensors(model / WEIGHTS, {n: t.to(dtype) for n, t in tensors.items()}, notes)
        assert {w.dtype for w in weights_of(load_model(model, CPU)[1]).values()} == {torch.float32}
    write_tensors(model / WEIGHTS, {n: t.double() * 1e300 for n, t in tensors.items()}, notes)
    with pytest.raises(ModelError, match="NaN or infinite"):
        load_model(model, CPU)


def test_huge_models_are_refused_before_memory_is_taken(model: Path) -> None:
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
def test_a_shape_is_that_of_the_model_and_draws_no_numbers(kind: str) -> None:
    labels = ("a", "b") if kind in ("tagger", "classifier") else ()
    config, _ = ARCHITECTURES[kind]
    settings = build(config, {**TINY[kind]})
    vocabulary = Vocabulary(40, 40, labels=labels)
    before = torch.get_rng_state()
    shape, unset = shape_only(settings, vocabulary), unset_model(settings, vocabulary)
    assert torch.equal(torch.get_rng_state(), before)
    wanted = specs(weights_of(new_model(settings, vocabulary)))
    assert specs(weights_of(shape)) == specs(weights_of(unset)) == wanted
    assert all(weight.is_meta for weight in weights_of(shape).values())


def test_pipes_and_links_out_of_files_are_not_waited_for(model: Path, store: Path) -> None:
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


def test_any_progress_is_read_or_refused(finished: Path) -> None:
    folder = checkpoint.folders(finished)[-1]
    path = folder / checkpoint.PROGRESS

    def read() -> None:
        found = checkpoint.read_progress(folder)
        assert found.step == int(folder.name)
        checkpoint.best_first([folder])

    for _ in outcomes(path, texts(path, 1000), read):
        pass


def test_any_run_and_metrics_are_read_or_refused(finished: Path, reversal_store: Store) -> None:
    config = small_run(finished, reversal_store, max_steps=10, ema_decay=0.9)

    def hold() -> None:
        with held(config, reversal_store):
            pass

    for content, _ in outcomes(finished / RUN, texts(finished / RUN, 200), hold):
        assert json.loads(content)["format"] == 1

    def log() -> None:
        effort(finished)
        with MetricsLog(finished, 10, tensorboard=False):
            pass

    path = finished / METRICS
    first, *rest = path.read_text().splitlines()
    lines = ("\n".join([text.replace("\n", " "), *rest]).encode() for text in json_mutations(first))
    for _ in outcomes(path, lines, log):
        pass
    for _ in outcomes(path, byte_mutations(path.read_bytes(), 40), log):
        pass


def test_a_line_of_metrics_that_is_not_utf8_is_named(finished: Path) -> None:
    path = finished / METRICS
    content = path.read_bytes()
    path.write_bytes(b'{"step": 1}\n{"step": "\xff"}\n' + content)
    with pytest.raises(RunError, match=r"metrics\.jsonl, line 2, is damaged .*not UTF-8"):
        effort(finished)
    path.write_bytes(content + b'{"step": 1')
    assert effort(finished) is not None, "a last line that a kill cut short"
    path.write_bytes(content)


def test_any_checkpoint_is_restored_or_refused(finished: Path, reversal_store: Store) -> None:
    folder = checkpoint.folders(finished)[-1]
    _, model = load_model(folder, CPU)
    optimizer = torch.optim.Adam(model.parameters())
    for name in (WEIGHTS, "average.safetensors", checkpoint.OPTIMIZER):
        path = folder / name

        def read() -> None:
            checkpoint.restore(folder, model, optimizer, MovingAverage(model, 0.9))

        for _ in outcomes(path, byte_mutations(path.read_bytes(), 30), read):
            pass
        assert all(w.isfinite().all() for w in weights_of(model).values())
        original, notes = read_tensors(path)
        key = max(original)
        damaged: Tensor
        for damaged in (
            torch.full_like(original[key], float("nan")),
            original[key].long(),
            original[key][..., None],
        ):
            write_tensors(path, {**original, key: damaged}, notes)
            with pytest.raises(RunError, match="goes on from the one before"):
                read()
        write_tensors(path, original, notes)


def test_any_shortlist_is_read_or_refused(model: Path) -> None:
    tokenizers = ModelFolder.read(model).tokenizers
    rows = [np.array([4]) for _ in range(tokenizers.source.vocab_size)]
    Shortlist(np.array([SPECIAL.end]), rows).write(model, tokenizers)
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
def test_any_export_to_ctranslate2_is_checked_before_it_runs(model: Path, tmp_path: Path) -> None:
    folder, loaded = load_model(model, CPU)
    rows = [np.array([4]) for _ in range(folder.tokenizers.source.vocab_size)]
    out = tmp_path / "export"
    export(folder, loaded, out, shortlist=Shortlist(np.array([SPECIAL.end, 5]), rows))
    place = out / ENGINE
    checked_config(place, folder.tokenizers)
    verify_digests(out)

    def check() -> None:
        checked_config(place, folder.tokenizers)

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
