"""The phrases of the English-French demo: noun phrases, actions, and what is said of a subject.

French is put together word by word, without elision: "près de le arbre"; the sentence is
polished as a whole in `english_french`.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from regard.data.demo.drawing import Pair, pick, repeated, with_article
from regard.data.demo.english_french_words import (
    ALL_MODALS,
    ALL_NOUNS,
    ALL_PROFESSIONS,
    ALL_VERBS,
    ANY,
    DEFINITE,
    OF_ONE,
    OF_PLACE,
    SOMEBODY,
    THE,
    THE_PLURAL,
    UNDER_NEGATION,
    Adjective,
    Determiner,
    Noun,
    Verb,
    nouns_of,
)

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
    """Tell whether a French word calls for elision; every noun's h in the tables is silent."""
    return french[0] in "aeiouâéèêîôœh"


def drawn_adjectives(rng: Random, noun: Noun) -> Sequence[Adjective]:
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
    adjectives = () if bare else drawn_adjectives(rng, noun)
    for adjective in reversed(adjectives):
        english = f"{adjective.english} {english}"
        if adjective.place != "before":
            french = f"{french} {adjective.forms[form]}"
        elif form == 0 and starts_with_vowel(french):
            french = f"{adjective.before_vowel} {french}"
        else:
            french = f"{adjective.forms[form]} {french}"
    article = determiner.french[2 * starts_with_vowel(french) + noun.feminine]
    if determiner.english == "a":
        english = with_article(english)
    else:
        english = f"{determiner.english} {english}"
    slot = 3 if determiner.plural else 1
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
    """Draw a noun phrase, now and then with an owner."""
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


