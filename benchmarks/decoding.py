"""Who decodes fastest: regard and its rivals in turn, from the same weights, on the same machine.

    python benchmarks/decoding.py --text multi30k
    python benchmarks/decoding.py --device cuda --text multi30k     # without text, made-up alone
    python benchmarks/decoding.py --write       # tables and pictures, into docs/

The text is Multi30k's test set (`--text` is the folder of test_2016_flickr.en and .de), the model
one that was trained for it (`--model`). Each rival gets our weights in its own form, so that all
search in the same model; the tables tell how many translations are the same as ours. On a GPU there
are also made-up sentences for a model with random weights, translated into 32 tokens each.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import contest
import machine
from contest import Contestant, Entry, Spread, Tree
from decoders.contestants import Judge, LengthJudge
from decoders.everybody import LIBRARIES, ON_GPU, OURS, RIVALS, TOOLKITS, Decoder
from exercise import Exercise
from lesson import SIZES
from made_up import made_up
from pages import fill
from passage import Passage

RESULTS = Path("benchmarks/results")
PAGE = Path("docs/benchmarks.md")
WORK = Path("build/bench/decoding")
TEST = "test_2016_flickr"
# Beam size, and patience: with 1 we stop where CTranslate2, fairseq and others do.
SEARCHES = {"greedy": (1, 0.0), "beam 5": (5, 0.0), "beam 5, patience 1": (5, 1.0)}
ONE_BY_ONE = 200  # sentences
FORCED = 32  # tokens of the translation of a made-up sentence
# Beam size, batch size, and how many batches make a round.
MADE_UP = {
    "greedy, 256 at a time": (1, 256, 4),
    "beam 4, 64 at a time": (4, 64, 4),
    "greedy, one at a time": (1, 1, 32),
}
VOCABULARY = 32768
PAIRS = {
    "regard, ctranslate2": "CTranslate2",
    "regard, ctranslate2 int8": "CTranslate2 int8",
}


def _median(name: str, form: str) -> contest.Column:
    """A column: the median of a figure over the rounds that count."""

    def cell(entry: Entry) -> str:
        return format(statistics.median(done.figures[name] for done in entry.counted), form)

    return cell


_SAME = {"same text": _median("same", ".1%"), "BLEU": _median("bleu", ".2f")}


@dataclass(frozen=True)
class Question:
    """Some contests with one picture."""

    title: str
    unit: str
    columns: Mapping[str, contest.Column]


QUESTIONS = {
    "loop": Question("All sentences at once", "sentences", _SAME),
    "latency": Question(
        "One sentence at a time",
        "sentences",
        {"p50, ms": _median("p50", ".1f"), "p99, ms": _median("p99", ".1f"), **_SAME},
    ),
    "command": Question("The whole command", "sentences", _SAME),
    "made-up": Question(f"Made-up sentences of {FORCED} tokens", "tokens", {}),
}


def _question(contest: str) -> Question:
    """Of a contest such as "loop: greedy"."""
    return QUESTIONS[contest.split(": ")[0]]


ASKED = {"cpu": ["loop", "latency", "command"], "cuda": ["made-up", "loop", "command"]}


def main() -> None:
    """Measure, or write what was measured into the documentation."""
    options = _options()
    if options.write:
        for device in ASKED:
            path = RESULTS / f"decoding-{device}.json"
            if path.is_file():
                write(path, device)
        return
    path = options.results or RESULTS / f"decoding-{options.device}.json"
    about = _about(options)
    found: dict[str, Sequence[Entry]] = {}
    for name, everybody in contests(options):
        question = _question(name)
        about["commands"][name] = _command(options)
        print(f"\n{name}", flush=True)

        def after(entry: Entry, entries: Sequence[Entry], name: str = name) -> None:
            print(contest.news(entry, _question(name).unit), flush=True)
            found[name] = entries
            contest.keep(path, about, found)

        contest.in_turn(everybody, options.rounds, after, tries=options.tries)
        print("\n".join(["", *_told(question, found[name])]), flush=True)


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--questions", nargs="+", choices=list(QUESTIONS), help="some only")
    searches = [*SEARCHES, *MADE_UP]
    parser.add_argument("--searches", nargs="+", choices=searches, help="some only")
    everybody = [*LIBRARIES, *TOOLKITS]
    parser.add_argument("--peers", nargs="+", choices=everybody, help="these rivals only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tries", type=int, default=3, help="of a turn, while others want cores")
    parser.add_argument("--text", type=Path, help="the folder of Multi30k")
    parser.add_argument("--model", type=Path, default=Path("runs/multi30k-en-de"))
    parser.add_argument("--sentences", type=int, help="of the text; all, if not told")
    parser.add_argument("--batch-size", type=int, help="sentences at once, to find the best one")
    parser.add_argument("--size", choices=list(SIZES), default="base", help="if made up")
    parser.add_argument("--threads", type=int, default=2, help="on a CPU")
    parser.add_argument("--note", default="", help="what readers of the page should know")
    parser.add_argument("--results", type=Path, help="where they are kept, as JSON")
    parser.add_argument("--write", action="store_true", help="tables and pictures; run nothing")
    options = parser.parse_args(words)
    options.peers = options.peers or RIVALS[options.device]
    without_text = options.device == "cuda" and options.text is None
    options.questions = options.questions or (
        ["made-up"] if without_text else ASKED[options.device]
    )
    if options.device == "cuda" and not set(options.peers) <= set(ON_GPU):
        parser.error(f"on a GPU, the rivals are {' and '.join(ON_GPU)}")
    if options.device == "cuda" and not options.write and not machine.has_gpu():
        parser.error("there is no GPU that PyTorch can use here; use --device cpu")
    return options


def _about(options: argparse.Namespace) -> Tree:
    toolkits = [TOOLKITS[name][0].toolkit for name in options.peers if name in TOOLKITS]
    known = {toolkit.name: toolkit.version() for toolkit in toolkits if toolkit is not None}
    versions = machine.versions("sentencepiece", "ctranslate2")
    return {
        "commands": {},
        "note": options.note,
        "machine": machine.described(options.device),
        "threads": options.threads,
        "versions": {**versions, **{name: number for name, number in known.items() if number}},
    }


def _command(options: argparse.Namespace) -> str:
    """What to type for the same contests; where things lie is everybody's own business."""
    words = ["python benchmarks/decoding.py"]
    if options.questions != ["made-up"]:
        words.append("--text multi30k")
    if options.device == "cuda":
        words.append("--device cuda")
    usual = [ASKED[options.device], ["made-up"] if options.device == "cuda" else None]
    if options.questions not in usual:
        words += ["--questions", *options.questions]
    if options.searches:
        words += ["--searches", *(f'"{search}"' for search in options.searches)]
    if options.peers != RIVALS[options.device]:
        words += ["--peers", *options.peers]
    if options.sentences is not None:
        words += ["--sentences", str(options.sentences)]
    if options.batch_size is not None:
        words += ["--batch-size", str(options.batch_size)]
    return " ".join([*words, "--rounds", str(options.rounds)])


