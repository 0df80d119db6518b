"""A small grammar of parallel English and French sentences.

The words and phrases are in `english_french_phrases`; here phrases become sentences. Every rule
depends only on the English sentence, so that each English sentence has exactly one French one:
that is why there is no "you", no "it" and no past tense, and why "I", "we" and "they" are
masculine.
"""

import re
from collections.abc import Sequence
from random import Random

from regard.data.demo.drawing import Pair, capitalised, determined, pick, presentable, repeated
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
    drawn_action,
    drawn_subject,
    is_person,
    location,
    noun_phrase,
    nouns_of,
)

HEADS = repeated({THE: 5, THE_PLURAL: 4, A: 4})
THINGS = nouns_of("food,text,print,thing,place")
PRIVATE = nouns_of("private")
PORTABLE = nouns_of("person,animal,object,food,print")
WHAT_VERBS = tuple(verb for verb in DIRECT_VERBS if not set(verb.objects) <= set(LIVING))
CONJUNCTIONS = (("and", "et"), ("but", "mais"), ("because", "parce que"), ("when", "quand"))


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
    modals: Sequence[list[str]] = TABLES["modals"],
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
    row, plural = pick(rng, TABLES["professions"]), subject.slot > 1
    return row[1] if plural else determined("a", row[0]), row[2 + 2 * plural + subject.feminine]


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


# ---------------------------------------------------------------------------------- sentences


def said(rng: Random, subject: Phrase) -> Pair:
    """Say anything at all about a living subject."""
    chance = rng.random()
    if chance < 0.1:
        return being(rng, subject)
    if chance < 0.25:
        negated = rng.random() < 0.3
        action = drawn_action(rng, subject, negated=negated)
        return modal(rng, subject.slot, action, negated=negated)
    manner = pick(rng, MANNERS)
    return finite(subject.slot, drawn_action(rng, subject, negated=manner in NEGATING), manner)


def joined(subject: Phrase, said_of_it: Pair) -> Pair:
    """Put a subject before what is said of it, in both languages."""
    return f"{subject.english} {said_of_it[0]}", f"{subject.french} {said_of_it[1]}"


def statement(rng: Random) -> Pair:
    """Draw "The small dog does not see the red houses"."""
    subject = drawn_subject(rng)
    return joined(subject, said(rng, subject))


def description(rng: Random) -> Pair:
    """Draw "The red houses are not clean" or "My key is on the table"."""
    if rng.random() < 0.4:
        subject = any_phrase(rng, THINGS, DEFINITE)
    else:
        subject = drawn_subject(rng, LIVING, DEFINITE)
    return joined(subject, being(rng, subject))


def existence(rng: Random) -> Pair:
    """Draw "There are two cakes on the table": il y a has no plural."""
    found = noun_phrase(rng, PORTABLE, (A, A, NO) * 8 + COUNTED)
    there_is = "il ne y a pas" if found.english.startswith("no ") else "il y a"
    english, french = location(rng)
    there_are = f"there {BE[found.slot]}"
    return f"{there_are} {found.english} {english}", f"{there_is} {found.french} {french}"


def relative(rng: Random) -> Pair:
    """Draw a sentence whose object or subject has a relative clause."""
    if rng.random() < 0.4:
        subject, verb = drawn_subject(rng, PEOPLE), pick(rng, DIRECT_VERBS)
        target = with_relative(rng, noun_phrase(rng, verb.objects, HEADS))
        action = Action(verb, f" {target.english}", "", f" {target.french}")
        return joined(subject, finite(subject.slot, action))
    living = rng.random() < 0.6
    subject = with_relative(rng, noun_phrase(rng, LIVING if living else THINGS, HEADS))
    return joined(subject, said(rng, subject) if living else being(rng, subject))


def compound(rng: Random) -> Pair:
    """Draw two statements joined by a conjunction."""
    first, second = statement(rng), statement(rng)
    english, french = pick(rng, CONJUNCTIONS)
    return f"{first[0]} {english} {second[0]}", f"{first[1]} {french} {second[1]}"


