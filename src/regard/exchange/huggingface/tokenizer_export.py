"""Export tokenizers to tokenizer.json, for the package `tokenizers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regard.config import Tree
from regard.exchange.huggingface.weights import get_id_mapping
from regard.exchange.requirements import require_packages
from regard.text.base import Tokenizer
from regard.text.id_mapping import NO_IMPORTED_ID
from regard.text.imported import TOKENIZER_JSON, HuggingFaceTokenizer
from regard.text.special import SPECIAL
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizers

_NUM_SPECIAL_TOKENS = 4
_SPACE = "▁"


def tokenizer_export_problems(tokenizers: Tokenizers) -> Iterator[str]:
    """Yield every reason why a tokenizer cannot be exported to tokenizer.json."""
    tokenizer = tokenizers.target
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return
    if tokenizers.config.kind != "unigram":
        yield f"its tokenizer is {tokenizers.config.kind}; supported: unigram"
    elif not tokenizer.ids_to_tokens([_NUM_SPECIAL_TOKENS])[0].startswith("<0x"):
        yield "its tokenizer has tags, which HuggingFace's Unigram model would split"


def tokenizer_settings(tokenizer: Tokenizer, ids: Mapping[str, int]) -> Tree:
    """Return the tokenizer_config.json with the special tokens of these internal ids."""
    hf_ids = get_id_mapping(tokenizer).imported_ids

    def has_token(hf_id: int) -> bool:
        if hf_id == NO_IMPORTED_ID or not isinstance(tokenizer, HuggingFaceTokenizer):
            return hf_id != NO_IMPORTED_ID
        return bool(tokenizer.library.id_to_token(hf_id))

    names = {
        f"{name}_token": tokenizer.ids_to_tokens([number])[0]
        for name, number in ids.items()
        if has_token(hf_ids[number])
    }
    return {"tokenizer_class": "PreTrainedTokenizerFast", **names}


def tokenizer_files(
    tokenizers: Tokenizers, template: str, mask: int | None = None
) -> dict[str, bytes]:
    """Return the tokenizer.json of a tokenizer; template: special tokens around a text.

    mask: the id of MASK, which includes the spaces around it
    """
    tokenizer = tokenizers.target
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return dict(tokenizer.files)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    require_packages("tokenizers", extra="huggingface")
    text: str = _unigram(tokenizer, template, mask).to_str()
    return {TOKENIZER_JSON: text.encode()}


def _unigram(tokenizer: SentencePieceTokenizer, template: str, mask: int | None) -> Any:
    """Convert a SentencePiece model, with a space before each line and byte fallback."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, processors

    size = tokenizer.vocab_size
    vocab = list(zip(tokenizer.ids_to_tokens(range(size)), tokenizer.scores(), strict=True))
    hf_tokenizer = Tokenizer(models.Unigram(vocab, unk_id=SPECIAL.unk, byte_fallback=True))
    config = tokenizer.config
    first: list[Any] = [normalizers.NFKC()] if config.nfkc else []
    first += [normalizers.Lowercase()] if config.lowercase else []
    lines = normalizers.Replace(Regex(r"\n(?!\n|\z)"), "\n ")  # empty lines have no tokens
    hf_tokenizer.normalizer = normalizers.Sequence(
        [*first, normalizers.Prepend(" "), lines, normalizers.Replace(" ", _SPACE)]
    )
    hf_tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace("\n" + _SPACE, "\n"),
            decoders.Replace(_SPACE, " "),
            decoders.Strip(" ", 1, 0),
        ]
    )
    names = ("<pad>", "<unk>", "<s>", "</s>")
    special = dict(zip(names, range(_NUM_SPECIAL_TOKENS), strict=True))
    for name, number in special.items():  # a space is prepended to text after a special token
        strip = number == mask
        token = AddedToken(name, lstrip=strip, rstrip=strip, normalized=False, special=True)
        hf_tokenizer.add_special_tokens([token])
    used = [(name, number) for name, number in special.items() if name in template.split()]
    pair = f"{template} $B:1 </s>:1" if template.endswith("</s>") else "$A $B:1"
    hf_tokenizer.post_processor = processors.TemplateProcessing(
        single=template, pair=pair, special_tokens=used
    )
    return hf_tokenizer
