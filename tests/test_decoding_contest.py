"""The contests in decoding: everybody has our weights, and what they write is compared."""

from __future__ import annotations

import ast
import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import contest
import decoding
import decoding_growth
from contest import Entry, Round, Spread, Tree, UnableError
from decoders import ours, words
from decoders.contestants import CommandRun, DecoderRun, LengthJudge, TextJudge, judged_round
from decoders.everybody import ENGINES, LIBRARIES, OURS, RIVALS, TOOLKITS
from decoders.weights import Stack, positions, read, renamed, require, tables
from decoders.worker import measured
from exercise import Exercise
from lesson import SIZES
from made_up import made_up
from passage import Passage
from peers.process import Worker, environment, last_words
from regard.attention.positions import Layout, sinusoids
from regard.config import as_tree
from regard.data.store import Store
from regard.models.folder import weights_of
from regard.models.transformer import Transformer, TransformerConfig
from toys import WORDS, run, sentences, small_model, small_run

ROOT = Path(__file__).parent.parent
DECODERS = ROOT / "benchmarks" / "decoders"
EVERYBODY = [
    *OURS["cpu"],
    *(decoder for some in (LIBRARIES | TOOLKITS).values() for decoder in some),
]


def toy(**changes: Any) -> Exercise:
    """Random sentences for random weights, in float32."""
    config = TransformerConfig(
        encoder_layers=2, decoder_layers=2, width=32, heads=4, feedforward_width=48, **changes
    )
    return Exercise(
        "cpu", 1, sentences(6), config=as_tree(config), vocabulary=WORDS, work=".", forced=12
    )


def test_exercises_are_read_as_they_were_written(tmp_path: Path) -> None:
    exercise = dataclasses.replace(toy(), lines=["ein Größe"], one_by_one=True)
    exercise.write(tmp_path / "exercise.json")
    assert Exercise.read(tmp_path / "exercise.json") == exercise


def test_made_up_sentences_fill_their_batches() -> None:
    exercise = made_up(
        "tiny", 100, "cpu", beam_size=4, batch_size=8, batches=3, forced=5, half=False
    )
    assert [len(ids) + 1 for ids in exercise.sentences] == [32] * 24
    assert {0, 1, 2, 3}.isdisjoint(id for ids in exercise.sentences for id in ids)
    assert exercise.config["width"] == SIZES["tiny"].width
    assert not exercise.one_by_one


