"""Build tokenizers of the package `tokenizers` from a folder, as HuggingFace's classes do.

`BertTokenizer` and similar classes read the vocabulary from tokenizer.json or from older files, and
everything else (normalization, added tokens) from tokenizer_config.json or the class's defaults.
Only `PreTrainedTokenizerFast` loads tokenizer.json unchanged. Both then add the tokens in
tokenizer_config.json, special_tokens_map.json and added_tokens.json.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from regard.errors import ModelError
from regard.exchange.huggingface.added_tokens import SpecialTokens, read_special_tokens
from regard.exchange.huggingface.folder import TOKENIZER, HuggingFaceFolder
from regard.exchange.huggingface.vocabularies import (
    Files,
    parse_tokenizer_json,
    read_bpe_vocab,
    read_sentencepiece_vocab,
    read_wordpiece_vocab,
)
from regard.exchange.requirements import require_packages
from regard.models.folder import DataStatistics, ModelFolder
from regard.models.language import LanguageConfig
from regard.models.protocol import Vocabulary
from regard.text.added import CLEAN_UP_REPLACEMENTS, AddedToken
from regard.text.config import ImportedTokenizerKind, TokenizerConfig
from regard.text.id_mapping import IdMapping
from regard.text.imported import TOKENIZER_JSON, HuggingFaceTokenizer, load_huggingface_tokenizer
from regard.text.tokenizer import Tokenizers

FILES: dict[ImportedTokenizerKind, tuple[str, ...]] = {
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
    """A tokenizer class of HuggingFace, with its defaults."""

    kind: ImportedTokenizerKind
    build: Callable[[Files, Settings], Any]  # returns a tokenizer without added tokens
    special_tokens: dict[str, str]  # such as unk_token
    template: tuple[str, str] | None  # special tokens around a text, and around a pair
    extra_special_tokens: tuple[str, ...] = ()
    mask_lstrip: bool = False  # the mask token includes the space before it
    aliases: tuple[str, ...] = ()  # other classes with the same behavior


@dataclass(frozen=True)
class TokenizerImporter:
    """Imports the tokenizer of a folder; kind: the usual kind for the model type."""

    folder: HuggingFaceFolder
    kind: ImportedTokenizerKind

    @cached_property
    def _name(self) -> str:
        """The name of the tokenizer class, without "Fast"."""
        name = self._settings.get("tokenizer_class") or self.folder.config.get("tokenizer_class")
        name = name or _DEFAULT_CLASSES[self.folder.config["model_type"]]
        return str(name).removesuffix("Fast")

    @cached_property
    def _class(self) -> TokenizerClass | None:
        """The tokenizer class; None: a generic class, which loads tokenizer.json unchanged."""
        matching = (cls for name, cls in CLASSES.items() if self._name in (name, *cls.aliases))
        return next(matching, None)

    @cached_property
    def _settings(self) -> Settings:
        return self.folder.json(TOKENIZER)

    @cached_property
    def _tokens(self) -> SpecialTokens:
        """Special and added tokens of the files, with the class's defaults."""
        cls = self._class
        defaults = (cls.special_tokens, cls.extra_special_tokens) if cls else ({}, ())
        tokens = read_special_tokens(self.folder, *defaults)
        mask = tokens.named.get("mask_token")
        if cls and cls.mask_lstrip and isinstance(mask, str):
            tokens.named["mask_token"] = AddedToken(mask, lstrip=True)
        return tokens

    def import_problems(self, vocab_size: int) -> Iterator[str]:
        """Yield every reason why the tokenizer cannot be imported."""
        require_packages("tokenizers", extra="huggingface")
        if problems := list(self._class_problems()):
            yield from problems
            return
        needed = [_LIBRARY_NAME[self.kind], *([_UNIGRAM] if self._class is None else [])]
        for content in self.folder.files(TOKENIZER_JSON).values():
            model = parse_tokenizer_json(content)["model"].get("type")
            if model not in (None, *needed):
                yield f"its tokenizer is {model}; supported: {' and '.join(needed)}"
                return
        largest = max(self.backend_tokenizer.get_vocab().values(), default=0)
        if largest >= vocab_size:
            yield f"its tokenizer has ids up to {largest}, but vocab_size is {vocab_size}"

    def _class_problems(self) -> Iterator[str]:
        """Yield every reason why the tokenizer class is not supported."""
        cls, name, parts = self._class, self._name, FILES[self.kind]
        is_generic = name in ("PreTrainedTokenizer", "TokenizersBackend")
        if self._settings.get("auto_map"):
            yield f"auto_map of {TOKENIZER} refers to Python code, which regard does not run"
        if cls is None and not is_generic:
            supported = ", ".join([*CLASSES, "PreTrainedTokenizerFast"])
            yield f"tokenizer_class is {name}; supported: {supported}"
        elif cls is not None and cls.kind != self.kind:
            yield f"tokenizer_class is {name}, which is not supported for this model_type"
        if self._settings.get("split_special_tokens"):
            yield "split_special_tokens is true; supported: false"
        if (self.folder.path / TOKENIZER_JSON).is_file():
            return
        if is_generic:
            yield f"tokenizer_class is {name}, but {TOKENIZER_JSON} is missing"
        elif len(self.folder.files(*parts)) < len(parts):
            files = f"neither {TOKENIZER_JSON} nor {' and '.join(parts)}"
            yield f"its tokenizer is missing: it has {files}"

    @cached_property
    def backend_tokenizer(self) -> Any:
        """The tokenizer, without default tokens whose ids exceed vocab_size."""
        try:
            tokenizer, size = self._build(()), self.folder.config.get("vocab_size")
            ids = {name: tokenizer.token_to_id(name) for name in self._tokens.defaults}
            excess = [name for name, i in ids.items() if None not in (i, size) and i >= size]
            return _reload(self._build(excess) if excess else tokenizer)
        except ModelError:
            raise
        except Exception as error:  # the package has no exception classes of its own
            reason = str(error).partition("\n")[0]
            raise ModelError(
                f"The tokenizer of {self.folder.path} cannot be built ({reason}). Copy the whole "
                "folder again, or write it again with HuggingFace's `save_pretrained`."
            ) from None

    def _build(self, excluded: Collection[str]) -> Any:
        files, cls, tokens = (
            self.folder.files(TOKENIZER_JSON, *FILES[self.kind]),
            self._class,
            self._tokens,
        )
        if cls is None:
            tokenizer = load_huggingface_tokenizer(files[TOKENIZER_JSON])
            _require_unk(self.folder.json(TOKENIZER_JSON)["model"])
        else:
            tokenizer = cls.build(files, self._settings | tokens.named)
            if self.kind == "xlnet":
                tokens = tokens.with_control_symbols(read_sentencepiece_vocab(files).control)
        added = tokens.tokens_to_add(tokenizer.get_added_tokens_decoder().values())
        tokenizer.add_tokens(
            [token.to_huggingface() for token in added if str(token) not in excluded]
        )
        if cls is not None:
            content = files.get(TOKENIZER_JSON)
            tokenizer.post_processor = _post_processor(cls, tokenizer, tokens, content)
        forced = self.kind != "byte_bpe" or self._settings.get(_FORCED_CLEAN_UP)
        if self._settings.get(_CLEAN_UP) and forced:
            _clean_up(tokenizer)
        return tokenizer

    @cached_property
    def special_token_ids(self) -> dict[str, int | None]:
        """HuggingFace's ids of special tokens: pad, unk, cls, sep, mask, and others."""
        defaults = next(cls.special_tokens for cls in CLASSES.values() if cls.kind == self.kind)
        names = {name: self._tokens.named.get(name) or text for name, text in defaults.items()}
        return {
            name.removesuffix("_token"): self.backend_tokenizer.token_to_id(str(text))
            for name, text in names.items()
        }

    def to_tokenizers(self, id_mapping: IdMapping) -> Tokenizers:
        """Return the tokenizer with internal ids, stored as a single tokenizer.json."""
        content, kind = self.backend_tokenizer.to_str().encode(), self.kind
        model = parse_tokenizer_json(content)["model"]
        if model.get("type") == _UNIGRAM and (kind != "xlnet" or model.get("byte_fallback")):
            kind = "unigram_json"
        config = TokenizerConfig(kind=kind, vocab_size=id_mapping.size)
        both = HuggingFaceTokenizer({TOKENIZER_JSON: content}, id_mapping, config)
        return Tokenizers(both, both, config)

    def model_folder(
        self, config: LanguageConfig, id_mapping: IdMapping, *labels: str, texts: int = 1
    ) -> ModelFolder:
        """Return the description of a model with this tokenizer."""
        tokenizers = self.to_tokenizers(id_mapping)
        ids = tokenizers.target.vocab_size
        return ModelFolder(
            Vocabulary(ids, ids, labels=labels),
            tokenizers,
            {"source": None, "target": None},
            DataStatistics(config.max_positions, several_sentences=1.0, texts=texts),
            config,
        )


