"""How words are spelled: bytes between marks, each word by itself."""

from __future__ import annotations

import torch

from regard.data.byte_features import BYTE_VOCABULARY_SIZE, ByteFeatures
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.layers.byte_cnn import ByteCNN


def test_words_are_bytes_between_boundary_symbols(reversal_store: Store) -> None:
    tokenizer = reversal_store.tokenizers.source
    words = ["A", "für", "b" * 20 + "c" * 30]
    spelled = ByteFeatures(tokenizer).extract(tokenizer.encode_words(words))
    begin, end = BYTE_VOCABULARY_SIZE - 2, BYTE_VOCABULARY_SIZE - 1
    expected = [[*b"A"], [*"für".encode()], [*b"b" * 16, *b"c" * 16]]
    rows = spelled.tokens.split(spelled.lengths.lengths.tolist())
    assert [row.tolist() for row in rows] == [[begin, *word, end] for word in expected]


@torch.no_grad()
def test_byte_cnn_is_max_pooling_over_windows_of_five() -> None:
    torch.manual_seed(0)
    layer = ByteCNN(4, 6)
    words = [[256, 97, 257], [256, 98, 99, 100, 101, 102, 257], [256, 257]]
    weight, bias = layer.convolution.weight.weight, layer.convolution.weight.bias
    for word, actual in zip(words, layer(Ragged.of(words)), strict=True):
        padded = torch.zeros(len(word) + 4, 4)
        padded[2:-2] = layer.table(torch.tensor(word))
        windows = torch.stack([padded[i : i + 5].flatten() for i in range(len(word))])
        expected = (windows @ weight.T + bias).relu().amax(0)
        torch.testing.assert_close(actual, expected)
