"""Decoding benchmark: tasks, conversion of weights, runners and tables."""

from __future__ import annotations

import ast
import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bulk
import comparison
import decoding
import decoding_growth
from comparison import Round, Spread, SystemResult, Tree, UnavailableError
from decoders import bulk as bulk_decoders
from decoders import ours, token_words
from decoders.registry import BACKEND_OPTIONS, DEFAULT_PEERS, LIBRARIES, OURS, TOOLKITS
from decoders.runners import (
    CommandRunner,
    DecoderRunner,
    LengthEvaluator,
    TextEvaluator,
    evaluate_round,
)
from decoders.weights import (
    Stack,
    embedding_tables,
    position_table,
    read_weights,
    rename_weights,
    require_supported,
)
from decoders.worker import make_decoder, run_round
from decoding_corpus import DecodingCorpus
from decoding_task import DecodingTask
from peers.process import Worker, environment, last_line
from regard.attention.positions import Layout, sinusoids
from regard.data.store import Store
from regard.models.folder import named_weights
from regard.models.transformer import Transformer, TransformerConfig
from regard.settings_tree import to_tree
from synthetic import synthetic_task
from toys import VOCABULARY_SIZE, run, sentences, small_run, small_transformer
from training_task import SIZES

ROOT = Path(__file__).parent.parent
DECODERS = ROOT / "benchmarks" / "decoders"
ALL_DECODERS = [
    *OURS["cpu"],
    *(decoder for some in (LIBRARIES | TOOLKITS).values() for decoder in some),
]


def toy(**changes: Any) -> DecodingTask:
    """Random sentences for random weights, in float32."""
    config = TransformerConfig(
        num_encoder_layers=2, num_decoder_layers=2, d_model=32, num_heads=4, ffn_dim=48, **changes
    )
    return DecodingTask(
        "cpu",
        1,
        sentences(6),
        config=to_tree(config),
        vocabulary=VOCABULARY_SIZE,
        work=".",
        forced_length=12,
    )


def test_task_is_written_and_read(tmp_path: Path) -> None:
    task = dataclasses.replace(toy(), lines=["ein Größe"], one_by_one=True)
    task.write(tmp_path / "task.json")
    assert DecodingTask.read(tmp_path / "task.json") == task


def test_synthetic_sentences_fill_their_batches() -> None:
    task = synthetic_task(
        "tiny",
        100,
        "cpu",
        beam_size=4,
        batch_size=8,
        batches=3,
        forced_length=5,
        use_bfloat16=False,
    )
    assert [len(ids) + 1 for ids in task.sentences] == [32] * 24
    assert {0, 1, 2, 3}.isdisjoint(id for ids in task.sentences for id in ids)
    assert task.config["d_model"] == SIZES["tiny"].d_model
    assert not task.one_by_one