def _reload(built: Any) -> Any:
    """Reload a tokenizer from its tokenizer.json, and check that it behaves the same.

    A token that was added twice, with and without normalization, matches in both ways before, but
    only in one way after reloading.
    """
    from tokenizers import Tokenizer

    reloaded = Tokenizer.from_str(built.to_str())
    for number, token in built.get_added_tokens_decoder().items():
        text = token.content
        normalized = built.normalizer.normalize_str(text) if built.normalizer else text
        same = built.decode([number]) == reloaded.decode([number]) and all(
            built.encode(variant, add_special_tokens=False).ids
            == reloaded.encode(variant, add_special_tokens=False).ids
            for variant in (text, normalized)
        )
        if not same:
            raise ModelError(
                f"The added token {text!r} has different settings in {TOKENIZER_JSON} and "
                f"{TOKENIZER}. Make them equal."
            )
    return reloaded


def _require_unk(model: dict[str, Any]) -> None:
    """Raise an error if a model has no unknown token, except BPE, which covers all bytes."""
    if isinstance(model["vocab"], list):
        has_unk = model.get("unk_id") is not None or model.get("byte_fallback")
    else:
        has_unk = "merges" in model or model.get("unk_token") in model["vocab"]
    if not has_unk:
        raise ModelError(f"{TOKENIZER_JSON} has no unknown token.")