def contests(options: argparse.Namespace) -> Iterator[tuple[str, list[Contestant]]]:
    """Each contest by its name, and everybody ready to begin."""
    passage = _passage(options)
    absences = {}
    if passage is not None and "ctranslate2" in options.peers:
        absences["ctranslate2"] = passage.export()
    for question in options.questions:
        for search, exercise, judge in _exercises(question, passage, options):
            if options.searches and search not in options.searches:
                continue
            with _ready(question, exercise, judge, absences, options) as taking_part:
                yield f"{question}: {search}", taking_part


def _passage(options: argparse.Namespace) -> Passage | None:
    """The test set with the model; None if only made-up sentences are asked for."""
    if options.questions == ["made-up"]:
        return None
    if options.text is None or not (options.text / f"{TEST}.en").is_file():
        sys.exit(f"Say with --text which folder of Multi30k holds {TEST}.en and {TEST}.de.")
    if not (options.model / "model.safetensors").is_file():
        sys.exit(
            f"There is no model in {options.model}. Train one, `regard train "
            "recipes/multi30k-en-de.toml`, or say with --model where one is."
        )
    source, target = (
        (options.text / f"{TEST}.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("en", "de")
    )
    lines = slice(options.sentences)
    return Passage(source[lines], target[lines], options.model, WORK, options.device)


def _exercises(
    question: str, passage: Passage | None, options: argparse.Namespace
) -> Iterator[tuple[str, Exercise, Judge]]:
    if passage is None or question == "made-up":
        for name, (beam_size, batch_size, batches) in MADE_UP.items():
            exercise = made_up(
                options.size,
                VOCABULARY,
                options.device,
                beam_size=beam_size,
                batch_size=batch_size,
                batches=batches,
                forced=FORCED,
                half=options.device == "cuda",
            )
            yield name, exercise, LengthJudge(FORCED)
        return
    for name, search in SEARCHES.items():
        one_by_one = ONE_BY_ONE if question == "latency" else None
        exercise = passage.exercise(*search, one_by_one=one_by_one)
        exercise = dataclasses.replace(exercise, batch_size=options.batch_size)
        yield name, exercise, passage.judge(exercise)


@contextmanager
def _ready(
    question: str,
    exercise: Exercise,
    judge: Judge,
    absences: Mapping[str, str | None],
    options: argparse.Namespace,
) -> Iterator[list[Contestant]]:
    """Regard and its rivals, before anything is loaded."""
    kept = options.device == "cuda"  # what was compiled or recorded is not done anew
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "exercise.json"
        exercise.write(path)
        text = Path(folder) / "text"
        text.write_text("".join(f"{line}\n" for line in exercise.lines or []), encoding="utf-8")
        found: list[Contestant] = []
        for decoder in taking_part(question, options.device, options.peers):
            absence = absences.get(decoder.module)
            if question == "command":
                found.append(decoder.command(path, text, judge, options.threads, absence=absence))
                continue
            run = decoder.run(path, judge, options.threads, kept=kept, absence=absence)
            stack.callback(run.close)
            found.append(run)
        yield found


def taking_part(question: str, device: str, peers: Sequence[str]) -> list[Decoder]:
    """Toolkits take part in the loop alone, and random weights are not exported."""
    rivals = [decoder for name in peers for decoder in (LIBRARIES | TOOLKITS)[name]]
    if question == "made-up":
        return [d for d in [*OURS["cuda"], *rivals] if d.module in ("ours", "huggingface")]
    return [d for d in [*OURS[device], *rivals] if d.toolkit is None or question == "loop"]


def _told(question: Question, entries: Sequence[Entry]) -> list[str]:
    """The verdicts and the table of a contest."""
    verdicts = " ".join(verdicts_on(entries))
    return [verdicts, "", contest.table(entries, question.unit, question.columns)]


def verdicts_on(entries: Sequence[Entry]) -> Iterator[str]:
    """Our own engine beside the best one in PyTorch, and CTranslate2 in our hands beside itself."""
    able = {entry.name: entry for entry in entries if entry.rounds}
    in_pytorch = [entry for name, entry in able.items() if "ctranslate2" not in name.lower()]
    best = contest.best_rival(in_pytorch)
    if best is not None:
        for ours in (entry for entry in in_pytorch if not entry.rival):
            yield contest.beside(ours, best, f"the best rival in PyTorch, {best.name},")
    for name, theirs in PAIRS.items():
        if name in able and theirs in able:
            yield contest.beside(able[name], able[theirs], f"{theirs},")


def write(path: Path, device: str) -> None:
    """The tables of a device and its pictures, into the documentation."""
    about, contests = contest.kept(path)
    for name, found in by_question(contests).items():
        picture = PAGE.parent / "pictures" / _picture(name, device)
        if name == "latency":
            contest.draw(picture, found, x="milliseconds, half and 99 % of sentences", of=_latency)
        else:
            contest.draw(picture, found, x=f"{QUESTIONS[name].unit} a second")
    fill(PAGE, f"decoding-{device}", page_part(about, contests, device))


def _picture(question: str, device: str) -> str:
    return f"decoding-{question}-{device}.svg"


def _latency(entry: Entry) -> Spread:
    half, nearly_all = (
        statistics.median(done.figures[name] for done in entry.counted) for name in ("p50", "p99")
    )
    return Spread(half, half, nearly_all)


def by_question(
    contests: Mapping[str, Sequence[Entry]],
) -> dict[str, dict[str, Sequence[Entry]]]:
    """Contests under their questions: "loop: greedy" is the contest "greedy" of "loop"."""
    found: dict[str, dict[str, Sequence[Entry]]] = {}
    for name, entries in contests.items():
        question, search = name.split(": ")
        found.setdefault(question, {})[search] = entries
    return found


def page_part(about: Tree, contests: Mapping[str, Sequence[Entry]], device: str) -> str:
    """What the page says of one device."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    parts = [
        f"{about['date']}, {about['machine']['device']}, {about['machine']['cores']} cores; "
        f"{versions}. {about['note']}".strip(),
        "\n".join(f"    {command}" for command in dict.fromkeys(about["commands"].values())),
    ]
    for name, found in by_question(contests).items():
        question = QUESTIONS[name]
        parts += [
            f"#### {question.title}",
            f"![{question.title}](pictures/{_picture(name, device)})",
        ]
        for search, entries in found.items():
            verdicts, _, table = _told(question, entries)
            parts += [f"**{search.capitalize()}.** {verdicts}".strip(), table]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
