"""Experiment trackers: their copies of the metrics log, resumed runs, and failures."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Command, regard
from regard.api import train as train_from_python
from regard.data.store import Store
from regard.distributed import SINGLE_PROCESS
from regard.errors import ConfigError, RegardError, RunError, StoppedError
from regard.models.folder import read_weights_metadata
from regard.notices import NoticeWarning
from regard.settings_tree import to_tree
from regard.tracking import callback
from regard.tracking.run import run_training
from regard.tracking.tracker import Status, TrackedRun, flatten
from regard.training.config import RunConfig
from regard.training.metrics_log import Row, read_metrics
from toys import CollectingCallback, altered, small_run

__all__ = ["regard"]  # a fixture


class FakeService:
    """Stores what trackers send, by run id; fails at given steps."""

    def __init__(self) -> None:
        self.runs: dict[str, list[tuple[int, dict[str, float]]]] = {}
        self.descriptions: dict[str, TrackedRun] = {}
        self.ends: list[tuple[Status, dict[str, float]]] = []
        self.failing_steps: set[int] = set()

    def start(self, run: TrackedRun, run_id: str | None) -> FakeTracker:
        run_id = run_id or f"run {len(self.runs)}"
        self.descriptions[run_id] = run
        self.runs.setdefault(run_id, [])
        return FakeTracker(self, run_id)


class FakeTracker:
    location = "the service"

    def __init__(self, service: FakeService, run_id: str) -> None:
        self._service, self.run_id = service, run_id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if step in self._service.failing_steps:
            raise OSError("No route to host.")
        self._service.runs[self.run_id].append((step, dict(metrics)))

    def finish(self, status: Status, best: Mapping[str, float]) -> None:
        self._service.ends.append((status, dict(best)))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    result = FakeService()
    monkeypatch.setitem(callback._TRACKERS, "wandb", result.start)
    return result


class StopAt(CollectingCallback):
    """Ends training as a kill (or a signal) would, before the row of a step is tracked."""

    def __init__(self, step: int, error: BaseException) -> None:
        super().__init__()
        self._step, self._error = step, error

    def on_step_end(self, step: int) -> None:
        if step == self._step:
            raise self._error


def tracked_run(out: Path, store: Store, *names: str, **training: Any) -> RunConfig:
    return altered(small_run(out, store, **training), tracking={"log_to": [*names]})


def train(config: RunConfig, step: int = 0, error: BaseException | None = None) -> list[str]:
    """Train and return the notices; with an error, until it is raised at a step."""
    notices: list[str] = []
    if error is None:
        run_training(config, "cpu", CollectingCallback(), notice=notices.append)
    else:
        with pytest.raises(type(error)):
            run_training(config, "cpu", StopAt(step, error), notice=notices.append)
    return notices


def expected(out: Path) -> list[tuple[int, Row]]:
    """What a tracker should have: the metrics log, without the time of validations."""
    rows = []
    for row in read_metrics(out):
        time = {"seconds"} if "valid_loss" in row else set()
        rows.append((row["step"], {n: v for n, v in row.items() if n not in {"step"} | time}))
    return rows


def untimed(rows: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """Rows without measured times, in which a repeated step differs."""
    timed = {"seconds", "tokens_per_second"}
    return [(step, {n: v for n, v in row.items() if n not in timed}) for step, row in rows]


def test_tracker_receives_settings_metrics_and_the_best_model(
    tmp_path: Path, reversal_store: Store, service: FakeService
) -> None:
    config = tracked_run(tmp_path / "run", reversal_store, "wandb")
    assert train(config) == ["Weights & Biases: the service"]
    assert service.runs == {"run 0": expected(tmp_path / "run")}
    run = service.descriptions["run 0"]
    assert (run.project, run.name, run.settings) == ("regard", config.out, to_tree(config))
    metadata = read_weights_metadata(tmp_path / "run")
    best = {f"best_{name}": float(metadata[name]) for name in ("step", "valid_loss", "bleu")}
    assert service.ends == [("finished", best)]
    assert train(config) == []  # a finished run starts no tracker
    assert len(service.ends) == 1


@pytest.mark.parametrize(
    ("step", "error", "status"),  # checkpoints and rows are at 5, 8, 10, 12, 15, 16
    [
        (11, KeyboardInterrupt(), "stopped"),
        (13, StoppedError("", signal_number=15), "stopped"),
        (16, ZeroDivisionError(), "failed"),
    ],
)
def test_resumed_run_continues_without_repeated_rows(
    step: int,
    error: BaseException,
    status: str,
    tmp_path: Path,
    reversal_store: Store,
    service: FakeService,
) -> None:
    config = tracked_run(tmp_path, reversal_store, "wandb", validate_bleu=False)
    train(config, step, error)
    assert service.ends[0][0] == status
    train(config)
    assert untimed(service.runs["run 0"]) == untimed(expected(tmp_path))
    assert len(service.runs) == 1


def test_failing_tracker_does_not_stop_training(
    tmp_path: Path, reversal_store: Store, service: FakeService
) -> None:
    service.failing_steps = {8}
    config = tracked_run(tmp_path, reversal_store, "wandb")
    _, notice = train(config, 14, KeyboardInterrupt())
    assert notice.startswith("Weights & Biases does not work: No route to host. Training continues")
    assert [step for step, _ in service.runs["run 0"]] == [4, 5]
    assert service.ends == []
    service.failing_steps = set()
    train(config)  # sends what was missed
    assert untimed(service.runs["run 0"]) == untimed(expected(tmp_path))


def test_tracker_that_is_enabled_later_receives_earlier_rows(
    tmp_path: Path, reversal_store: Store, service: FakeService
) -> None:
    train(small_run(tmp_path, reversal_store), 14, KeyboardInterrupt())
    train(tracked_run(tmp_path, reversal_store, "wandb"))
    assert service.runs["run 0"] == expected(tmp_path)


def test_python_gets_a_warning_and_names_can_be_chosen(
    tmp_path: Path, reversal_store: Store, service: FakeService
) -> None:
    service.failing_steps = {*range(100)}
    tracking = {"log_to": ["wandb"], "project": "letters", "name": "first"}
    config = to_tree(small_run(tmp_path, reversal_store, max_steps=5))
    settings = {name: config[name] for name in ("model", "training")}
    with pytest.warns(NoticeWarning) as warned:
        train_from_python(
            data=reversal_store, out=tmp_path, device="cpu", tracking=tracking, **settings
        )
    assert [str(warning.message)[:30] for warning in warned] == [
        "Weights & Biases: the service",
        "Weights & Biases does not work",
    ]
    run = service.descriptions["run 0"]
    assert (run.project, run.name) == ("letters", "first")


def test_only_rank_0_tracks(
    tmp_path: Path, reversal_store: Store, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tracked_run(tmp_path, reversal_store, "wandb", max_steps=5)
    monkeypatch.setattr(
        "regard.tracking.run.train_model", lambda *arguments, **more: more["callback"]
    )
    rank_1, plain = dataclasses.replace(SINGLE_PROCESS, rank=1), CollectingCallback()
    used: list[Any] = [
        run_training(config, "cpu", plain, rank) for rank in (rank_1, SINGLE_PROCESS)
    ]
    assert [callback is plain for callback in used] == [True, False]


def test_errors(tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="log_to names a tracker twice"):
        tracked_run(tmp_path, reversal_store, "wandb", "wandb")
    with pytest.raises(ConfigError, match=r"report_to does .* tracking\.log_to"):
        altered(small_run(tmp_path, reversal_store), report_to="wandb")
    config = tracked_run(tmp_path, reversal_store, "mlflow")
    (tmp_path / "tracking.json").write_text('{"format": 1, "run_ids": 3}')
    with pytest.raises(RegardError, match="not a run folder"):
        train(config)
    (tmp_path / "tracking.json").unlink()
    train(small_run(tmp_path, reversal_store), 7, KeyboardInterrupt())
    (tmp_path / "tracking.json").write_text('{"format": 1, "run_ids": 3}')
    with pytest.raises(RunError, match=r"run_ids is 3, but must be a table.*Delete that file"):
        train(config)
    monkeypatch.setattr("regard.exchange.requirements.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"mlflow is required.*regard\[mlflow\]"):
        train(config)


def test_wandb_offline(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    config = tracked_run(tmp_path, reversal_store, "wandb")
    train(config, 11, KeyboardInterrupt())
    train(config)
    files = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len({path.name for path in files}) == 1  # two parts of one run
    assert len(files) == 2
    rows: dict[int, Row] = {}
    for step, row in expected(tmp_path):
        rows[step] = rows.get(step, {}) | row
    steps = [step for path in files for step, _ in wandb_history(path)]
    assert steps == [*rows]
    assert dict(row for path in files for row in wandb_history(path)) == rows
    assert wandb_settings(files[0])["training"]["max_steps"] == 20
    assert not [*tmp_path.rglob("wandb/**/*.safetensors")]


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of an offline run: a log of blocks of 32 KiB, as in LevelDB."""
    from wandb.proto import wandb_internal_pb2

    content, position, buffer = path.read_bytes(), 7, b""
    while position + 7 <= len(content):
        if (left := 32768 - position % 32768) < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, position)
        buffer += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # complete, or the last part
            record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
            record.ParseFromString(buffer)
            buffer = b""
            yield record