@pytest.mark.parametrize("beam_size", [1, 3])
def test_forced_translations_have_their_length(beam_size: int) -> None:
    exercise = dataclasses.replace(toy(), beam_size=beam_size)
    written = ours.decoder(exercise, "torch")(exercise.sentences)
    assert [len(ids) for ids in written] == [11] * 6  # and an end mark
    assert LengthJudge(12).judged(written) == (72, {})


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_huggingface_writes_what_we_write(
    norm_order: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from decoders import huggingface

    shape = {"norm_order": norm_order, "sinusoid_layout": layout}

    def model(exercise: Exercise) -> Transformer:
        made = small_model(exercise.seed, **shape)
        with torch.no_grad():  # it may write marks, which we never do; here it will not want to
            made.source_embedding.table.weight.mul_(0.3)[:4] = 0.0
        return made

    for module in (ours, huggingface):
        monkeypatch.setattr(module, "random_or_stored", model)
    seen = set()
    for seed in range(4):
        exercise = dataclasses.replace(toy(**shape), seed=seed)
        expected = ours.decoder(exercise, "torch")(exercise.sentences)
        found = huggingface.decoder(exercise, "")(exercise.sentences)
        assert [ids[:11] for ids in found] == expected
        seen |= {tuple(ids) for ids in expected}
    assert len(seen) > 4  # random models like to say one thing only
    assert huggingface.decoder(exercise, "static")(exercise.sentences) == found
    beams = dataclasses.replace(exercise, beam_size=3)
    found = huggingface.decoder(beams, "")(exercise.sentences)
    assert LengthJudge(12).judged(found) == (72, {})


def test_what_others_do_not_have_is_told() -> None:
    require(toy().config, norm_order="post")
    with pytest.raises(SystemExit, match="it has no norm_order post, only pre"):
        require(toy().config, norm_order="pre")
    with pytest.raises(SystemExit, match="it has no positions rotary"):
        require(toy(positions="rotary").config)


def test_a_translation_of_another_length_is_not_counted() -> None:
    with pytest.raises(UnableError, match="have 3 tokens"):
        LengthJudge(3).judged([[7, 8, 9], [7]])


def test_random_weights_are_the_same_everywhere() -> None:
    first, second = (weights_of(ours.random_or_stored(toy())) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_others_get_our_positions(layout: Layout) -> None:
    found = positions({"width": 16, "sinusoid_layout": layout}, 50)
    np.testing.assert_allclose(found, sinusoids(50, 16, layout).numpy(), atol=1e-6)


def test_every_weight_has_a_name_with_others() -> None:
    model = small_model(norm_order="pre", tied_embeddings="none")
    weights = weights_of(model)
    names = ["self", "cross"]
    layers = {f"{n}.{part}": f"{n}_{part}" for n in names for part in ("query", "key", "value")}
    layers |= {name: name for name in ("self.combine", "cross.combine", "self.norm", "cross.norm")}
    layers |= {name: name for name in ("expand", "contract", "feedforward.norm")}
    found = renamed(
        weights, encoder=Stack("left", "left_norm", layers), decoder=Stack("right", "norm", layers)
    )
    project = weights["decoder.blocks.1.attention.project.weight"]
    parts = [found[f"right.1.self_{part}.weight"] for part in ("query", "key", "value")]
    assert torch.equal(torch.cat(parts), project)
    memory = weights["decoder.blocks.0.cross.memory.bias"]
    parts = [found[f"right.0.cross_{part}.bias"] for part in ("key", "value")]
    assert torch.equal(torch.cat(parts), memory)
    assert torch.equal(found["left_norm.bias"], weights["encoder.norm.bias"])
    given = sum(array.numel() for array in (*found.values(), *tables(weights)))
    assert given == sum(array.numel() for array in weights.values())


def test_tied_tables_are_one() -> None:
    source, target, output = tables(weights_of(small_model()))
    assert source is target is output


def test_ids_survive_as_words() -> None:
    assert words.ids(f"<s> {words.text([4, 17])} </s>") == [4, 17]
    assert words.vocabulary(6) == ["<pad>", "<unk>", "<s>", "</s>", "w4", "w5"]


class Spelled:
    """A tokenizer whose subwords are letters."""

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def text_judge(expected: list[str], references: list[str]) -> TextJudge:
    tokenizer: Any = Spelled()
    return TextJudge(tokenizer, expected, references)


def test_texts_and_ids_are_compared_with_ours() -> None:
    judge = text_judge(["ab", "c d e f", "g"], ["ab", "C d e f", "x"])
    assert judge.judged(["ab", "no", "g"])[0] == 3
    assert judge.judged(["ab", "no", "g"])[1]["same"] == pytest.approx(2 / 3)
    amount, figures = judge.judged([[97, 98], [ord(letter) for letter in "c d e f"]])
    assert (amount, figures["same"]) == (2, 1.0)  # the first sentences are enough
    assert figures["bleu"] == pytest.approx(100.0)  # without case


def test_a_round_of_single_sentences_tells_its_centiles() -> None:
    answer: Tree = {"seconds": [n / 1000 for n in range(1, 102)], "memory": 1.0, "written": []}
    answer["written"] = [[5]] * 101
    done = judged_round(answer, LengthJudge(1))
    assert (done.amount, done.memory) == (101, 1.0)
    assert done.seconds == pytest.approx(5.151)
    assert done.figures == {"p50": pytest.approx(51.0), "p99": pytest.approx(100.0)}
    answer |= {"seconds": [2.0]}
    assert judged_round(answer, LengthJudge(1)).figures == {}


def test_sentences_are_timed_together_or_one_by_one() -> None:
    calls: list[int] = []

    def translate(given: Any) -> list[Any]:
        calls.append(len(given))
        return list(given)

    exercise = toy()
    told = measured(exercise, translate, exercise.sentences)
    assert (calls, len(told["seconds"])) == ([6], 1)
    assert told["written"] == exercise.sentences
    single = dataclasses.replace(exercise, one_by_one=True)
    assert len(measured(single, translate, exercise.sentences)["seconds"]) == 6
    assert calls == [6, *[1] * 6]


def test_a_decoder_is_a_process(tmp_path: Path) -> None:
    toy().write(tmp_path / "exercise.json")
    run = OURS["cuda"][0].run(
        tmp_path / "exercise.json", LengthJudge(12), 1, kept=False, absence=None
    )
    done = run.round()
    assert (done.amount, run.rival) == (72, False)
    assert done.seconds > 0
    assert done.memory > 0.05


def test_who_is_absent_says_why() -> None:
    worker = Worker("a", ["false"], rival=True, log=Path("none"), environment={}, kept=False)
    with pytest.raises(UnableError, match="not today"):
        DecoderRun(worker, LengthJudge(1), absence="not today").round()


def command(tmp_path: Path, script: str) -> CommandRun:
    (tmp_path / "text").write_text("ab\ncd\n")
    return CommandRun(
        "script",
        [sys.executable, "-c", script],
        rival=True,
        text=tmp_path / "text",
        judge=text_judge(["AB", "CD"], ["AB", "CD"]),
        log=tmp_path / "log",
        environment=environment(1),
    )


def test_a_command_reads_and_writes_text(tmp_path: Path) -> None:
    done = command(tmp_path, "print(open(0).read().upper(), end='')").round()
    assert (done.amount, done.figures["same"]) == (2, 1.0)
    assert done.seconds > 0


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnableError, match="no such model"):
        command(tmp_path, "raise SystemExit('no such model')").round()


def test_last_words_come_without_their_frame(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("╭─ Error ──╮\n│ No such command 'x'. │\n╰──────────╯\n")
    assert last_words(tmp_path / "log") == "No such command 'x'."


@pytest.fixture(scope="module")
def passage(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Passage:
    """A model that has learned a little, and lines that it can read."""
    folder = tmp_path_factory.mktemp("passage")
    run(small_run(folder / "model", reversal_store), reversal_store)
    lines = ["a b c", "d e", "f g h i"]
    return Passage(lines, [line[::-1] for line in lines], folder / "model", folder / "work", "cpu")


@pytest.mark.parametrize("beam_size", [1, 4])
def test_all_texts_of_ours_are_as_expected(passage: Passage, beam_size: int) -> None:
    exercise = passage.exercise(beam_size)
    assert exercise.lines is not None
    written = ours.decoder(exercise, "torch")(exercise.lines)
    amount, figures = passage.judge(exercise).judged(written)
    assert (amount, figures["same"]) == (3, 1.0)


def test_toolkits_can_read_the_weights(passage: Passage) -> None:
    exercise = passage.exercise(1)
    expected = weights_of(ours.random_or_stored(exercise))
    found = read(exercise.weights)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_some_sentences_come_one_by_one(passage: Passage) -> None:
    exercise = passage.exercise(5, one_by_one=2)
    assert (exercise.lines, exercise.beam_size) == (["a b c", "d e"], 5)
    assert exercise.one_by_one
    assert len(exercise.sentences) == 2


def test_everybody_has_a_file() -> None:
    for decoder in EVERYBODY:
        tree = ast.parse((DECODERS / f"{decoder.module}.py").read_text(encoding="utf-8"))
        assigned = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
        assert "READS_TEXT" in [name.id for name in assigned if isinstance(name, ast.Name)]
        assert "decoder" in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_toolkits_ask_for_nothing_of_ours() -> None:
    """Their Python has no regard; nor has a script around CTranslate2 any use for it."""
    shared = ["worker", "words", "weights", "bart_names"]
    theirs = [name for some in TOOLKITS.values() for name in [some[0].module]]
    for path in [*(DECODERS / f"{n}.py" for n in [*shared, *theirs, "ctranslate2"])]:
        assert "regard." not in "".join(_imports(path))
    for name in ("exercise.py", "memory.py", "peers/fairseq_patch.py"):
        assert {"regard", "torch", "numpy"}.isdisjoint(_imports(DECODERS.parent / name, top=True))


def _imports(path: Path, *, top: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in tree.body if top else ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_who_takes_part_where() -> None:
    def names(question: str, device: str) -> list[str]:
        return [d.name for d in decoding.taking_part(question, device, RIVALS[device])]

    everybody = [d for d in EVERYBODY if d.form != "static"]  # who must be asked for
    assert names("loop", "cpu") == [decoder.name for decoder in everybody]
    libraries = [decoder.name for decoder in everybody if decoder.toolkit is None]
    assert names("latency", "cpu") == names("command", "cpu") == libraries
    assert names("made-up", "cpu") == names("made-up", "cuda") == ["regard, torch", "HuggingFace"]
    assert {decoder.form for decoder in OURS["cpu"]} == set(ENGINES)


def entry(name: str, *speeds: int, **figures: float) -> Entry:
    rounds = tuple(Round(speed, 1.0, 1.0, figures) for speed in speeds)
    return Entry(name, "regard" not in name, rounds)


def test_verdicts_compare_like_with_like() -> None:
    entries = [
        entry("regard, torch", 400),
        entry("regard, ctranslate2", 990),
        entry("CTranslate2", 1000),
        entry("fairseq", 200),
        Entry("CTranslate2 int8", rival=True, problem="not installed"),
    ]
    pytorch, ctranslate2 = decoding.verdicts_on(entries)
    best = "Beside the best rival in PyTorch, fairseq, regard, torch is 2.00 times as fast"
    assert pytorch.startswith(best)
    assert ctranslate2.startswith("Beside CTranslate2, regard, ctranslate2 is 0.99 times as fast")


def test_the_page_tells_each_question_and_contest() -> None:
    about = {
        "date": "2026-11-15",
        "machine": {"device": "abacus", "cores": 2},
        "versions": {"python": "3"},
        "note": "",
        "commands": {"tiny": "count"},
    }
    latency = {"p50": 1.25, "p99": 9.75, "same": 0.995, "bleu": 40.0}
    contests = {
        "loop: greedy": [entry("regard, torch", 30, same=1.0, bleu=41.5)],
        "latency: beam 5": [entry("regard, torch", 30, **latency)],
    }
    part = decoding.page_part(about, contests, "cpu")
    assert part.startswith("2026-11-15, abacus, 2 cores; python 3.\n\n    count\n\n")
    for said in (
        "#### All sentences at once\n\n![All sentences at once](pictures/decoding-loop-cpu.svg)",
        "**Greedy.**\n\n|",
        "| **regard, torch** | 30 | 30, 30 |  |  | 1.00 GiB | 100.0% | 41.50 | 1 |  |",
        "| peak memory | p50, ms | p99, ms | same text | BLEU | rounds |",
        "| 1.2 | 9.8 | 99.5% | 40.00 | 1 |",
    ):
        assert said in part
    assert decoding._latency(contests["latency: beam 5"][0]) == Spread(1.25, 1.25, 9.75)


@pytest.mark.parametrize("device", decoding.ASKED)
def test_the_page_shows_what_was_measured(device: str) -> None:
    page = (ROOT / decoding.PAGE).read_text(encoding="utf-8")
    for name in (f"decoding-{device}", f"decoding-growth-{device}"):
        assert page.count(f"<!-- {name}: ") == page.count(f"<!-- /{name} -->") == 1
    path = ROOT / decoding.RESULTS / f"decoding-{device}.json"
    if path.is_file():
        about, contests = contest.kept(path)
        assert decoding.page_part(about, contests, device) in page
        for question in decoding.by_question(contests):
            assert (ROOT / "docs/pictures" / decoding._picture(question, device)).is_file()


def test_on_a_gpu_the_rival_is_huggingface(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("machine.has_gpu", lambda: True)
    options = decoding._options(["--device", "cuda"])
    assert (options.peers, options.questions) == (["huggingface"], ["made-up"])
    assert decoding._command(options) == ("python benchmarks/decoding.py --device cuda --rounds 3")
    options = decoding._options(["--device", "cuda", "--text", "somewhere"])
    assert options.questions == decoding.ASKED["cuda"]
    with pytest.raises(SystemExit):
        decoding._options(["--device", "cuda", "--peers", "fairseq"])
    monkeypatch.setattr("machine.has_gpu", lambda: False)
    with pytest.raises(SystemExit):
        decoding._options(["--device", "cuda"])
    assert "use --device cpu" in capsys.readouterr().err


def test_the_command_on_the_page_says_nothing_of_places() -> None:
    words = ["--text", "/some/where", "--model", "/any/where", "--peers", "eole", "--rounds", "2"]
    command = decoding._command(decoding._options(words))
    assert command == "python benchmarks/decoding.py --text multi30k --peers eole --rounds 2"


def test_without_text_or_model_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="Say with --text"):
        decoding._passage(decoding._options([]))
    for language in ("en", "de"):
        (tmp_path / f"{decoding.TEST}.{language}").write_text("a\n")
    words = ["--text", str(tmp_path), "--model", str(tmp_path)]
    with pytest.raises(SystemExit, match="There is no model"):
        decoding._passage(decoding._options(words))
    assert decoding._passage(decoding._options(["--questions", "made-up"])) is None


def test_a_point_of_growth_is_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(decoding_growth.MODEL, "cpu", ("tiny", 60))
    point = decoding_growth.measured(5, 2, 3, "cpu")
    assert (point["length"], point["beam"], point["batch"]) == (5, 2, 3)
    assert point["milliseconds"] > 0
    assert point["megabytes"] >= 0
