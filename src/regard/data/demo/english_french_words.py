"""The words of the English-French demo, as tables; the rules are in `english_french`.

A noun has kinds ("food"); an adjective names the kinds it describes and a verb the kinds of its
objects, so that nobody eats a church.
"""

from typing import NamedTuple

from regard.data.demo.drawing import read_table, repeated

NOUNS = """
# singular plural   french       plural        gender  kinds
man        men        homme        hommes        m  person,adult,private
woman      women      femme        femmes        f  person,adult,private,lady
boy        boys       garçon       garçons       m  person,kid
girl       girls      fille        filles        f  person,kid,lady
child      children   enfant       enfants       m  person,kid
student    students   étudiant     étudiants     m  person,role
teacher    teachers   professeur   professeurs   m  person,adult,role
doctor     doctors    médecin      médecins      m  person,adult,role
friend     friends    ami          amis          m  person,adult,private,role
neighbor   neighbors  voisin       voisins       m  person,adult,private,role
king       kings      roi          rois          m  person,adult
queen      queens     reine        reines        f  person,adult,lady
sister     sisters    sœur         sœurs         f  person,adult,private
uncle      uncles     oncle        oncles        m  person,adult,private
actress    actresses  actrice      actrices      f  person,adult,lady
dog        dogs       chien        chiens        m  animal
cat        cats       chat         chats         m  animal
horse      horses     cheval       chevaux       m  animal
bird       birds      oiseau       oiseaux       m  animal
mouse      mice       souris       souris        f  animal
cow        cows       vache        vaches        f  animal
bear       bears      ours         ours          m  animal
rabbit     rabbits    lapin        lapins        m  animal
elephant   elephants  éléphant     éléphants     m  animal
apple      apples     pomme        pommes        f  food,washes
orange     oranges    orange       oranges       f  food
egg        eggs       œuf          œufs          m  food
cake       cakes      gâteau       gâteaux       m  food
tomato     tomatoes   tomate       tomates       f  food,washes
strawberry strawberries fraise     fraises       f  food,washes
book       books      livre        livres        m  text,print,paper,opens
letter     letters    lettre       lettres       f  text,paper,opens
newspaper  newspapers journal      journaux      m  print,paper
story      stories    histoire     histoires     f  text,tale
chair      chairs     chaise       chaises       f  thing,object,surface
flower     flowers    fleur        fleurs        f  thing,object
key        keys       clé          clés          f  thing,object
dress      dresses    robe         robes         f  thing,object,washes
umbrella   umbrellas  parapluie    parapluies    m  thing,object,opens
box        boxes      boîte        boîtes        f  thing,object,opens
table      tables     table        tables        f  thing,large,goods,surface
car        cars       voiture      voitures      f  thing,large,goods,washes
boat       boats      bateau       bateaux       m  thing,large,goods
house      houses     maison       maisons       f  thing,large,goods
tree       trees      arbre        arbres        m  thing,large
garden     gardens    jardin       jardins       m  place
kitchen    kitchens   cuisine      cuisines      f  place
park       parks      parc         parcs         m  place
school     schools    école        écoles        f  place
hospital   hospitals  hôpital      hôpitaux      m  place
hotel      hotels     hôtel        hôtels        m  place
church     churches   église       églises       f  place
lake       lakes      lac          lacs          m  water
"""

