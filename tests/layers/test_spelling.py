"""How words are spelled: bytes between marks, each word by itself."""

from __future__ import annotations

import torch

from regard.data.ragged import Ragged
from regard.data.spelling import SIGNS, Speller
from regard.data.store import Store
from regard.layers.spelling import Spelling


def test_words_are_bytes_between_marks(reversal_store: Store) -> None:
    tokenizer = reversal_store.tokenizers.source
    words = ["A", "für", "b" * 20 + "c" * 30]
    spelled = Speller(tokenizer).spell(tokenizer.encode_words(words))
    begin, end = SIGNS - 2, SIGNS - 1
    wanted = [[*b"A"], [*"für".encode()], [*b"b" * 16, *b"c" * 16]]
    rows = spelled.tokens.split(spelled.lengths.lengths.tolist())
    assert [row.tolist() for row in rows] == [[begin, *word, end] for word in wanted]


@torch.no_grad()
def test_a_vector_is_the_maximum_over_a_window_of_five() -> None:
    torch.manual_seed(0)
    layer = Spelling(4, 6)
    words = [[256, 97, 257], [256, 98, 99, 100, 101, 102, 257], [256, 257]]
    weight, bias = layer.convolution.weight.weight, layer.convolution.weight.bias
    for word, found in zip(words, layer(Ragged.of(words)), strict=True):
        padded = torch.zeros(len(word) + 4, 4)
        padded[2:-2] = layer.table(torch.tensor(word))
        windows = torch.stack([padded[i : i + 5].flatten() for i in range(len(word))])
        wanted = (windows @ weight.T + bias).relu().amax(0)
        torch.testing.assert_close(found, wanted)
