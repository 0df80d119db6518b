"""A small grammar of parallel Chinese and English sentences.

Words and phrases are in `chinese_english_phrases`; this module combines them into sentences.
Chinese has neither number nor articles, so every noun is counted (三本书, three books) or has a
demonstrative (那些狗, those dogs), and 了, 没, 正在 and others mark the tense. So each Chinese
sentence has exactly one English translation.
"""

from collections.abc import Sequence
from random import Random

from regard.data.demo.chinese_english_phrases import (
    ALL_ADJECTIVES,
    ALL_NOUNS,
    ALL_VERBS,
    ASKING,
    BE,
    COUNTED,
    IT_PHRASE,
    LIVING,
    PEOPLE,
    PLACES,
    POINTED_AT,
    RELATING,
    SOMEBODY,
    SOMEONE,
    TABLES,
    Adjective,
    Phrase,
    Predicate,
    build_predicate,
    draw_predicate,
    draw_subject,
    noun_phrase,
    nouns_of,
    place,
    with_relative,
)
from regard.data.demo.grammar import (
    Pair,
    capitalize,
    is_presentable,
    pick,
    weighted_choices,
    with_determiner,
)

THINGS = nouns_of("food,text,print,thing")
PORTABLE = nouns_of("food,text,print,object")
FOUND_ANYWHERE = nouns_of("person,animal,food,print,object")
DESCRIBED_BY = {
    adjective.english: tuple(noun for noun in ALL_NOUNS if adjective in noun.adjectives)
    for adjective in ALL_ADJECTIVES
}
# Adverbs before a predicate and their English: a plain 很 is required, but has no translation.
DEGREES = weighted_choices({("很", ""): 3, ("非常", "very "): 2, ("不", "not "): 2})
NOT = weighted_choices({("", ""): 2, ("不", "not "): 1})
PLAIN = (("", ""),)
# Verbs whose object can be a thing, for questions.
ASKED_VERBS = tuple(
    verb for verb in ALL_VERBS if ASKING[verb.chinese] and not set(verb.objects) <= set(LIVING)
)
STATIVE_VERBS = tuple(verb for verb in ALL_VERBS if "state" in verb.ways)
WHO = Phrase("谁", "who", 1, SOMEBODY, "")

# --------------------------------------------------------------------- predicates with "be"


def draw_topic(rng: Random) -> Phrase:
    """Draw the subject of a description."""
    chance = rng.random()
    if chance < 0.35:
        return draw_subject(rng)
    if chance < 0.38:
        return IT_PHRASE
    if chance < 0.6:
        return with_relative(rng, LIVING + THINGS)
    return noun_phrase(rng, THINGS + PLACES, POINTED_AT, bare=True)


def quality(rng: Random, topic: Phrase, degrees: Sequence[Pair], nots: Sequence[Pair]) -> Predicate:
    """Draw 很可爱, "is cute"; colours stand between 是 and 的."""
    adjective = pick(rng, topic.noun.adjectives)
    chinese, english = pick(rng, degrees if adjective.predicate else nots)
    predicate = adjective.predicate or f"是{adjective.before_noun}"
    return Predicate(chinese + predicate, BE[topic.slot], english + adjective.english)


def comparison(rng: Random, topic: Phrase) -> Predicate:
    """Draw 比那只狗可爱, "is cuter than that dog"."""
    adjective = pick(rng, topic.noun.adjectives)
    while not adjective.comparative:
        adjective = pick(rng, topic.noun.adjectives)
    other = topic
    while other.chinese.rstrip("们") in topic.chinese:
        other = compared_with(rng, topic, adjective)
    english = f"{adjective.comparative} than {other.objective}"
    return Predicate(f"比{other.chinese}{adjective.predicate}", BE[topic.slot], english)


def compared_with(rng: Random, topic: Phrase, adjective: Adjective) -> Phrase:
    """Draw another noun that the adjective can describe, often of the same kind."""
    if topic.noun is SOMEBODY:
        return pick(rng, SOMEONE)
    if topic.noun in ALL_NOUNS and rng.random() < 0.5:
        return noun_phrase(rng, (topic.noun,), POINTED_AT, bare=True)
    alike = [noun for noun in DESCRIBED_BY[adjective.english] if noun.kind == topic.noun.kind]
    return noun_phrase(rng, alike, POINTED_AT, bare=True)


