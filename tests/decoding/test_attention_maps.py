"""Attention maps: rows sum to 1, and masked positions are 0."""

from __future__ import annotations

import numpy as np
import pytest

from regard.decoding.attention_maps import pair_attention_maps, text_attention_maps
from regard.errors import ConfigError
from regard.models.language import LanguageModel
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers
from toys import random_model


class IdTokenizer:
    """A tokenizer whose tokens are their ids."""

    def ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(i) for i in ids]


TOKENIZERS = Tokenizers(IdTokenizer(), IdTokenizer(), TokenizerConfig())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["causal", "xl", "masked"])
def test_text_attention_maps(kind: str) -> None:
    model = random_model(0, kind=kind)
    assert isinstance(model, LanguageModel)
    maps = text_attention_maps(model, TOKENIZERS, [5, 6, 7])
    assert not len(maps.cross)
    if kind == "masked":
        assert maps.source == ["<s>", "5", "6", "7", "</s>"]
        weights = maps.encoder
    else:
        assert maps.target == ["5", "6", "7", "</s>"]
        assert maps.decoder_inputs == ["<s>", "5", "6", "7"]
        weights = maps.decoder
        assert not np.triu(weights, 1).any()
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert len(weights) == model.config.num_layers


def test_unsupported_model_kinds_are_refused() -> None:
    model = random_model(0, kind="permuted")
    assert isinstance(model, LanguageModel)
    with pytest.raises(ConfigError, match="permuted"):
        text_attention_maps(model, TOKENIZERS, [5])


def test_unilm_attends_to_source_and_target_in_one_row() -> None:
    maps = pair_attention_maps(random_model(0, kind="unilm"), TOKENIZERS, [5, 6, 7], [8, 9])
    np.testing.assert_allclose(maps.encoder.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(maps.cross.sum(-1) + maps.decoder.sum(-1), 1.0, atol=1e-5)
    assert maps.cross.shape[2:] == (3, 4)
    assert not np.triu(maps.decoder, 1).any()
    assert maps.source[-1] == maps.target[-1] == "</s>"
