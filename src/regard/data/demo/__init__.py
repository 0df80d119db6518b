"""Two synthetic demo corpora, sampled from small grammars: English-French and Chinese-English.

Every source sentence has exactly one translation, so that an accuracy of 100 % is possible.
Held-out sentences are new in two ways. None of them is in the training data, on either side. And
each grammar has about thirty withheld pairs of words, such as "horse" and "tired", which never
cooccur in a training or validation sentence, although both are frequent; every second held-out
sentence has such a pair.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.data.demo import chinese_english_phrases, english_french_phrases
from regard.data.demo.chinese_english import chinese_english_pair
from regard.data.demo.english_french import english_french_pair
from regard.data.demo.grammar import Pair
from regard.errors import ConfigError, StorageError
from regard.files import explain_os_errors, write_text


@dataclass(frozen=True)
class DemoCorpus:
    """Sentence pairs for training, validation and testing.

    `samples` are a few source sentences to display; except for the notes' examples, none of them
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
    """Whether a source sentence has two words that never cooccur in training."""
    return any(first in source and second in source for first, second in WITHHELD[name])


def demo_corpus(
    name: str = "en-fr",
    *,
    seed: int = 1,
    train: int = 200_000,
    valid: int = 500,
    heldout: int = 1000,
) -> DemoCorpus:
    """Sample a demo corpus; the same seed gives the same corpus.

    `train` includes the notes' examples, which come first. Half of `heldout` has withheld pairs of
    words; the other half and `valid` have the distribution of `train`.
    """
    if name not in GRAMMARS:
        raise ConfigError(f"Unknown demo grammar {name!r}. Use one of {', '.join(GRAMMARS)}.")
    notes = list(NOTE_EXAMPLES[name])
    if train < len(notes):
        raise ConfigError(
            f"train is {train}, but must be at least {len(notes)}, the number of example sentences."
        )
    if valid < 0 or heldout < 0:
        raise ConfigError(f"valid is {valid} and heldout {heldout}, but both must be at least 0.")
    source_language, target_language = name.split("-")
    sources = {source for source, _ in notes} | set(SAMPLES[name])
    targets = {target for _, target in notes}

    def draw_pairs(count: int, purpose: str, *, withheld: bool = False) -> list[Pair]:
        """Sample `count` pairs that differ from all earlier ones on both sides."""
        # Each purpose has its own generator: held-out data do not depend on the training size.
        rng, pairs = Random(f"{name} {seed} {purpose}"), list[Pair]()
        while len(pairs) < count:
            source, target = GRAMMARS[name](rng)
            if source in sources or target in targets or has_withheld(name, source) != withheld:
                continue
            sources.add(source)
            targets.add(target)
            pairs.append((source, target))
        return pairs

    heldout_pairs = draw_pairs(heldout // 2, "withheld", withheld=True)
    heldout_pairs += draw_pairs(heldout - heldout // 2, "heldout")
    Random(f"{name} {seed} order").shuffle(heldout_pairs)
    return DemoCorpus(
        languages=(source_language, target_language),
        valid=draw_pairs(valid, "valid"),
        train=notes + draw_pairs(train - len(notes), "train"),
        heldout=heldout_pairs,
        samples=list(SAMPLES[name]),
    )


def write_demo_corpus(corpus: DemoCorpus, folder: Path, *, overwrite: bool = False) -> bool:
    """Write parallel text files: train.en, train.fr, ... and heldout.source, heldout.target.

    Returns False if all exist already. Other contents are an error unless `overwrite`.
    """
    texts: dict[Path, str] = {}
    for part, pairs, endings in (
        ("train", corpus.train, corpus.languages),
        ("valid", corpus.valid, corpus.languages),
        ("heldout", corpus.heldout, ("source", "target")),
    ):
        for side, ending in enumerate(endings):
            texts[folder / f"{part}.{ending}"] = "".join(f"{pair[side]}\n" for pair in pairs)
    missing = [path for path, text in texts.items() if not _has_content(path, text)]
    for path in missing:
        if path.exists() and not overwrite:
            raise StorageError(
                f"{path} exists with other contents; nothing was changed. Choose another --data, "
                "or use --overwrite to replace it."
            )
    for path in missing:
        write_text(path, texts[path])
    return bool(missing)


def _has_content(path: Path, text: str) -> bool:
    with explain_os_errors(path):
        return path.is_file() and path.read_bytes() == text.encode()