def profession(rng: Random, subject: Phrase, nots: Sequence[Pair]) -> Predicate:
    """Draw 是学生, "is a student"; Chinese has no plural here."""
    (chinese, singular, plural), (not_, english_not) = (
        pick(rng, TABLES["professions"]),
        pick(rng, nots),
    )
    english = plural if subject.slot == 3 else with_determiner("a", singular)
    return Predicate(f"{not_}是{chinese}", BE[subject.slot], english_not + english)


def whereabouts(rng: Random, subject: Phrase, nots: Sequence[Pair]) -> Predicate:
    """Draw 在厨房里, "is in the kitchen"."""
    (chinese, english), (not_, english_not) = place(rng), pick(rng, nots)
    return Predicate(f"{not_}在{chinese}", BE[subject.slot], english_not + english)


def being(rng: Random, *, is_question: bool) -> tuple[Phrase, Predicate]:
    """Draw a subject and its predicate; questions have no negation and no 很."""
    nots = PLAIN if is_question else NOT
    chance = rng.random()
    if chance < 0.2:
        subject = draw_subject(rng, PEOPLE)
        return subject, profession(rng, subject, nots)
    if chance < 0.35:
        subject = draw_subject(rng)
        return subject, whereabouts(rng, subject, nots)
    topic = draw_topic(rng)
    if chance < 0.55:
        return topic, comparison(rng, topic)
    return topic, quality(rng, topic, PLAIN if is_question else DEGREES, nots)


# ---------------------------------------------------------------------------------- sentences


def to_statement(subject: Phrase, predicate: Predicate) -> Pair:
    """A statement from subject and predicate."""
    words = (subject.english, predicate.auxiliary, predicate.english)
    return subject.chinese + predicate.chinese, " ".join(filter(None, words))


def statement(rng: Random) -> Pair:
    """Draw 那些男孩没读这本书: "Those boys did not read this book"."""
    subject = with_relative(rng, LIVING) if rng.random() < 0.12 else draw_subject(rng)
    return to_statement(subject, draw_predicate(rng, subject))


def description(rng: Random) -> Pair:
    """Draw 这只猫很可爱: "This cat is cute"."""
    return to_statement(*being(rng, is_question=False))


def liking_with_relative(rng: Random) -> Pair:
    """Draw 我喜欢小明昨天买的那本书: "I like the book that Xiaoming bought yesterday"."""
    subject, verb = draw_subject(rng, PEOPLE), pick(rng, STATIVE_VERBS)
    aspect = pick(rng, RELATING[verb.chinese])  # without 不 and 非常: the object is long enough
    target = with_relative(rng, verb.objects)
    while len(subject.chinese) > 1 and subject.chinese in target.chinese:
        target = with_relative(rng, verb.objects)  # no repeated names
    return to_statement(
        subject, build_predicate(verb, aspect, subject.slot, (target.chinese, target.english))
    )


def gift(rng: Random) -> Pair:
    """Draw 小明给了我一本书: "Xiaoming gave me a book"."""
    giver, taker = draw_subject(rng, PEOPLE), pick(rng, SOMEONE)
    while taker.chinese.rstrip("们") in giver.chinese:
        taker = pick(rng, SOMEONE)
    present = noun_phrase(rng, PORTABLE, COUNTED)
    when, english_when = pick(rng, (("", ""), ("昨天", " yesterday")))
    chinese = f"{giver.chinese}{when}给了{taker.chinese}{present.chinese}"
    return chinese, f"{giver.english} gave {taker.objective} {present.english}{english_when}"


def existence(rng: Random) -> Pair:
    """Draw 公园里有三只猫: "There are three cats in the park"."""
    chance = rng.random()
    where, english_where = place(rng)
    if chance < 0.6:
        phrase = noun_phrase(rng, FOUND_ANYWHERE, COUNTED)
        english = f"there {BE[phrase.slot]} {phrase.english} {english_where}"
        return f"{where}有{phrase.chinese}", english
    noun = pick(rng, FOUND_ANYWHERE)
    if chance < 0.8:
        return f"{where}没有{noun.chinese}", f"there are no {noun.english[1]} {english_where}"
    return f"{where}有{noun.chinese}吗？", f"are there any {noun.english[1]} {english_where}?"


