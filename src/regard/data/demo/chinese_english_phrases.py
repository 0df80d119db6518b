"""The words and phrases of the Chinese-English demo: nouns, places, and actions."""

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

VOCABULARY = read_vocabulary("chinese_english")
TABLES = VOCABULARY.tables


class Adjective(NamedTuple):
    """An empty `predicate` marks a colour, which Chinese puts between 是 and 的."""

    before_noun: str
    predicate: str
    english: str
    comparative: str
    kinds: frozenset[str]


class Noun(NamedTuple):
    """`english`: singular and plural; `kind`: the first, and broadest, of its kinds."""

    chinese: str
    measure: str
    english: tuple[str, str]
    kind: str
    kinds: frozenset[str]
    adjectives: tuple[Adjective, ...]


class Verb(NamedTuple):
    """`ways`: its tenses and moods, as named in the table of statements."""

    chinese: str
    base: str
    third: str
    past: str
    gerund: str
    ways: frozenset[str]
    for_animals: bool
    objects: tuple[Noun, ...]


class Aspect(NamedTuple):
    """A row of the tables of statements and questions; `auxiliary`: after I, he, you, they."""

    chinese: str
    auxiliary: tuple[str, ...]
    form: str
    adverb: str
    last: str
    ways: frozenset[str]
    objects: str


BE = ("am", "is", "are", "are")
_AGREEING = {
    "be": BE,
    "do": ("do", "does", "do", "do"),
    "want": ("want", "wants", "want", "want"),
}


def _noun(row: list[str]) -> Noun:
    kinds = parse_kinds(row[4])
    fitting = tuple(adjective for adjective in ALL_ADJECTIVES if adjective.kinds & kinds)
    return Noun(row[0], row[1], (row[2], row[3]), row[4].split(",")[0], kinds, fitting)


def _aspect(row: list[str]) -> Aspect:
    first, *others = row[1].split(" ")
    forms = _AGREEING.get(first, (first,) * 4)
    auxiliary = tuple(" ".join([form, *others]) for form in forms)
    return Aspect(row[0], auxiliary, row[2], row[3], row[4], parse_kinds(row[5]), row[6])


def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """All nouns of some comma-separated kinds."""
    return tuple(noun for noun in ALL_NOUNS if noun.kinds & parse_kinds(kinds))


ALL_ADJECTIVES = [
    Adjective(before_noun, predicate, english, comparative, parse_kinds(kinds))
    for before_noun, predicate, english, comparative, kinds in TABLES["adjectives"]
]
ALL_NOUNS = [_noun(row) for row in TABLES["nouns"]]
ALL_VERBS = [
    Verb(chinese, base, third, past, gerund, parse_kinds(ways), who == "any", nouns_of(objects))
    for chinese, base, third, past, gerund, ways, who, objects in TABLES["verbs"]
]
ALL_STATEMENTS = [_aspect(row) for row in TABLES["statements"]]
ALL_QUESTIONS = [_aspect(row) for row in TABLES["questions"]]
# The nouns that names and pronouns stand for.
SOMEBODY = _noun(["", "", "", "", "person"])
IT = _noun(["", "", "", "", "animal"])

# ------------------------------------------------------------------------------- noun phrases


class Determiner(NamedTuple):
    """What comes before a noun, with or without the noun's measure word."""

    chinese: str
    measured: bool
    english: str
    plural: bool


class Phrase(NamedTuple):
    """A subject or object; `slot`: the verb form that agrees with it (I, he, you, they)."""

    chinese: str
    english: str
    slot: int
    noun: Noun
    objective: str


THE = Determiner("那", True, "the", False)  # only with a relative clause: elsewhere 那 is "that"
THE_PLURAL = Determiner("那些", False, "the", True)
POINTED_AT = weighted_choices({
    Determiner("这", True, "this", False): 6,
    Determiner("那", True, "that", False): 6,
    Determiner("这些", False, "these", True): 4,
    Determiner("那些", False, "those", True): 4,
}) + tuple(
    Determiner(pointer + number, True, f"{english_pointer} {english}", True)
    for number, english in TABLES["numbers"][:4]
    for pointer, english_pointer in (("这", "these"), ("那", "those"))
)  # fmt: skip
COUNTED = (
    *[Determiner("一", True, "a", False)] * 12,
    *[Determiner(chinese, True, english, True) for chinese, english in TABLES["numbers"]],
    *[Determiner("很多", False, "many", True)] * 3,
)
DETERMINERS = {"particular": POINTED_AT, "counted": COUNTED, "any": POINTED_AT + COUNTED}


