"""Tokenizers that the package `tokenizers` reads: WordPiece, byte-level BPE, XLNet's unigrams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from regard.errors import ModelError
from regard.exchange.huggingface.folder import TOKENIZER, ForeignFolder
from regard.exchange.packages import need
from regard.text.config import ForeignKind, TokenizerConfig
from regard.text.foreign import LIBRARY, LibraryTokenizer, library_tokenizer
from regard.text.numbering import Numbering
from regard.text.special import SPECIAL
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizers

_MADE_OF = {
    "wordpiece": ("vocab.txt",),
    "byte_bpe": ("vocab.json", "merges.txt"),
    "xlnet": ("spiece.model",),
}
XLNET_MARKS = {
    **{mark: f"<{mark}>" for mark in ("unk", "cls", "sep", "pad", "mask")},
    "bos": "<s>",
    "eos": "</s>",
    "document": "<eod>",
}
_MARKS = {
    "wordpiece": {m: f"[{m.upper()}]" for m in ("pad", "unk", "cls", "sep", "mask")},
    "byte_bpe": {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
    "xlnet": XLNET_MARKS,
}
# The special tokens that a tokenizer has which only names its vocabulary.
_SPECIAL: dict[str, dict[str, str]] = {
    "bert": _MARKS["wordpiece"],
    "roberta": {**_MARKS["byte_bpe"], "bos": "<s>", "eos": "</s>"},
    "gpt2": dict.fromkeys(("unk", "bos", "eos"), "<|endoftext|>"),
}
_MARKS_OF_OURS = 4
_SPACE = "▁"
_LIBRARY_NAME = {"wordpiece": "WordPiece", "byte_bpe": "BPE", "xlnet": "Unigram"}


def obstacles_in_text(folder: ForeignFolder, kind: ForeignKind, words: int) -> Iterator[str]:
    """What is wrong with the files of their tokenizer, for a model of so many words."""
    need("tokenizers", extra="huggingface")
    parts = _MADE_OF[kind]
    if not folder.files(LIBRARY) and len(folder.files(*parts)) < len(parts):
        yield f"its tokenizer cannot be found: neither {LIBRARY} nor {' and '.join(parts)}"
        return
    content = _content(folder, kind)
    library = library_tokenizer(content)
    found = json.loads(content)["model"].get("type")
    if found not in (None, _LIBRARY_NAME[kind]):
        yield f"its tokenizer is {found}; {_LIBRARY_NAME[kind]} is needed"
        return
    largest = max(library.get_vocab().values(), default=0)
    if largest >= words:
        yield f"its tokenizer has ids up to {largest}, and the model {words} words"


def marks_of(folder: ForeignFolder, kind: ForeignKind) -> dict[str, int | None]:
    """Their ids of their marks: pad, unk, cls, sep, mask, and what else their kind has."""
    library = library_tokenizer(_content(folder, kind))
    named = _named_marks(folder)
    found: dict[str, int | None] = {}
    for mark, usual in _MARKS[kind].items():
        name = named.get(f"{mark}_token") or usual
        found[mark] = library.token_to_id(name["content"] if isinstance(name, dict) else name)
    return found


def _named_marks(folder: ForeignFolder) -> dict[str, Any]:
    """What their files say of special tokens, by mark: `mask_token` is a name or a description."""
    return folder.json("special_tokens_map.json") | folder.json(TOKENIZER)


def read_text(folder: ForeignFolder, kind: ForeignKind, numbering: Numbering) -> Tokenizers:
    """Their tokenizer, with our numbers."""
    config = TokenizerConfig(kind=kind, vocab_size=numbering.size)
    both = LibraryTokenizer({LIBRARY: _content(folder, kind)}, numbering, config)
    return Tokenizers(both, both, config)


def unwritable_text(tokenizers: Tokenizers) -> Iterator[str]:
    """Why a tokenizer cannot be written as a tokenizer.json."""
    need("tokenizers", extra="huggingface")
    tokenizer = tokenizers.target
    if isinstance(tokenizer, LibraryTokenizer):
        return
    if tokenizers.config.kind != "unigram":
        yield (
            f"its tokenizer is {tokenizers.config.kind}; of ours, tokenizer.json can be a unigram"
        )
    elif not tokenizer.pieces([_MARKS_OF_OURS])[0].startswith("<0x"):
        yield "its tokenizer has tags, which no unigram of theirs would leave whole"


def text_files(tokenizers: Tokenizers, template: str) -> dict[str, bytes]:
    """The tokenizer.json of a tokenizer; of one of ours, a text stands as in the template."""
    tokenizer = tokenizers.target
    if isinstance(tokenizer, LibraryTokenizer):
        return dict(tokenizer.files)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    text: str = _unigram(tokenizer, template).to_str()
    return {LIBRARY: text.encode()}


def _unigram(tokenizer: SentencePieceTokenizer, template: str) -> Any:
    """Our SentencePiece model: a space before each line, and bytes for what no piece covers."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, processors

    size = tokenizer.vocab_size
    pieces = list(zip(tokenizer.pieces(range(size)), tokenizer.scores(), strict=True))
    made = Tokenizer(models.Unigram(pieces, unk_id=SPECIAL.unknown, byte_fallback=True))
    config = tokenizer.config
    first: list[Any] = [normalizers.NFKC()] if config.nfkc else []
    first += [normalizers.Lowercase()] if config.lowercase else []
    spaces: list[tuple[Any, str]] = [
        (Regex(r"\n(?!\n|\z)"), "\n "),
        (" ", _SPACE),
    ]  # no piece is in an empty line
    made.normalizer = normalizers.Sequence(
        [*first, normalizers.Prepend(" "), *(normalizers.Replace(*pair) for pair in spaces)]
    )
    joined = [("\n" + _SPACE, "\n"), (_SPACE, " ")]
    made.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Fuse(),
            *(decoders.Replace(*pair) for pair in joined),
            decoders.Strip(" ", 1, 0),
        ]
    )
    marks = dict(zip(("<pad>", "<unk>", "<s>", "</s>"), range(_MARKS_OF_OURS), strict=True))
    made.add_special_tokens(list(marks))
    special = [(mark, number) for mark, number in marks.items() if mark in template.split()]
    made.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return made


