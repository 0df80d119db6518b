"""The demo corpora: their guarantees, and independent checks of their grammar."""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import pytest

from regard.data.demo import (
    GRAMMARS,
    NOTE_EXAMPLES,
    WITHHELD,
    DemoCorpus,
    demo_corpus,
    has_withheld,
    write_demo_corpus,
)
from regard.data.demo.english_french_phrases import nouns_of
from regard.errors import ConfigError, StorageError

NAMES = sorted(GRAMMARS)


@cache
def corpus(name: str) -> DemoCorpus:
    return demo_corpus(name, train=201_000)


@cache
def lines(name: str, side: int) -> list[str]:
    """All generated sentences of one language, without the notes' examples."""
    whole = corpus(name)
    notes = {example[side] for example in NOTE_EXAMPLES[name]}
    return [
        pair[side] for pair in whole.train + whole.valid + whole.heldout if pair[side] not in notes
    ]


@cache
def french() -> str:
    return "\n".join(lines("en-fr", 1)).lower()


@cache
def english(name: str) -> str:
    return "\n".join(lines(name, 0 if name == "en-fr" else 1))


# ------------------------------------------------------------------------------- guarantees


@pytest.mark.parametrize("name", NAMES)
def test_more_than_200_000_distinct_pairs(name: str) -> None:
    assert len(set(corpus(name).train)) == len(corpus(name).train) == 201_000


@pytest.mark.parametrize("name", NAMES)
def test_each_source_sentence_has_one_translation(name: str) -> None:
    sample_pair, rng = GRAMMARS[name], Random(7)
    translations = dict(corpus(name).train)
    for _ in range(60_000):
        source, target = sample_pair(rng)
        assert translations.setdefault(source, target) == target


@pytest.mark.parametrize("name", NAMES)
def test_parts_share_no_sentence_on_either_side(name: str) -> None:
    whole = corpus(name)
    pairs = whole.train + whole.valid + whole.heldout
    assert len({source for source, _ in pairs}) == len(pairs)
    assert len({target for _, target in pairs}) == len(pairs)
    assert (len(whole.valid), len(whole.heldout)) == (500, 1000)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_corpus(name: str) -> None:
    first = demo_corpus(name, seed=3, train=300, valid=20, heldout=40)
    assert first == demo_corpus(name, seed=3, train=300, valid=20, heldout=40)
    other = demo_corpus(name, seed=4, train=300, valid=20, heldout=40)
    assert not set(first.heldout) & set(other.heldout)


@pytest.mark.parametrize("name", NAMES)
def test_heldout_does_not_depend_on_the_amount_of_training_data(name: str) -> None:
    assert demo_corpus(name, train=50).heldout == corpus(name).heldout


def test_notes_examples_are_in_training() -> None:
    assert ("i am a student", "je suis étudiant") in corpus("en-fr").train
    assert ("I am a student.", "Je suis étudiant.") in corpus("en-fr").train
    assert ("我爱你", "I love you") in corpus("zh-en").train


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_not_in_training_unless_they_are_the_notes(name: str) -> None:
    whole = corpus(name)
    notes = {source for source, _ in NOTE_EXAMPLES[name]}
    assert whole.samples[0] in notes
    assert not {source for source, _ in whole.train} & (set(whole.samples) - notes)


@pytest.mark.parametrize("name", NAMES)
def test_withheld_pairs_never_cooccur_in_training(name: str) -> None:
    whole = corpus(name)
    sources = [source for source, _ in whole.train + whole.valid]
    for first, second in WITHHELD[name]:
        with_first = [source for source in sources if first in source]
        assert len(with_first) > 800
        assert not [source for source in with_first if second in source]
        assert sum(second in source for source in sources) > 800
    fraction = sum(has_withheld(name, source) for source, _ in whole.heldout) / len(whole.heldout)
    assert fraction == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_withheld_phrases_are_whole_words(name: str) -> None:
    """A withheld word that is part of another one would withhold that one too."""
    if name == "en-fr":
        ending = r"(?:s|es|y|ies|ing)?(?:'s)?"
        vocabulary = set(re.findall(r"[a-zA-Z']+", english(name)))
        for word in {word for pair in WITHHELD[name] for word in pair}:
            holding = {other for other in vocabulary if word in other}
            assert all(re.fullmatch(word + ending, other) for other in holding), holding
    else:
        text = "\n".join(lines(name, 0))
        words = ("图书馆", "花园", "相信", "老师", "学生")
        for word in {word for pair in WITHHELD[name] for word in pair}:
            assert word in text
            assert not any(word in other and word != other for other in words)