def drawn_subject(
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
# Nobody swims in a church or works under a chair.
PLACES_OF = {"sleep": PREPOSITIONS, "swim": (("in", "dans", nouns_of("water")),)}
VERBS_OF = {True: tuple(ALL_VERBS), False: tuple(verb for verb in ALL_VERBS if verb.for_animals)}
# Only these may lose their object to a question or a relative clause: no "to whom", no "whose".
DIRECT_VERBS = tuple(verb for verb in ALL_VERBS if verb.objects and verb.link == "-")
TAKING_PEOPLE = frozenset(verb.base for verb in DIRECT_VERBS if PEOPLE[0] in verb.objects)
VERBS_TAKING = {
    noun.english[0]: tuple(verb for verb in DIRECT_VERBS if noun in verb.objects)
    for noun in ALL_NOUNS
}


def is_person(phrase: Phrase) -> bool:
    """Tell people, who dance and are a "who", from all else."""
    return "person" in phrase.noun.kinds


def location(rng: Random, prepositions: Sequence[Preposition] = PREPOSITIONS) -> Pair:
    """Draw where it happens: "near the church"."""
    english, french, nouns = pick(rng, prepositions)
    place = noun_phrase(rng, nouns, OF_PLACE)
    return f"{english} {place.english}", f"{french} {place.french}"


def drawn_action(rng: Random, doer: Phrase, *, negated: bool = False) -> Action:
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
        target = drawn_object(rng, doer, verb, DEFINITE)
        return Action(verb, f" {target.english}", "", f" {verb.link} {target.french}")
    particular = verb.base == "love" or (negated and verb.base in TAKING_PEOPLE)
    determiners = DEFINITE if particular else UNDER_NEGATION if negated else ANY
    target = drawn_object(rng, doer, verb, determiners)
    if verb.link == "+à":
        receiver = noun_phrase(rng, PEOPLE, DEFINITE, bare=True)
        rest = f" {target.english} to {receiver.english}"
        return Action(verb, rest, "", f" {target.french} à {receiver.french}")
    return Action(verb, f" {target.english}", "", f" {target.french}")


def drawn_object(
    rng: Random, doer: Phrase, verb: Verb, determiners: Sequence[Determiner]
) -> Phrase:
    """Draw an object other than the doer."""
    while True:
        target = any_phrase(rng, verb.objects, determiners)
        if target.noun is not doer.noun:
            return target


# ------------------------------------------------------- what is said: negated, denied, wanted

MANNERS = repeated({"": 10, "not": 6, "never": 2, "often": 2, "always": 1})
FRENCH_MANNERS = {"not": "pas", "never": "jamais", "often": "souvent", "always": "toujours"}
NEGATING = ("not", "never")
DO = ("do", "does", "do", "do")
BE = ("am", "is", "are", "are")
ETRE = ("suis", "est", "sommes", "sont")


def finite(slot: int, action: Action, manner: str = "") -> Pair:
    """Say the action of a subject: "does not see the cat", ne voit pas le chat."""
    verb, rest, clitic, french_rest = action
    conjugated = verb.third if slot == 1 else verb.base
    adverb = f" {FRENCH_MANNERS[manner]}" if manner else ""
    french = f"{clitic}{verb.french[slot]}{adverb}{french_rest}"
    if manner in NEGATING:
        french = f"ne {french}"
    if manner == "not":
        return f"{DO[slot]} not {verb.base}{rest}", french
    return f"{manner} {conjugated}{rest}".lstrip(), french


def modal(
    rng: Random,
    slot: int,
    action: Action,
    modals: Sequence[list[str]] = ALL_MODALS,
    *,
    negated: bool = False,
) -> Pair:
    """Say what the subject can, must or wants to do: French negates the modal verb."""
    row = pick(rng, modals)
    english = row[2 * negated + (slot != 1)]
    chosen = f"ne {row[4 + slot]} pas" if negated else row[4 + slot]
    infinitive = f"{action.clitic}{action.verb.infinitive}{action.french_rest}"
    return f"{english} {action.verb.base}{action.english_rest}", f"{chosen} {infinitive}"


def being(rng: Random, subject: Phrase, manners: Sequence[str] = MANNERS) -> Pair:
    """Say where the subject is, what somebody works as, or else what it is like."""
    chance = rng.random()
    manner = pick(rng, manners)
    if chance < 0.15 and subject.noun.kinds & FOUND_ANYWHERE:
        what = location(rng)
    elif chance < 0.6 and "private" in subject.noun.kinds and manner in ("", "not"):
        what = profession(rng, subject)
    else:
        what = quality(rng, subject)
    be, etre = BE[subject.slot], ETRE[subject.slot]
    if not manner:
        return f"{be} {what[0]}", f"{etre} {what[1]}"
    ne = "ne " if manner in NEGATING else ""
    return f"{be} {manner} {what[0]}", f"{ne}{etre} {FRENCH_MANNERS[manner]} {what[1]}"


def profession(rng: Random, subject: Phrase) -> Pair:
    """Draw a profession, which has no article in French: je suis étudiant."""
    row, plural = pick(rng, ALL_PROFESSIONS), subject.slot > 1
    return row[1] if plural else with_article(row[0]), row[2 + 2 * plural + subject.feminine]


def quality(rng: Random, subject: Phrase) -> Pair:
    """Draw an adjective that agrees with the subject in French."""
    while True:
        adjective = pick(rng, subject.noun.adjectives)
        # "is new" would be neuf, not nouveau; and green keys are not black.
        placed_alike = any(other.place == adjective.place for other in subject.adjectives)
        if adjective.english != "new" and not placed_alike:
            return adjective.english, adjective.forms[2 * (subject.slot > 1) + subject.feminine]


def with_relative(rng: Random, head: Phrase) -> Phrase:
    """Add a relative clause in which the head acts (qui) or is acted upon (que)."""
    if head.noun in LIVING and rng.random() < 0.5:
        if rng.random() < 0.25:
            english, french = being(rng, head, manners=("",))
        else:
            manner = pick(rng, ("", "", "", "not"))
            action = drawn_action(rng, head, negated=manner == "not")
            english, french = finite(head.slot, action, manner)
        who = "who" if is_person(head) else "that"
        english, french = f"{who} {english}", f"qui {french}"
    else:
        verb = pick(rng, VERBS_TAKING[head.noun.english[0]])
        doer = drawn_subject(rng, LIVING if verb.for_animals else PEOPLE)
        conjugated = verb.third if doer.slot == 1 else verb.base
        english = f"that {doer.english} {conjugated}"
        french = f"que {doer.french} {verb.french[doer.slot]}"
    return head._replace(english=f"{head.english} {english}", french=f"{head.french} {french}")
