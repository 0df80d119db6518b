"""A small grammar of parallel Chinese and English sentences.

The words and phrases are in `chinese_english_phrases`; here phrases become sentences. Chinese marks
neither number nor articles, so every noun here is counted (三本书, three books) or pointed at
(那些狗, those dogs), and the time is told by 了, 没, 正在 and the like. That is why each Chinese
sentence has exactly one English one.
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
    Said,
    drawn_act,
    drawn_subject,
    noun_phrase,
    nouns_of,
    place,
    said,
    with_relative,
)
from regard.data.demo.drawing import (
    Pair,
    capitalised,
    determined,
    pick,
    presentable,
    repeated,
)

THINGS = nouns_of("food,text,print,thing")
PORTABLE = nouns_of("food,text,print,object")
FOUND_ANYWHERE = nouns_of("person,animal,food,print,object")
DESCRIBED_BY = {
    adjective.english: tuple(noun for noun in ALL_NOUNS if adjective in noun.adjectives)
    for adjective in ALL_ADJECTIVES
}
# The Chinese before a predicate and its English: a plain 很 says nothing, but must be there.
DEGREES = repeated({("很", ""): 3, ("非常", "very "): 2, ("不", "not "): 2})
NOT = repeated({("", ""): 2, ("不", "not "): 1})
PLAIN = (("", ""),)
# A question for their object can be answered by a thing.
ASKED_VERBS = tuple(
    verb for verb in ALL_VERBS if ASKING[verb.chinese] and not set(verb.objects) <= set(LIVING)
)
STATIVE_VERBS = tuple(verb for verb in ALL_VERBS if "state" in verb.ways)
WHO = Phrase("谁", "who", 1, SOMEBODY, "")

# --------------------------------------------------------------------- what somebody or a thing is


def drawn_topic(rng: Random) -> Phrase:
    """Draw what a description is about."""
    chance = rng.random()
    if chance < 0.35:
        return drawn_subject(rng)
    if chance < 0.38:
        return IT_PHRASE
    if chance < 0.6:
        return with_relative(rng, LIVING + THINGS)
    return noun_phrase(rng, THINGS + PLACES, POINTED_AT, bare=True)


def quality(rng: Random, topic: Phrase, degrees: Sequence[Pair], nots: Sequence[Pair]) -> Said:
    """Draw 很可爱, "is cute"; colours stand between 是 and 的."""
    adjective = pick(rng, topic.noun.adjectives)
    chinese, english = pick(rng, degrees if adjective.predicate else nots)
    predicate = adjective.predicate or f"是{adjective.before_noun}"
    return Said(chinese + predicate, BE[topic.slot], english + adjective.english)


def comparison(rng: Random, topic: Phrase) -> Said:
    """Draw 比那只狗可爱, "is cuter than that dog"."""
    adjective = pick(rng, topic.noun.adjectives)
    while not adjective.comparative:
        adjective = pick(rng, topic.noun.adjectives)
    other = topic
    while other.chinese.rstrip("们") in topic.chinese:
        other = compared_with(rng, topic, adjective)
    english = f"{adjective.comparative} than {other.objective}"
    return Said(f"比{other.chinese}{adjective.predicate}", BE[topic.slot], english)


def compared_with(rng: Random, topic: Phrase, adjective: Adjective) -> Phrase:
    """Draw what the same adjective can describe, often the same kind of thing."""
    if topic.noun is SOMEBODY:
        return pick(rng, SOMEONE)
    if topic.noun in ALL_NOUNS and rng.random() < 0.5:
        return noun_phrase(rng, (topic.noun,), POINTED_AT, bare=True)
    alike = [noun for noun in DESCRIBED_BY[adjective.english] if noun.kind == topic.noun.kind]
    return noun_phrase(rng, alike, POINTED_AT, bare=True)


def profession(rng: Random, subject: Phrase, nots: Sequence[Pair]) -> Said:
    """Draw 是学生, "is a student"; Chinese has no plural here."""
    (chinese, one, many), (not_, english_not) = pick(rng, TABLES["professions"]), pick(rng, nots)
    what = many if subject.slot == 3 else determined("a", one)
    return Said(f"{not_}是{chinese}", BE[subject.slot], english_not + what)


def whereabouts(rng: Random, subject: Phrase, nots: Sequence[Pair]) -> Said:
    """Draw 在厨房里, "is in the kitchen"."""
    (chinese, english), (not_, english_not) = place(rng), pick(rng, nots)
    return Said(f"{not_}在{chinese}", BE[subject.slot], english_not + english)


def being(rng: Random, *, asked: bool) -> tuple[Phrase, Said]:
    """Draw a subject and what it is; a question negates nothing and needs no 很."""
    nots = PLAIN if asked else NOT
    chance = rng.random()
    if chance < 0.2:
        subject = drawn_subject(rng, PEOPLE)
        return subject, profession(rng, subject, nots)
    if chance < 0.35:
        subject = drawn_subject(rng)
        return subject, whereabouts(rng, subject, nots)
    topic = drawn_topic(rng)
    if chance < 0.55:
        return topic, comparison(rng, topic)
    return topic, quality(rng, topic, PLAIN if asked else DEGREES, nots)


# ---------------------------------------------------------------------------------- sentences


def stated(subject: Phrase, what: Said) -> Pair:
    """Make a statement."""
    words = (subject.english, what.auxiliary, what.english)
    return subject.chinese + what.chinese, " ".join(filter(None, words))


def statement(rng: Random) -> Pair:
    """Draw 那些男孩没读这本书: "Those boys did not read this book"."""
    subject = with_relative(rng, LIVING) if rng.random() < 0.12 else drawn_subject(rng)
    return stated(subject, drawn_act(rng, subject))


def description(rng: Random) -> Pair:
    """Draw 这只猫很可爱: "This cat is cute"."""
    return stated(*being(rng, asked=False))


def liking_with_relative(rng: Random) -> Pair:
    """Draw 我喜欢小明昨天买的那本书: "I like the book that Xiaoming bought yesterday"."""
    subject, verb = drawn_subject(rng, PEOPLE), pick(rng, STATIVE_VERBS)
    aspect = pick(rng, RELATING[verb.chinese])  # no 不, no 非常: the object is long enough
    target = with_relative(rng, verb.objects)
    while len(subject.chinese) > 1 and subject.chinese in target.chinese:
        target = with_relative(rng, verb.objects)  # a name would not be said twice
    return stated(subject, said(verb, aspect, subject.slot, (target.chinese, target.english)))


def gift(rng: Random) -> Pair:
    """Draw 小明给了我一本书: "Xiaoming gave me a book"."""
    giver, taker = drawn_subject(rng, PEOPLE), pick(rng, SOMEONE)
    while taker.chinese.rstrip("们") in giver.chinese:
        taker = pick(rng, SOMEONE)
    given = noun_phrase(rng, PORTABLE, COUNTED)
    when, english_when = pick(rng, (("", ""), ("昨天", " yesterday")))
    chinese = f"{giver.chinese}{when}给了{taker.chinese}{given.chinese}"
    return chinese, f"{giver.english} gave {taker.objective} {given.english}{english_when}"


def existence(rng: Random) -> Pair:
    """Draw 公园里有三只猫: "There are three cats in the park"."""
    chance = rng.random()
    where, english_where = place(rng)
    if chance < 0.6:
        found = noun_phrase(rng, FOUND_ANYWHERE, COUNTED)
        english = f"there {BE[found.slot]} {found.english} {english_where}"
        return f"{where}有{found.chinese}", english
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
    first, second = (drawn_subject(rng, PEOPLE) for _ in range(2))
    one = other = profession(rng, first, NOT)
    while other.chinese[-2:] == one.chinese[-2:]:  # the same profession would call for 也
        other = profession(rng, second, NOT)
    clauses = stated(first, one), stated(second, other)
    return f"{clauses[0][0]}，{clauses[1][0]}", f"{clauses[0][1]} and {clauses[1][1]}"


def asked(subject: Phrase, what: Said) -> str:
    """Move the English auxiliary before the subject."""
    return f"{what.auxiliary} {subject.english} {what.english}?"


def yes_no_question(rng: Random) -> Pair:
    """Draw 你认识小明吗: "Do you know Xiaoming?"."""
    if rng.random() < 0.3:
        subject, what = being(rng, asked=True)
    else:
        subject = drawn_subject(rng)
        what = drawn_act(rng, subject, ASKING)
    return f"{subject.chinese}{what.chinese}吗？", asked(subject, what)


def question_for_object(rng: Random) -> Pair:
    """Draw 你想买什么, "What do you want to buy?", or 小明买了几本书, "How many books did..."."""
    verb = pick(rng, ASKED_VERBS)
    subject = drawn_subject(rng, LIVING if verb.for_animals else PEOPLE)
    aspect = pick(rng, ASKING[verb.chinese])
    if aspect.objects != "any" or rng.random() < 0.5:
        what = said(verb, aspect, subject.slot, ("什么", ""))
        return f"{subject.chinese}{what.chinese}？", f"what {asked(subject, what)}"
    noun = pick(rng, verb.objects)
    what = said(verb, aspect, subject.slot, (f"几{noun.measure}{noun.chinese}", ""))
    english = f"how many {noun.english[1]} {asked(subject, what)}"
    return f"{subject.chinese}{what.chinese}？", english


def question_word(rng: Random) -> Pair:
    """Draw a question with 为什么, 在哪里 or 谁; Chinese moves none of them."""
    chance = rng.random()
    if chance < 0.35:
        subject = drawn_subject(rng)
        what = drawn_act(rng, subject, ASKING)
        return f"{subject.chinese}为什么{what.chinese}？", f"why {asked(subject, what)}"
    if chance < 0.65:
        nouns = LIVING if rng.random() < 0.5 else THINGS
        sought = drawn_subject(rng, nouns)
        return f"{sought.chinese}在哪里？", f"where {BE[sought.slot]} {sought.english}?"
    chinese, english = stated(WHO, drawn_act(rng, WHO))
    return f"{chinese}？", f"{english}?"


KINDS_OF_SENTENCE = repeated({
    statement: 40, description: 18, liking_with_relative: 6, gift: 4, existence: 5,
    compound: 4, introduction: 3, yes_no_question: 13, question_for_object: 5, question_word: 5,
})  # fmt: skip


def chinese_english_pair(rng: Random) -> Pair:
    """Draw a Chinese sentence and its English translation."""
    while True:
        chinese, english = pick(rng, KINDS_OF_SENTENCE)(rng)
        if presentable(english):
            is_question = english.endswith("?")
            stops = ("", "") if is_question else ("。", ".")
            return chinese + stops[0], capitalised(english) + stops[1]
