"""Standard streams that are closed, full, or no longer read; of every verb that writes to them."""

from __future__ import annotations

import pytest

from cli.forked import Case, Outcome, outcomes
from labelled import write_labelled_store, write_tagged_store
from regard.data.store import Store
from toys import write_model_folder, write_text_store


@pytest.fixture(scope="module")
def verbs(
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
        "verb's help": (["translate", "--help"], ""),
        "version": (["--version"], ""),
        "show settings": (["show", "settings"], ""),
        "show model": (["show", "model", pairs], ""),
        "translate": (["translate", pairs, "--engine", "torch"], lines),
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


def test_standard_streams(verbs: dict[str, tuple[list[str], str]]) -> None:
    """All in one test, since its process takes seconds to start."""
    kinds = {"file": 0, "closed": 2, "full": 2, "broken": 141, "busy": 0}
    cases = {}
    for number, (verb, (words, read)) in enumerate(verbs.items()):
        for kind in kinds if verb in ("help", "translate") else [[*kinds][1 + number % 3]]:
            cases[verb, "output", kind] = Case(words, read, output=kind)
        if read:
            cases[verb, "input", "closed"] = Case(words, None)
    for verb in ("translate", "fill", "evaluate"):
        for kind in ("file", "closed", "full", "broken"):
            cases[verb, "error", kind] = Case(*verbs[verb], error=kind)
    cases["nothing", "error", "full"] = Case(["translate", "nowhere"], error="full")
    found = dict(zip(cases, outcomes([*cases.values()]), strict=True))
    for (verb, stream, kind), outcome in found.items():
        assert "Traceback" not in outcome.err, (verb, stream, kind)
        if stream == "output":
            assert outcome.status == kinds[kind], (verb, kind, outcome)
            _check_output(outcome, kind, found.get((verb, stream, "file"), outcome).out)
        elif stream == "input":
            assert outcome.status == 2, (verb, outcome)
            assert "There is no standard input" in outcome.err
        else:
            usual = found.get((verb, stream, "file"), outcome)
            status = 2 if verb == "nothing" else 0
            assert (outcome.status, outcome.out) == (status, usual.out), (verb, kind, outcome)


def _check_output(outcome: Outcome, kind: str, usual: str) -> None:
    if kind == "broken":
        assert "regard: " not in outcome.err
    if kind == "closed":
        assert "regard: Standard output is closed" in outcome.err
    if kind == "full":
        assert "the disk is full. The output is incomplete" in outcome.err
    if kind == "busy":
        assert outcome.out == usual != ""