def introduction(rng: Random) -> Pair:
    """Draw "I am a student and she is a lawyer"."""
    first, second = (drawn_subject(rng, PRIVATE, DEFINITE) for _ in range(2))
    parts = [joined(subject, being(rng, subject, ("", "", "not"))) for subject in (first, second)]
    english, french = pick(rng, CONJUNCTIONS[:3])
    return f"{parts[0][0]} {english} {parts[1][0]}", f"{parts[0][1]} {french} {parts[1][1]}"


def yes_no_question(rng: Random) -> Pair:
    """Draw a question: English moves "is" and "can", or adds "do"; French adds est-ce que."""
    subject = drawn_subject(rng, LIVING, DEFINITE)
    chance = rng.random()
    if chance < 0.25:
        english, french = being(rng, subject, manners=("",))
    elif chance < 0.4:
        english, french = modal(rng, subject.slot, drawn_action(rng, subject), TABLES["modals"][:2])
    else:
        action = drawn_action(rng, subject)
        english = f"{DO[subject.slot]} {action.verb.base}{action.english_rest}"
        _, french = finite(subject.slot, action)
    first_word, rest = english.split(" ", 1)
    return f"{first_word} {subject.english} {rest}?", f"est-ce que {subject.french} {french} ?"


def question_for_object(rng: Random) -> Pair:
    """Draw "What does she read?" or "How many books does she read?"."""
    verb = pick(rng, WHAT_VERBS)
    subject = drawn_subject(rng, LIVING if verb.for_animals else PEOPLE, DEFINITE)
    asked = f"{DO[subject.slot]} {subject.english} {verb.base}?"
    answered = f"est-ce que {subject.french} {verb.french[subject.slot]} ?"
    if rng.random() < 0.5:
        return f"what {asked}", f"qu'{answered}"
    noun = pick(rng, verb.objects)
    return f"how many {noun.english[1]} {asked}", f"combien de {noun.french[1]} {answered}"


def question_word(rng: Random) -> Pair:
    """Draw a question with "why", "where" or "who"."""
    chance = rng.random()
    if chance < 0.3:
        english, french = yes_no_question(rng)
        return f"why {english}", f"pourquoi {french}"
    if chance < 0.6:
        sought = any_phrase(rng, ALL_NOUNS, DEFINITE)
        is_, est = BE[sought.slot], ETRE[sought.slot]
        return f"where {is_} {sought.english}?", f"où {est} {sought.french} ?"
    english, french = finite(1, drawn_action(rng, WHO))
    return f"who {english}?", f"qui {french} ?"


WHO = Phrase("who", "qui", 1, False, SOMEBODY)
KINDS_OF_SENTENCE = repeated({
    statement: 40, description: 15, existence: 5, relative: 14, introduction: 4, compound: 3,
    yes_no_question: 13, question_for_object: 6, question_word: 5,
})  # fmt: skip
ELIDED = re.compile(r"\b([ldnjm]|qu)(?:e|(?<=l)a) (?=(?!huit|onze)[aeiouyhâéèêîôœ])")
CONTRACTED = re.compile(r"\b(?:de|à) les?\b(?!')")
CONTRACTIONS = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def polished(french: str) -> str:
    """Elide and contract: "de le arbre" becomes "de l'arbre", "de le roi" becomes "du roi"."""
    elided = ELIDED.sub(r"\1'", french)
    return CONTRACTED.sub(lambda found: CONTRACTIONS[found[0]], elided)


def english_french_pair(rng: Random) -> Pair:
    """Draw an English sentence and its French translation."""
    while True:
        english, french = pick(rng, KINDS_OF_SENTENCE)(rng)
        if presentable(english):
            stop = "" if english.endswith("?") else "."
            return capitalised(english) + stop, capitalised(polished(french)) + stop
