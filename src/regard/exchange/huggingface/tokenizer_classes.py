"""A tokenizer of the package `tokenizers`, built from a folder as HuggingFace's classes build it.

`BertTokenizer` and its like take the vocabulary from tokenizer.json, or from older files, and all
else (normalization, added tokens, their defaults) from tokenizer_config.json. Only
`PreTrainedTokenizerFast` takes tokenizer.json as it is. Both then add the tokens that
tokenizer_config.json, special_tokens_map.json and added_tokens.json name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from regard.errors import ModelError
from regard.exchange.huggingface.added_tokens import SpecialTokens, special_tokens
from regard.exchange.huggingface.folder import TOKENIZER, ForeignFolder
from regard.exchange.huggingface.vocabularies import READERS, Vocabulary
from regard.text.added import CLEANED, AddedToken
from regard.text.config import ForeignKind
from regard.text.foreign import LIBRARY, library_tokenizer

FILES: dict[ForeignKind, tuple[str, ...]] = {
    "wordpiece": ("vocab.txt",),
    "byte_bpe": ("vocab.json", "merges.txt"),
    "xlnet": ("spiece.model",),
}
_GENERIC = ("PreTrainedTokenizer", "TokenizersBackend")  # without "Fast"
_CLEAN_UP = "clean_up_tokenization_spaces"
_FORCED_CLEAN_UP = f"{_CLEAN_UP}_for_bpe_even_though_it_will_corrupt_output"


Settings = dict[str, Any]


@dataclass(frozen=True)
class TokenizerClass:
    """A class of theirs that has a form of its own."""

    kind: ForeignKind
    form: Callable[[Vocabulary, Settings], Any]  # a tokenizer without added tokens
    special: dict[str, str]  # the special tokens that it has unless told otherwise
    template: tuple[str, str] | None  # special tokens around a text, and around two
    more: tuple[str, ...] = ()  # further special tokens, unless told otherwise
    mask_takes_space: bool = False  # before it, unless told otherwise
    also: tuple[str, ...] = ()  # other names of the class


def obstacles_in_class(folder: ForeignFolder, kind: ForeignKind) -> Iterator[str]:
    """Why a tokenizer cannot be built as theirs is."""
    settings, name = folder.json(TOKENIZER), class_name(folder)
    own = _class(name)
    if settings.get("auto_map"):
        yield f"auto_map of {TOKENIZER} names Python code, which regard does not run"
    if own is None and name not in _GENERIC:
        yield f"tokenizer_class is {name}; known: {', '.join(CLASSES)}, PreTrainedTokenizerFast"
    elif own is not None and own.kind != kind:
        yield f"tokenizer_class is {name}, which is not for models of this type"
    if settings.get("split_special_tokens"):
        yield "split_special_tokens is true; special tokens are never split here"
    if (folder.path / LIBRARY).is_file():
        return
    parts = FILES[kind]
    if name in _GENERIC:
        yield f"tokenizer_class is {name}, and there is no {LIBRARY}"
    elif len(folder.files(*parts)) < len(parts):
        yield f"its tokenizer cannot be found: neither {LIBRARY} nor {' and '.join(parts)}"


def class_name(folder: ForeignFolder) -> str:
    """The class of theirs that reads a folder, without "Fast"."""
    stated = folder.json(TOKENIZER).get("tokenizer_class") or folder.config.get("tokenizer_class")
    return str(stated).removesuffix("Fast") if stated else _USUAL[folder.config["model_type"]]


def is_generic(folder: ForeignFolder) -> bool:
    """Whether tokenizer.json says all, so that its model may be any."""
    return _class(class_name(folder)) is None


def tokens_of(folder: ForeignFolder) -> SpecialTokens:
    """What the files and the class say of special and added tokens."""
    own = _class(class_name(folder))
    found = special_tokens(folder, own.special if own else {}, own.more if own else ())
    mask = found.named.get("mask_token")
    if own and own.mask_takes_space and isinstance(mask, str):
        found.named["mask_token"] = AddedToken(mask, lstrip=True)
    return found


def build(folder: ForeignFolder, kind: ForeignKind) -> Any:
    """The tokenizer; without those of a class's defaults for which the model has no id."""
    try:
        made = _built(folder, kind, frozenset())
        size = folder.config.get("vocab_size")
        tokens = tokens_of(folder)
        beyond = {name for name in tokens.defaults if _is_beyond(made.token_to_id(name), size)}
        made = _built(folder, kind, frozenset(beyond)) if beyond else made
        return _stored(made)
    except ModelError:
        raise
    except Exception as error:  # the package raises nothing more particular
        raise ModelError(
            f"The tokenizer of {folder.path} cannot be built ({error}). Copy the whole folder "
            "again, or write it anew with HuggingFace's `save_pretrained`."
        ) from None


def _is_beyond(number: int | None, size: int | None) -> bool:
    return number is not None and size is not None and number >= size


def _stored(made: Any) -> Any:
    """The same from its tokenizer.json, which does not hold what a token was before.

    A token that is added twice, with and without normalization, is found and decoded as both.
    """
    from tokenizers import Tokenizer

    stored = Tokenizer.from_str(made.to_str())
    for number, token in made.get_added_tokens_decoder().items():
        text = token.content
        folded = made.normalizer.normalize_str(text) if made.normalizer else text
        same = made.decode([number]) == stored.decode([number]) and all(
            made.encode(each, add_special_tokens=False).ids
            == stored.encode(each, add_special_tokens=False).ids
            for each in (text, folded)
        )
        if not same:
            raise ModelError(
                f"The added token {text!r} is described in two ways that {LIBRARY} cannot hold "
                f"both. Let {LIBRARY} and {TOKENIZER} agree on it."
            )
    return stored


