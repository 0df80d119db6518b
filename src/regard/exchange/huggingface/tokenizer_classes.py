"""A tokenizer of the package `tokenizers`, built from a folder as HuggingFace's classes build it.

`BertTokenizer` and its like take the vocabulary from tokenizer.json, or from older files, and all
else (normalization, added tokens, their defaults) from tokenizer_config.json. Only
`PreTrainedTokenizerFast` takes tokenizer.json as it is. Both then add the tokens that
tokenizer_config.json, special_tokens_map.json and added_tokens.json name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from regard.errors import ModelError
from regard.exchange.huggingface.added_tokens import SpecialTokens, special_tokens
from regard.exchange.huggingface.folder import TOKENIZER, ForeignFolder
from regard.exchange.huggingface.vocabularies import (
    Files,
    library_content,
    merges_of,
    pieces_of,
    words_of,
)
from regard.exchange.requirements import need
from regard.models.folder import ModelFolder, Training
from regard.models.language import LanguageConfig
from regard.models.protocol import Vocabulary
from regard.text.added import CLEANED, AddedToken
from regard.text.config import ForeignKind, TokenizerConfig
from regard.text.foreign import LIBRARY, LibraryTokenizer, library_tokenizer
from regard.text.numbering import Numbering
from regard.text.tokenizer import Tokenizers

FILES: dict[ForeignKind, tuple[str, ...]] = {
    "wordpiece": ("vocab.txt",),
    "byte_bpe": ("vocab.json", "merges.txt"),
    "xlnet": ("spiece.model",),
}
_UNIGRAM = "Unigram"
_LIBRARY_NAME = {"wordpiece": "WordPiece", "byte_bpe": "BPE", "xlnet": _UNIGRAM}
_CLEAN_UP = "clean_up_tokenization_spaces"
_FORCED_CLEAN_UP = f"{_CLEAN_UP}_for_bpe_even_though_it_will_corrupt_output"


Settings = dict[str, Any]


@dataclass(frozen=True)
class TokenizerClass:
    """A class of theirs that has a form of its own."""

    kind: ForeignKind
    form: Callable[[Files, Settings], Any]  # a tokenizer without added tokens
    special: dict[str, str]  # the special tokens that it has unless told otherwise
    template: tuple[str, str] | None  # special tokens around a text, and around two
    more: tuple[str, ...] = ()  # further special tokens, unless told otherwise
    mask_takes_space: bool = False  # before it, unless told otherwise
    also: tuple[str, ...] = ()  # other names of the class


@dataclass(frozen=True)
class LibraryText:
    """The tokenizer of a folder; the kind is what such models have as a rule."""

    folder: ForeignFolder
    kind: ForeignKind

    @cached_property
    def _name(self) -> str:
        """The class of theirs that reads the folder, without "Fast"."""
        name = self._settings.get("tokenizer_class") or self.folder.config.get("tokenizer_class")
        return str(name).removesuffix("Fast") if name else _USUAL[self.folder.config["model_type"]]

    @cached_property
    def _class(self) -> TokenizerClass | None:
        """That class; None: tokenizer.json says all, so that its model may be any."""
        named = (cls for first, cls in CLASSES.items() if self._name in (first, *cls.also))
        return next(named, None)

    @cached_property
    def _settings(self) -> Settings:
        return self.folder.json(TOKENIZER)

    @cached_property
    def _tokens(self) -> SpecialTokens:
        """What the files and the class say of special and added tokens."""
        cls = self._class
        tokens = special_tokens(self.folder, cls.special if cls else {}, cls.more if cls else ())
        mask = tokens.named.get("mask_token")
        if cls and cls.mask_takes_space and isinstance(mask, str):
            tokens.named["mask_token"] = AddedToken(mask, lstrip=True)
        return tokens

    def obstacles(self, words: int) -> Iterator[str]:
        """Yield what is wrong with the files, for a model of so many words."""
        need("tokenizers", extra="huggingface")
        if problems := list(self._obstacles_in_class()):
            yield from problems
            return
        needed = [_LIBRARY_NAME[self.kind], *([_UNIGRAM] if self._class is None else [])]
        for content in self.folder.files(LIBRARY).values():
            model = library_content(content)["model"].get("type")
            if model not in (None, *needed):
                yield f"its tokenizer is {model}; {' or '.join(needed)} is needed"
                return
        largest = max(self.library.get_vocab().values(), default=0)
        if largest >= words:
            yield f"its tokenizer has ids up to {largest}, and the model {words} words"

    def _obstacles_in_class(self) -> Iterator[str]:
        """Why a tokenizer cannot be built as theirs is."""
        cls, name, parts = self._class, self._name, FILES[self.kind]
        is_generic = name in ("PreTrainedTokenizer", "TokenizersBackend")
        if self._settings.get("auto_map"):
            yield f"auto_map of {TOKENIZER} names Python code, which regard does not run"
        if cls is None and not is_generic:
            yield f"tokenizer_class is {name}; known: {', '.join(CLASSES)}, PreTrainedTokenizerFast"
        elif cls is not None and cls.kind != self.kind:
            yield f"tokenizer_class is {name}, which is not for models of this type"
        if self._settings.get("split_special_tokens"):
            yield "split_special_tokens is true; special tokens are never split here"
        if (self.folder.path / LIBRARY).is_file():
            return
        if is_generic:
            yield f"tokenizer_class is {name}, and there is no {LIBRARY}"
        elif len(self.folder.files(*parts)) < len(parts):
            yield f"its tokenizer cannot be found: neither {LIBRARY} nor {' and '.join(parts)}"

    @cached_property
    def library(self) -> Any:
        """The tokenizer; without those of a class's defaults for which the model has no id."""
        try:
            made, size = self._built(()), self.folder.config.get("vocab_size")
            ids = {name: made.token_to_id(name) for name in self._tokens.defaults}
            beyond = [name for name, i in ids.items() if None not in (i, size) and i >= size]
            return _stored(self._built(beyond) if beyond else made)
        except ModelError:
            raise
        except Exception as error:  # the package raises nothing more particular
            reason = str(error).partition("\n")[0]
            raise ModelError(
                f"The tokenizer of {self.folder.path} cannot be built ({reason}). Copy the whole "
                "folder again, or write it anew with HuggingFace's `save_pretrained`."
            ) from None

    def _built(self, without: Collection[str]) -> Any:
        files, cls, tokens = (
            self.folder.files(LIBRARY, *FILES[self.kind]),
            self._class,
            self._tokens,
        )
        if cls is None:
            made = library_tokenizer(files[LIBRARY])
            _require_unknown(self.folder.json(LIBRARY)["model"])
        else:
            made = cls.form(files, self._settings | tokens.named)
            if self.kind == "xlnet":
                tokens = tokens.with_control(pieces_of(files).control)
        added = tokens.to_add(made.get_added_tokens_decoder().values())
        made.add_tokens([token.for_library() for token in added if str(token) not in without])
        if cls is not None:
            made.post_processor = _post_processor(cls, made, tokens, files.get(LIBRARY))
        forced = self.kind != "byte_bpe" or self._settings.get(_FORCED_CLEAN_UP)
        if self._settings.get(_CLEAN_UP) and forced:
            _clean_up(made)
        return made

    @cached_property
    def marks(self) -> dict[str, int | None]:
        """Their ids of their marks: pad, unk, cls, sep, mask, and what else their kind has."""
        usual = next(cls.special for cls in CLASSES.values() if cls.kind == self.kind)
        names = {name: self._tokens.named.get(name) or text for name, text in usual.items()}
        return {
            name.removesuffix("_token"): self.library.token_to_id(str(text))
            for name, text in names.items()
        }

    def read(self, numbering: Numbering) -> Tokenizers:
        """Return the tokenizer with our numbers, as one tokenizer.json that says all."""
        content, kind = self.library.to_str().encode(), self.kind
        model = library_content(content)["model"]
        if model.get("type") == _UNIGRAM and (kind != "xlnet" or model.get("byte_fallback")):
            kind = "unigram_json"
        config = TokenizerConfig(kind=kind, vocab_size=numbering.size)
        both = LibraryTokenizer({LIBRARY: content}, numbering, config)
        return Tokenizers(both, both, config)

    def describe(
        self, config: LanguageConfig, numbering: Numbering, *labels: str, texts: int = 1
    ) -> ModelFolder:
        """Return the description of a model with this tokenizer."""
        tokenizers = self.read(numbering)
        ids = tokenizers.target.vocab_size
        return ModelFolder(
            config,
            Vocabulary(ids, ids, labels=labels),
            tokenizers,
            {"source": None, "target": None},
            Training(config.max_positions, several_sentences=1.0, texts=texts),
        )


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


