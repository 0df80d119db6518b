r"""Spans that come out unchanged, BLEU and time with protected spans, beside other ways.

    python benchmarks/protected_spans.py runs/tatoeba-en-de --source valid.en --reference valid.de

In each pair of the test set with a name or a number on both sides, it is replaced on both sides by
a placeholder, a URL and so on. They are translated without protection; with the span as a term of
a glossary, which constrains the search; as an element with translate="no", which the model reads;
and with `--protect all`. For BLEU, spans are one word.
"""

from __future__ import annotations

import argparse
import html
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from regard.data.line_reader import read_parallel
from regard.evaluation.metrics import bleu
from regard.pipelines.translator import Translator

SPANS = {
    "placeholder": "{user_name}",
    "printf": "%s",
    "URL": "https://www.example.com/a/b?id=15",
    "e-mail": "bob.miller@example.org",
    "number": "1,234.5",
}
_WORD = re.compile(r"[A-Z]\w{2,}|\d+")
_ELEMENT = re.compile("</?q[^>]*>")


class Pair(NamedTuple):
    """A sentence pair, and a word of both sides."""

    source: str
    reference: str
    word: str


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each span and setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="model folder")
    for name in ("--source", "--reference"):
        parser.add_argument(name, type=Path, required=True, help="one sentence per line")
    parser.add_argument("--lines", type=int, help="of the test set with such a word")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    pairs = select_pairs(*read_parallel(options.source, options.reference))[: options.lines]
    translator = Translator.load(options.model, device=options.device)
    translator.translate(["{x}"] * 2, protect=("all",))  # loads what is loaded on first use
    print(f"{translator.backend_notice} {len(pairs)} pairs")
    for name, span in SPANS.items():
        references = [replaced(pair.reference, pair.word, span) for pair in pairs]
        for setting, translate in SETTINGS.items():
            begin = time.monotonic()
            texts = translate(translator, pairs, span)
            seconds = time.monotonic() - begin
            print(f"{name:12} {setting:9}", report(texts, references, span), f"{seconds:.1f} s")


def select_pairs(sources: Sequence[str], references: Sequence[str]) -> list[Pair]:
    """The pairs with a name or a number that occurs once on both sides."""
    pairs = []
    for source, reference in zip(sources, references, strict=True):
        words = [re.findall(r"\w+", side) for side in (source, reference)]
        common = (
            word for word in _WORD.findall(source) if [w.count(word) for w in words] == [1, 1]
        )
        if word := next(common, ""):
            pairs.append(Pair(source, reference, word))
    return pairs


def replaced(text: str, word: str, span: str) -> str:
    """The text with a span in place of a word."""
    return re.sub(rf"\b{word}\b", lambda match: span, text)


def unprotected(translator: Translator, pairs: Sequence[Pair], span: str) -> list[str]:
    """Without protection."""
    texts = [replaced(pair.source, pair.word, span) for pair in pairs]
    return [translation.text for translation in translator.translate(texts)]


def constrained(translator: Translator, pairs: Sequence[Pair], span: str) -> list[str]:
    """With the span as a term that translations must contain."""
    texts = [replaced(pair.source, pair.word, span) for pair in pairs]
    glossary = [(span, span, "case-sensitive")]
    return [each.text for each in translator.translate(texts, glossary=glossary)]


def as_element(translator: Translator, pairs: Sequence[Pair], span: str) -> list[str]:
    """With the span as an element that is not translated, which the model reads."""
    element = f'<q translate="no">{html.escape(span)}</q>'
    texts = [replaced(html.escape(pair.source), pair.word, element) for pair in pairs]
    translations = translator.translate(texts, markup="html")
    return [html.unescape(_ELEMENT.sub("", each.text)) for each in translations]


def protected(translator: Translator, pairs: Sequence[Pair], span: str) -> list[str]:
    """With protection."""
    texts = [replaced(pair.source, pair.word, span) for pair in pairs]
    return [each.text for each in translator.translate(texts, protect=("all",))]


SETTINGS: dict[str, Callable[[Translator, Sequence[Pair], str], list[str]]] = {
    "plain": unprotected,
    "glossary": constrained,
    "element": as_element,
    "protect": protected,
}


def report(texts: Sequence[str], references: Sequence[str], span: str) -> str:
    """The share of texts with the span as often as in the reference, and BLEU."""
    kept = sum(
        text.count(span) == reference.count(span)
        for text, reference in zip(texts, references, strict=True)
    )
    one_word, wanted = (
        [text.replace(span, " SPAN ") for text in side] for side in (texts, references)
    )
    return f"{kept / max(len(texts), 1):6.1%} unchanged, BLEU {bleu(one_word, wanted):5.2f},"


if __name__ == "__main__":
    main()
