r"""Terms realised, BLEU and speed with a glossary, beside the plain search.

    python benchmarks/glossaries.py runs/multi30k-en-de --source test.en --reference test.de \\
        --train-source train.en --train-target train.de
    python benchmarks/glossaries.py runs/multi30k-en-de ... --device cuda --beam-size 1 5

The glossary is made from the test set: for each sentence, the reference word that is rarest in the
training data, of those that are aligned with a source word that no other sentence has.
transformers 5 has no constrained search to compare with: `force_words_ids` was removed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.data.aligner import BidirectionalAligner
from regard.data.alignment_input import segment_into_words
from regard.data.alignments import symmetrize
from regard.data.glossary import Glossary, word_pattern
from regard.data.line_reader import read_parallel
from regard.evaluation.metrics import bleu
from regard.pipelines.text_search import Translation
from regard.pipelines.translator import Translator

PLAIN, GLOSSARY = "plain", "glossary"
_PUNCTUATION = re.compile(r"^\W+|\W+$")
Pairs = tuple[list[str], list[str]]


@dataclass
class Measured:
    """The rounds of one setting."""

    translations: Sequence[Translation] = ()
    speeds: list[float] = field(default_factory=list)  # sentences per second


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each beam size and setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="model folder")
    for name in ("--source", "--reference", "--train-source", "--train-target"):
        parser.add_argument(name, type=Path, required=True, help="one sentence per line")
    parser.add_argument("--beam-size", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--lines", type=int, help="of the test set")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    test = read_parallel(options.source, options.reference)
    terms = make_glossary(test, read_parallel(options.train_source, options.train_target))
    sources, references = (side[: options.lines] for side in test)
    translator = Translator.load(options.model, device=options.device, backend=options.backend)
    print(f"{translator.backend_notice} {len(terms)} terms")
    glossary = Glossary.of(terms)
    for beam_size in options.beam_size:
        search = {"beam_size": beam_size, "batch_size": options.batch_size}
        measured = measure(translator, sources, search, terms, options.rounds)
        for name, result in measured.items():
            print(f"beam {beam_size}, {name:8}", report(result, measured, glossary, references))


def make_glossary(test: Pairs, train: Pairs) -> dict[str, str]:
    """For each test sentence, the translation of a source word that only this sentence has."""
    sides = [segment_into_words(first + second) for first, second in zip(test, train, strict=True)]
    rows = [side.rows for side in sides]
    known = Counter(word.lower() for line in train[1] for word in _words(line))
    counts = Counter(word for line in test[0] for word in re.findall(r"\w+", line.lower()))
    terms: dict[str, str] = {}
    heads = BidirectionalAligner.train(*rows).align(*rows)
    for source, target, pair in zip(*test, heads, strict=False):  # without the training text
        words, translations = _words(source), _words(target)
        links = symmetrize(*pair, "intersection")
        linked = [
            (known[translations[j].lower()], words[i].lower(), translations[j]) for i, j in links
        ]
        rare = [pair for pair in linked if pair[0] and counts[pair[1]] == 1]
        if rare:
            _, word, translation = min(rare)
            terms[word] = translation
    return terms


def _words(line: str) -> list[str]:
    """The words of a line, without the punctuation around them."""
    return [_PUNCTUATION.sub("", word) or word for word in line.split()]


def measure(
    translator: Translator,
    lines: Sequence[str],
    search: Mapping[str, Any],
    terms: Mapping[str, str],
    rounds: int,
) -> dict[str, Measured]:
    """The translations and speeds of both searches, after a round that is not measured."""
    settings: dict[str, dict[str, Any]] = {PLAIN: {}, GLOSSARY: {"glossary": terms}}
    measured = {name: Measured() for name in settings}
    for number in range(rounds + 1):
        for name, keywords in settings.items():
            begin = time.monotonic()
            measured[name].translations = translator.translate(lines, **search, **keywords)
            if number:
                measured[name].speeds.append(len(lines) / (time.monotonic() - begin))
    return measured


def realised(translations: Sequence[Translation], glossary: Glossary) -> tuple[int, int]:
    """How many occurrences of source terms have a translation of the glossary, and of how many."""
    present = total = 0
    for translation in translations:
        for term, count in Counter(m.term for m in glossary.matches(translation.source)).items():
            words = "|".join(map(word_pattern, term.targets))
            matched = len(re.findall(words, translation.text, re.IGNORECASE))
            present, total = present + min(matched, count), total + count
    return present, total


def report(
    result: Measured,
    measured: Mapping[str, Measured],
    glossary: Glossary,
    references: Sequence[str],
) -> str:
    """The share of realised terms, BLEU, and the speed."""
    present, total = realised(result.translations, glossary)
    plain = measured[PLAIN]
    parts = [f"{present} of {total} terms ({present / max(total, 1):.1%})"]
    lowercase = all(each.text == each.text.lower() for each in result.translations)
    texts = [each.text for each in result.translations]
    references = [line.lower() for line in references] if lowercase else references
    parts.append(f"BLEU {bleu(texts, references):.2f}")
    if result.speeds:
        ratios = [speed / first for speed, first in zip(result.speeds, plain.speeds, strict=True)]
        parts.append(
            f"{statistics.median(result.speeds):.1f} sentences/s, "
            f"{statistics.median(ratios):.2f} times the plain search"
        )
    changed = sum(
        a.text != b.text for a, b in zip(result.translations, plain.translations, strict=True)
    )
    warned = sum(any("lacks" in text for text in each.warnings) for each in result.translations)
    return ", ".join([*parts, f"{changed} changed", f"{warned} lack a term"])


if __name__ == "__main__":
    main()
