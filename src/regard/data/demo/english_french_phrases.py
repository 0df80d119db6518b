"""The words and phrases of the English-French demo: noun phrases and actions.

French is built word by word, without elision: "près de le arbre"; `english_french` applies elision
and contraction to the whole sentence.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from regard.data.demo.grammar import (
    Pair,
    parse_kinds,
    pick,
    read_vocabulary,
    weighted_choices,
    with_determiner,
)

# -------------------------------------------------------------------------------------- words

VOCABULARY = read_vocabulary("english_french")
TABLES = VOCABULARY.tables


class Adjective(NamedTuple):
    """`forms`: masculine, feminine, and the plurals of both."""

    english: str
    forms: tuple[str, ...]
    before_vowel: str
    place: str
    kinds: frozenset[str]


class Noun(NamedTuple):
    """Singular and plural in both languages, and the adjectives which may describe it."""

    english: tuple[str, str]
    french: tuple[str, str]
    feminine: bool
    kinds: frozenset[str]
    adjectives: tuple[Adjective, ...]


class Verb(NamedTuple):
    """`french`: the forms after je, il, nous, ils; `link`: the preposition of its object."""

    base: str
    third: str
    french: tuple[str, ...]
    infinitive: str
    for_animals: bool
    link: str
    objects: tuple[Noun, ...]


class Determiner(NamedTuple):
    """`french`: masculine, feminine, then the same two before a vowel."""

    english: str
    plural: bool
    french: tuple[str, str, str, str]


def _adjective(row: list[str]) -> Adjective:
    masculine, _, before_vowel = row[1].partition("/")
    forms = (masculine, *row[2:5])
    return Adjective(row[0], forms, before_vowel or masculine, row[5], parse_kinds(row[6]))


def _noun(row: list[str]) -> Noun:
    kinds = parse_kinds(row[5])
    adjectives = tuple(adjective for adjective in _ADJECTIVES if adjective.kinds & kinds)
    return Noun((row[0], row[1]), (row[2], row[3]), row[4] == "f", kinds, adjectives)


def _verb(row: list[str]) -> Verb:
    return Verb(row[0], row[1], tuple(row[2:6]), row[6], row[7] == "any", row[8], nouns_of(row[9]))


def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """All nouns of some comma-separated kinds."""
    return tuple(noun for noun in ALL_NOUNS if noun.kinds & parse_kinds(kinds))


def _singular(english: str, *french: str) -> Determiner:
    masculine, feminine, *before_vowel = french
    first, second = before_vowel or (masculine, feminine)
    return Determiner(english, False, (masculine, feminine, first, second))


def _plural(english: str, french: str) -> Determiner:
    return Determiner(english, True, (french, french, french, french))


_ADJECTIVES = [_adjective(row) for row in TABLES["adjectives"]]
ALL_NOUNS = [_noun(row) for row in TABLES["nouns"]]
ALL_VERBS = [_verb(row) for row in TABLES["verbs"]]
# The noun that pronouns ("she", "they") stand for.
SOMEBODY = _noun(["", "", "", "", "m", "person,adult,private"])

THE, THE_PLURAL = _singular("the", "le", "la"), _plural("the", "les")
A, NOT_A = _singular("a", "un", "une"), _singular("a", "de", "de")  # pas de pomme
NO = _singular("no", "de", "de")
THIS, THESE = _singular("this", "ce", "cette", "cet", "cette"), _plural("these", "ces")
MY, MY_PLURAL = _singular("my", "mon", "ma", "mon", "mon"), _plural("my", "mes")
OUR, OUR_PLURAL = _singular("our", "notre", "notre"), _plural("our", "nos")
THEIR, THEIR_PLURAL = _singular("their", "leur", "leur"), _plural("their", "leurs")
NUMERALS = tuple(_plural(english, french) for english, french in TABLES["numbers"])
THE_NUMERALS = tuple(
    _plural(f"the {english}", f"les {french}") for english, french in TABLES["numbers"]
)

OF_PLACE = weighted_choices({THE: 6, THIS: 2, A: 2, OUR: 1, THE_PLURAL: 1})
OF_ONE = weighted_choices({THE: 5, THIS: 2, MY: 2, OUR: 1, THEIR: 1})
DEFINITE = OF_ONE + weighted_choices({THE_PLURAL: 4, THESE: 2, MY_PLURAL: 1, OUR_PLURAL: 1})
DEFINITE += (THEIR_PLURAL,)
COUNTED = NUMERALS + (_plural("many", "beaucoup de"),) * 6
ANY = DEFINITE * 8 + (A,) * 36 + COUNTED * 2 + THE_NUMERALS
UNDER_NEGATION = DEFINITE * 2 + (NOT_A,) * 9

# ------------------------------------------------------------------------------- noun phrases


class Phrase(NamedTuple):
    """A subject or an object; `slot`: the verb form that agrees with it (I, he, we, they)."""

    english: str
    french: str
    slot: int
    feminine: bool
    noun: Noun
    adjectives: Sequence[Adjective] = ()


FOUND_ANYWHERE = frozenset(("person", "animal", "object", "food", "print"))
OWNABLE = frozenset(("animal", "text", "print", "object", "goods"))
PEOPLE = nouns_of("person")
LIVING = nouns_of("person,animal")


def starts_with_vowel(french: str) -> bool:
    """Whether a French word requires elision; every h in the tables is silent."""
    return french[0] in "aeiouâéèêîôœh"


def draw_adjectives(rng: Random, noun: Noun) -> Sequence[Adjective]:
    """Draw none, one, or two adjectives: in a pair, "small" or the like, then a colour."""
    chance = rng.random()
    if chance < 0.6:
        return ()
    first = pick(rng, noun.adjectives)
    if chance < 0.9 or first.place != "before":
        return (first,)
    second = pick(rng, noun.adjectives)
    return (first, second) if second.place == "colour" else (first,)


def noun_phrase(
    rng: Random, nouns: Sequence[Noun], determiners: Sequence[Determiner], *, bare: bool = False
) -> Phrase:
    """Draw determiner, adjectives and noun; French adjectives agree, and most follow the noun."""
    noun, determiner = pick(rng, nouns), pick(rng, determiners)
    form = 2 * determiner.plural + noun.feminine
    english, french = noun.english[determiner.plural], noun.french[determiner.plural]
    adjectives = () if bare else draw_adjectives(rng, noun)
    for adjective in reversed(adjectives):
        english = f"{adjective.english} {english}"
        if adjective.place != "before":
            french = f"{french} {adjective.forms[form]}"
        elif form == 0 and starts_with_vowel(french):
            french = f"{adjective.before_vowel} {french}"
        else:
            french = f"{adjective.forms[form]} {french}"
    article = determiner.french[2 * starts_with_vowel(french) + noun.feminine]
    slot = 3 if determiner.plural else 1
    english = with_determiner(determiner.english, english)
    return Phrase(english, f"{article} {french}", slot, noun.feminine, noun, adjectives)


def owned_phrase(rng: Random, nouns: Sequence[Noun]) -> Phrase:
    """Draw "the king's white horse", le cheval blanc du roi."""
    owner = noun_phrase(rng, PEOPLE, OF_ONE, bare=True)
    owned = noun_phrase(rng, nouns, (THE, THE_PLURAL))
    english = f"{owner.english}'s {owned.english.removeprefix('the ')}"
    return owned._replace(english=english, french=f"{owned.french} de {owner.french}")


def any_phrase(
    rng: Random, nouns: Sequence[Noun], determiners: Sequence[Determiner] = ANY
) -> Phrase:
    """Draw a noun phrase, sometimes with a possessor."""
    if rng.random() < 0.1:
        ownable = pick(rng, nouns)
        if ownable.kinds & OWNABLE:
            return owned_phrase(rng, (ownable,))
    return noun_phrase(rng, nouns, determiners)


PRONOUNS = (
    Phrase("I", "je", 0, False, SOMEBODY),
    Phrase("he", "il", 1, False, SOMEBODY),
    Phrase("she", "elle", 1, True, SOMEBODY),
    Phrase("we", "nous", 2, False, SOMEBODY),
    Phrase("they", "ils", 3, False, SOMEBODY),
)
OBJECT_PRONOUNS = (("me", "me"), ("us", "nous"), ("him", "le"), ("her", "la"), ("them", "les"))


def draw_subject(
    rng: Random, nouns: Sequence[Noun] = LIVING, determiners: Sequence[Determiner] = ANY
) -> Phrase:
    """Draw a pronoun, two subjects joined by "and", or a noun phrase."""
    chance = rng.random()
    if chance < 0.3:
        return pick(rng, PRONOUNS)
    if chance < 0.35:
        return two_people(rng)
    return any_phrase(rng, nouns, determiners)


def two_people(rng: Random) -> Phrase:
    """Draw two subjects joined by "and": one masculine makes them both masculine."""
    first = second = noun_phrase(rng, PEOPLE, DEFINITE, bare=True)
    while second.noun is first.noun:
        second = noun_phrase(rng, PEOPLE, DEFINITE, bare=True)
    feminine = first.feminine and second.feminine
    english, french = f"{first.english} and {second.english}", f"{first.french} et {second.french}"
    return Phrase(english, french, 3, feminine, SOMEBODY)


# ------------------------------------------------------------------- actions: verb and objects


class Action(NamedTuple):
    """A verb with what depends on it; a French object pronoun (`clitic`) precedes its verb."""

    verb: Verb
    english_rest: str
    clitic: str
    french_rest: str


Preposition = tuple[str, str, tuple[Noun, ...]]
AROUND: tuple[Preposition, ...] = (
    *[("in", "dans", nouns_of("place"))] * 4,
    ("near", "près de", nouns_of("place,large")),
    ("behind", "derrière", nouns_of("place,large")),
    ("in front of", "devant", nouns_of("place,large")),
)
PREPOSITIONS: tuple[Preposition, ...] = (
    *AROUND,
    ("on", "sur", nouns_of("surface")),
    ("under", "sous", nouns_of("surface")),
)
# Prepositions by verb: "swim in the lake", not "in the church".
PLACES_OF = {"sleep": PREPOSITIONS, "swim": (("in", "dans", nouns_of("water")),)}
VERBS_OF = {True: tuple(ALL_VERBS), False: tuple(verb for verb in ALL_VERBS if verb.for_animals)}
# Verbs whose object may be questioned or relativized: no "to whom", no "whose".
DIRECT_VERBS = tuple(verb for verb in ALL_VERBS if verb.objects and not verb.link)
TAKING_PEOPLE = frozenset(verb.base for verb in DIRECT_VERBS if PEOPLE[0] in verb.objects)
VERBS_TAKING = {
    noun.english[0]: tuple(verb for verb in DIRECT_VERBS if noun in verb.objects)
    for noun in ALL_NOUNS
}


def is_person(phrase: Phrase) -> bool:
    """Whether a phrase is a person ("who" instead of "that")."""
    return "person" in phrase.noun.kinds


def location(rng: Random, prepositions: Sequence[Preposition] = PREPOSITIONS) -> Pair:
    """Draw a location: "near the church"."""
    english, french, nouns = pick(rng, prepositions)
    place = noun_phrase(rng, nouns, OF_PLACE)
    return f"{english} {place.english}", f"{french} {place.french}"


def draw_action(rng: Random, doer: Phrase, *, negated: bool = False) -> Action:
    """Draw something that the doer can do."""
    verb = pick(rng, VERBS_OF[is_person(doer)])
    if not verb.objects:
        if rng.random() < 0.4:
            return Action(verb, "", "", "")
        english, french = location(rng, PLACES_OF.get(verb.base, AROUND))
        return Action(verb, f" {english}", "", f" {french}")
    if verb.base in TAKING_PEOPLE and rng.random() < 0.25:
        # "I see me" and "we see me" would be reflexive in French.
        english, french = pick(rng, OBJECT_PRONOUNS[2:] if doer.slot in (0, 2) else OBJECT_PRONOUNS)
        return Action(verb, f" {english}", f"{french} ", "")
    if verb.link in ("à", "de"):
        target = draw_object(rng, doer, verb, DEFINITE)
        return Action(verb, f" {target.english}", "", f" {verb.link} {target.french}")
    particular = verb.base == "love" or (negated and verb.base in TAKING_PEOPLE)
    determiners = DEFINITE if particular else UNDER_NEGATION if negated else ANY
    target = draw_object(rng, doer, verb, determiners)
    if verb.link == "+à":
        receiver = noun_phrase(rng, PEOPLE, DEFINITE, bare=True)
        rest = f" {target.english} to {receiver.english}"
        return Action(verb, rest, "", f" {target.french} à {receiver.french}")
    return Action(verb, f" {target.english}", "", f" {target.french}")


def draw_object(rng: Random, doer: Phrase, verb: Verb, determiners: Sequence[Determiner]) -> Phrase:
    """Draw an object other than the doer."""
    while True:
        target = any_phrase(rng, verb.objects, determiners)
        if target.noun is not doer.noun:
            return target
