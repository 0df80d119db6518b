"""The contests of benchmarks/: what is counted, what is compared, and who is told to be absent."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import torch

import contest
import install_peers
import training
from contest import Entry, Round, Spread, UnableError
from lesson import SIZES, Lesson, Size, product_flops, target_tokens
from peers import joeynmt, ours
from peers.process import Worker, environment
from peers.toolkit import FAILED, Job, Toolkit, ToolkitRun
from peers.worker import Rounds, make_learner
from regard.data.batch import Batch
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer
from training import TOOLKITS

ROOT = Path(__file__).parent.parent
TOY = Lesson(
    Size(layers=1, width=16, heads=2, feedforward=32),
    "cpu",
    vocabulary=50,
    batch_tokens=64,
    warmup=1,
    updates=2,
    lengths=(3, 12),
    dropout=0.0,
)
IN_PYTORCH = ["ours", "plain_torch", "huggingface"]


def entry(name: str, *speeds: float, rival: bool = True) -> Entry:
    return Entry(name, rival, tuple(Round(int(100 * s), 100.0, memory=1.5) for s in speeds))


class Scripted:
    """A contestant that does what it was told to."""

    rival = True

    def __init__(self, name: str, played: list[str], fails_at: int = -1) -> None:
        self.name = name
        self._played, self._fails_at = played, fails_at

    def round(self) -> Round:
        self._played.append(self.name)
        if self._played.count(self.name) == self._fails_at:
            raise UnableError("out of breath")
        return Round(10, 1.0, 0.5)


def test_all_play_in_turn_and_each_round_begins_with_another() -> None:
    played: list[str] = []
    contest.in_turn([Scripted(name, played) for name in "abc"], 3, lambda entry, entries: None)
    assert "".join(played) == "abcbcacab"


def test_who_fails_stays_out_and_is_told() -> None:
    played: list[str] = []
    news: list[str] = []
    entries = contest.in_turn(
        [Scripted("a", played), Scripted("b", played, fails_at=2)],
        4,
        lambda entry, entries: news.append(contest.news(entry, "steps")),
    )
    assert (played.count("a"), played.count("b")) == (4, 2)
    assert entries[1].problem == "out of breath"
    assert entries[1].rounds == ()
    assert news[0].startswith("round 1, a: 10 steps/s")
    assert news.count("b could not be run: out of breath") == 1
    assert len(news) == 6
    lines = contest.table(entries, "steps", {}).splitlines()
    assert lines[-1].startswith("| b | could not be run: out of breath |")
    assert {line.count("|") for line in lines} == {9}


def test_a_turn_in_a_crowd_is_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three turns of ten seconds; somebody waited for 8, 5 and 1 of them."""
    clock = iter([0, 10, 10, 20, 20, 30, 30, 40])
    waits = iter([0, 8, 8, 13, 13, 14, 14, 14])
    monkeypatch.setattr("contest.time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(contest, "waiting", lambda: float(next(waits)))
    played: list[str] = []
    (two,) = contest.in_turn([Scripted("a", played)], 1, lambda *_: None, tries=2)
    assert [done.crowd for done in two.rounds] == [0.5]
    (one,) = contest.in_turn([Scripted("a", played)], 1, lambda *_: None, tries=2)
    assert [done.crowd for done in one.rounds] == [0.1]  # calm enough at once
    assert len(played) == 3


def test_nobody_waits_backwards() -> None:
    first, second = contest.waiting(), contest.waiting()
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert 0 <= first <= second


def test_ratios_are_taken_round_by_round() -> None:
    ours = entry("regard", 200, 400, 900, rival=False)
    slow = entry("slow", 100, 100, 100)
    assert contest.ratios(ours, slow) == Spread(2.0, 4.0, 9.0)
    # A machine that was twice as slow for both in one round changes nothing.
    assert contest.ratios(
        entry("regard", 200, 100, rival=False), entry("other", 100, 50)
    ) == Spread(2.0, 2.0, 2.0)


def test_crowded_rounds_do_not_count_where_there_are_calm_ones() -> None:
    def among(*turns: tuple[int, float]) -> Entry:
        rounds = tuple(Round(speed, 1.0, 1.0, crowd=crowd) for speed, crowd in turns)
        return Entry("somebody", rival=True, rounds=rounds)

    steady = among((200, 0.0), (200, 0.1))
    pushed = among((50, 0.9), (160, 0.0))
    assert pushed.speed == Spread(160, 160, 160)
    assert contest.ratios(steady, pushed) == Spread(1.25, 1.25, 1.25)
    late = among((180, 0.0), (10, 0.9))  # never calm together with `pushed`
    assert contest.ratios(late, pushed) == Spread(1.125, 1.125, 1.125)
    never = among((50, 0.9), (100, 0.9))
    assert never.speed == Spread(50, 75, 100)
    assert contest.ratios(steady, never) == Spread(2.0, 3.0, 4.0)


def test_the_verdict_is_on_the_best_rival_by_median() -> None:
    ours = entry("regard", 300, 300, 300, rival=False)
    lucky, steady = entry("lucky", 100, 100, 290), entry("steady", 150, 150, 150)
    absent = Entry("absent", rival=True, problem="not installed")
    entries = [ours, lucky, steady, absent]
    assert contest.best_rival(entries) == steady
    assert contest.verdict(entries) == (
        "Beside the best rival, steady, regard is 2.00 times as fast (from 2.00 to 2.00, 3 rounds)."
    )
    head, _, *lines = contest.table(entries, "steps", {"mood": lambda entry: "calm"}).splitlines()
    assert head.startswith(
        "|  | steps/s | from, to | regard is faster by | from, to | peak memory | mood"
    )
    assert [line.split(" | ")[0] for line in lines] == [
        *["| **regard**", "| steady", "| lucky", "| absent"]
    ]
    assert lines[1] == "| steady | 150 | 150, 150 | 2.00 | 2.00, 2.00 | 1.50 GiB | calm | 3 |  |"


def test_a_lone_contestant_is_compared_with_nobody() -> None:
    ours = entry("regard", 300, rival=False)
    assert contest.verdict([ours, Entry("b", rival=True, problem="no")]) == (
        "There is nothing to compare."
    )


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    about = {"machine": {"device": "abacus", "cores": 2}}
    contests = {"tiny": [entry("a", 1, 2), Entry("b", rival=True, problem="why")]}
    contest.keep(tmp_path / "r.json", about, contests)
    told, found = contest.kept(tmp_path / "r.json")
    assert found == contests
    assert told.pop("date")
    assert told == about


def test_contests_that_were_held_before_stay(tmp_path: Path) -> None:
    path, machine = tmp_path / "r.json", {"device": "abacus", "cores": 2}
    first, second = {"tiny": [entry("a", 1)]}, {"base": [entry("a", 2)]}
    contest.keep(path, {"machine": machine, "commands": {"tiny": "--tiny"}}, first)
    contest.keep(path, {"machine": machine, "commands": {"base": "--base"}}, second)
    told, found = contest.kept(path)
    assert found == {**first, **second}
    assert told["commands"] == {"tiny": "--tiny", "base": "--base"}
    contest.keep(path, {"machine": {"device": "slide rule"}, "commands": {}}, first)
    assert contest.kept(path)[1] == first  # another machine begins anew


def test_the_picture_shows_everybody_who_ran(tmp_path: Path) -> None:
    contests = {"tiny": [entry("fast", 2), Entry("gone", rival=True, problem="why")]}
    contest.draw(tmp_path / "p.svg", contests, x="speed")
    drawn = (tmp_path / "p.svg").read_text()
    assert "fast" in drawn
    assert "gone" not in drawn


@pytest.mark.parametrize("peer", IN_PYTORCH)
def test_everybody_sees_the_same_target_tokens(peer: str) -> None:
    learner = make_learner(peer, TOY, "")
    batches = TOY.batches()
    assert len(batches) == TOY.warmup + TOY.updates
    for batch in batches:
        expected = sum(len(target) + 1 for _, target in batch)
        assert target_tokens(batch) == expected <= TOY.batch_tokens
        assert learner.target_tokens(learner.load(batch)) == expected


@pytest.mark.parametrize("peer", IN_PYTORCH)
def test_everybody_learns_the_same_way(peer: str) -> None:
    """Without dropout, the same batch again and again: down to what smoothing leaves."""
    lesson = dataclasses.replace(TOY, learning_rate=0.01)
    learner = make_learner(peer, lesson, "")
    batch = learner.load(lesson.batches()[0][:2])
    losses = [float(learner.update(batch)) for _ in range(150)]
    assert 3.0 < losses[0] < 6.0  # log 50 is 3.9
    assert losses[-1] < 1.2  # 0.7 at best


@pytest.mark.parametrize("peer", IN_PYTORCH)
def test_a_round_counts_what_it_timed(peer: str) -> None:
    rounds = Rounds(TOY, make_learner(peer, TOY, ""))
    rounds.warm_up()
    done = Round(**rounds.measured())
    assert done.amount == sum(target_tokens(batch) for batch in TOY.batches()[TOY.warmup :])
    assert done.seconds > 0
    assert done.memory > 0.05
    assert done.figures["loss"] > 0


def test_a_gpu_is_left_to_the_next_contestant(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were a GPU: what a learner does is seen, and when its memory is given back."""
    done: list[str] = []
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: done.append(name))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**30)
    learner = make_learner("ours", TOY, "")
    update = learner.update

    def seen(batch: Batch) -> torch.Tensor:
        done.append("update")
        return update(batch)

    monkeypatch.setattr(learner, "update", seen)
    rounds = Rounds(TOY, learner, meets_shapes=True)
    rounds._gpu = True
    rounds.warm_up()
    assert done == ["update"] * (TOY.warmup + 2 * TOY.updates) + ["synchronize", "empty_cache"]
    done.clear()
    assert rounds.measured()["memory"] == 3.0
    timed = ["synchronize", *["update"] * TOY.updates, "synchronize"]
    assert done == ["update", *timed, "synchronize", "empty_cache"]


def worker(tmp_path: Path, peer: str) -> Worker:
    TOY.write(tmp_path / "lesson.json")
    return Worker(
        peer,
        [sys.executable, "-m", "peers.worker", peer, "", str(tmp_path / "lesson.json")],
        rival=True,
        log=tmp_path / "log",
        environment=environment(1),
        kept=True,
    )


def test_a_worker_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnableError, match="No module named"):
        worker(tmp_path, "nobody").round()


def test_a_worker_is_kept_between_rounds(tmp_path: Path) -> None:
    kept = worker(tmp_path, "ours")
    first, second = kept.round(), kept.round()
    kept.close()
    assert first.amount == second.amount
    assert second.figures["loss"] < first.figures["loss"]  # it has seen the same batches before


def test_lessons_are_read_as_they_were_written(tmp_path: Path) -> None:
    TOY.write(tmp_path / "lesson.json")
    assert Lesson.read(tmp_path / "lesson.json") == TOY


def test_even_lengths_fill_every_batch() -> None:
    even = dataclasses.replace(TOY, lengths=(8, 8))
    assert [target_tokens(batch) for batch in even.batches()] == [64] * 3


def test_flops_are_those_of_the_products() -> None:
    """One pair of one token each: every weight that is multiplied is, twice, and three times."""
    size = TOY.size
    model = Transformer(ours.model_config(TOY.size), Vocabulary(TOY.vocabulary, TOY.vocabulary))
    weights = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and "embedding" not in name
    )
    vocabulary = TOY.vocabulary * size.width
    assert not any("projection" in name for name, _ in model.named_parameters())
    attention = size.layers * size.width * (2 + 2 + 1)  # encoder, cross, half of causal
    expected = 6 * (weights + vocabulary + attention)
    assert product_flops(size, TOY.vocabulary, [([], [])]) == expected


def test_gpu_tables_tell_the_share_of_the_ceiling() -> None:
    about = {"ceiling": 500.0, "flops_per_token": {"base": 1e9}}
    lines = training._table([entry("regard", 100_000, rival=False)], about, "base").splitlines()
    assert "| TFLOP/s | of the ceiling |" in lines[0]
    assert "| 100 | 20% |" in lines[2]


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_presets(name: str) -> None:
    from regard.training.presets import PRESETS

    size, preset = SIZES[name], PRESETS[name]["model"]
    assert (size.width, size.heads) == (preset["width"], preset["heads"])
    assert size.feedforward == preset["feedforward_width"]
    assert size.layers == preset.get("encoder_layers", 6)


def test_half_precision_is_half_precision() -> None:
    seen = []
    learner = make_learner("plain_torch", TOY, "bf16")
    model = learner._model  # type: ignore[attr-defined]
    model.transformer.register_forward_hook(lambda m, i, output: seen.append(output.dtype))
    first = model.transformer.encoder.layers[0].linear1
    first.register_forward_hook(lambda m, i, output: seen.append(output.dtype))
    learner.update(learner.load(TOY.batches()[0]))
    assert torch.bfloat16 in seen


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
def test_logs_are_understood(name: str) -> None:
    assert TOOLKITS[name].rows(LOGS[name]) == [(4000.0, 2.0)]


def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> ToolkitRun:
    """A toolkit whose training is a line of Python, in an environment that is there."""
    monkeypatch.setattr("peers.toolkit.PEERS", tmp_path)
    python = tmp_path / "made-up" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 1.0\n")  # is asked for the version, and for nothing else
    python.chmod(0o755)
    made = Toolkit(
        "made up",
        "made-up",
        [],
        train=lambda job: [sys.executable, "-c", script],
        rows=joeynmt.rows,
    )
    return ToolkitRun(made, TOY, tmp_path / "work", threads=1)


def test_a_toolkit_counts_its_last_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "for n in (1, 2, 3): print('counted', 100 * n, n / 2)\nimport time; time.sleep(0.5)"
    done = toolkit(tmp_path, monkeypatch, script).round()
    assert (done.amount, done.seconds) == (500, 2.5)  # TOY.updates of them
    assert done.memory > 0
    text = tmp_path / "work" / "text"
    pairs = TOY.pairs()
    assert (text / "words").read_text().split() == [f"w{n}" for n in range(4, TOY.vocabulary)]
    lines = (text / "train.target").read_text().splitlines()
    assert [line.split() for line in lines] == [[f"w{t}" for t in pair[1]] for pair in pairs]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise SystemExit('no such option')", "no such option"),
        ("print('counted 10 1.0')", "tells of 1 updates, not 2"),
    ],
)
def test_a_toolkit_that_fails_says_why(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnableError, match=reason):
        toolkit(tmp_path, monkeypatch, script).round()


def test_toolkits_that_are_absent_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peers.toolkit.PEERS", tmp_path)
    runs = [ToolkitRun(toolkit, TOY, tmp_path, threads=1) for toolkit in TOOLKITS.values()]
    failed = TOOLKITS["sockeye"].home
    failed.mkdir(parents=True)
    (failed / FAILED).write_text("pip could not install it\n")
    entries = contest.in_turn(runs, 2, lambda entry, entries: None)
    problems = {entry.name: entry.problem for entry in entries}
    assert problems.pop("Sockeye") == "pip could not install it"
    assert set(problems.values()) == {"not installed; `make bench-peers` does that"}
    assert len(problems) == len(TOOLKITS) - 1


@pytest.mark.parametrize("name", TOOLKITS)
def test_every_toolkit_is_told_the_size(name: str, tmp_path: Path) -> None:
    lesson = dataclasses.replace(TOY, size=Size(layers=3, width=640, heads=5, feedforward=1234))
    job = Job(lesson, tmp_path / "text", tmp_path, Path("bin"), threads=2)
    written = " ".join(map(str, TOOLKITS[name].train(job)))
    written += "".join(path.read_text() for path in tmp_path.glob("*.yaml"))
    for number in ("640", "1234", "0.0003"):
        assert number in written


@pytest.mark.parametrize("device", training.SHOWN)
def test_the_page_shows_what_was_measured(device: str) -> None:
    path = ROOT / training.RESULTS / f"training-{device}.json"
    page = (ROOT / training.PAGE).read_text(encoding="utf-8")
    assert (
        page.count(f"<!-- training-{device}: ") == page.count(f"<!-- /training-{device} -->") == 1
    )
    if path.is_file():
        about, contests = contest.kept(path)
        picture = f"training-{device}.svg"
        assert training.page_part(about, contests, picture) in page
        assert (ROOT / "docs" / "pictures" / picture).is_file()


def test_on_a_gpu_the_rivals_are_those_in_pytorch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("machine.has_gpu", lambda: True)
    options = training._options(["--device", "cuda"])
    assert (options.peers, options.sizes) == (["torch", "huggingface"], ["base", "big"])
    for size in SIZES.values():
        lesson = training._made_up(size, tuple(options.lengths), 1)
        assert {target_tokens(batch) for batch in lesson.batches()} == {25_600}
    with pytest.raises(SystemExit):
        training._options(["--device", "cuda", "--peers", "fairseq"])
    monkeypatch.setattr("machine.has_gpu", lambda: False)
    with pytest.raises(SystemExit):
        training._options(["--device", "cuda"])
    told = capsys.readouterr().err
    assert "the rivals are torch and huggingface" in told
    assert "use --device cpu" in told


def test_the_page_tells_machine_versions_and_note() -> None:
    about = {
        "date": "2026-11-15",
        "machine": {"device": "abacus", "cores": 2},
        "versions": {"python": "3", "beads": "10"},
        "note": "It was dark.",
        "commands": {"tiny": "count"},
    }
    part = training.page_part(about, {"tiny": [entry("regard", 1, rival=False)]}, "p.svg")
    assert part.startswith("2026-11-15, abacus, 2 cores; python 3, beads 10. It was dark.\n\n")
    for said in ("    count\n", "](pictures/p.svg)", "#### tiny", "| **regard** | 1 |"):
        assert said in part


def test_the_command_on_the_page_says_nothing_of_places() -> None:
    options = training._options(["--text", "/some/where", "--sizes", "tiny", "--rounds", "2"])
    command = training._command(options)
    assert command == ("python benchmarks/training.py --text multi30k --sizes tiny --rounds 2")


def test_the_torch_of_the_rivals_is_ours() -> None:
    assert install_peers.torch_pin(ROOT / "constraints.txt").startswith("torch==2.")
