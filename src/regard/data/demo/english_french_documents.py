"""A grammar of parallel documents, in which "it" is il or elle by the gender of its antecedent.

A document is two or three sentences. The first one names a thing, and the others refer to it by a
pronoun, so that only the context says whether their translation is masculine or feminine. Other
nouns and pronouns of a document are persons, which "it" does not refer to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.data.demo.english_french import (
    MANNERS,
    as_sentence,
    copular,
    finite,
    join_subject,
    quality,
)
from regard.data.demo.english_french_phrases import (
    OF_ONE,
    PEOPLE,
    PRONOUNS,
    VERBS_TAKING,
    A,
    Action,
    Noun,
    Phrase,
    noun_phrase,
    nouns_of,
)
from regard.data.demo.grammar import Pair, is_presentable, pick
from regard.files import write_text
from regard.json_text import dumps

Document = tuple[Pair, ...]
THINGS = nouns_of("food,text,print,object,large")
ARTICLES = OF_ONE + (A,) * 8
OTHER_GENDER = {
    noun.english[0]: [
        other for other in THINGS if other.feminine != noun.feminine and other.kinds & noun.kinds
    ]
    for noun in THINGS
}


@dataclass(frozen=True)
class ContrastiveExample:
    """A sentence in its context, with its translation and one with pronouns of the other gender."""

    context: Document
    source: str
    correct: str
    wrong: str

    @property
    def row(self) -> dict[str, object]:
        """The example in the format of `regard evaluate --contrastive`."""
        return {
            "source_context": [source for source, _ in self.context],
            "target_context": [target for _, target in self.context],
            "source": self.source,
            "correct": self.correct,
            "wrong": [self.wrong],
            "category": f"distance {len(self.context)}",
        }


@dataclass(frozen=True)
class DocumentCorpus:
    """Documents for training and validation, and contrastive examples."""

    train: list[Document]
    valid: list[Document]
    contrastive: list[ContrastiveExample]


def document_corpus(
    *, seed: int = 1, train: int = 20_000, valid: int = 300, contrastive: int = 400
) -> DocumentCorpus:
    """Sample documents; none of those in `contrastive` is in `train` or `valid`.

    `contrastive` is the number of pairs of examples: both have the same source and translations,
    and antecedents of different genders. A model without context is therefore right in one of them.
    """
    rng = Random(f"documents {seed} contrastive")
    examples: list[ContrastiveExample] = []
    for number in range(contrastive):
        examples += _contrastive_pair(rng, length=2 + number % 2)
    beginnings = {(*each.context, (each.source, each.correct))[:2] for each in examples}
    parts = []
    for name, count in (("valid", valid), ("train", train)):
        rng, documents = Random(f"documents {seed} {name}"), dict[Document, None]()
        while len(documents) < count:
            document = draw_document(rng)
            if document[:2] not in beginnings:
                documents[document] = None
        beginnings.update(document[:2] for document in documents)
        parts.append([*documents])
    return DocumentCorpus(parts[1], parts[0], examples)


def draw_document(rng: Random) -> Document:
    """Draw a thing, a sentence that names it, and one or two sentences about it."""
    noun = pick(rng, THINGS)
    sentences = [_naming(rng, noun)]
    for _ in range(rng.randint(1, 2)):
        sentences.append(_referring(rng, noun, feminine=noun.feminine))
    return (*sentences,)


def _contrastive_pair(rng: Random, length: int) -> list[ContrastiveExample]:
    """Two examples with the same source; each pronoun shows its gender, unlike in "l'achète"."""
    noun = pick(rng, [noun for noun in THINGS if OTHER_GENDER[noun.english[0]]])
    other = pick(rng, OTHER_GENDER[noun.english[0]])
    seeds: list[float] = []
    while len(seeds) < length - 1:
        seed = rng.random()
        if _sentence(seed, noun, feminine=True) != _sentence(seed, noun, feminine=False):
            seeds.append(seed)
    examples = []
    for antecedent in (noun, other):
        first = _naming(rng, antecedent)
        context = [_sentence(seed, noun, feminine=antecedent.feminine) for seed in seeds]
        source, correct = context.pop()
        _, wrong = _sentence(seeds[-1], noun, feminine=not antecedent.feminine)
        examples.append(ContrastiveExample((first, *context), source, correct, wrong))
    return examples


def _sentence(seed: float, noun: Noun, *, feminine: bool) -> Pair:
    """The sentence of a seed: with both genders, its source is the same."""
    return _referring(Random(seed), noun, feminine=feminine)


def _naming(rng: Random, noun: Noun) -> Pair:
    """Draw "The woman buys a small key" or "My key is expensive"."""
    while True:
        thing = noun_phrase(rng, [noun], ARTICLES)
        if rng.random() < 0.3:
            pair = join_subject(thing, copular(thing.slot, "", quality(rng, thing)))
        else:
            verb = pick(rng, VERBS_TAKING[noun.english[0]])
            action = Action(verb, f" {thing.english}", "", f" {thing.french}")
            pair = _done_by_somebody(rng, action, pick(rng, ("", "", "often", "always")))
        if is_presentable(pair[0]):
            return as_sentence(*pair)


def _referring(rng: Random, noun: Noun, *, feminine: bool) -> Pair:
    """Draw "It is not expensive" or "She often sees it"."""
    manner = pick(rng, MANNERS)
    if rng.random() < 0.6:
        it = Phrase("it", "elle" if feminine else "il", 1, feminine, noun)
        return as_sentence(*join_subject(it, copular(it.slot, manner, quality(rng, it))))
    verb, clitic = pick(rng, VERBS_TAKING[noun.english[0]]), "la " if feminine else "le "
    return as_sentence(*_done_by_somebody(rng, Action(verb, " it", clitic, ""), manner))


def _done_by_somebody(rng: Random, action: Action, manner: str) -> Pair:
    """Draw who does something: a pronoun or a person."""
    doer = pick(rng, PRONOUNS)
    if rng.random() < 0.6:
        doer = noun_phrase(rng, PEOPLE, OF_ONE, bare=True)
    return join_subject(doer, finite(doer.slot, action, manner))


def write_document_corpus(corpus: DocumentCorpus, folder: Path) -> None:
    """Write train.en, train.fr, valid.en, valid.fr and contrastive.jsonl.

    Blank lines separate documents.
    """
    for name, documents in (("train", corpus.train), ("valid", corpus.valid)):
        for side, language in enumerate(("en", "fr")):
            write_text(folder / f"{name}.{language}", _lines(documents, side))
    rows = "".join(f"{dumps(example.row)}\n" for example in corpus.contrastive)
    write_text(folder / "contrastive.jsonl", rows)


def _lines(documents: Iterable[Sequence[Pair]], side: int) -> str:
    texts = ("".join(f"{pair[side]}\n" for pair in document) for document in documents)
    return "\n".join(texts)