def _wordpiece(files: Files, settings: Settings) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    unknown, ids = str(settings["unk_token"]), words_of(files)
    if unknown not in ids:
        raise ModelError(f"unk_token is {unknown}, and its vocabulary has no such word.")
    made = Tokenizer(models.WordPiece(ids, unk_token=unknown))
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made


def _byte_bpe(files: Files, settings: Settings) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    ids, merges = merges_of(files)
    bpe = models.BPE(ids, merges, continuing_subword_prefix="", end_of_word_suffix="")
    made = Tokenizer(bpe)
    space = settings.get("add_prefix_space", False)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    made.decoder = decoders.ByteLevel()
    return made


def _xlnet(files: Files, settings: Settings) -> Any:
    """XLNet's SentencePiece model: words apart, without accents."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    pieces = pieces_of(files)
    unknown = settings.get("unk_id", 0) if pieces.unknown is None else pieces.unknown
    made = Tokenizer(models.Unigram(pieces.scores, unk_id=unknown, byte_fallback=False))
    quotes = [normalizers.Replace(pair, '"') for pair in ("``", "''")]
    folded = [*quotes, normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case"):
        folded.append(normalizers.Lowercase())
    if pieces.rules:
        folded.append(normalizers.Precompiled(pieces.rules))
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