def wandb_history(path: Path) -> list[tuple[int, Row]]:
    """The metrics by step."""
    rows = []
    for record in wandb_records(path):
        if record.WhichOneof("record_type") == "history":
            row = {
                ".".join(i.nested_key) or i.key: json.loads(i.value_json)
                for i in record.history.item
            }
            step = row["_step"]
            rows.append((step, {name: v for name, v in row.items() if not name.startswith("_")}))
    return rows


def wandb_settings(path: Path) -> dict[str, Any]:
    [config] = [r.run.config for r in wandb_records(path) if r.WhichOneof("record_type") == "run"]
    return {item.key: json.loads(item.value_json) for item in config.update}


def test_mlflow_local_store(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient

    out, store = tmp_path / "run", f"file://{tmp_path}/mlruns"
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database takes 5 s to create
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    config = tracked_run(out, reversal_store, "mlflow")
    train(config, 11, KeyboardInterrupt())
    client = MlflowClient()
    experiment = client.get_experiment_by_name("regard")
    assert experiment is not None
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.status == "KILLED"
    train(config)
    [run] = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", str(out))
    assert run.data.params == {path: str(value) for path, value in flatten(to_tree(config))}
    rows = expected(out)
    for name in {name for _, row in rows for name in row}:
        history = client.get_metric_history(run.info.run_id, name)
        assert [(m.step, m.value) for m in history] == [
            (s, row[name]) for s, row in rows if name in row
        ]
    best = read_weights_metadata(out)
    assert run.data.metrics["best_bleu"] == float(best["bleu"])
    assert run.data.metrics["best_step"] == float(best["step"])


def test_unreachable_services(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch, regard: Command
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("HOME", str(tmp_path))  # without a saved key
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "[model]\nd_model = 16\nnum_heads = 2\nnum_encoder_layers = 1\nnum_decoder_layers = 1\n"
        "[training]\nmax_steps = 2\nvalidate_bleu = false\ntensorboard = false\n"
    )
    command = ["train", recipe, "--data", reversal_store.folder, "--out", tmp_path / "run"]
    outcome = regard(*command, "--device", "cpu", "--log-to", "wandb", "--log-to", "mlflow")
    assert outcome.status == 0
    assert outcome.err.count("Weights & Biases does not work: there is no API key") == 1
    assert outcome.err.count("MLflow does not work: ") == 1
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [2, 2]