ADJECTIVES = """
# english  masculine/before a vowel  feminine  plurals  place  kinds it describes
small       petit          petite    petits    petites    before kid,animal,food,thing,place
big         grand          grande    grands    grandes    before animal,food,thing,place
beautiful   beau/bel       belle     beaux     belles     before lady,animal,thing,place,tale
old         vieux/vieil    vieille   vieux     vieilles   before adult,animal,print,thing,place
new         nouveau/nouvel nouvelle  nouveaux  nouvelles  before role,text,print,thing,place
young       jeune          jeune     jeunes    jeunes     before adult,role,animal
good        bon            bonne     bons      bonnes     before role,food,paper,tale
red         rouge          rouge     rouges    rouges     colour food,thing,paper
green       vert           verte     verts     vertes     colour food,thing,paper
white       blanc          blanche   blancs    blanches   colour animal,thing,paper
black       noir           noire     noirs     noires     colour animal,thing,paper
blue        bleu           bleue     bleus     bleues     colour object,goods
happy       heureux        heureuse  heureux   heureuses  after  person,animal
sad         triste         triste    tristes   tristes    after  person,animal,tale
tired       fatigué        fatiguée  fatigués  fatiguées  after  person,animal
intelligent intelligent    intelligente intelligents intelligentes after person,animal
curious     curieux        curieuse  curieux   curieuses  after  person,animal
famous      célèbre        célèbre   célèbres  célèbres   after  adult,tale
expensive   cher           chère     chers     chères     after  food,object,goods
fresh       frais          fraîche   frais     fraîches   after  food
clean       propre         propre    propres   propres    after  surface,washes,goods,place,water
interesting intéressant    intéressante intéressants intéressantes after text,print,adult
quiet       calme          calme     calmes    calmes     after  place,water,kid
strange     étrange        étrange   étranges  étranges   after  person,animal,thing,place,tale
"""

VERBS = """
# base   third    je      il      nous      ils      infinitive who    link objects
see      sees     vois    voit    voyons    voient   voir     any    -   person,animal,thing,place
love     loves    aime    aime    aimons    aiment   aimer    person -   person,animal,food,text
eat      eats     mange   mange   mangeons  mangent  manger   any    -   food
read     reads    lis     lit     lisons    lisent   lire     person -   text,print
write    writes   écris   écrit   écrivons  écrivent écrire   person -   text
buy      buys     achète  achète  achetons  achètent acheter  person -   food,print,object,goods
look_for looks_for cherche cherche cherchons cherchent chercher any  -   person,animal,food,object
find     finds    trouve  trouve  trouvons  trouvent trouver  any    -   person,animal,food,object
hear     hears    entends entend  entendons entendent entendre any   -   person,animal
help     helps    aide    aide    aidons    aident   aider    person -   person,animal
watch    watches  regarde regarde regardons regardent regarder any   -   person,animal,large
wash     washes   lave    lave    lavons    lavent   laver    person -   animal,washes
open     opens    ouvre   ouvre   ouvrons   ouvrent  ouvrir   person -   opens
draw     draws    dessine dessine dessinons dessinent dessiner person -  person,animal,thing
wait_for waits_for attends attend attendons attendent attendre person -  person
sell     sells    vends   vend    vendons   vendent  vendre   person -   food,paper,object,goods
have     has      ai      a       avons     ont      avoir    person -   animal,food,object,goods
give     gives    donne   donne   donnons   donnent  donner   person +à  food,paper,object
go_to    goes_to  vais    va      allons    vont     aller    any    à   place
talk_to  talks_to parle   parle   parlons   parlent  parler   person à   person
come_from comes_from viens vient  venons    viennent venir    any    de  place
sleep    sleeps   dors    dort    dormons   dorment  dormir   any    -   -
run      runs     cours   court   courons   courent  courir   any    -   -
swim     swims    nage    nage    nageons   nagent   nager    any    -   -
sing     sings    chante  chante  chantons  chantent chanter  person -   -
dance    dances   danse   danse   dansons   dansent  danser   person -   -
work     works    travaille travaille travaillons travaillent travailler person - -
"""

PROFESSIONS = """
student  students  étudiant    étudiante    étudiants    étudiantes
teacher  teachers  professeur  professeur   professeurs  professeurs
doctor   doctors   médecin     médecin      médecins     médecins
singer   singers   chanteur    chanteuse    chanteurs    chanteuses
lawyer   lawyers   avocat      avocate      avocats      avocates
"""

MODALS = """
# third    others   third negated     others negated  je    il    nous     ils
can        can      cannot            cannot          peux  peut  pouvons  peuvent
must       must     must_not          must_not        dois  doit  devons   doivent
wants_to   want_to  does_not_want_to  do_not_want_to  veux  veut  voulons  veulent
"""

