"""The words of the Chinese-English demo, as tables; the rules are in `chinese_english`.

A noun has kinds ("food"); an adjective names the kinds it describes and a verb the kinds of its
objects, so that nobody eats a library.
"""

from typing import NamedTuple

from regard.data.demo.drawing import read_table

NOUNS = """
# chinese, measure word, singular, plural, kinds
男人   个 man        men          person,adult
女人   个 woman      women        person,adult,lady
男孩   个 boy        boys         person,kid
女孩   个 girl       girls        person,kid,lady
孩子   个 child      children     person,kid
学生   个 student    students     person,role
老师   位 teacher    teachers     person,adult,role
医生   位 doctor     doctors      person,adult,role
朋友   个 friend     friends      person,adult,role
邻居   个 neighbor   neighbors    person,adult,role
农民   个 farmer     farmers      person,adult,role
猫     只 cat        cats         animal,pet
狗     只 dog        dogs         animal,pet,washes
马     匹 horse      horses       animal,rides
鸟     只 bird       birds        animal,pet
鱼     条 fish       fish         animal
老鼠   只 mouse      mice         animal
兔子   只 rabbit     rabbits      animal,pet
老虎   只 tiger      tigers       animal
猴子   只 monkey     monkeys      animal,pet
奶牛   头 cow        cows         animal
苹果   个 apple      apples       food,washes
橙子   个 orange     oranges      food,washes
鸡蛋   个 egg        eggs         food
蛋糕   个 cake       cakes        food
西红柿 个 tomato     tomatoes     food,washes
草莓   颗 strawberry strawberries food,washes
香蕉   根 banana     bananas      food
书     本 book       books        text,paper,opens
信     封 letter     letters      text,opens
小说   本 novel      novels       text,paper
故事   个 story      stories      text
报纸   份 newspaper  newspapers   print,paper
杂志   本 magazine   magazines    print,paper
帽子   顶 hat        hats         thing,made,object,wear
裙子   条 skirt      skirts       thing,made,object,wear,washes
衬衫   件 shirt      shirts       thing,made,object,wear,washes
雨伞   把 umbrella   umbrellas    thing,made,object,opens
椅子   把 chair      chairs       thing,made,object,mends
桌子   张 table      tables       thing,made,object,mends
杯子   个 cup        cups         thing,made,object,washes
盒子   个 box        boxes        thing,made,object,opens
手机   部 phone      phones       thing,made,object,mends
电脑   台 computer   computers    thing,made,object,mends
花     朵 flower     flowers      thing,object
钥匙   把 key        keys         thing,made,object
汽车   辆 car        cars         thing,made,large,mends,washes
自行车 辆 bicycle    bicycles     thing,made,large,mends,rides
房子   座 house      houses       thing,made,large
船     条 boat       boats        thing,made,large,mends
公园   个 park       parks        place,sized
花园   个 garden     gardens      place,sized
学校   所 school     schools      place
医院   家 hospital   hospitals    place,sized
图书馆 个 library    libraries    place,sized
教室   间 classroom  classrooms   place,sized
厨房   间 kitchen    kitchens     place,sized
商店   家 store      stores       place,sized
"""

ADJECTIVES = """
# before the noun, predicate, english, comparative, kinds it describes
小     小   small       smaller          animal,thing,sized
大     大   big         bigger           animal,food,thing,sized
新     新   new         newer            text,print,made,place
旧     旧   old         older            paper,made
好     好   good        better           role,text,print
漂亮的 漂亮 beautiful   more_beautiful   lady,thing,place,pet
可爱的 可爱 cute        cuter            animal,kid
调皮的 调皮 naughty     naughtier        pet,kid
聪明的 聪明 smart       smarter          person,pet
高兴的 高兴 happy       happier          person
年轻的 年轻 young       younger          adult,role
有名的 有名 famous      more_famous      adult,text
高个子 高   tall        taller           person
强壮的 强壮 strong      stronger         adult,animal
有趣的 有趣 interesting more_interesting text,print
便宜的 便宜 cheap       cheaper          food,print,thing
昂贵的 贵   expensive   more_expensive   food,print,thing
干净的 干净 clean       cleaner          washes,place,large
安静的 安静 quiet       quieter          place,kid
红色的 -    red         -                thing,paper
白色的 -    white       -                thing,pet,paper
黑色的 -    black       -                thing,pet,paper
蓝色的 -    blue        -                thing,paper
绿色的 -    green       -                thing,paper
黄色的 -    yellow      -                thing,paper
"""