def draw_adjectives(rng: Random, noun: Noun) -> Sequence[Adjective]:
    """Draw none, one, or two adjectives: in a pair, the second is a short one without 的."""
    chance = rng.random()
    if chance < 0.6:
        return ()
    first, second = pick(rng, noun.adjectives), pick(rng, noun.adjectives)
    two = chance > 0.85 and first.before_noun.endswith("的") and first.predicate
    return (first, second) if two and not second.before_noun.endswith("的") else (first,)


def noun_phrase(
    rng: Random, nouns: Sequence[Noun], determiners: Sequence[Determiner], *, bare: bool = False
) -> Phrase:
    """Draw determiner, measure word, adjectives and noun."""
    noun, determiner = pick(rng, nouns), pick(rng, determiners)
    adjectives = () if bare else draw_adjectives(rng, noun)
    words = [adjective.english for adjective in adjectives] + [noun.english[determiner.plural]]
    english = with_determiner(determiner.english, " ".join(words))
    measure = noun.measure if determiner.measured else ""
    described = "".join(adjective.before_noun for adjective in adjectives)
    chinese = f"{determiner.chinese}{measure}{described}{noun.chinese}"
    return Phrase(chinese, english, 3 if determiner.plural else 1, noun, english)


def named(chinese: str, english: str) -> Phrase:
    """A phrase for a person, without determiner."""
    return Phrase(chinese, english, 1, SOMEBODY, english)


PRONOUNS = (
    Phrase("我", "I", 0, SOMEBODY, "me"),
    Phrase("你", "you", 2, SOMEBODY, "you"),
    Phrase("他", "he", 1, SOMEBODY, "him"),
    Phrase("她", "she", 1, SOMEBODY, "her"),
    Phrase("我们", "we", 3, SOMEBODY, "us"),
    Phrase("他们", "they", 3, SOMEBODY, "them"),
)
IT_PHRASE = Phrase("它", "it", 1, IT, "it")
NAMES = (named("小明", "Xiaoming"), named("小红", "Xiaohong"))
RELATIVES = tuple(
    named(owner + relative, f"{english_owner} {english}")
    for owner, english_owner in (("我", "my"), ("你", "your"), ("他", "his"), ("她", "her"))
    for relative, english in (("妈妈", "mother"), ("爸爸", "father"), ("奶奶", "grandmother"))
)
SOMEONE = PRONOUNS * 4 + NAMES * 8 + RELATIVES
LIVING = nouns_of("person,animal")
PEOPLE = nouns_of("person")


def draw_subject(rng: Random, nouns: Sequence[Noun] = LIVING) -> Phrase:
    """Draw a person, two people, or a noun phrase: Chinese subjects are definite."""
    chance = rng.random()
    if chance < 0.35:
        return pick(rng, SOMEONE)
    if chance < 0.42:
        first, second = pick(rng, (PRONOUNS[0], *NAMES)), pick(rng, RELATIVES)
        chinese = f"{first.chinese}和{second.chinese}"
        # In English, "I" comes last.
        order = (second, first) if first.slot == 0 else (first, second)
        english = f"{order[0].english} and {order[1].english}"
        return Phrase(chinese, english, 3, SOMEBODY, english)
    return noun_phrase(rng, nouns, POINTED_AT)


# ------------------------------------------------------------------------- actions


class Predicate(NamedTuple):
    """A predicate; `auxiliary` may be empty, and precedes the subject in English questions."""

    chinese: str
    auxiliary: str
    english: str


Ways = dict[str, tuple[Aspect, ...]]


def aspects_by_verb(aspects: Sequence[Aspect]) -> Ways:
    """The aspects of each verb."""
    return {
        verb.chinese: tuple(aspect for aspect in aspects if aspect.ways & verb.ways)
        for verb in ALL_VERBS
    }


STATING = aspects_by_verb(ALL_STATEMENTS)
ASKING = aspects_by_verb(ALL_QUESTIONS)
# Natural in relative clauses: 那个买了三本书的女孩.
RELATING = aspects_by_verb(
    [aspect for aspect in ALL_STATEMENTS if aspect.chinese in ("{}", "{}了", "正在{}")]
)
VERBS_OF = {True: tuple(ALL_VERBS), False: tuple(verb for verb in ALL_VERBS if verb.for_animals)}
TAKING_PEOPLE = frozenset(verb.base for verb in ALL_VERBS if PEOPLE[0] in verb.objects)
TAKING_IT = frozenset(
    verb.base
    for verb in ALL_VERBS
    if nouns_of("animal")[0] in verb.objects and "have" not in verb.ways
)
DONE_ANYWHERE = ("sleep", "rest", "sing", "dance", "work", "run", "eat", "read", "draw", "wait for")
PLACES = nouns_of("place")