def _content(folder: ForeignFolder, kind: ForeignKind) -> bytes:
    """Their tokenizer.json; from the older files, if there is none."""
    files = folder.files(LIBRARY, *_MADE_OF[kind])
    if LIBRARY in files:
        return files[LIBRARY]
    settings = folder.json(TOKENIZER)
    make = {"wordpiece": _wordpiece, "byte_bpe": _byte_bpe, "xlnet": _pieces}[kind]
    made = make(files, settings)
    _add_special(made, _SPECIAL.get(folder.config["model_type"], {}), _named_marks(folder))
    text: str = made.to_str()
    return text.encode()


def _add_special(made: Any, usual: dict[str, str], named: dict[str, Any]) -> None:
    """Register the special tokens of a vocabulary: each is one token, wherever it stands."""
    from tokenizers import AddedToken

    vocabulary, tokens = made.get_vocab(), {}
    for mark in usual | {name.removesuffix("_token"): "" for name in named}:
        token = named.get(f"{mark}_token") or usual.get(mark)
        form = {"content": token} if isinstance(token, str) else token
        if isinstance(form, dict) and form.get("content") in vocabulary:
            options = {o: bool(form[o]) for o in ("lstrip", "rstrip", "single_word") if o in form}
            tokens[form["content"]] = AddedToken(
                form["content"], normalized=False, special=True, **options
            )
    made.add_special_tokens(list(tokens.values()))


def _wordpiece(files: dict[str, bytes], settings: dict[str, Any]) -> Any:
    import tokenizers

    words = files["vocab.txt"].decode().splitlines()
    vocabulary = {word: number for number, word in enumerate(words)}
    unknown = settings.get("unk_token", "[UNK]")
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token=unknown))
    made.normalizer = tokenizers.normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.decoder = tokenizers.decoders.WordPiece()
    return made


def _byte_bpe(files: dict[str, bytes], settings: dict[str, Any]) -> Any:
    import tokenizers

    vocabulary = json.loads(files["vocab.json"])
    rows = files["merges.txt"].decode().splitlines()
    pairs = [row.partition(" ") for row in rows if row and not row.startswith("#version")]
    merges = [(first, second) for first, _, second in pairs]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=settings.get("add_prefix_space", False)
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    return made


def _pieces(files: dict[str, bytes], settings: dict[str, Any]) -> Any:
    """XLNet's SentencePiece model: words apart, without accents, marks after a text."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    try:
        model = ModelProto.FromString(files["spiece.model"])
    except DecodeError:
        raise ModelError("spiece.model is no SentencePiece model. Copy it again.") from None
    pieces = [(piece.piece, piece.score) for piece in model.pieces]
    made = Tokenizer(models.Unigram(pieces, unk_id=model.trainer_spec.unk_id))
    quotes = [normalizers.Replace(pair, '"') for pair in ("``", "''")]
    folded = [*quotes, normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case"):
        folded.append(normalizers.Lowercase())
    if rules := model.normalizer_spec.precompiled_charsmap:
        folded.append(normalizers.Precompiled(rules))
    made.normalizer = normalizers.Sequence(folded)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    made.decoder = decoders.Metaspace()
    known = {piece for piece, _ in pieces}
    made.add_special_tokens([mark for mark in (*XLNET_MARKS.values(), "<eop>") if mark in known])
    after = [(mark, made.token_to_id(mark)) for mark in ("<sep>", "<cls>") if mark in known]
    if len(after) == 2:
        made.post_processor = processors.TemplateProcessing(
            single="$A:0 <sep>:0 <cls>:2",
            pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
            special_tokens=after,
        )
    return made