VERBS = """
# chinese, base, third, past, gerund, ways, who, objects
吃   eat      eats      ate        eating      doing,done any    food
读   read     reads     read       reading     doing,done person text,print
写   write    writes    wrote      writing     doing,done person text
买   buy      buys      bought     buying      doing,done person food,print,thing
卖   sell     sells     sold       selling     doing,done person food,print,thing
找   look_for looks_for looked_for looking_for doing,done any    person,animal,object
画   draw     draws     drew       drawing     doing,done person person,animal,thing
洗   wash     washes    washed     washing     doing,done person washes
打开 open     opens     opened     opening     doing,done person opens
修   repair   repairs   repaired   repairing   doing,done person mends
骑   ride     rides     rode       riding      doing,done person rides
帮助 help     helps     helped     helping     doing,done person person
照顾 care_for cares_for cared_for  caring_for  doing,done person kid,animal
等   wait_for waits_for waited_for waiting_for doing      person person
追   chase    chases    chased     chasing     doing,done any    animal,kid
看见 see      sees      saw        -           done       any    person,animal,thing
听见 hear     hears     heard      -           done       any    person,animal
找到 find     finds     found      -           done       any    person,animal,object
爱   love     loves     -          -           state,fond person person,animal
喜欢 like     likes     -          -           state,fond any    person,animal,food
喜欢 like     likes     -          -           state,fond person text,thing,place
认识 know     knows     -          -           state      person person
相信 trust    trusts    -          -           state      person person
怕   fear     fears     -          -           state      any    person,animal
需要 need     needs     -          -           state      person print,thing
有   have     has       -          -           have       person animal,food,print,thing
睡觉 sleep    sleeps    -          sleeping    doing      any    -
休息 rest     rests     -          resting     doing      any    -
跑步 run      runs      -          running     doing      person -
游泳 swim     swims     -          swimming    doing      person -
唱歌 sing     sings     -          singing     doing      person -
跳舞 dance    dances    -          dancing     doing      person -
工作 work     works     -          working     doing      person -
"""

# How a statement shows its time and mood: the verb goes into the braces of the Chinese, and the
# English is auxiliary, adverb, verb form, and what comes last. "particular" objects are pointed
# at (这本书, this book), "any" are counted or pointed at, and "counted" are counted.
STATEMENTS = """
# chinese, auxiliary, verb form, adverb, last, ways, objects
经常{}   -              finite often -         doing       particular
每天{}   -              finite -     every_day doing       counted
从不{}   -              finite never -         doing       particular
不{}     do_not         base   -     -         doing,state particular
{}了     -              past   -     -         done        any
昨天{}了 -              past   -     yesterday done        any
没{}     did_not        base   -     -         done        particular
昨天没{} did_not        base   -     yesterday doing,done  particular
正在{}   be             gerund -     -         doing       any
想{}     want_to        base   -     -         doing       any
不想{}   do_not_want_to base   -     -         doing       particular
必须{}   must           base   -     -         doing       any
能{}     can            base   -     -         doing       any
不能{}   cannot         base   -     -         doing       particular
明天会{} will           base   -     tomorrow  doing       any
{}       -              finite -     -         state       particular
非常{}   -              finite -     very_much fond        particular
{}       -              finite -     -         have        counted
没{}     do_not         base   -     -         have        particular
"""

