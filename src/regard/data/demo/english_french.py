"""A small grammar of parallel English and French sentences.

Words and phrases are in `english_french_phrases`; this module combines them into sentences. Every
rule depends on the English sentence only, so that each has exactly one French translation: there
is no "you", no "it" and no past tense, and "I", "we" and "they" are masculine.
"""

import re
from collections.abc import Sequence
from random import Random

from regard.data.demo.english_french_phrases import (
    ALL_NOUNS,
    COUNTED,
    DEFINITE,
    DIRECT_VERBS,
    FOUND_ANYWHERE,
    LIVING,
    NO,
    PEOPLE,
    SOMEBODY,
    TABLES,
    THE,
    THE_PLURAL,
    VERBS_TAKING,
    A,
    Action,
    Phrase,
    any_phrase,
    draw_action,
    draw_subject,
    is_person,
    location,
    noun_phrase,
    nouns_of,
)
from regard.data.demo.grammar import (
    Pair,
    capitalize,
    is_presentable,
    pick,
    weighted_choices,
    with_determiner,
)

HEADS = weighted_choices({THE: 5, THE_PLURAL: 4, A: 4})
THINGS = nouns_of("food,text,print,thing,place")
PRIVATE = nouns_of("private")
PORTABLE = nouns_of("person,animal,object,food,print")
WHAT_VERBS = tuple(verb for verb in DIRECT_VERBS if not set(verb.objects) <= set(LIVING))
CONJUNCTIONS = (("and", "et"), ("but", "mais"), ("because", "parce que"), ("when", "quand"))


# ------------------------------------------------------- predicates: negation, modals

MANNERS = weighted_choices({"": 10, "not": 6, "never": 2, "often": 2, "always": 1})
FRENCH_MANNERS = {"not": "pas", "never": "jamais", "often": "souvent", "always": "toujours"}
NEGATING = ("not", "never")
DO = ("do", "does", "do", "do")
BE = ("am", "is", "are", "are")
ETRE = ("suis", "est", "sommes", "sont")


def finite(slot: int, action: Action, manner: str = "") -> Pair:
    """A finite verb phrase: "does not see the cat", ne voit pas le chat."""
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
    modals: Sequence[list[str]] = TABLES["modals"],
    *,
    negated: bool = False,
) -> Pair:
    """A modal verb phrase ("can", "must", "want to"): French negates the modal verb."""
    row = pick(rng, modals)
    english = row[2 * negated + (slot != 1)]
    french_modal = f"ne {row[4 + slot]} pas" if negated else row[4 + slot]
    infinitive = f"{action.clitic}{action.verb.infinitive}{action.french_rest}"
    return f"{english} {action.verb.base}{action.english_rest}", f"{french_modal} {infinitive}"


def being(rng: Random, subject: Phrase, manners: Sequence[str] = MANNERS) -> Pair:
    """A predicate with "be": a location, a profession, or an adjective."""
    chance = rng.random()
    manner = pick(rng, manners)
    if chance < 0.15 and subject.noun.kinds & FOUND_ANYWHERE:
        complement = location(rng)
    elif chance < 0.6 and "private" in subject.noun.kinds and manner in ("", "not"):
        complement = profession(rng, subject)
    else:
        complement = quality(rng, subject)
    return copular(subject.slot, manner, complement)


def copular(slot: int, manner: str, complement: Pair) -> Pair:
    """A predicate with "be" and a complement: "is not sad", ne est pas triste."""
    be, etre = BE[slot], ETRE[slot]
    if not manner:
        return f"{be} {complement[0]}", f"{etre} {complement[1]}"
    ne = "ne " if manner in NEGATING else ""
    return f"{be} {manner} {complement[0]}", f"{ne}{etre} {FRENCH_MANNERS[manner]} {complement[1]}"


def profession(rng: Random, subject: Phrase) -> Pair:
    """Draw a profession, which has no article in French: je suis étudiant."""
    row, plural = pick(rng, TABLES["professions"]), subject.slot > 1
    return row[1] if plural else with_determiner("a", row[0]), row[
        2 + 2 * plural + subject.feminine
    ]


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
            action = draw_action(rng, head, negated=manner == "not")
            english, french = finite(head.slot, action, manner)
        who = "who" if is_person(head) else "that"
        english, french = f"{who} {english}", f"qui {french}"
    else:
        verb = pick(rng, VERBS_TAKING[head.noun.english[0]])
        doer = draw_subject(rng, LIVING if verb.for_animals else PEOPLE)
        conjugated = verb.third if doer.slot == 1 else verb.base
        english = f"that {doer.english} {conjugated}"
        french = f"que {doer.french} {verb.french[doer.slot]}"
    return head._replace(english=f"{head.english} {english}", french=f"{head.french} {french}")


# ---------------------------------------------------------------------------------- sentences


def draw_predicate(rng: Random, subject: Phrase) -> Pair:
    """Sample any predicate of a living subject."""
    chance = rng.random()
    if chance < 0.1:
        return being(rng, subject)
    if chance < 0.25:
        negated = rng.random() < 0.3
        action = draw_action(rng, subject, negated=negated)
        return modal(rng, subject.slot, action, negated=negated)
    manner = pick(rng, MANNERS)
    return finite(subject.slot, draw_action(rng, subject, negated=manner in NEGATING), manner)


def join_subject(subject: Phrase, predicate: Pair) -> Pair:
    """Join a subject and its predicate, in both languages."""
    return f"{subject.english} {predicate[0]}", f"{subject.french} {predicate[1]}"


def statement(rng: Random) -> Pair:
    """Draw "The small dog does not see the red houses"."""
    subject = draw_subject(rng)
    return join_subject(subject, draw_predicate(rng, subject))


