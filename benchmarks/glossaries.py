r"""Terms realised, BLEU, chrF and speed with a glossary: constrained search and annotated terms.

    regard prepare --source train.en --target train.de --annotate-terms 0.3 ... --out data/terms
    python benchmarks/glossaries.py runs/plain runs/terms --source test.en --reference test.de \\
        --train-source train.en --train-target train.de
    python benchmarks/glossaries.py runs/plain runs/terms ... --device cuda --beam-size 1 5

The table has a line for each model, beam size and method: without a glossary, with a constrained
search, and with annotated terms, alone and with a constrained search where a term is missing, if
the model was trained with them. Speeds are medians over rounds, in which all lines take turns.

The glossary is made from the test set: for each sentence, the reference word that is rarest in the
training data, of those that are aligned with a source word that no other sentence has.
transformers has no constrained search to compare with: since version 5, `force_words_ids` and
`constraints` download the search from a repository.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from regard.backends.constrained_backend import ConstrainedBackend
from regard.data.aligner import BidirectionalAligner
from regard.data.alignment_input import segment_into_words
from regard.data.alignments import symmetrize
from regard.data.glossary import Glossary
from regard.data.line_reader import read_parallel
from regard.evaluation.metrics import MetricConfig, evaluate
from regard.pipelines.text_search import Translation
from regard.pipelines.translator import Translator

PLAIN, CONSTRAINED, ANNOTATED, BOTH = "plain", "constrained", "annotated", "both"
COLUMNS = (
    *("model", "beams", "method", "terms realised", "BLEU", "chrF", "sentences/s"),
    *("times plain", "searched again", "changed", "lack a term"),
)
_PUNCTUATION = re.compile(r"^\W+|\W+$")
Pairs = tuple[list[str], list[str]]


@dataclass
class Line:
    """A line of the table, and its rounds."""

    translator: Translator
    beam_size: int
    method: str
    translations: Sequence[Translation] = ()
    speeds: list[float] = field(default_factory=list)  # sentences per second
    searched_again: int = 0  # sentences in the last round

    def translate(self, texts: Sequence[str], terms: Mapping[str, str], **search: Any) -> None:
        """Translate, and record speed and second searches."""
        if self.method != PLAIN:
            search |= {"glossary": terms, "glossary_method": self.method}
        begin = time.monotonic()
        with counted_second_searches() as counts:
            self.translations = self.translator.translate(texts, beam_size=self.beam_size, **search)
        self.speeds.append(len(texts) / (time.monotonic() - begin))
        self.searched_again = sum(counts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="model folders")
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
    lines = []
    for model in options.models:
        translator = Translator.load(model, device=options.device, backend=options.backend)
        print(f"{model}: {translator.backend_notice}")
        annotates = translator.text.data_statistics.annotated_terms > 0
        methods = [PLAIN, CONSTRAINED, *([ANNOTATED, BOTH] if annotates else [])]
        lines += [Line(translator, size, each) for size in options.beam_size for each in methods]
    for number in range(options.rounds + 1):
        for line in lines:
            line.translate(sources, terms, batch_size=options.batch_size)
            if number == 0:  # not measured
                line.speeds.clear()
    print(f"{len(terms)} terms, {len(sources)} sentences\n")
    print(f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}", sep="\n")
    for line in lines:
        plain = next(
            other
            for other in lines
            if other.method == PLAIN
            and (other.translator, other.beam_size) == (line.translator, line.beam_size)
        )
        print(f"| {' | '.join(report(line, plain, Glossary.of(terms), references))} |")


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


@contextmanager
def counted_second_searches() -> Iterator[list[int]]:
    """A list that gets the number of sentences of each constrained search."""
    counts: list[int] = []
    search_again = ConstrainedBackend.search_again

    def counted(backend: Any, requests: Mapping[int, Any], config: Any) -> Any:
        counts.append(len(requests))
        return search_again(backend, requests, config)

    with patch.object(ConstrainedBackend, "search_again", counted):
        yield counts


def realised(translations: Sequence[Translation], glossary: Glossary) -> tuple[int, int]:
    """How many occurrences of source terms have a translation of the glossary, and of how many."""
    present = total = 0
    for translation in translations:
        for term, count in Counter(m.term for m in glossary.matches(translation.source)).items():
            matched = len(term.target_pattern.findall(translation.text))
            present, total = present + min(matched, count), total + count
    return present, total


def report(line: Line, plain: Line, glossary: Glossary, references: Sequence[str]) -> list[str]:
    """The cells of a line; `plain` is that of the same model and beam size without a glossary."""
    present, total = realised(line.translations, glossary)
    texts = [each.text for each in line.translations]
    if texts == [text.lower() for text in texts]:
        references = [reference.lower() for reference in references]
    bleu, chrf = evaluate(texts, [[*references]], MetricConfig(names=("bleu", "chrf")))
    ratios = [speed / first for speed, first in zip(line.speeds, plain.speeds, strict=True)]
    changed = sum(
        a.text != b.text for a, b in zip(line.translations, plain.translations, strict=True)
    )
    lacking = sum(any("lacks" in text for text in each.warnings) for each in line.translations)
    speed, ratio = map(statistics.median, (line.speeds, ratios)) if ratios else (0.0, 0.0)
    return [
        *(line.translator.paths[0].name, str(line.beam_size), line.method),
        f"{present} of {total} ({present / max(total, 1):.1%})",
        *(f"{bleu.value:.2f}", f"{chrf.value:.2f}", f"{speed:.1f}", f"{ratio:.2f}"),
        *map(str, (line.searched_again, changed, lacking)),
    ]


if __name__ == "__main__":
    main()