# The same for questions, whose auxiliary comes before the subject.
QUESTIONS = """
# chinese, auxiliary, verb form, adverb, last, ways, objects
{}       do   base   -       -         doing,state particular
经常{}   do   base   often   -         doing       particular
{}了     did  base   -       -         done        any
昨天{}了 did  base   -       yesterday done        any
正在{}   be   gerund -       -         doing       any
想{}     do   base   want_to -         doing       any
能{}     can  base   -       -         doing       any
明天会{} will base   -       tomorrow  doing       any
{}       do   base   -       -         have        any
"""

NUMBERS = """
两 two    三 three     四 four      五 five      六 six      七 seven      八 eight
九 nine   十 ten       十一 eleven  十二 twelve  十三 thirteen  十四 fourteen  十五 fifteen
十六 sixteen  十七 seventeen  十八 eighteen  十九 nineteen  二十 twenty
"""

PROFESSIONS = """
学生 student students    老师 teacher teachers   医生 doctor doctors    歌手 singer singers
司机 driver drivers      护士 nurse nurses       厨师 chef chefs        律师 lawyer lawyers
"""


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
    """`ways`: the times and moods it is used in, as the statements' table names them."""

    chinese: str
    base: str
    third: str
    past: str
    gerund: str
    ways: frozenset[str]
    for_animals: bool
    objects: tuple[Noun, ...]


class Aspect(NamedTuple):
    """A row of STATEMENTS or QUESTIONS; `auxiliary`: after I, he, you, they."""

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


def _set(cell: str) -> frozenset[str]:
    return frozenset(cell.split(","))


def _cells(table: str) -> list[list[str]]:
    """Read a table in which `-` is an empty cell."""
    return [["" if cell == "-" else cell for cell in row] for row in read_table(table)]


def _noun(row: list[str]) -> Noun:
    kinds = _set(row[4])
    fitting = tuple(adjective for adjective in ALL_ADJECTIVES if adjective.kinds & kinds)
    return Noun(row[0], row[1], (row[2], row[3]), row[4].split(",")[0], kinds, fitting)


def _aspect(row: list[str]) -> Aspect:
    first, *others = row[1].split(" ")
    forms = _AGREEING.get(first, (first,) * 4)
    auxiliary = tuple(" ".join([form, *others]) for form in forms)
    return Aspect(row[0], auxiliary, row[2], row[3], row[4], _set(row[5]), row[6])


def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """Find all nouns of these kinds, a comma between the kinds."""
    return tuple(noun for noun in ALL_NOUNS if noun.kinds & _set(kinds))


ALL_ADJECTIVES = [
    Adjective(before_noun, predicate, english, comparative, _set(kinds))
    for before_noun, predicate, english, comparative, kinds in _cells(ADJECTIVES)
]
ALL_NOUNS = [_noun(row) for row in _cells(NOUNS)]
ALL_VERBS = [
    Verb(chinese, base, third, past, gerund, _set(ways), who == "any", nouns_of(objects))
    for chinese, base, third, past, gerund, ways, who, objects in _cells(VERBS)
]
ALL_STATEMENTS = [_aspect(row) for row in _cells(STATEMENTS)]
ALL_QUESTIONS = [_aspect(row) for row in _cells(QUESTIONS)]
ALL_NUMBERS = list(zip(NUMBERS.split()[::2], NUMBERS.split()[1::2], strict=True))
_PROFESSION_CELLS = PROFESSIONS.split()
ALL_PROFESSIONS = list(
    zip(_PROFESSION_CELLS[::3], _PROFESSION_CELLS[1::3], _PROFESSION_CELLS[2::3], strict=True)
)
# What a name or a pronoun can be said to be or do.
SOMEBODY = _noun(["", "", "", "", "person"])
IT = _noun(["", "", "", "", "animal"])