NUMBERS = """
two deux     three trois   four quatre     five cinq         six six         seven sept
eight huit   nine neuf     ten dix         eleven onze       twelve douze    thirteen treize
fourteen quatorze          fifteen quinze  sixteen seize     twenty vingt
"""


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


def _kinds(cell: str) -> frozenset[str]:
    return frozenset(cell.split(","))


def _adjective(row: list[str]) -> Adjective:
    masculine, _, before_vowel = row[1].partition("/")
    forms = (masculine, *row[2:5])
    return Adjective(row[0], forms, before_vowel or masculine, row[5], _kinds(row[6]))


def _noun(row: list[str]) -> Noun:
    kinds = _kinds(row[5])
    adjectives = tuple(adjective for adjective in _ADJECTIVES if adjective.kinds & kinds)
    return Noun((row[0], row[1]), (row[2], row[3]), row[4] == "f", kinds, adjectives)


def _verb(row: list[str]) -> Verb:
    return Verb(row[0], row[1], tuple(row[2:6]), row[6], row[7] == "any", row[8], nouns_of(row[9]))


def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """Find all nouns of these kinds, a comma between the kinds."""
    return tuple(noun for noun in ALL_NOUNS if noun.kinds & _kinds(kinds))


def _singular(english: str, *french: str) -> Determiner:
    masculine, feminine, *before_vowel = french
    first, second = before_vowel or (masculine, feminine)
    return Determiner(english, False, (masculine, feminine, first, second))


def _plural(english: str, french: str) -> Determiner:
    return Determiner(english, True, (french, french, french, french))


_ADJECTIVES = [_adjective(row) for row in read_table(ADJECTIVES)]
ALL_NOUNS = [_noun(row) for row in read_table(NOUNS)]
ALL_VERBS = [_verb(row) for row in read_table(VERBS)]
ALL_MODALS = read_table(MODALS)
ALL_PROFESSIONS = read_table(PROFESSIONS)
ALL_NUMBERS = list(zip(NUMBERS.split()[::2], NUMBERS.split()[1::2], strict=True))
# What a pronoun ("she", "they") can be said to be or do.
SOMEBODY = _noun(["-", "-", "-", "-", "m", "person,adult,private"])

THE, THE_PLURAL = _singular("the", "le", "la"), _plural("the", "les")
A, NOT_A = _singular("a", "un", "une"), _singular("a", "de", "de")  # pas de pomme
NO = _singular("no", "de", "de")
THIS, THESE = _singular("this", "ce", "cette", "cet", "cette"), _plural("these", "ces")
MY, MY_PLURAL = _singular("my", "mon", "ma", "mon", "mon"), _plural("my", "mes")
OUR, OUR_PLURAL = _singular("our", "notre", "notre"), _plural("our", "nos")
THEIR, THEIR_PLURAL = _singular("their", "leur", "leur"), _plural("their", "leurs")
NUMERALS = tuple(_plural(english, french) for english, french in ALL_NUMBERS)
THE_NUMERALS = tuple(_plural(f"the {english}", f"les {french}") for english, french in ALL_NUMBERS)

OF_PLACE = repeated({THE: 6, THIS: 2, A: 2, OUR: 1, THE_PLURAL: 1})
OF_ONE = repeated({THE: 5, THIS: 2, MY: 2, OUR: 1, THEIR: 1})
DEFINITE = OF_ONE + repeated({THE_PLURAL: 4, THESE: 2, MY_PLURAL: 1, OUR_PLURAL: 1})
DEFINITE += (THEIR_PLURAL,)
COUNTED = NUMERALS + (_plural("many", "beaucoup de"),) * 6
ANY = DEFINITE * 8 + (A,) * 36 + COUNTED * 2 + THE_NUMERALS
UNDER_NEGATION = DEFINITE * 2 + (NOT_A,) * 9
