"""Training benchmark: comparison of systems, training tasks, workers and toolkits."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from pathlib import Path

import pytest
import torch

import comparison
import install_peers
import language_models
import training
from comparison import Round, Spread, SystemResult, UnavailableError
from peers import joeynmt, ours
from peers.process import Worker, environment
from peers.toolkit import FAILURE_FILE, Job, Toolkit, ToolkitRunner
from peers.worker import Rounds, make_trainer
from regard.config import build
from regard.data.batch import Batch
from regard.models import count_parameters
from regard.models.causal import CausalConfig
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer
from regard.training.presets import PRESETS
from training import TOOLKITS
from training_task import SIZES, Size, TrainingTask, matmul_flops, target_tokens

ROOT = Path(__file__).parent.parent
TOY = TrainingTask(
    Size(num_layers=1, d_model=16, num_heads=2, ffn_dim=32),
    "cpu",
    vocabulary=50,
    batch_tokens=64,
    warmup=1,
    updates=2,
    lengths=(3, 12),
    dropout=0.0,
)
PYTORCH_MODULES = ["ours", "plain_torch", "huggingface"]


def make_result(name: str, *speeds: float, is_peer: bool = True) -> SystemResult:
    return SystemResult(
        name, is_peer, tuple(Round(int(100 * s), 100.0, memory=1.5) for s in speeds)
    )


class Scripted:
    """A system with scripted rounds."""

    is_peer = True

    def __init__(self, name: str, calls: list[str], fails_at: int = -1) -> None:
        self.name = name
        self._calls, self._fails_at = calls, fails_at

    def round(self) -> Round:
        self._calls.append(self.name)
        if self._calls.count(self.name) == self._fails_at:
            raise UnavailableError("out of breath")
        return Round(10, 1.0, 0.5)


def test_rounds_are_interleaved_and_rotate_the_first_system() -> None:
    calls: list[str] = []
    comparison.run_interleaved(
        [Scripted(name, calls) for name in "abc"], 3, lambda result, results: None
    )
    assert "".join(calls) == "abcbcacab"


def test_failed_systems_are_skipped_and_reported() -> None:
    calls: list[str] = []
    messages: list[str] = []
    results = comparison.run_interleaved(
        [Scripted("a", calls), Scripted("b", calls, fails_at=2)],
        4,
        lambda result, results: messages.append(comparison.progress_line(result, "steps")),
    )
    assert (calls.count("a"), calls.count("b")) == (4, 2)
    assert results[1].problem == "out of breath"
    assert results[1].rounds == ()
    assert messages[0].startswith("round 1, a: 10 steps/s")
    assert messages.count("b could not be run: out of breath") == 1
    assert len(messages) == 6
    lines = comparison.table(results, "steps", {}).splitlines()
    assert lines[-1].startswith("| b | could not be run: out of breath |")
    assert {line.count("|") for line in lines} == {9}


def test_rounds_under_cpu_pressure_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds of ten seconds, with 8, 5 and 1 seconds of stalls."""
    clock = iter([0, 10, 10, 20, 20, 30, 30, 40])
    waits = iter([0, 8, 8, 13, 13, 14, 14, 14])
    monkeypatch.setattr("comparison.time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(comparison, "stall_seconds", lambda: float(next(waits)))
    calls: list[str] = []
    (repeated,) = comparison.run_interleaved([Scripted("a", calls)], 1, lambda *_: None, attempts=2)
    assert [round_.cpu_pressure for round_ in repeated.rounds] == [0.5]
    (undisturbed,) = comparison.run_interleaved(
        [Scripted("a", calls)], 1, lambda *_: None, attempts=2
    )
    assert [round_.cpu_pressure for round_ in undisturbed.rounds] == [
        0.1
    ]  # valid at the first attempt
    assert len(calls) == 3


def test_stall_seconds_do_not_decrease() -> None:
    first, second = comparison.stall_seconds(), comparison.stall_seconds()
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert 0 <= first <= second


def test_speedups_are_computed_round_by_round() -> None:
    ours = make_result("regard", 200, 400, 900, is_peer=False)
    slow = make_result("slow", 100, 100, 100)
    assert comparison.speedups(ours, slow) == Spread(2.0, 4.0, 9.0)
    # A round in which both systems are twice as slow has the same ratio.
    assert comparison.speedups(
        make_result("regard", 200, 100, is_peer=False), make_result("other", 100, 50)
    ) == Spread(2.0, 2.0, 2.0)


def test_invalid_rounds_are_ignored_if_there_are_valid_ones() -> None:
    def with_pressure(*pairs: tuple[int, float]) -> SystemResult:
        rounds = tuple(Round(speed, 1.0, 1.0, cpu_pressure=pressure) for speed, pressure in pairs)
        return SystemResult("a", is_peer=True, rounds=rounds)

    steady = with_pressure((200, 0.0), (200, 0.1))
    disturbed = with_pressure((50, 0.9), (160, 0.0))
    assert disturbed.speed == Spread(160, 160, 160)
    assert comparison.speedups(steady, disturbed) == Spread(1.25, 1.25, 1.25)
    late = with_pressure((180, 0.0), (10, 0.9))  # no round is valid in both
    assert comparison.speedups(late, disturbed) == Spread(1.125, 1.125, 1.125)
    never = with_pressure((50, 0.9), (100, 0.9))
    assert never.speed == Spread(50, 75, 100)
    assert comparison.speedups(steady, never) == Spread(2.0, 3.0, 4.0)


def test_summary_compares_with_the_fastest_peer_by_median() -> None:
    ours = make_result("regard", 300, 300, 300, is_peer=False)
    lucky, steady = make_result("lucky", 100, 100, 290), make_result("steady", 150, 150, 150)
    absent = SystemResult("absent", is_peer=True, problem="not installed")
    results = [ours, lucky, steady, absent]
    assert comparison.fastest_peer(results) == steady
    assert comparison.summary(results) == (
        "regard is 2.00 times as fast as the fastest peer, steady (2.00 to 2.00 in 3 rounds)."
    )
    head, _, *lines = comparison.table(
        results, "steps", {"mood": lambda result: "calm"}
    ).splitlines()
    assert head.startswith("|  | steps/s | range | speedup of regard | range | peak memory | mood")
    assert [line.split(" | ")[0] for line in lines] == [
        *["| **regard**", "| steady", "| lucky", "| absent"]
    ]
    assert lines[1] == "| steady | 150 | 150, 150 | 2.00 | 2.00, 2.00 | 1.50 GiB | calm | 3 |  |"


def test_summary_without_peers() -> None:
    ours = make_result("regard", 300, is_peer=False)
    assert comparison.summary([ours, SystemResult("b", is_peer=True, problem="no")]) == (
        "There is nothing to compare."
    )


def test_results_are_written_and_read(tmp_path: Path) -> None:
    about = {"machine": {"device": "abacus", "cores": 2}}
    comparisons = {"tiny": [make_result("a", 1, 2), SystemResult("b", is_peer=True, problem="why")]}
    comparison.write_results(tmp_path / "r.json", about, comparisons)
    about_read, comparisons_read = comparison.read_results(tmp_path / "r.json")
    assert comparisons_read == comparisons
    assert about_read.pop("date")
    assert about_read == about


def test_earlier_comparisons_of_the_same_machine_are_kept(tmp_path: Path) -> None:
    path, machine = tmp_path / "r.json", {"device": "abacus", "cores": 2}
    first, second = {"tiny": [make_result("a", 1)]}, {"base": [make_result("a", 2)]}
    comparison.write_results(path, {"machine": machine, "commands": {"tiny": "--tiny"}}, first)
    comparison.write_results(path, {"machine": machine, "commands": {"base": "--base"}}, second)
    about_read, comparisons_read = comparison.read_results(path)
    assert comparisons_read == {**first, **second}
    assert about_read["commands"] == {"tiny": "--tiny", "base": "--base"}
    comparison.write_results(path, {"machine": {"device": "slide rule"}, "commands": {}}, first)
    assert comparison.read_results(path)[1] == first  # results of another machine are dropped


def test_picture_shows_the_systems_with_rounds(tmp_path: Path) -> None:
    comparisons = {
        "tiny": [make_result("fast", 2), SystemResult("gone", is_peer=True, problem="why")]
    }
    comparison.draw(tmp_path / "p.svg", comparisons, x="speed")
    svg = (tmp_path / "p.svg").read_text()
    assert "fast" in svg
    assert "gone" not in svg


@pytest.mark.parametrize("peer", PYTORCH_MODULES)
def test_all_trainers_count_the_same_target_tokens(peer: str) -> None:
    trainer = make_trainer(peer, TOY, "")
    batches = TOY.batches()
    assert len(batches) == TOY.warmup + TOY.updates
    for batch in batches:
        expected = sum(len(target) + 1 for _, target in batch)
        assert target_tokens(batch) == expected <= TOY.batch_tokens
        assert trainer.target_tokens(trainer.load(batch)) == expected


@pytest.mark.parametrize("peer", PYTORCH_MODULES)
def test_all_trainers_reduce_the_loss(peer: str) -> None:
    """Without dropout, on the same batch: down to the entropy of smoothed labels."""
    task = dataclasses.replace(TOY, learning_rate=0.01)
    trainer = make_trainer(peer, task, "")
    batch = trainer.load(task.batches()[0][:2])
    losses = [float(trainer.update(batch)) for _ in range(150)]
    assert 3.0 < losses[0] < 6.0  # log 50 is 3.9
    assert losses[-1] < 1.2  # 0.7 at best


@pytest.mark.parametrize("peer", PYTORCH_MODULES)
def test_round_has_the_amount_that_was_timed(peer: str) -> None:
    rounds = Rounds(TOY, make_trainer(peer, TOY, ""))
    rounds.warm_up()
    result = Round(**rounds.run_round())
    assert result.amount == sum(target_tokens(batch) for batch in TOY.batches()[TOY.warmup :])
    assert result.seconds > 0
    assert result.memory > 0.05
    assert result.metrics["loss"] > 0


def test_gpu_memory_is_freed_after_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a GPU and checks the order of updates and synchronization."""
    events: list[str] = []
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: events.append(name))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**30)
    trainer = make_trainer("ours", TOY, "")
    update = trainer.update

    def record_update(batch: Batch) -> torch.Tensor:
        events.append("update")
        return update(batch)

    monkeypatch.setattr(trainer, "update", record_update)
    rounds = Rounds(TOY, trainer, warm_up_shapes=True)
    rounds._gpu = True
    rounds.warm_up()
    assert events == ["update"] * (TOY.warmup + 2 * TOY.updates) + ["synchronize", "empty_cache"]
    events.clear()
    assert rounds.run_round()["memory"] == 3.0
    timed = ["synchronize", *["update"] * TOY.updates, "synchronize"]
    assert events == ["update", *timed, "synchronize", "empty_cache"]


def worker(tmp_path: Path, peer: str) -> Worker:
    TOY.write(tmp_path / "task.json")
    return Worker(
        peer,
        [sys.executable, "-m", "peers.worker", peer, "", str(tmp_path / "task.json")],
        is_peer=True,
        log=tmp_path / "log",
        environment=environment(1),
        persistent=True,
    )


def test_worker_reports_its_failure(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="No module named"):
        worker(tmp_path, "unknown").round()


def test_persistent_worker_keeps_its_state_between_rounds(tmp_path: Path) -> None:
    persistent = worker(tmp_path, "ours")
    first, second = persistent.round(), persistent.round()
    persistent.close()
    assert first.amount == second.amount
    assert second.metrics["loss"] < first.metrics["loss"]  # trained on the same batches before


def test_task_is_written_and_read(tmp_path: Path) -> None:
    TOY.write(tmp_path / "task.json")
    assert TrainingTask.read(tmp_path / "task.json") == TOY


def test_equal_lengths_fill_every_batch() -> None:
    even = dataclasses.replace(TOY, lengths=(8, 8))
    assert [target_tokens(batch) for batch in even.batches()] == [64] * 3


def test_flops_are_those_of_the_matrix_products() -> None:
    """For a pair of one token each, every weight has 2 FLOPs forward and 4 backward."""
    size = TOY.size
    model = Transformer(ours.model_config(TOY.size), Vocabulary(TOY.vocabulary, TOY.vocabulary))
    weights = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and "embedding" not in name
    )
    vocabulary = TOY.vocabulary * size.d_model
    assert not any("projection" in name for name, _ in model.named_parameters())
    attention = size.num_layers * size.d_model * (2 + 2 + 1)  # encoder, cross, half of causal
    expected = 6 * (weights + vocabulary + attention)
    assert matmul_flops(size, TOY.vocabulary, [([], [])]) == expected


def test_gpu_table_has_the_utilization() -> None:
    about = {"ceiling": 500.0, "flops_per_token": {"base": 1e9}}
    lines = training._table(
        [make_result("regard", 100_000, is_peer=False)], about, "base"
    ).splitlines()
    assert "| TFLOP/s | utilization |" in lines[0]
    assert "| 100 | 20% |" in lines[2]


@pytest.mark.parametrize("name", SIZES)
def test_sizes_match_the_presets(name: str) -> None:
    from regard.training.presets import PRESETS

    size, preset = SIZES[name], PRESETS[name]["model"]
    assert (size.d_model, size.num_heads) == (preset["d_model"], preset["num_heads"])
    assert size.ffn_dim == preset["ffn_dim"]
    assert size.num_layers == preset.get("num_encoder_layers", 6)


def test_bf16_variant_computes_in_bfloat16() -> None:
    dtypes = []
    trainer = make_trainer("plain_torch", TOY, "bf16")
    model = trainer._model  # type: ignore[attr-defined]
    model.transformer.register_forward_hook(lambda m, i, output: dtypes.append(output.dtype))
    first = model.transformer.encoder.layers[0].linear1
    first.register_forward_hook(lambda m, i, output: dtypes.append(output.dtype))
    trainer.update(trainer.load(TOY.batches()[0]))
    assert torch.bfloat16 in dtypes


LOGS = {
    "fairseq": """
... | INFO | train_inner | {"wps": "0", "wpb": "3975", "loss": "13.6"}
... | INFO | train_inner | {"wps": "2000", "wpb": "4000", "loss": "12.9"}
... | INFO | train | {"train_wps": "3951.9", "train_wpb": "3662.5"}
""",
    "opennmt": """
[INFO] Step  2/    6; acc: 0.2; ppl: 7.6; sents: 341; bsz: 3410/4000/341; 2965/2000 tok/s;  4 sec;
[INFO] Saving checkpoint model_step_6.pt
""",
    "marian": """
[date] Ep. 1 : Up. 2 : Sen. 262 : Cost 9.20 * 4,000 @ 4,971 after 10,000 : Time 2.00s : 3.09 words/s
[date] Training finished
""",
    "joeynmt": """
counted 4000 2.0
Epoch   1, Step:        2, Tokens per Sec:     1535, Lr: 0.000300
""",
}


@pytest.mark.parametrize("name", LOGS)
def test_logs_are_parsed(name: str) -> None:
    assert TOOLKITS[name].rows(LOGS[name]) == [(4000.0, 2.0)]


def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> ToolkitRunner:
    """A toolkit with a Python script as its training command, in an existing environment."""
    monkeypatch.setattr("peers.toolkit.PEERS", tmp_path)
    python = tmp_path / "fake" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 1.0\n")  # prints a version
    python.chmod(0o755)
    fake = Toolkit(
        "fake",
        "fake",
        [],
        train=lambda job: [sys.executable, "-c", script],
        rows=joeynmt.rows,
    )
    return ToolkitRunner(fake, TOY, tmp_path / "work", threads=1)


def test_toolkit_counts_its_last_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "for n in (1, 2, 3): print('counted', 100 * n, n / 2)\nimport time; time.sleep(0.5)"
    result = toolkit(tmp_path, monkeypatch, script).round()
    assert (result.amount, result.seconds) == (500, 2.5)  # TOY.updates of them
    assert result.memory > 0
    text = tmp_path / "work" / "text"
    pairs = TOY.pairs()
    assert (text / "words").read_text().split() == [f"w{n}" for n in range(4, TOY.vocabulary)]
    lines = (text / "train.target").read_text().splitlines()
    assert [line.split() for line in lines] == [[f"w{t}" for t in pair[1]] for pair in pairs]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise SystemExit('no such option')", "no such option"),
        ("print('counted 10 1.0')", "has 1 updates; 2 were expected"),
    ],
)
def test_toolkit_reports_its_failure(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnavailableError, match=reason):
        toolkit(tmp_path, monkeypatch, script).round()


def test_missing_toolkits_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peers.toolkit.PEERS", tmp_path)
    runs = [ToolkitRunner(toolkit, TOY, tmp_path, threads=1) for toolkit in TOOLKITS.values()]
    failed = TOOLKITS["sockeye"].home
    failed.mkdir(parents=True)
    (failed / FAILURE_FILE).write_text("pip could not install it\n")
    results = comparison.run_interleaved(runs, 2, lambda result, results: None)
    problems = {result.name: result.problem for result in results}
    assert problems.pop("Sockeye") == "pip could not install it"
    assert set(problems.values()) == {"not installed; run `make bench-peers`"}
    assert len(problems) == len(TOOLKITS) - 1


@pytest.mark.parametrize("name", TOOLKITS)
def test_every_toolkit_gets_the_model_size(name: str, tmp_path: Path) -> None:
    task = dataclasses.replace(TOY, size=Size(num_layers=3, d_model=640, num_heads=5, ffn_dim=1234))
    job = Job(task, tmp_path / "text", tmp_path, Path("bin"), threads=2)
    options = " ".join(map(str, TOOLKITS[name].train(job)))
    options += "".join(path.read_text() for path in tmp_path.glob("*.yaml"))
    for number in ("640", "1234", "0.0003"):
        assert number in options


@pytest.mark.parametrize("device", training.DEFAULT_SIZES)
def test_page_contains_the_stored_results(device: str) -> None:
    path = ROOT / training.RESULTS / f"training-{device}.json"
    page = (ROOT / training.PAGE).read_text(encoding="utf-8")
    assert (
        page.count(f"<!-- training-{device}: ") == page.count(f"<!-- /training-{device} -->") == 1
    )
    if path.is_file():
        about, comparisons = comparison.read_results(path)
        picture = f"training-{device}.svg"
        assert training.page_part(about, comparisons, picture) in page
        assert (ROOT / "docs" / "pictures" / picture).is_file()


def test_peers_on_a_gpu_are_those_in_pytorch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("machine.has_gpu", lambda: True)
    options = training._options(["--device", "cuda"])
    assert (options.peers, options.sizes) == (["torch", "huggingface"], ["base", "big"])
    for size in SIZES.values():
        task = training._synthetic_task(size, tuple(options.lengths), 1)
        assert {target_tokens(batch) for batch in task.batches()} == {25_600}
    with pytest.raises(SystemExit):
        training._options(["--device", "cuda", "--peers", "fairseq"])
    monkeypatch.setattr("machine.has_gpu", lambda: False)
    with pytest.raises(SystemExit):
        training._options(["--device", "cuda"])
    errors = capsys.readouterr().err
    assert "the peers on a GPU are torch and huggingface" in errors
    assert "use --device cpu" in errors


def test_page_has_machine_versions_and_note() -> None:
    about = {
        "date": "2026-11-15",
        "machine": {"device": "abacus", "cores": 2},
        "versions": {"python": "3", "beads": "10"},
        "note": "It was dark.",
        "commands": {"tiny": "count"},
    }
    part = training.page_part(about, {"tiny": [make_result("regard", 1, is_peer=False)]}, "p.svg")
    assert part.startswith("2026-11-15, abacus, 2 cores; python 3, beads 10. It was dark.\n\n")
    for text in ("    count\n", "](../pictures/p.svg)", "#### tiny", "| **regard** | 1 |"):
        assert text in part


def test_command_on_the_page_has_no_local_paths() -> None:
    options = training._options(["--text", "/some/where", "--sizes", "tiny", "--rounds", "2"])
    command = training._command(options)
    assert command == ("python benchmarks/training.py --text multi30k --sizes tiny --rounds 2")


def test_peers_use_the_pinned_torch() -> None:
    assert install_peers.torch_pin(ROOT / "constraints.txt").startswith("torch==2.")


def test_gpts_of_regard_and_huggingface_train() -> None:
    size = language_models.Gpt(num_layers=2, d_model=32, num_heads=2, context=16, vocabulary=100)
    options = argparse.Namespace(device="cpu", rows=2, updates=2, warmup=1, size=size)
    ours, peer, _ = language_models.systems(options)
    results = []
    for system in (ours, peer):
        round_ = system.round()
        assert round_.amount == 2 * 2 * 16
        assert round_.metrics["loss"] == pytest.approx(math.log(100), abs=2)
        results.append(comparison.SystemResult(system.name, system.is_peer, (round_,)))
    assert "| **regard** |" in language_models.report(results, options, peak=1.0)


def test_gpt_base_has_the_size_of_gpt2() -> None:
    config = build(CausalConfig, PRESETS["gpt-base"]["model"])
    vocabulary = Vocabulary(50257, 50257, joint=True)
    assert count_parameters(config, vocabulary) == 124_439_808  # as GPT2LMHeadModel