def compound(rng: Random) -> Pair:
    """Draw two sentences joined by "because" or "but"."""
    joint, english = pick(rng, (("因为", "because"), ("但是", "but")))
    first, second = pick(rng, (statement, description))(rng), statement(rng)
    return f"{first[0]}，{joint}{second[0]}", f"{first[1]} {english} {second[1]}"


def introduction(rng: Random) -> Pair:
    """Draw 我是学生，他是医生: "I am a student and he is a doctor"."""
    first, second = (draw_subject(rng, PEOPLE) for _ in range(2))
    clause = other_clause = profession(rng, first, NOT)
    while other_clause.chinese[-2:] == clause.chinese[-2:]:  # the same profession would require 也
        other_clause = profession(rng, second, NOT)
    clauses = to_statement(first, clause), to_statement(second, other_clause)
    return f"{clauses[0][0]}，{clauses[1][0]}", f"{clauses[0][1]} and {clauses[1][1]}"


def to_question(subject: Phrase, predicate: Predicate) -> str:
    """An English question: the auxiliary precedes the subject."""
    return f"{predicate.auxiliary} {subject.english} {predicate.english}?"


def yes_no_question(rng: Random) -> Pair:
    """Draw 你认识小明吗: "Do you know Xiaoming?"."""
    if rng.random() < 0.3:
        subject, predicate = being(rng, is_question=True)
    else:
        subject = draw_subject(rng)
        predicate = draw_predicate(rng, subject, ASKING)
    return f"{subject.chinese}{predicate.chinese}吗？", to_question(subject, predicate)


def question_for_object(rng: Random) -> Pair:
    """Draw 你想买什么, "What do you want to buy?", or 小明买了几本书, "How many books did..."."""
    verb = pick(rng, ASKED_VERBS)
    subject = draw_subject(rng, LIVING if verb.for_animals else PEOPLE)
    aspect = pick(rng, ASKING[verb.chinese])
    if aspect.objects != "any" or rng.random() < 0.5:
        predicate = build_predicate(verb, aspect, subject.slot, ("什么", ""))
        return f"{subject.chinese}{predicate.chinese}？", f"what {to_question(subject, predicate)}"
    noun = pick(rng, verb.objects)
    predicate = build_predicate(verb, aspect, subject.slot, (f"几{noun.measure}{noun.chinese}", ""))
    english = f"how many {noun.english[1]} {to_question(subject, predicate)}"
    return f"{subject.chinese}{predicate.chinese}？", english


def question_word(rng: Random) -> Pair:
    """Draw a question with 为什么, 在哪里 or 谁; Chinese moves none of them."""
    chance = rng.random()
    if chance < 0.35:
        subject = draw_subject(rng)
        predicate = draw_predicate(rng, subject, ASKING)
        return (
            f"{subject.chinese}为什么{predicate.chinese}？",
            f"why {to_question(subject, predicate)}",
        )
    if chance < 0.65:
        nouns = LIVING if rng.random() < 0.5 else THINGS
        subject = draw_subject(rng, nouns)
        return f"{subject.chinese}在哪里？", f"where {BE[subject.slot]} {subject.english}?"
    chinese, english = to_statement(WHO, draw_predicate(rng, WHO))
    return f"{chinese}？", f"{english}?"


KINDS_OF_SENTENCE = weighted_choices({
    statement: 40, description: 18, liking_with_relative: 6, gift: 4, existence: 5,
    compound: 4, introduction: 3, yes_no_question: 13, question_for_object: 5, question_word: 5,
})  # fmt: skip


def chinese_english_pair(rng: Random) -> Pair:
    """Draw a Chinese sentence and its English translation."""
    while True:
        chinese, english = pick(rng, KINDS_OF_SENTENCE)(rng)
        if is_presentable(english):
            is_question = english.endswith("?")
            stops = ("", "") if is_question else ("。", ".")
            return chinese + stops[0], capitalize(english) + stops[1]