def _built(folder: ForeignFolder, kind: ForeignKind, without: frozenset[str]) -> Any:
    files = folder.files(LIBRARY, *FILES[kind])
    own, settings = _class(class_name(folder)), folder.json(TOKENIZER)
    tokens = tokens_of(folder)
    if own is None:
        made = library_tokenizer(files[LIBRARY])
        _require_unknown(folder.json(LIBRARY)["model"])
    else:
        vocabulary = READERS[kind](files)
        made = own.form(vocabulary, settings | tokens.named)
        tokens = tokens.with_control(vocabulary.control)
    added = tokens.to_add(made.get_added_tokens_decoder().values())
    made.add_tokens([token.for_library() for token in added if str(token) not in without])
    if own is not None:
        made.post_processor = _post_processor(own, made, tokens, files.get(LIBRARY))
    if settings.get(_CLEAN_UP) and (kind != "byte_bpe" or settings.get(_FORCED_CLEAN_UP)):
        _clean_up(made)
    return made


def _require_unknown(model: dict[str, Any]) -> None:
    """Refuse a model that fails at what its vocabulary does not cover; BPE of bytes covers all."""
    if isinstance(model["vocab"], list):
        has = model.get("unk_id") is not None or model.get("byte_fallback")
    else:
        has = "merges" in model or model.get("unk_token") in model["vocab"]
    if not has:
        raise ModelError(f"{LIBRARY} has no unknown token.")


def _post_processor(
    own: TokenizerClass, made: Any, tokens: SpecialTokens, library: bytes | None
) -> Any:
    """What puts special tokens around a text; it is for those who export the model again."""
    from tokenizers import processors

    if own.template is None:
        return library_tokenizer(library).post_processor if library else None
    names = {name: str(tokens.named.get(f"{name}_token")) for name in ("cls", "sep")}
    ids = [(name, made.token_to_id(name)) for name in dict.fromkeys(names.values())]
    if any(number is None for _, number in ids):
        return None
    single, pair = (text.format(**names) for text in own.template)
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


def _clean_up(made: Any) -> None:
    """No spaces before punctuation in decoded text."""
    from tokenizers import decoders

    if made.decoder is None:
        raise ModelError(f"{_CLEAN_UP} is true, and {LIBRARY} has no decoder.")
    replaced = [decoders.Replace(*pair) for pair in CLEANED]
    made.decoder = decoders.Sequence([made.decoder, decoders.Fuse(), *replaced])


def _wordpiece(vocabulary: Vocabulary, settings: Settings) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    unknown = str(settings["unk_token"])
    if unknown not in vocabulary.ids:
        raise ModelError(f"unk_token is {unknown}, and its vocabulary has no such word.")
    made = Tokenizer(models.WordPiece(vocabulary.ids, unk_token=unknown))
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made


def _byte_bpe(vocabulary: Vocabulary, settings: Settings) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    model = models.BPE(
        vocab=vocabulary.ids,
        merges=vocabulary.merges,
        continuing_subword_prefix="",
        end_of_word_suffix="",
    )
    made = Tokenizer(model)
    space = settings.get("add_prefix_space", False)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    made.decoder = decoders.ByteLevel()
    return made


def _xlnet(vocabulary: Vocabulary, settings: Settings) -> Any:
    """XLNet's SentencePiece model: words apart, without accents."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    unknown = settings.get("unk_id", 0) if vocabulary.unknown is None else vocabulary.unknown
    made = Tokenizer(models.Unigram(vocabulary.pieces, unk_id=unknown, byte_fallback=False))
    quotes = [normalizers.Replace(pair, '"') for pair in ("``", "''")]
    folded = [*quotes, normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case"):
        folded.append(normalizers.Lowercase())
    if vocabulary.rules:
        folded.append(normalizers.Precompiled(vocabulary.rules))
    made.normalizer = normalizers.Sequence(folded)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    made.decoder = decoders.Metaspace(prepend_scheme="always")
    return made


_BRACKETS = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
_ANGLES = {f"{name}_token": f"<{name}>" for name in ("unk", "sep", "pad", "cls", "mask")}
_ENDS = {"bos_token": "<s>", "eos_token": "</s>"}
CLASSES = {
    "BertTokenizer": TokenizerClass(
        "wordpiece",
        _wordpiece,
        _BRACKETS,
        ("{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1"),
        also=("ElectraTokenizer", "LayoutLMTokenizer", "MobileBertTokenizer"),
    ),
    "RobertaTokenizer": TokenizerClass(
        "byte_bpe",
        _byte_bpe,
        _ANGLES | _ENDS | {"cls_token": "<s>", "sep_token": "</s>"},
        ("{cls} $A {sep}", "{cls} $A {sep} {sep} $B {sep}"),
        also=("BartTokenizer", "LEDTokenizer", "LongformerTokenizer"),
    ),
    "GPT2Tokenizer": TokenizerClass(
        "byte_bpe",
        _byte_bpe,
        dict.fromkeys(("unk_token", "bos_token", "eos_token"), "<|endoftext|>"),
        None,
    ),
    "XLNetTokenizer": TokenizerClass(
        "xlnet",
        _xlnet,
        _ANGLES | _ENDS,
        ("$A:0 {sep}:0 {cls}:2", "$A:0 {sep}:0 $B:1 {sep}:1 {cls}:2"),
        more=("<eop>", "<eod>"),
        mask_takes_space=True,
    ),
}
_USUAL = {  # by their model_type
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "gpt2": "GPT2Tokenizer",
    "xlnet": "XLNetTokenizer",
}


def _class(name: str) -> TokenizerClass | None:
    """The class of that name; None: tokenizer.json says all."""
    named = (own for first, own in CLASSES.items() if name in (first, *own.also))
    return next(named, None)
