"""Import and export of Marian: equal logits, equal text, and all problems in one error."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.testing import assert_close
from typer.testing import CliRunner

from exchange.marian_models import SENTENCES, write_marian
from parity.weights import padded
from regard.cli import build_app
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.store import Store
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.folder import load_model
from regard.pipelines.translator import Translator
from regard.text.imported import ImportedTokenizer
from regard.text.special import SPECIAL
from toys import write_model_folder

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")

VARIANTS: list[dict[str, Any]] = [
    {},
    {"activation_function": "relu", "d_model": 24, "encoder_attention_heads": 2,
     "decoder_attention_heads": 2, "scale_embedding": False},
    {"activation_function": "gelu", "tie_word_embeddings": False},
    {"share_encoder_decoder_embeddings": False, "encoder_layers": 1, "decoder_layers": 3},
    {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    {"separate": True},
    {"separate": True, "tie_word_embeddings": False},
    {"decoder_start_token_id": 0},
    {"decoder_start_token_id": 5},
]  # fmt: skip


def load_hf_tokenizer(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sacremoses, which is not used
        return transformers.MarianTokenizer.from_pretrained(folder)


@torch.no_grad()
def hf_logits(model: Any, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Tensor:
    """Return the logits of all positions except padding. (N, V)"""
    ids, real = padded([torch.tensor(source) for source in sources])
    start = model.config.decoder_start_token_id
    read, written = padded([torch.tensor([start, *target[:-1]]) for target in targets])
    logits: Tensor = model(input_ids=ids, attention_mask=real.long(), decoder_input_ids=read).logits
    return logits[written]


def both_logits(folder: Path, hf_model: Any, hf_folder: Path) -> tuple[Tensor, Tensor]:
    """Return the logits of the imported model, by HuggingFace's ids, and HuggingFace's logits."""
    description, model = load_model(folder, CPU)
    source, target = description.tokenizers.source, description.tokenizers.target
    tokenizer = load_hf_tokenizer(hf_folder)
    sources, targets = tokenizer(SENTENCES).input_ids, tokenizer(text_target=SENTENCES[::-1])
    encoded = [
        side.encode_all(texts) for side, texts in ((source, SENTENCES), (target, SENTENCES[::-1]))
    ]
    predictions = model(Batch(with_eos(encoded[0]), with_eos(encoded[1])))
    logits = predictions.project(predictions.hidden)
    if isinstance(target, ImportedTokenizer):
        rows = torch.tensor(target.id_mapping.imported_ids)
        logits = torch.empty(len(logits), target.id_mapping.size).index_copy(
            1, rows[rows >= 0], logits[:, rows >= 0]
        )
    return logits, hf_logits(hf_model, sources, targets.input_ids)


def generate(hf_model: Any, tokenizer: Any, texts: list[str], **settings: Any) -> list[str]:
    """Generate one by one, so that padding has no effect."""
    translations = []
    for text in texts:
        ids = hf_model.generate(**tokenizer(text, return_tensors="pt"), **settings)
        translations += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return translations


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_import_and_export_keep_logits(fields: dict[str, Any], tmp_path: Path) -> None:
    hf_model = write_marian(tmp_path / "hf", **fields)
    import_folder(tmp_path / "hf", tmp_path / "regard")
    assert_close(*both_logits(tmp_path / "regard", hf_model, tmp_path / "hf"), atol=2e-5, rtol=0)

    name = export_folder(*load_model(tmp_path / "regard", CPU), tmp_path / "again")
    again = getattr(transformers, name).from_pretrained(tmp_path / "again").eval()
    assert_close(*both_logits(tmp_path / "regard", again, tmp_path / "again"), atol=2e-5, rtol=0)


@pytest.mark.parametrize("seed", [6, 7])
@pytest.mark.parametrize("beams", [1, 4])
def test_translate_matches_generate(beams: int, seed: int, tmp_path: Path) -> None:
    hf_model = write_marian(
        tmp_path / "hf",
        seed=seed,
        varied=True,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
    )
    import_folder(tmp_path / "hf", tmp_path / "regard")
    tokenizer = load_hf_tokenizer(tmp_path / "hf")
    expected = generate(hf_model, tokenizer, SENTENCES, num_beams=beams, length_penalty=0.6)
    assert len(set(expected)) > 1
    command = ["translate", str(tmp_path / "regard"), "--backend", "torch", "--max-ratio", "0"]
    options = [
        "--max-extra",
        "29",
        "--at-limit",
        "free",
        "--beam-size",
        str(beams),
        "--length-penalty",
        "0.6",
    ]
    result = CliRunner().invoke(
        build_app(), [*command, *options], input="".join(t + "\n" for t in SENTENCES)
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == expected


REGARD_VARIANTS: list[dict[str, Any]] = [
    {"activation": "gelu"},
    {"tied_embeddings": "decoder", "sinusoid_layout": "halves"},
    {"tied_embeddings": "none", "output_bias": True},
    {"norm_order": "pre"},
]


@pytest.mark.parametrize("fields", REGARD_VARIANTS, ids=str)
def test_exported_models_have_equal_logits(
    fields: dict[str, Any], reversal_store: Store, tmp_path: Path
) -> None:
    folder = write_model_folder(tmp_path / "regard", reversal_store, **fields)
    command = ["export", str(folder), "--to", "huggingface", "--out", str(tmp_path / "hf")]
    result = CliRunner().invoke(build_app(), command)
    assert result.exit_code == 0, result.output
    name = json.loads((tmp_path / "hf" / "config.json").read_text())["architectures"][0]
    hf_model = getattr(transformers, name).from_pretrained(tmp_path / "hf").eval()
    assert_close(*both_logits(folder, hf_model, tmp_path / "hf"), atol=2e-5, rtol=0)
    import_folder(tmp_path / "hf", tmp_path / "again")
    assert_close(*both_logits(tmp_path / "again", hf_model, tmp_path / "hf"), atol=2e-5, rtol=0)


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("beams", [1, 3])
def test_generate_matches_translate_after_export(
    beams: int, size: int, reversal_store: Store, tmp_path: Path
) -> None:
    folder = write_model_folder(tmp_path / "regard", reversal_store, scale_embedding=False)
    export_folder(*load_model(folder, CPU), tmp_path / "hf")
    hf_model = transformers.MarianMTModel.from_pretrained(tmp_path / "hf").eval()
    texts = ["a b c", "j", "d a d e f g"]
    tokenizer = load_hf_tokenizer(tmp_path / "hf")
    guard: dict[str, Any] = {"no_repeat_ngram_size": size}
    expected = generate(hf_model, tokenizer, texts, num_beams=beams, max_length=21, **guard)
    translations = Translator.load(folder, backend="torch").translate(
        texts, beam_size=beams, max_ratio=0.0, max_extra=20, at_limit="free", **guard
    )
    assert [translation.text.strip() for translation in translations] == expected


def test_repetition_penalty_of_greedy_search_matches_generate(
    reversal_store: Store, tmp_path: Path
) -> None:
    folder = write_model_folder(tmp_path / "regard", reversal_store, scale_embedding=False)
    export_folder(*load_model(folder, CPU), tmp_path / "hf")
    hf_model = transformers.MarianMTModel.from_pretrained(tmp_path / "hf").eval()
    texts, tokenizer = ["a b c", "j", "d a d e f g"], load_hf_tokenizer(tmp_path / "hf")
    translator = Translator.load(folder, backend="torch")
    settings: dict[str, Any] = {"beam_size": 1, "max_ratio": 0.0, "max_extra": 20}
    for penalty in (1.3, 3.0):
        guard: dict[str, Any] = {"repetition_penalty": penalty}
        expected = generate(hf_model, tokenizer, texts, num_beams=1, max_length=21, **guard)
        translations = translator.translate(texts, at_limit="free", **settings, **guard)
        assert [translation.text.strip() for translation in translations] == expected


def test_all_import_problems_are_reported(tmp_path: Path) -> None:
    write_marian(tmp_path / "hf", decoder_ffn_dim=40, activation_function="tanh")
    (tmp_path / "hf" / "target.spm").unlink()
    with pytest.raises(ModelError, match="3 problems") as error:
        import_folder(tmp_path / "hf", tmp_path / "regard")
    for problem in ("decoder_ffn_dim differ", "is tanh", "target.spm not found"):
        assert problem in str(error.value)
    assert not (tmp_path / "regard").exists()


def test_all_export_problems_are_reported(reversal_store: Store, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"norm": "rms", "positional_encoding": "rotary", "ffn_type": "gated"}
    folder = write_model_folder(tmp_path / "regard", reversal_store, **fields)
    with pytest.raises(ModelError, match="3 problems") as error:
        export_folder(*load_model(folder, CPU), tmp_path / "hf")
    for name, value in fields.items():
        assert f"model.{name} is {value}" in str(error.value)


def test_pickles_are_refused_with_a_conversion_command(tmp_path: Path) -> None:
    write_marian(tmp_path / "hf")
    (tmp_path / "hf" / "model.safetensors").rename(tmp_path / "hf" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"MarianMTModel.from_pretrained") as error:
        import_folder(tmp_path / "hf", tmp_path / "regard")
    assert "save_pretrained" in str(error.value)


def test_unknown_and_missing_weights_are_refused(tmp_path: Path) -> None:
    hf_model = write_marian(tmp_path / "hf")
    weights = {name: tensor.clone() for name, tensor in hf_model.state_dict().items()}
    path = tmp_path / "hf" / "model.safetensors"
    save_file({**weights, "model.encoder.layer_norm.weight": torch.ones(32)}, path)
    with pytest.raises(ModelError, match=r"1 tensors .* model.encoder.layer_norm.weight"):
        import_folder(tmp_path / "hf", tmp_path / "regard")
    del weights["model.encoder.layers.0.fc1.weight"]
    save_file(weights, path)
    with pytest.raises(ModelError, match=r"lack 'model.encoder.layers.0.fc1.weight'"):
        import_folder(tmp_path / "hf", tmp_path / "regard")


def test_damaged_folders_are_refused(reversal_store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config.json"):
        import_folder(tmp_path / "nowhere", tmp_path / "regard")
    regard_folder = write_model_folder(tmp_path / "own", reversal_store)
    with pytest.raises(ModelError, match="a model folder of regard already"):
        import_folder(regard_folder, tmp_path / "regard")
    hf_folder = tmp_path / "hf"
    write_marian(hf_folder)
    (hf_folder / "source.spm").write_bytes(b"no model")
    with pytest.raises(ModelError, match="not a SentencePiece model"):
        import_folder(hf_folder, tmp_path / "regard")
    write_marian(hf_folder)
    path = hf_folder / "config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"vocab_size": 500, "decoder_vocab_size": 500}))
    with pytest.raises(ModelError, match=r"hf have 60 embeddings instead of 500"):
        import_folder(hf_folder, tmp_path / "regard")
    path.write_text(json.dumps(settings | {"model_type": "t5"}))
    with pytest.raises(ModelError, match="model_type t5"):
        import_folder(hf_folder, tmp_path / "regard")


def test_import_command_prints_equivalent_search_options(tmp_path: Path) -> None:
    write_marian(tmp_path / "hf")
    path = tmp_path / "hf" / "generation_config.json"
    more = {"no_repeat_ngram_size": 3, "early_stopping": True}
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    command = ["import", str(tmp_path / "hf"), "--out", str(tmp_path / "regard")]
    result = CliRunner().invoke(build_app(), command)
    assert result.exit_code == 0, result.output
    stderr = " ".join(result.stderr.split())
    assert (
        "--beam-size 4 --patience 1 --min-length 0 --max-ratio 0 --max-extra 29 --at-limit free "
        "--no-repeat-ngram-size 3 <"
    ) in stderr
    assert "early_stopping" not in stderr


def test_tokenization_matches_huggingface(tmp_path: Path) -> None:
    write_marian(tmp_path / "hf")
    description = import_folder(tmp_path / "hf", tmp_path / "regard")
    hf_tokenizer = load_hf_tokenizer(tmp_path / "hf")
    texts = [*SENTENCES, ">>deu<< the dog", "", "Ünïcode 我 ▁ x", "two  spaces "]
    source = description.tokenizers.source
    assert isinstance(source, ImportedTokenizer)
    for text in texts:
        ids = hf_tokenizer(text).input_ids
        internal_ids = source.encode(text)
        assert source.id_mapping.to_imported(internal_ids) == ids[:-1]
        assert source.decode(internal_ids) == hf_tokenizer.decode(ids, skip_special_tokens=True)
        assert SPECIAL.unk not in internal_ids
