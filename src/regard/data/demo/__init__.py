"""Two demo corpora, drawn from small grammars: English to French, and Chinese to English.

A grammar translates every source sentence in exactly one way, so that a model which has learnt
the rules can be right every time. What is held out is new to the model in two ways. No held-out
sentence is in the training data, on either side. And each grammar names some thirty pairs of
words, such as "horse" and "tired", which are never in one training or validation sentence
together, although each of them is frequent there; every second held-out sentence has such a pair.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.data.demo import chinese_english_phrases, english_french_phrases
from regard.data.demo.chinese_english import chinese_english_pair
from regard.data.demo.drawing import Pair
from regard.data.demo.english_french import english_french_pair
from regard.errors import ConfigError, StorageError
from regard.files import explained, write_text


@dataclass(frozen=True)
class DemoCorpus:
    """Sentence pairs to train on, to watch the training with, and to test on.

    `samples` are a few source sentences worth showing; but for the notes' examples, none of them
    is in the training data.
    """

    languages: tuple[str, str]
    train: list[Pair]
    valid: list[Pair]
    heldout: list[Pair]
    samples: list[str]


GRAMMARS: dict[str, Callable[[Random], Pair]] = {
    "en-fr": english_french_pair,
    "zh-en": chinese_english_pair,
}
_VOCABULARIES = {
    "en-fr": english_french_phrases.VOCABULARY,
    "zh-en": chinese_english_phrases.VOCABULARY,
}
NOTE_EXAMPLES = {name: words.note_examples for name, words in _VOCABULARIES.items()}
WITHHELD = {name: words.withheld for name, words in _VOCABULARIES.items()}
SAMPLES = {name: words.samples for name, words in _VOCABULARIES.items()}


def has_withheld(name: str, source: str) -> bool:
    """Tell whether a source sentence holds two words that are never together in training."""
    return any(first in source and second in source for first, second in WITHHELD[name])


def demo_corpus(
    name: str = "en-fr",
    *,
    seed: int = 1,
    train: int = 200_000,
    valid: int = 500,
    heldout: int = 1000,
) -> DemoCorpus:
    """Draw a demo corpus; the same seed gives the same corpus.

    `train` counts the notes' examples, which come first. Half of `heldout` has words that are
    never together in training, see above; the other half and `valid` are like training.
    """
    if name not in GRAMMARS:
        raise ConfigError(f"no demo grammar {name!r}; there are: {', '.join(GRAMMARS)}")
    notes = list(NOTE_EXAMPLES[name])
    if train < len(notes):
        raise ConfigError(
            f"train must be at least {len(notes)}, the notes' examples; it is {train}"
        )
    if valid < 0 or heldout < 0:
        raise ConfigError(f"valid and heldout must not be negative: {valid}, {heldout}")
    source_language, target_language = name.split("-")
    sources = {source for source, _ in notes} | set(SAMPLES[name])
    targets = {target for _, target in notes}

    def drawn(count: int, purpose: str, *, withheld: bool = False) -> list[Pair]:
        """So many pairs that differ from all earlier ones, on both sides."""
        # Each purpose has its own numbers: more training data leave the held-out data the same.
        rng, pairs = Random(f"{name} {seed} {purpose}"), list[Pair]()
        while len(pairs) < count:
            source, target = GRAMMARS[name](rng)
            if source in sources or target in targets or has_withheld(name, source) != withheld:
                continue
            sources.add(source)
            targets.add(target)
            pairs.append((source, target))
        return pairs

    tested = drawn(heldout // 2, "withheld", withheld=True)
    tested += drawn(heldout - heldout // 2, "heldout")
    Random(f"{name} {seed} order").shuffle(tested)
    return DemoCorpus(
        languages=(source_language, target_language),
        valid=drawn(valid, "valid"),
        train=notes + drawn(train - len(notes), "train"),
        heldout=tested,
        samples=list(SAMPLES[name]),
    )


def write_demo_corpus(corpus: DemoCorpus, folder: Path, *, overwrite: bool = False) -> bool:
    """Write parallel text files: train.en, train.fr, ... and heldout.source, heldout.target.

    False if all of them are there already. One of other contents is replaced only if that is asked.
    """
    texts: dict[Path, str] = {}
    for part, pairs, endings in (
        ("train", corpus.train, corpus.languages),
        ("valid", corpus.valid, corpus.languages),
        ("heldout", corpus.heldout, ("source", "target")),
    ):
        for side, ending in enumerate(endings):
            texts[folder / f"{part}.{ending}"] = "".join(f"{pair[side]}\n" for pair in pairs)
    missing = [path for path, text in texts.items() if not _holds(path, text)]
    for path in missing:
        if path.exists() and not overwrite:
            raise StorageError(
                f"{path} exists with other contents, so it is left as it is. Choose another "
                "--data, or add --overwrite to replace it."
            )
    for path in missing:
        write_text(path, texts[path])
    return bool(missing)


def _holds(path: Path, text: str) -> bool:
    with explained(path):
        return path.is_file() and path.read_bytes() == text.encode()