def test_files_are_parallel_and_utf_8(tmp_path: Path) -> None:
    small = demo_corpus("en-fr", train=30, valid=10, heldout=10)
    write_demo_corpus(small, tmp_path / "new")
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {
        "train.en", "train.fr", "valid.en", "valid.fr", "heldout.source", "heldout.target",
    }  # fmt: skip
    for part, first, second in (("train", "en", "fr"), ("heldout", "source", "target")):
        source = (tmp_path / "new" / f"{part}.{first}").read_bytes().decode("utf-8")
        target = (tmp_path / "new" / f"{part}.{second}").read_bytes().decode("utf-8")
        pairs = list(zip(source.split("\n")[:-1], target.split("\n")[:-1], strict=True))
        assert pairs == getattr(small, part)


def test_text_of_users_is_not_replaced(tmp_path: Path) -> None:
    small = demo_corpus("en-fr", train=30, valid=10, heldout=10)
    (tmp_path / "valid.fr").write_text("bonjour\n")
    with pytest.raises(StorageError, match=r"valid\.fr exists with other contents"):
        write_demo_corpus(small, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["valid.fr"]
    assert write_demo_corpus(small, tmp_path, overwrite=True)
    assert not write_demo_corpus(small, tmp_path)


def test_unknown_grammar_and_impossible_sizes() -> None:
    with pytest.raises(ConfigError, match="en-fr, zh-en"):
        demo_corpus("en-de")
    with pytest.raises(ConfigError, match="at least 4"):
        demo_corpus("en-fr", train=3)
    with pytest.raises(ConfigError, match="must be at least 0"):
        demo_corpus("en-fr", valid=-1)


# ------------------------------------------------------------------------------ the sentences


@pytest.mark.parametrize("name", NAMES)
def test_form_of_the_sentences(name: str) -> None:
    letters = {
        "en": re.compile(r"[A-Z][A-Za-z' ]*[.?]"),
        "fr": re.compile(r"[A-ZÉŒ][a-zàâéèêîôùûçœA-Z' -]*(?:\.| \?)"),
        "zh": re.compile("[\u4e00-\u9fff，]+[。？]"),
    }
    for side, language in enumerate(corpus(name).languages):
        for line in lines(name, side):
            assert letters[language].fullmatch(line), line
            assert "  " not in line


@pytest.mark.parametrize("name", NAMES)
def test_questions_are_questions_on_both_sides(name: str) -> None:
    for source, target in corpus(name).train[len(NOTE_EXAMPLES[name]) :]:
        assert (source[-1] in "?？") == (target[-1] in "?？"), (source, target)


@pytest.mark.parametrize("name", NAMES)
def test_length_in_english_phrases(name: str) -> None:
    lengths = Counter(line.count(" ") + 1 for line in english(name).split("\n"))
    assert max(lengths) == 12
    assert sum(count for length, count in lengths.items() if length < 3) < 100


# What must not be found in the English of either corpus.
WRONG_ENGLISH = {
    "a before a vowel": r"\ba [aeiou]",
    "an before a consonant": r"\ban [^aeiou]",
    "subject and verb": r"^(?:He|She|This \w+|That \w+) (?:do|have|are|am|want|see|eat|like)\b",
    "plural and verb": r"^(?:I|We|They|These \w+s) (?:does|has|is|wants|sees|eats|likes)\b",
    "auxiliary and verb": r"\b(?:(?:do|does|did|must) not|cannot|wants? to) \w+s\b",
    "plural of one": r"\b(?:this|an?) (?:\w+ )?(?:men|women|children|mice|cats|houses|letters)\b",
    "singular of many": r"\b(?:these|those|many|two|ten) (?:\w+ )?(?:man|woman|child|mouse|cat)\b",
    "a word twice": r"\b(\w+) \1\b",
}


@pytest.mark.parametrize("wrong", WRONG_ENGLISH.values(), ids=WRONG_ENGLISH.keys())
@pytest.mark.parametrize("name", NAMES)
def test_english_without(name: str, wrong: str) -> None:
    match = re.search(f"(?m)^.*(?:{wrong}).*$".replace("^.*(?:^", "^(?:"), english(name))
    assert match is None, match[0]


# ------------------------------------------------------------------------------------- French

MASCULINE = (
    "homme|garçon|enfant|étudiant|professeur|médecin|ami|voisin|roi|oncle|chien|chat|cheval|oiseau"
    "|ours|lapin|éléphant|œuf|gâteau|livre|journal|parapluie|bateau|arbre|jardin|parc|hôpital|hôtel"
)
FEMININE = (
    "femme|fille|reine|sœur|actrice|souris|vache|pomme|orange|tomate|fraise|lettre|histoire|chaise"
    "|fleur|clé|robe|boîte|table|voiture|maison|cuisine|école|église"
)
NUMBERS = (
    "deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize|vingt"
)
VOWELS = "[aeiouyhàâéèêîôœ]"  # every h of this vocabulary is silent, but for huit
ONE = "un|le|ce|mon|notre|leur|du|au"
# "les" and "leur" may also stand before a verb, so they say nothing about the next word.
SEVERAL = f"des|ces|mes|nos|leurs|aux|{NUMBERS}"
WRONG_FRENCH = {
    "no elision": rf"\b(?:le|la|de|ne|je|me|que) (?!huit|onze){VOWELS}",
    "elision before a consonant": rf"'(?!{VOWELS})|'(?:huit|onze)",
    "elision of other words": r"\b(?!(?:l|d|n|j|m|qu)')\w+'",
    "no contraction": r"\b(?:de|à) les? ",
    "ma before a vowel": rf"\bma {VOWELS}",
    "ce before a vowel": rf"\bce {VOWELS}",
    "beau before a vowel": rf"\b(?:{ONE}) (?:beau|nouveau|vieux) {VOWELS}",
    "bel before a consonant": rf"\b(?:cet|bel|nouvel|vieil) (?!{VOWELS})",
    "masculine before feminine": rf"\b(?:un|le|ce|du|au|petits?|beaux?) (?:{FEMININE})s?\b",
    "feminine before masculine": rf"\b(?:une|la|cette|ma|petites?|belles?) (?:{MASCULINE})s?\b",
    "feminine and masculine adjective": rf"\b(?:{FEMININE})s? (?:blanc|noir|vert|bleu|heureux"
    r"|fatigué|curieux|intelligent|intéressant|frais|cher)s?\b",
    "masculine and feminine adjective": rf"\b(?:{MASCULINE})[sx]? (?:blanche|noire|verte|bleue"
    r"|heureuse|fatiguée|curieuse|intelligente|intéressante|fraîche|chère)s?\b",
    "singular after a plural word": rf"\b(?:{SEVERAL}) (?!(?:{NUMBERS})\b)\w*[^sx\W]\b",
    "plural after a singular word": r"\b(?:un|une|cette|mon|ma|du|au) (?!souris|ours)\w+s\b",
    "plural noun, singular adjective": rf"\b(?:{SEVERAL}) \w+s (?:rouge|noire?|verte?|triste)\b",
    "-als and -aus": r"\b(?:chevals|journals|hôpitals|oiseaus|bateaus|gâteaus|beaus|nouveaus)\b",
    "a colour before its noun": rf"\b(?:rouge|verte?|bleue?)s? (?:{MASCULINE}|{FEMININE})s?\b",
    "a size after its noun": rf"\b(?:{MASCULINE}|{FEMININE})s? (?:petite?|grande?|jeune)s?\b",
    "an article before a profession": r"\b(?:suis|est|sommes|sont)(?: pas)? (?:une?|des|de) ",
    "an article after a negation": r"\bne \w+ (?:pas|jamais) une? ",
    "nous and another person": r"^nous (?:ne |n')?+(?:les? |la |l')?+(?!sommes)\w+(?<!ons)\b",
    "ils and another person": r"^ils (?:ne |n')?+(?:les? |la |l'|nous |me |m')?+\w+(?<!nt)\b",
    "je and another person": r"^j(?:e |')(?:ne |n')?+(?:les? |la |l')?+\w+(?:ons|nt)\b",
    "il and another person": r"^(?:il|elle) (?:ne |n')?+(?:me |nous |les? |la )?+(?!vient)"
    r"\w+(?:ons|ent)\b",
}


@pytest.mark.parametrize("wrong", WRONG_FRENCH.values(), ids=WRONG_FRENCH.keys())
def test_french_without(wrong: str) -> None:
    match = re.search(wrong, french(), re.MULTILINE)
    assert match is None, french()[max(0, match.start() - 60) : match.end() + 60]


def test_french_negation_surrounds_the_verb() -> None:
    around = re.compile(r"(?:\bne |\bn')(?:\S+ ){1,3}?(?:pas|jamais)\b")
    for source, target in corpus("en-fr").train:
        negations = len(re.findall(r"\b(?:not|never|no|cannot)\b", source))
        assert len(re.findall(r"\b(?:pas|jamais)\b", target)) == negations, (source, target)
        assert len(around.findall(target)) == negations, (source, target)


def test_french_questions() -> None:
    for source, target in corpus("en-fr").train:
        if re.match(r"(?:Do|Does|Is|Are|Am|Can|Must) ", source):
            assert target.startswith(("Est-ce que ", "Est-ce qu'")), (source, target)
        assert ("est-ce qu" in target.lower()) == (
            source.endswith("?") and not source.startswith(("Who ", "Where "))
        ), (source, target)


def test_every_described_noun_has_another_adjective() -> None:
    """Otherwise sampling "the small red tree is ..." would never end."""
    for noun in nouns_of("person,animal,food,text,print,thing,place"):
        places = {adjective.place for adjective in noun.adjectives if adjective.english != "new"}
        for used in ({"before"}, {"after"}, {"colour"}, {"before", "colour"}):
            assert places - used, noun.english[0]


def test_french_covers_all_rules() -> None:
    rules = (
        "l'homme", "l'œuf", "d'arbres", "qu'elle", "que onze", "n'y a pas", "m'aime", "j'",
        "du roi", "des écoles", "au parc", "aux enfants", "vieil ", "bel ", "nouvel ", "cet ",
        "mon école", "chevaux", "journaux", "pas de ", "jamais d'", "parce qu'", "combien d'",
    )  # fmt: skip
    for sign in rules:
        assert french().count(sign) >= 20, sign


# ------------------------------------------------------------------------------------ Chinese

MEASURES = {
    "猫": "只", "狗": "只", "马": "匹", "鱼": "条", "奶牛": "头", "书": "本", "信": "封",
    "报纸": "份", "雨伞": "把", "桌子": "张", "汽车": "辆", "帽子": "顶", "衬衫": "件", "花": "朵",
    "老师": "位", "学生": "个", "苹果": "个", "草莓": "颗", "学校": "所", "电脑": "台",
}  # fmt: skip


def test_chinese_measure_phrases() -> None:
    text = "\n".join(lines("zh-en", 0))
    nouns = "|".join(MEASURES)
    counted = re.findall(f"[一两三四五六七八九十几这那]([^些])({nouns})(?!园)", text)
    assert {noun for _, noun in counted} == set(MEASURES)
    assert all(MEASURES[noun] == measure for measure, noun in counted)
    assert not re.search(f"[一两三四五六七八九十几](?:{nouns})", text)
    assert not re.search("(?<!十)二(?!十)", text)


@pytest.mark.parametrize(
    ("chinese", "in_english"),
    [
        ("吗？$", r"^(?:Do|Does|Did|Is|Are|Am|Can|Will) .*\?$"),
        ("不", r"\b(?:not|never|cannot)\b"),
        ("没(?!有)", r"\bdid not\b"),
        ("没有", r"\b(?:do not have|does not have|are no)\b"),
        ("正在", r"\b(?:am|is|are|Am|Is|Are)\b.*ing\b"),
        ("明天", r"\b[wW]ill .*tomorrow"),
        ("昨天", r"\byesterday\b"),
        ("每天", r"\bevery day\b"),
        ("(?<!十)一[只匹条头本把]", r"\b[aA]n? "),
        ("这些", r"\b[tT]hese\b"),
        ("两", r"\btwo\b"),
        ("比", r"\bthan\b"),
        ("几", r"^How many "),
        ("^谁", r"^Who "),
        ("什么？", r"^What "),
    ],
)
def test_chinese_particles_and_their_english(chinese: str, in_english: str) -> None:
    count = 0
    for source, target in corpus("zh-en").train[len(NOTE_EXAMPLES["zh-en"]) : 80_000]:
        if re.search(chinese, source):
            count += 1
            assert re.search(in_english, target), (source, target)
    assert count > 200
