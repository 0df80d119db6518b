"""Every model kind with the command: training, inference, inspection, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import Command, regard
from regard.data.store import Store
from toys import TINY, write_model_folder, write_reversal_store

__all__ = ["regard"]  # a fixture

KINDS = {
    "recurrent": ["model.kind=recurrent", "model.attention.score=additive"],
    "no-attention": ["model.kind=recurrent", "model.cell=gru", "model.cross_attention=none"],
    "convolutional": ["model.kind=convolutional"],
    "one-stack": ["model.kind=unilm", "model.masks.left_to_right=1", "model.masks.bidirectional=1"],
    "at-once": [
        "model.kind=nonautoregressive",
        "model.length_prediction=ctc",
        "training.glancing=0.5",
    ],
}
FEW = ["training.max_steps=12", "training.checkpoint_every=6", "training.tensorboard=false"]


def settings(*assignments: str) -> list[str]:
    return [word for assignment in assignments for word in ("--set", assignment)]


def small(name: str) -> list[str]:
    kind = KINDS[name][0].partition("=")[2]
    sizes = [f"model.{key}={value}" for key, value in TINY[kind].items()]
    return settings(*KINDS[name], *sizes, *FEW)


@pytest.mark.parametrize("name", KINDS)
def test_pipeline_of_every_model_kind(
    tmp_path: Path, reversal_store: Store, regard: Command, name: str
) -> None:
    run, lines = tmp_path / "run", "a b c\nd e\n"
    result = regard("train", "--data", reversal_store.folder, "--out", run, *small(name))
    assert result.status == 0, result.err
    kind = KINDS[name][0].partition("=")[2]
    assert json.loads((run / "config.json").read_text())["model"]["kind"] == kind
    again = regard("train", "--data", reversal_store.folder, "--out", run, *small(name))
    assert "finished" in again.err

    translated = regard("translate", run, stdin=lines)
    assert translated.status == 0, translated.err
    assert len(translated.out.splitlines()) == 2
    (tmp_path / "source").write_text(lines)
    (tmp_path / "target").write_text("c b a\ne d\n")
    scored = regard("score", run, "--source", tmp_path / "source", "--target", tmp_path / "target")
    assert all(float(line.split("\t")[0]) < 0 for line in scored.out.splitlines())

    output = regard("show", "model", run)
    assert f"{kind}, xx to yy" in output.out
    picture = tmp_path / "attention.png"
    drawn = regard("show", "attention", run, "a b c", "--out", picture)
    if name == "no-attention":
        assert drawn.status == 2
        assert "has no cross attention" in " ".join(drawn.err.split())
    else:
        assert drawn.status == 0, drawn.err
        assert picture.stat().st_size > 1000
        inside = regard("show", "attention", run, "a b c", "--part", "encoder")
        if name in ("at-once", "one-stack"):
            assert inside.status == 0
        else:
            assert inside.status == 2
            assert "has no encoder attention" in " ".join(inside.err.split())
    for target in ("ctranslate2", "argos", "onnx"):
        refused = regard("export", run, "--to", target, "--out", tmp_path / target)
        assert refused.status == 2
        assert f"model.kind is {kind}" in " ".join(refused.err.split())


def test_incompatible_model_kinds_are_refused(
    tmp_path: Path, reversal_store: Store, regard: Command
) -> None:
    run = tmp_path / "run"
    begin = ["train", "--data", reversal_store.folder, "--out"]
    assert regard(*begin, run, *small("recurrent")).status == 0
    kind = settings("model.kind=convolutional")
    for arguments, message in (
        (["--preset", "tiny", *kind], "tiny is for model kind 'transformer'"),
        (["--from", run, *kind], f"{run} is for model kind 'recurrent'"),
        (["--from", run, "--preset", "tiny"], f"{run} is for model kind 'recurrent'"),
        (settings("model.kind=recurrent", "model.num_heads=2"), "model.num_heads does not exist"),
        (settings("model.kind=abacus"), "transformer | recurrent | convolutional"),
    ):
        refused = regard(*begin, tmp_path / "other", *arguments)
        assert refused.status == 2
        assert message in " ".join(refused.err.split()), refused.err
    tuned = regard(*begin, tmp_path / "tuned", "--from", run, *settings(*FEW))
    assert tuned.status == 0, tuned.err


def test_settings_of_all_model_kinds_are_listed(regard: Command) -> None:
    assert "recurrent, convolutional" in regard("show", "settings").err
    for kind, path in (("recurrent", "input_feeding"), ("convolutional", "kernel_size")):
        output = regard("show", "settings", "model", "--kind", kind).out
        assert output.startswith(f'model.kind = "{kind}"\n')
        assert f"\nmodel.{path} = " in output
        assert max(map(len, output.splitlines())) <= 80
    refused = regard("show", "settings", "--kind", "oracle")
    assert refused.status == 2
    assert "transformer, recurrent" in refused.err


def test_nonautoregressive_pipeline(tmp_path: Path, regard: Command) -> None:
    store = write_reversal_store(tmp_path, valid=True)
    run, begin = tmp_path / "run", ["train", "--data", store.folder, "--out"]
    sizes = [f"model.{key}={value}" for key, value in TINY["nonautoregressive"].items()]
    arguments = settings("model.kind=nonautoregressive", *sizes, *FEW)
    refused = regard(*begin, run, *arguments)
    assert refused.status == 2
    assert "regard align --data" in refused.err
    assert regard("align", "--data", store.folder).status == 0
    assert regard(*begin, run, *arguments).status == 0
    teacher = write_model_folder(tmp_path / "teacher", store)
    tuned = settings(*FEW, f"training.teacher={teacher}")
    result = regard(*begin, tmp_path / "tuned", "--from", run, *tuned)
    assert result.status == 0, result.err

    lines = "a b c\nd e\n"
    options = ["--candidates", "4", "--teacher", teacher, "--num-hypotheses", "2", "--scores"]
    translated = regard("translate", run, *options, stdin=lines)
    assert len(translated.out.splitlines()) == 4
    assert translated.out == regard("translate", run, *options, stdin=lines).out
    mistakes: list[tuple[Path, list[str | Path], str]] = [
        (
            run,
            ["--candidates", "2", "--teacher", teacher, "--num-hypotheses", "3"],
            "exceeds the number of candidates",
        ),
        (run, ["--teacher", teacher], "--teacher has no effect without candidates"),
        (teacher, ["--candidates", "2"], "no effect in beam search"),
        (teacher, ["--fertility", "average"], "no effect in beam search"),
    ]
    for model, mistake, message in mistakes:
        refused = regard("translate", model, *mistake, stdin=lines)
        assert refused.status == 2
        assert message in refused.err
    (tmp_path / "source").write_text(lines)
    (tmp_path / "target").write_text("c b a\ne d\n")
    files = ["--source", tmp_path / "source", "--reference", tmp_path / "target"]
    for more in ([], ["--fertility", "average"], ["--candidates", "3", "--teacher", teacher]):
        assert "BLEU" in regard("evaluate", run, *files, *more).out
    against = regard(
        "evaluate", run, *files, "--candidates", "3", "--teacher", teacher, "--against", teacher
    )
    assert against.status == 0, against.err
    files = ["--source", tmp_path / "source", "--target", tmp_path / "target"]
    assert "with the model's teacher" in " ".join(regard("score", run, *files).err.split())

    output = regard("show", "fertilities", run, "a b c")
    assert output.status == 0, output.err
    assert [line.split()[0] for line in output.out.splitlines()[1:]] == ["▁a", "▁b", "▁c", "</s>"]
    picture = tmp_path / "copies.png"
    assert regard("show", "fertilities", run, "a b c", "--out", picture).status == 0
    assert picture.stat().st_size > 1000
    assert regard("show", "fertilities", teacher, "a b c").status == 2