def place(rng: Random) -> Pair:
    """Draw a location inside of a place."""
    noun = pick(rng, PLACES)
    return f"{noun.chinese}里", f"in the {noun.english[0]}"


def build_predicate(
    verb: Verb, aspect: Aspect, slot: int, target: Pair = ("", ""), where: Pair = ("", "")
) -> Predicate:
    """Combine verb, object and place in both languages."""
    chinese = aspect.chinese.format(f"在{where[0]}{verb.chinese}" if where[0] else verb.chinese)
    chinese = chinese.replace("正在在", "正在")
    if aspect.form == "finite":
        form = verb.third if slot == 1 else verb.base
    else:
        form = {"base": verb.base, "past": verb.past, "gerund": verb.gerund}[aspect.form]
    words = (aspect.adverb, form, target[1], where[1], aspect.last)
    return Predicate(chinese + target[0], aspect.auxiliary[slot], " ".join(filter(None, words)))


def draw_predicate(rng: Random, subject: Phrase, ways: Ways = STATING) -> Predicate:
    """Draw an action of the subject, in any tense or mood."""
    verb = pick(rng, VERBS_OF["person" in subject.noun.kinds])
    while not ways[verb.chinese]:
        verb = pick(rng, VERBS_OF["person" in subject.noun.kinds])
    aspect = pick(rng, ways[verb.chinese])
    target = draw_object(rng, subject, verb, aspect.objects) if verb.objects else ("", "")
    often = 0.15 if verb.objects else 0.5
    somewhere = verb.base in DONE_ANYWHERE and rng.random() < often
    return build_predicate(
        verb, aspect, subject.slot, target, place(rng) if somewhere else ("", "")
    )


def draw_object(rng: Random, subject: Phrase, verb: Verb, determiners: str) -> Pair:
    """Draw an object other than the subject."""
    while True:
        chance = rng.random()
        if chance < 0.35 and verb.base in TAKING_PEOPLE:
            target = pick(rng, SOMEONE)
        elif chance < 0.1 and verb.base in TAKING_IT:
            target = IT_PHRASE
        else:
            target = noun_phrase(rng, verb.objects, DETERMINERS[determiners])
        # 我 loves neither 我 nor 我们, and no cat chases that cat.
        same = target.noun is subject.noun and target.noun is not SOMEBODY
        if not same and target.chinese.rstrip("们") not in subject.chinese:
            return target.chinese, target.objective


def with_relative(rng: Random, nouns: Sequence[Noun]) -> Phrase:
    """Draw a noun with a relative clause: Chinese puts it before the noun, English after it."""
    noun, the = pick(rng, nouns), pick(rng, (THE, THE, THE_PLURAL))
    pointer = the.chinese + (noun.measure if the.measured else "")
    head = Phrase(noun.chinese, f"the {noun.english[the.plural]}", 3 if the.plural else 1, noun, "")
    if noun in LIVING and rng.random() < 0.5:
        clause, english = clause_as_subject(rng, head)
        chinese = f"{pointer}{clause}的{noun.chinese}"
    else:
        clause, english = clause_as_object(rng, noun)
        chinese = f"{clause}的{pointer}{noun.chinese}"
    english = f"{head.english} {english}"
    return Phrase(chinese, english, head.slot, noun, english)


def clause_as_subject(rng: Random, head: Phrase) -> Pair:
    """Draw 喜欢小明, "who likes Xiaoming"."""
    act = draw_predicate(rng, head, RELATING)
    who = "who" if "person" in head.noun.kinds else "that"
    return act.chinese, " ".join(filter(None, (who, act.auxiliary, act.english)))


def clause_as_object(rng: Random, noun: Noun) -> Pair:
    """Draw 小明喜欢, "that Xiaoming likes", or 小明昨天买, "that Xiaoming bought yesterday"."""
    verb = pick(rng, VERBS_TAKING[noun.chinese])
    doer = pick(rng, SOMEONE) if rng.random() < 0.7 else noun_phrase(rng, PEOPLE, POINTED_AT)
    if "state" in verb.ways:
        form = verb.third if doer.slot == 1 else verb.base
        return f"{doer.chinese}{verb.chinese}", f"that {doer.english} {form}"
    return f"{doer.chinese}昨天{verb.chinese}", f"that {doer.english} {verb.past} yesterday"


VERBS_TAKING = {
    noun.chinese: tuple(
        verb for verb in ALL_VERBS if noun in verb.objects and verb.ways & {"state", "done"}
    )
    for noun in nouns_of("person,animal,food,text,print,thing,place")
}