def _post_processor(
    cls: TokenizerClass, tokenizer: Any, tokens: SpecialTokens, tokenizer_json: bytes | None
) -> Any:
    """Return the post-processor that adds special tokens, for a later export of the model."""
    from tokenizers import processors

    if cls.template is None:
        if tokenizer_json is None:
            return None
        return load_huggingface_tokenizer(tokenizer_json).post_processor
    names = {name: str(tokens.named.get(f"{name}_token")) for name in ("cls", "sep")}
    ids = [(name, tokenizer.token_to_id(name)) for name in dict.fromkeys(names.values())]
    if any(number is None for _, number in ids):
        return None
    single, pair = (text.format(**names) for text in cls.template)
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


def _clean_up(tokenizer: Any) -> None:
    """Remove spaces before punctuation from decoded text."""
    from tokenizers import decoders

    if tokenizer.decoder is None:
        raise ModelError(f"{_CLEAN_UP} is true, but {TOKENIZER_JSON} has no decoder.")
    replacements = [decoders.Replace(*pair) for pair in CLEAN_UP_REPLACEMENTS]
    tokenizer.decoder = decoders.Sequence([tokenizer.decoder, decoders.Fuse(), *replacements])


def _wordpiece(files: Files, settings: Settings) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    unk, ids = str(settings["unk_token"]), read_wordpiece_vocab(files)
    if unk not in ids:
        raise ModelError(f"unk_token is {unk}, which is not in the vocabulary.")
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=unk))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _byte_bpe(files: Files, settings: Settings) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    ids, merges = read_bpe_vocab(files)
    bpe = models.BPE(ids, merges, continuing_subword_prefix="", end_of_word_suffix="")
    tokenizer = Tokenizer(bpe)
    space = settings.get("add_prefix_space", False)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _xlnet(files: Files, settings: Settings) -> Any:
    """Build XLNet's SentencePiece model, which splits at whitespace and strips accents."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocab = read_sentencepiece_vocab(files)
    unk_id = settings.get("unk_id", 0) if vocab.unk_id is None else vocab.unk_id
    tokenizer = Tokenizer(models.Unigram(vocab.scores, unk_id=unk_id, byte_fallback=False))
    quotes = [normalizers.Replace(pair, '"') for pair in ("``", "''")]
    steps = [*quotes, normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case"):
        steps.append(normalizers.Lowercase())
    if vocab.charsmap:
        steps.append(normalizers.Precompiled(vocab.charsmap))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return tokenizer


_BRACKETS = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
_ANGLES = {f"{name}_token": f"<{name}>" for name in ("unk", "sep", "pad", "cls", "mask")}
_ENDS = {"bos_token": "<s>", "eos_token": "</s>"}
CLASSES = {
    "BertTokenizer": TokenizerClass(
        "wordpiece",
        _wordpiece,
        _BRACKETS,
        ("{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1"),
        aliases=("ElectraTokenizer", "LayoutLMTokenizer", "MobileBertTokenizer"),
    ),
    "RobertaTokenizer": TokenizerClass(
        "byte_bpe",
        _byte_bpe,
        _ANGLES | _ENDS | {"cls_token": "<s>", "sep_token": "</s>"},
        ("{cls} $A {sep}", "{cls} $A {sep} {sep} $B {sep}"),
        aliases=("BartTokenizer", "LEDTokenizer", "LongformerTokenizer"),
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
        extra_special_tokens=("<eop>", "<eod>"),
        mask_lstrip=True,
    ),
}
_DEFAULT_CLASSES = {  # by model_type
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "gpt2": "GPT2Tokenizer",
    "xlnet": "XLNetTokenizer",
}
