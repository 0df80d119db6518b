"""Where a model looked: rows sum to one, and nobody sees what it may not see."""

from __future__ import annotations

import numpy as np
import pytest

from regard.decoding.attention_maps import look, look_at_text
from regard.errors import ConfigError
from regard.models.language import LanguageModel
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers
from toys import any_model


class Numbers:
    """A tokenizer whose pieces are the numbers of their tokens."""

    def pieces(self, ids: list[int]) -> list[str]:
        return [str(one) for one in ids]


TOKENIZERS = Tokenizers(Numbers(), Numbers(), TokenizerConfig())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["causal", "xl", "masked"])
def test_a_text_looks_at_itself(kind: str) -> None:
    model = any_model(0, kind=kind)
    assert isinstance(model, LanguageModel)
    seen = look_at_text(model, TOKENIZERS, [5, 6, 7])
    assert not len(seen.cross)
    if kind == "masked":
        assert seen.source == ["<s>", "5", "6", "7", "</s>"]
        weights = seen.encoder
    else:
        assert seen.target == ["5", "6", "7", "</s>"]
        assert seen.read == ["<s>", "5", "6", "7"]
        weights = seen.decoder
        assert not np.triu(weights, 1).any()
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert len(weights) == model.config.layers


def test_of_other_kinds_nothing_is_shown() -> None:
    model = any_model(0, kind="permuted")
    assert isinstance(model, LanguageModel)
    with pytest.raises(ConfigError, match="permuted"):
        look_at_text(model, TOKENIZERS, [5])


def test_unilm_sees_source_and_target_in_one_row() -> None:
    seen = look(any_model(0, kind="unilm"), TOKENIZERS, [5, 6, 7], [8, 9])
    np.testing.assert_allclose(seen.encoder.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(seen.cross.sum(-1) + seen.decoder.sum(-1), 1.0, atol=1e-5)
    assert seen.cross.shape[2:] == (3, 4)
    assert not np.triu(seen.decoder, 1).any()
    assert seen.source[-1] == seen.target[-1] == "</s>"
