"""Precision and recall of the corpus filters on real text with added noise, and their effect.

    python benchmarks/corpus_filters.py --source train.en --target train.de --languages en de
    python benchmarks/corpus_filters.py --source train.en --target train.de --languages en de \
        --forward-model runs/ende --reverse-model runs/deen --keep 0.9 0.8
    python benchmarks/corpus_filters.py --source train.en --target train.de --languages en de \
        --valid val.en val.de --test test.en test.de --steps 6000 --device cuda

A share of the pairs is replaced by noise of each kind. The table has a line for each filter: the
share of each kind (recall) and of the real pairs (false alarms) that it filters out, and the share
of noise in all that it filters out (precision). Score filters keep the share `--keep` of the pairs
that pass rules and languages. With `--test`, a small model is trained on the real, the noisy and
the filtered text, and translates a test set.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import regard
from regard.data.alignment_scores import alignment_scores
from regard.data.corpus_filter import CorpusFilter
from regard.data.demo.english_french import english_french_pair
from regard.data.filters import CorpusFilterConfig
from regard.data.line_reader import read_parallel
from regard.data.pair_files import Files
from regard.data.score_filter import Scores, threshold
from regard.evaluation.metrics import bleu
from regard.pipelines.dual_cross_entropy import DualScorer
from regard.pipelines.translator import Translator

REAL = "real"
Pair = tuple[str, str]
Mask = NDArray[np.bool_]  # which pairs are filtered out
NO_RULES = CorpusFilterConfig(
    max_characters=10**9, max_ratio=0, skip_copied=False, skip_duplicates=False
)


def _first_half(text: str) -> str:
    """The first half of the words, or of the characters of a text without spaces."""
    parts, joint = (text.split(), " ") if " " in text else ([*text], "")
    return joint.join(parts[: max(1, len(parts) // 2)])


def _french(draw: random.Random) -> str:
    return english_french_pair(draw)[1]


# From a pair, another pair of the corpus and a random generator to a pair of this kind.
NOISE: dict[str, Callable[[Pair, Pair, random.Random], Pair]] = {
    "misaligned": lambda pair, other, draw: (pair[0], other[1]),
    "half a target": lambda pair, other, draw: (pair[0], _first_half(pair[1])),
    "half a source": lambda pair, other, draw: (_first_half(pair[0]), pair[1]),
    "copied": lambda pair, other, draw: (pair[0], pair[0]),
    "untranslated": lambda pair, other, draw: (pair[0], other[0]),
    "swapped": lambda pair, other, draw: (pair[1], pair[0]),
    "third language": lambda pair, other, draw: (pair[0], _french(draw)),
}


@dataclass(frozen=True)
class NoisyCorpus:
    """A corpus with noise."""

    pairs: list[Pair]
    kinds: NDArray[np.str_]  # of each pair
    real: list[Pair]  # pairs without noise

    @staticmethod
    def of(pairs: Sequence[Pair], share: float, seed: int) -> NoisyCorpus:
        """Replace a share of the pairs, in random order, by each kind of noise."""
        draw = random.Random(seed)
        order = draw.sample(range(len(pairs)), len(pairs))
        kinds, result = np.full(len(pairs), REAL, dtype="<U20"), [*pairs]
        size = int(share * len(pairs))
        for number, (kind, corrupt) in enumerate(NOISE.items()):
            for index in order[number * size : (number + 1) * size]:
                kinds[index] = kind
                result[index] = corrupt(pairs[index], draw.choice(pairs), draw)
        real = [pair for pair, kind in zip(pairs, kinds, strict=True) if kind == REAL]
        return NoisyCorpus(result, kinds, real)


@dataclass(frozen=True)
class Result:
    """What a filter did."""

    name: str
    rejected: Mask
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    options = _options(arguments)
    pairs = [*zip(*read_parallel(options.source, options.target), strict=True)]
    pairs = [pair for pair in pairs if all(text.strip() for text in pair)]
    if options.pairs:
        pairs = random.Random(options.seed).sample(pairs, options.pairs)
    corpus = NoisyCorpus.of(pairs, options.share, options.seed)
    with TemporaryDirectory() as folder:
        files = _write(Path(folder) / "noisy", corpus.pairs)
        results = [*measure(files, corpus, options)]
        print("\n".join(table(results, corpus.kinds)))
        if options.test:
            rejected = results[-1].rejected
            kept = [pair for pair, bad in zip(corpus.pairs, rejected, strict=True) if not bad]
            for name, text in {
                "real": corpus.real,
                "noisy": corpus.pairs,
                "filtered": kept,
            }.items():
                score = train_and_evaluate(Path(folder), text, options)
                print(f"{name}: {len(text):,} pairs, BLEU {score:.2f}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, required=True)
    parser.add_argument("--pairs", type=int, help="pairs to draw; default: all")
    parser.add_argument("--share", type=float, default=0.04, help="of each kind of noise")
    parser.add_argument("--keep", type=float, nargs="+", default=[0.9, 0.8, 0.7])
    parser.add_argument("--forward-model")
    parser.add_argument("--reverse-model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--valid", type=Path, nargs=2, help="to train models: validation files")
    parser.add_argument("--test", type=Path, nargs=2, help="to train models: test files")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def measure(files: Files, corpus: NoisyCorpus, options: argparse.Namespace) -> Iterator[Result]:
    """The result of each filter; the last is that of all together, with the first `--keep`.

    Pairs are scored if they pass rules and languages, as `regard filter` does it.
    """
    everything = CorpusFilterConfig(min_lang_prob=0.1)
    languages = replace(NO_RULES, min_lang_prob=0.1)
    for name, config in (("rules", CorpusFilterConfig()), ("languages", languages)):
        begin = time.monotonic()
        filtered = CorpusFilter(files, config, (*options.languages,))
        seconds = time.monotonic() - begin
        yield Result(name, _rejected(corpus, _indices(filtered)), seconds)
    filtered = CorpusFilter(files, everything, (*options.languages,))
    indices = _indices(filtered)
    rejected_by_any = _rejected(corpus, indices)
    for name, score in _scorers(options).items():
        begin = time.monotonic()
        scores = score(filtered)[name]
        seconds = time.monotonic() - begin
        for keep in options.keep:
            low = np.zeros(len(corpus.pairs), bool)
            low[indices[scores < threshold(scores, None, keep)]] = True
            yield Result(f"{name}, {keep:.0%} kept", low, seconds)
            if keep == options.keep[0]:
                rejected_by_any = rejected_by_any | low
    yield Result("all", rejected_by_any, 0)


def _scorers(options: argparse.Namespace) -> dict[str, Callable[[CorpusFilter], Scores]]:
    scorers: dict[str, Callable[[CorpusFilter], Scores]] = {
        "alignment": lambda filtered: {"alignment": alignment_scores(filtered.texts("aligning"))}
    }
    if options.forward_model:
        forward, reverse = (
            Translator.load(path, device=options.device, backend="torch")
            for path in (options.forward_model, options.reverse_model)
        )
        scorers["dual"] = lambda filtered: DualScorer(forward, reverse).scores(filtered.texts)
    return scorers


def _indices(filtered: CorpusFilter) -> NDArray[np.int64]:
    """The indices of the pairs that pass."""
    return np.array([pair.line - 1 for pair in filtered.pairs("reading")], np.int64)


def _rejected(corpus: NoisyCorpus, passed: NDArray[np.int64]) -> Mask:
    mask = np.ones(len(corpus.pairs), bool)
    mask[passed] = False
    return mask


def table(results: Sequence[Result], kinds: NDArray[np.str_]) -> Iterator[str]:
    """A Markdown table: for each filter, the share of each kind that it filters out."""
    columns = ["filter", "real", *NOISE, "precision", "pairs/s"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for result in results:
        shares = [result.rejected[kinds == kind].mean() for kind in (REAL, *NOISE)]
        precision = (kinds[result.rejected] != REAL).mean() if result.rejected.any() else 1
        speed = f"{len(kinds) / result.seconds:,.0f}" if result.seconds else ""
        cells = [result.name, f"{shares[0]:.2%}", *(f"{share:.1%}" for share in shares[1:])]
        yield f"| {' | '.join([*cells, f'{precision:.1%}', speed])} |"


def _write(path: Path, pairs: Sequence[Pair]) -> Files:
    files = Files(path.with_suffix(".source"), path.with_suffix(".target"))
    for side, file in enumerate((files.source, files.target)):
        file.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return files


def train_and_evaluate(folder: Path, pairs: Sequence[Pair], options: argparse.Namespace) -> float:
    """BLEU of a small model that is trained on the pairs; no filters but length limits apply."""
    files = _write(folder / "train", pairs)
    data = regard.prepare(
        source=files.source,
        target=files.target,
        valid=options.valid,
        out=folder / "data",
        vocab_size=options.vocab_size,
        max_ratio=0,
        skip_copied=False,
        skip_duplicates=False,
        overwrite=True,
    )
    run = regard.train(
        preset="tiny",
        data=data,
        out=folder / f"run-{len(pairs)}",
        device=options.device,
        **{"training.max_steps": options.steps},
    )
    sources, references = read_parallel(*options.test)
    translations = run.load(device=options.device).translate(sources, beam_size=5)
    return bleu([translation.text for translation in translations], references)


if __name__ == "__main__":
    main()
