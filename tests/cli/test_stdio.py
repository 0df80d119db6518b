"""Commands with standard streams that are closed, full, or no longer read."""

from __future__ import annotations

import pytest

from cli.forked import Case, Outcome, outcomes
from labelled import write_labelled_store, write_tagged_store
from regard.data.store import Store
from toys import write_model_folder, write_text_store


@pytest.fixture(scope="module")
def commands(
    tmp_path_factory: pytest.TempPathFactory, reversal_store: Store
) -> dict[str, tuple[list[str], str]]:
    """The words of a command line that writes to standard output, and what it reads."""
    folders = {}
    for name in ("text", "tagged", "labelled", "pairs"):
        folders[name] = tmp_path_factory.mktemp(name)
    text = write_text_store(folders["text"])

    def model(store: Store, kind: str) -> str:
        return str(write_model_folder(tmp_path_factory.mktemp("model"), store, kind=kind))

    pairs = model(reversal_store, "transformer")
    source, target = folders["pairs"] / "source", folders["pairs"] / "target"
    source.write_text("a b c\nd e\n")
    target.write_text("c b a\ne d\n")
    files = ["--source", str(source), "--target", str(target)]
    lines = "a b c\n" * 3
    return {
        "help": (["--help"], ""),
        "command help": (["translate", "--help"], ""),
        "version": (["--version"], ""),
        "show settings": (["show", "settings"], ""),
        "show model": (["show", "model", pairs], ""),
        "translate": (["translate", pairs, "--backend", "torch"], lines),
        "generate": (["generate", model(text, "causal"), "--max-tokens", "5"], lines),
        "fill": (["fill", model(text, "masked")], "a [MASK] c\n"),
        "embed": (["embed", model(text, "masked")], lines),
        "tag": (["tag", model(write_tagged_store(folders["tagged"]), "tagger")], lines),
        "classify": (
            ["classify", model(write_labelled_store(folders["labelled"]), "classifier")],
            lines,
        ),
        "score": (["score", pairs, *files], ""),
        "evaluate": (
            ["evaluate", pairs, "--source", str(source), "--reference", str(target)],
            "",
        ),
        "align": (["align", pairs, *files], ""),
    }


def test_standard_streams(commands: dict[str, tuple[list[str], str]]) -> None:
    """All in one test, since its process takes seconds to start."""
    kinds = {"file": 0, "closed": 2, "full": 2, "broken": 141, "busy": 0}
    cases = {}
    for number, (name, (arguments, read)) in enumerate(commands.items()):
        for kind in kinds if name in ("help", "translate") else [[*kinds][1 + number % 3]]:
            cases[name, "output", kind] = Case(arguments, read, output=kind)
        if read:
            cases[name, "input", "closed"] = Case(arguments, None)
    for name in ("translate", "fill", "evaluate"):
        for kind in ("file", "closed", "full", "broken"):
            cases[name, "error", kind] = Case(*commands[name], error=kind)
    cases["nothing", "error", "full"] = Case(["translate", "nowhere"], error="full")
    results = dict(zip(cases, outcomes([*cases.values()]), strict=True))
    for (name, stream, kind), outcome in results.items():
        assert "Traceback" not in outcome.err, (name, stream, kind)
        if stream == "output":
            assert outcome.status == kinds[kind], (name, kind, outcome)
            _check_output(outcome, kind, results.get((name, stream, "file"), outcome).out)
        elif stream == "input":
            assert outcome.status == 2, (name, outcome)
            assert "There is no standard input" in outcome.err
        else:
            usual = results.get((name, stream, "file"), outcome)
            status = 2 if name == "nothing" else 0
            assert (outcome.status, outcome.out) == (status, usual.out), (name, kind, outcome)


def _check_output(outcome: Outcome, kind: str, usual: str) -> None:
    if kind == "broken":
        assert "regard: " not in outcome.err
    if kind == "closed":
        assert "regard: Standard output is closed" in outcome.err
    if kind == "full":
        assert "the disk is full. The output is incomplete" in outcome.err
    if kind == "busy":
        assert outcome.out == usual != ""