@pytest.mark.parametrize("beam_size", [1, 3])
def test_forced_translations_have_the_forced_length(beam_size: int) -> None:
    task = dataclasses.replace(toy(), beam_size=beam_size)
    written = ours.decoder(task, "torch")(task.sentences)
    assert [len(ids) for ids in written] == [11] * 6  # and EOS
    assert LengthEvaluator(12).evaluate(written) == (72, {})


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_huggingface_decodes_like_regard(
    norm_order: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from decoders import huggingface

    shape = {"norm_order": norm_order, "sinusoid_layout": layout}

    def model(task: DecodingTask) -> Transformer:
        made = small_transformer(task.seed, **shape)
        with torch.no_grad():  # HuggingFace may generate special tokens; this makes them unlikely
            made.source_embedding.table.weight.mul_(0.3)[:4] = 0.0
        return made

    for module in (ours, huggingface):
        monkeypatch.setattr(module, "load_or_initialize", model)
    seen = set()
    for seed in range(4):
        task = dataclasses.replace(toy(**shape), seed=seed)
        expected = ours.decoder(task, "torch")(task.sentences)
        actual = huggingface.decoder(task, "")(task.sentences)
        assert [ids[:11] for ids in actual] == expected
        seen |= {tuple(ids) for ids in expected}
    assert len(seen) > 4  # random models tend to repeat one output
    assert huggingface.decoder(task, "static")(task.sentences) == actual
    beams = dataclasses.replace(task, beam_size=3)
    actual = huggingface.decoder(beams, "")(task.sentences)
    assert LengthEvaluator(12).evaluate(actual) == (72, {})


def test_unsupported_settings_are_reported() -> None:
    require_supported(toy().config, norm_order="post")
    with pytest.raises(SystemExit, match="norm_order=post is not supported, only norm_order=pre"):
        require_supported(toy().config, norm_order="pre")
    with pytest.raises(SystemExit, match="positional_encoding=rotary is not supported"):
        require_supported(toy(positional_encoding="rotary").config)


def test_translation_of_another_length_is_rejected() -> None:
    with pytest.raises(UnavailableError, match="have 3 tokens"):
        LengthEvaluator(3).evaluate([[7, 8, 9], [7]])


def test_random_weights_are_reproducible() -> None:
    first, second = (named_weights(ours.load_or_initialize(toy())) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_position_table_matches_the_model(layout: Layout) -> None:
    actual = position_table({"d_model": 16, "sinusoid_layout": layout}, 50)
    np.testing.assert_allclose(actual, sinusoids(50, 16, layout).numpy(), atol=1e-6)


def test_all_weights_are_renamed() -> None:
    model = small_transformer(norm_order="pre", tied_embeddings="none")
    weights = named_weights(model)
    names = ["self", "cross"]
    layers = {f"{n}.{part}": f"{n}_{part}" for n in names for part in ("query", "key", "value")}
    layers |= {name: name for name in ("self.combine", "cross.combine", "self.norm", "cross.norm")}
    layers |= {name: name for name in ("expand", "contract", "feedforward.norm")}
    renamed = rename_weights(
        weights, encoder=Stack("left", "left_norm", layers), decoder=Stack("right", "norm", layers)
    )
    project = weights["decoder.blocks.1.attention.project.weight"]
    parts = [renamed[f"right.1.self_{part}.weight"] for part in ("query", "key", "value")]
    assert torch.equal(torch.cat(parts), project)
    memory = weights["decoder.blocks.0.cross.memory.bias"]
    parts = [renamed[f"right.0.cross_{part}.bias"] for part in ("key", "value")]
    assert torch.equal(torch.cat(parts), memory)
    assert torch.equal(renamed["left_norm.bias"], weights["encoder.norm.bias"])
    count = sum(array.numel() for array in (*renamed.values(), *embedding_tables(weights)))
    assert count == sum(array.numel() for array in weights.values())


def test_tied_embedding_tables_are_identical() -> None:
    source, target, output = embedding_tables(named_weights(small_transformer()))
    assert source is target is output


def test_ids_are_converted_to_words_and_back() -> None:
    assert token_words.to_ids(f"<s> {token_words.to_text([4, 17])} </s>") == [4, 17]
    assert token_words.vocabulary(6) == ["<pad>", "<unk>", "<s>", "</s>", "w4", "w5"]


class CharTokenizer:
    """A tokenizer of characters."""

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def text_evaluator(expected: list[str], references: list[str]) -> TextEvaluator:
    tokenizer: Any = CharTokenizer()
    return TextEvaluator(tokenizer, expected, references)


def test_texts_and_ids_are_compared_with_the_expected_text() -> None:
    evaluator = text_evaluator(["ab", "c d e f", "g"], ["ab", "C d e f", "x"])
    assert evaluator.evaluate(["ab", "no", "g"])[0] == 3
    assert evaluator.evaluate(["ab", "no", "g"])[1]["same"] == pytest.approx(2 / 3)
    amount, metrics = evaluator.evaluate([[97, 98], [ord(letter) for letter in "c d e f"]])
    assert (amount, metrics["same"]) == (2, 1.0)  # only the first sentences
    assert metrics["bleu"] == pytest.approx(100.0)  # without case


def test_round_of_single_sentences_has_percentiles() -> None:
    response: Tree = {
        "seconds": [n / 1000 for n in range(1, 102)],
        "memory": 1.0,
        "translations": [],
    }
    response["translations"] = [[5]] * 101
    result = evaluate_round(response, LengthEvaluator(1))
    assert (result.amount, result.memory) == (101, 1.0)
    assert result.seconds == pytest.approx(5.151)
    assert result.metrics == {"p50": pytest.approx(51.0), "p99": pytest.approx(100.0)}
    response |= {"seconds": [2.0]}
    assert evaluate_round(response, LengthEvaluator(1)).metrics == {}


def test_sentences_are_timed_in_batches_or_one_by_one() -> None:
    calls: list[int] = []

    def translate(sentences: Any) -> list[Any]:
        calls.append(len(sentences))
        return list(sentences)

    task = toy()
    result = run_round(task, translate, task.sentences)
    assert (calls, len(result["seconds"])) == ([6], 1)
    assert result["translations"] == task.sentences
    single = dataclasses.replace(task, one_by_one=True)
    assert len(run_round(single, translate, task.sentences)["seconds"]) == 6
    assert calls == [6, *[1] * 6]


def test_decoder_runs_in_a_worker_process(tmp_path: Path) -> None:
    toy().write(tmp_path / "task.json")
    run = OURS["cuda"][0].run(
        tmp_path / "task.json", LengthEvaluator(12), 1, persistent=False, problem=None
    )
    result = run.round()
    assert (result.amount, run.is_peer) == (72, False)
    assert result.seconds > 0
    assert result.memory > 0.05


def test_missing_decoder_is_reported() -> None:
    worker = Worker(
        "a", ["false"], is_peer=True, log=Path("none"), environment={}, persistent=False
    )
    with pytest.raises(UnavailableError, match="not today"):
        DecoderRunner(worker, LengthEvaluator(1), problem="not today").round()


def command(tmp_path: Path, script: str) -> CommandRunner:
    (tmp_path / "text").write_text("ab\ncd\n")
    return CommandRunner(
        "script",
        [sys.executable, "-c", script],
        is_peer=True,
        text=tmp_path / "text",
        evaluator=text_evaluator(["AB", "CD"], ["AB", "CD"]),
        log=tmp_path / "log",
        environment=environment(1),
    )


def test_command_translates_text(tmp_path: Path) -> None:
    result = command(tmp_path, "print(open(0).read().upper(), end='')").round()
    assert (result.amount, result.metrics["same"]) == (2, 1.0)
    assert result.seconds > 0


def test_command_reports_its_failure(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no such model"):
        command(tmp_path, "raise SystemExit('no such model')").round()


def test_last_line_has_no_frame(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("╭─ Error ──╮\n│ No such command 'x'. │\n╰──────────╯\n")
    assert last_line(tmp_path / "log") == "No such command 'x'."


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> DecodingCorpus:
    """A briefly trained model, and sentences of its vocabulary."""
    folder = tmp_path_factory.mktemp("corpus")
    run(small_run(folder / "model", reversal_store), reversal_store)
    lines = ["a b c", "d e", "f g h i"]
    return DecodingCorpus(
        lines, [line[::-1] for line in lines], folder / "model", folder / "work", "cpu"
    )


@pytest.mark.parametrize("beam_size", [1, 4])
def test_regard_matches_the_expected_text(corpus: DecodingCorpus, beam_size: int) -> None:
    task = corpus.task(beam_size)
    assert task.lines is not None
    written = ours.decoder(task, "torch")(task.lines)
    amount, metrics = corpus.evaluator(task).evaluate(written)
    assert (amount, metrics["same"]) == (3, 1.0)


@pytest.mark.parametrize(("name", "variant"), [("ctranslate2", "float32"), ("ours", "torch")])
def test_streams_of_decoders_match_batches(
    corpus: DecodingCorpus, name: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert corpus.export() is None
    task = corpus.task(4, 1.0, batch_size=3)
    translate, lines = make_decoder(name, variant, task)
    translate_all = bulk_decoders.load(name, variant, task)
    assert [*translate_all(iter(corpus.source))] == translate(lines)


def test_varied_lines_are_repeated_with_one_other_word(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b c\n\nd e\n")
    lines = [*bulk.varied_lines([tmp_path / "text"], 9)]
    assert lines[:3] == ["a b c", "", "d e"]
    for number, line in enumerate(lines):
        original = lines[number % 3].split()
        assert len(line.split()) == len(original)
        assert sum(a != b for a, b in zip(line.split(), original, strict=True)) <= 1
    assert len({*lines}) > 3


def test_exported_weights_match_the_model(corpus: DecodingCorpus) -> None:
    task = corpus.task(1)
    expected = named_weights(ours.load_or_initialize(task))
    actual = read_weights(task.weights)
    assert actual.keys() == expected.keys()
    assert all(torch.equal(actual[name], expected[name]) for name in actual)


def test_task_with_single_sentences(corpus: DecodingCorpus) -> None:
    task = corpus.task(5, one_by_one=2)
    assert (task.lines, task.beam_size) == (["a b c", "d e"], 5)
    assert task.one_by_one
    assert len(task.sentences) == 2


def test_every_decoder_has_a_module() -> None:
    for decoder in ALL_DECODERS:
        tree = ast.parse((DECODERS / f"{decoder.module}.py").read_text(encoding="utf-8"))
        assigned = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
        assert "READS_TEXT" in [name.id for name in assigned if isinstance(name, ast.Name)]
        assert "decoder" in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_toolkit_modules_do_not_import_regard() -> None:
    """Regard is not installed in their environments; the CTranslate2 script does not need it."""
    shared = ["worker", "token_words", "weights", "bart_names"]
    theirs = [name for some in TOOLKITS.values() for name in [some[0].module]]
    for path in [*(DECODERS / f"{n}.py" for n in [*shared, *theirs, "ctranslate2"])]:
        assert "regard." not in "".join(_imports(path))
    for name in ("decoding_task.py", "memory.py", "peers/fairseq_patch.py"):
        assert {"regard", "torch", "numpy"}.isdisjoint(_imports(DECODERS.parent / name, top=True))


def _imports(path: Path, *, top: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = set()
    for node in tree.body if top else ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules


def test_decoders_of_each_scenario() -> None:
    def names(scenario: str, device: str) -> list[str]:
        return [d.name for d in decoding.select_decoders(scenario, device, DEFAULT_PEERS[device])]

    defaults = [d for d in ALL_DECODERS if d.variant != "static"]  # not a default
    assert names("batch", "cpu") == [decoder.name for decoder in defaults]
    libraries = [decoder.name for decoder in defaults if decoder.toolkit is None]
    assert names("latency", "cpu") == names("command", "cpu") == libraries
    assert (
        names("synthetic", "cpu") == names("synthetic", "cuda") == ["regard, torch", "HuggingFace"]
    )
    assert {decoder.variant for decoder in OURS["cpu"]} == set(BACKEND_OPTIONS)


def make_result(name: str, *speeds: int, **metrics: float) -> SystemResult:
    rounds = tuple(Round(speed, 1.0, 1.0, metrics) for speed in speeds)
    return SystemResult(name, "regard" not in name, rounds)


def test_summary_compares_backends_with_their_peers() -> None:
    results = [
        make_result("regard, torch", 400),
        make_result("regard, ctranslate2", 990),
        make_result("CTranslate2", 1000),
        make_result("fairseq", 200),
        SystemResult("CTranslate2 int8", is_peer=True, problem="not installed"),
    ]
    pytorch, ctranslate2 = decoding.summary_sentences(results)
    fastest = "regard (torch) is 2.00 times as fast as the fastest PyTorch peer, fairseq ("
    assert pytorch.startswith(fastest)
    expected = "regard (ctranslate2) is 0.99 times as fast as CTranslate2 ("
    assert ctranslate2.startswith(expected)


def test_page_has_each_scenario_and_search() -> None:
    about = {
        "date": "2026-11-15",
        "machine": {"device": "abacus", "cores": 2},
        "versions": {"python": "3"},
        "note": "",
        "commands": {"tiny": "count"},
    }
    latency = {"p50": 1.25, "p99": 9.75, "same": 0.995, "bleu": 40.0}
    comparisons = {
        "batch: greedy": [make_result("regard, torch", 30, same=1.0, bleu=41.5)],
        "latency: beam 5": [make_result("regard, torch", 30, **latency)],
    }
    part = decoding.page_part(about, comparisons, "cpu")
    assert part.startswith("2026-11-15, abacus, 2 cores; python 3.\n\n    count\n\n")
    for text in (
        "#### Batches of sentences\n\n![Batches of sentences](../pictures/decoding-batch-cpu.svg)",
        "**Greedy.**\n\n|",
        "| **regard, torch** | 30 | 30, 30 |  |  | 1.00 GiB | 100.0% | 41.50 | 1 |  |",
        "| peak memory | p50, ms | p99, ms | identical | BLEU | rounds |",
        "| 1.2 | 9.8 | 99.5% | 40.00 | 1 |",
    ):
        assert text in part
    assert decoding._latency(comparisons["latency: beam 5"][0]) == Spread(1.25, 1.25, 9.75)


@pytest.mark.parametrize("device", decoding.DEFAULT_SCENARIOS)
def test_page_contains_the_stored_results(device: str) -> None:
    page = (ROOT / decoding.PAGE).read_text(encoding="utf-8")
    for name in (f"decoding-{device}", f"decoding-growth-{device}"):
        assert page.count(f"<!-- {name}: ") == page.count(f"<!-- /{name} -->") == 1
    path = ROOT / decoding.RESULTS / f"decoding-{device}.json"
    if path.is_file():
        about, comparisons = comparison.read_results(path)
        assert decoding.page_part(about, comparisons, device) in page
        for scenario in decoding.group_by_scenario(comparisons):
            assert (ROOT / "docs/pictures" / decoding._picture(scenario, device)).is_file()


def test_peer_on_a_gpu_is_huggingface(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("machine.has_gpu", lambda: True)
    options = decoding._options(["--device", "cuda"])
    assert (options.peers, options.scenarios) == (["huggingface"], ["synthetic"])
    assert decoding._command(options) == ("python benchmarks/decoding.py --device cuda --rounds 3")
    options = decoding._options(["--device", "cuda", "--text", "somewhere"])
    assert options.scenarios == decoding.DEFAULT_SCENARIOS["cuda"]
    with pytest.raises(SystemExit):
        decoding._options(["--device", "cuda", "--peers", "fairseq"])
    monkeypatch.setattr("machine.has_gpu", lambda: False)
    with pytest.raises(SystemExit):
        decoding._options(["--device", "cuda"])
    assert "use --device cpu" in capsys.readouterr().err


def test_command_on_the_page_has_no_local_paths() -> None:
    arguments = [
        "--text",
        "/some/where",
        "--model",
        "/any/where",
        "--peers",
        "eole",
        "--rounds",
        "2",
    ]
    command = decoding._command(decoding._options(arguments))
    assert command == "python benchmarks/decoding.py --text multi30k --peers eole --rounds 2"


def test_missing_text_or_model_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="with --text"):
        decoding._corpus(decoding._options([]))
    for language in ("en", "de"):
        (tmp_path / f"{decoding.TEST}.{language}").write_text("a\n")
    arguments = ["--text", str(tmp_path), "--model", str(tmp_path)]
    with pytest.raises(SystemExit, match="There is no model"):
        decoding._corpus(decoding._options(arguments))
    assert decoding._corpus(decoding._options(["--scenarios", "synthetic"])) is None


def test_point_has_the_requested_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(decoding_growth.MODEL, "cpu", ("tiny", 60))
    point = decoding_growth.measure(5, 2, 3, "cpu")
    assert (point["length"], point["beam"], point["batch"]) == (5, 2, 3)
    assert point["milliseconds"] > 0
    assert point["megabytes"] >= 0