def description(rng: Random) -> Pair:
    """Draw "The red houses are not clean" or "My key is on the table"."""
    if rng.random() < 0.4:
        subject = any_phrase(rng, THINGS, DEFINITE)
    else:
        subject = draw_subject(rng, LIVING, DEFINITE)
    return join_subject(subject, being(rng, subject))


def existence(rng: Random) -> Pair:
    """Draw "There are two cakes on the table": il y a has no plural."""
    noun = noun_phrase(rng, PORTABLE, (A, A, NO) * 8 + COUNTED)
    there_is = "il ne y a pas" if noun.english.startswith("no ") else "il y a"
    english, french = location(rng)
    there_are = f"there {BE[noun.slot]}"
    return f"{there_are} {noun.english} {english}", f"{there_is} {noun.french} {french}"


def relative(rng: Random) -> Pair:
    """Draw a sentence whose object or subject has a relative clause."""
    if rng.random() < 0.4:
        subject, verb = draw_subject(rng, PEOPLE), pick(rng, DIRECT_VERBS)
        target = with_relative(rng, noun_phrase(rng, verb.objects, HEADS))
        action = Action(verb, f" {target.english}", "", f" {target.french}")
        return join_subject(subject, finite(subject.slot, action))
    living = rng.random() < 0.6
    subject = with_relative(rng, noun_phrase(rng, LIVING if living else THINGS, HEADS))
    return join_subject(subject, draw_predicate(rng, subject) if living else being(rng, subject))


def compound(rng: Random) -> Pair:
    """Draw two statements joined by a conjunction."""
    first, second = statement(rng), statement(rng)
    english, french = pick(rng, CONJUNCTIONS)
    return f"{first[0]} {english} {second[0]}", f"{first[1]} {french} {second[1]}"


def introduction(rng: Random) -> Pair:
    """Draw "I am a student and she is a lawyer"."""
    first, second = (draw_subject(rng, PRIVATE, DEFINITE) for _ in range(2))
    parts = [
        join_subject(subject, being(rng, subject, ("", "", "not"))) for subject in (first, second)
    ]
    english, french = pick(rng, CONJUNCTIONS[:3])
    return f"{parts[0][0]} {english} {parts[1][0]}", f"{parts[0][1]} {french} {parts[1][1]}"


def yes_no_question(rng: Random) -> Pair:
    """Draw a question: English moves "is" and "can", or adds "do"; French adds est-ce que."""
    subject = draw_subject(rng, LIVING, DEFINITE)
    chance = rng.random()
    if chance < 0.25:
        english, french = being(rng, subject, manners=("",))
    elif chance < 0.4:
        english, french = modal(rng, subject.slot, draw_action(rng, subject), TABLES["modals"][:2])
    else:
        action = draw_action(rng, subject)
        english = f"{DO[subject.slot]} {action.verb.base}{action.english_rest}"
        _, french = finite(subject.slot, action)
    first_word, rest = english.split(" ", 1)
    return f"{first_word} {subject.english} {rest}?", f"est-ce que {subject.french} {french} ?"


def question_for_object(rng: Random) -> Pair:
    """Draw "What does she read?" or "How many books does she read?"."""
    verb = pick(rng, WHAT_VERBS)
    subject = draw_subject(rng, LIVING if verb.for_animals else PEOPLE, DEFINITE)
    question = f"{DO[subject.slot]} {subject.english} {verb.base}?"
    french_question = f"est-ce que {subject.french} {verb.french[subject.slot]} ?"
    if rng.random() < 0.5:
        return f"what {question}", f"qu'{french_question}"
    noun = pick(rng, verb.objects)
    return (
        f"how many {noun.english[1]} {question}",
        f"combien de {noun.french[1]} {french_question}",
    )


def question_word(rng: Random) -> Pair:
    """Draw a question with "why", "where" or "who"."""
    chance = rng.random()
    if chance < 0.3:
        english, french = yes_no_question(rng)
        return f"why {english}", f"pourquoi {french}"
    if chance < 0.6:
        phrase = any_phrase(rng, ALL_NOUNS, DEFINITE)
        is_, est = BE[phrase.slot], ETRE[phrase.slot]
        return f"where {is_} {phrase.english}?", f"où {est} {phrase.french} ?"
    english, french = finite(1, draw_action(rng, WHO))
    return f"who {english}?", f"qui {french} ?"


WHO = Phrase("who", "qui", 1, False, SOMEBODY)
KINDS_OF_SENTENCE = weighted_choices({
    statement: 40, description: 15, existence: 5, relative: 14, introduction: 4, compound: 3,
    yes_no_question: 13, question_for_object: 6, question_word: 5,
})  # fmt: skip
ELIDED = re.compile(r"\b([ldnjm]|qu)(?:e|(?<=l)a) (?=(?!huit|onze)[aeiouyhâéèêîôœ])")
CONTRACTED = re.compile(r"\b(?:de|à) les?\b(?!')")
CONTRACTIONS = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def elide_and_contract(french: str) -> str:
    """Elide and contract: "de le arbre" becomes "de l'arbre", "de le roi" becomes "du roi"."""
    elided = ELIDED.sub(r"\1'", french)
    return CONTRACTED.sub(lambda match: CONTRACTIONS[match[0]], elided)


def english_french_pair(rng: Random) -> Pair:
    """Draw an English sentence and its French translation."""
    while True:
        english, french = pick(rng, KINDS_OF_SENTENCE)(rng)
        if is_presentable(english):
            return as_sentence(english, french)


def as_sentence(english: str, french: str) -> Pair:
    """Words with a capital letter, a full stop and elisions."""
    stop = "" if english.endswith("?") else "."
    return capitalize(english) + stop, capitalize(elide_and_contract(french)) + stop
