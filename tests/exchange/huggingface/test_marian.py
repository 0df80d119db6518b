"""Marian from HuggingFace and back: equal logits, equal text, and all reasons where it fails."""

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

from exchange.marians import SENTENCES, write_marian
from parity.weights import padded
from regard.cli import build_app
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.store import Store
from regard.decoding.translator import Translator
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.folder import load_model
from regard.text.foreign import ForeignTokenizer
from regard.text.special import SPECIAL
from toys import write_model_folder

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")

FORMS: list[dict[str, Any]] = [
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


def their_tokenizer(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would like sacremoses, which it does not use
        return transformers.MarianTokenizer.from_pretrained(folder)


@torch.no_grad()
def their_logits(model: Any, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Tensor:
    """Of the real places. (N, V)"""
    ids, real = padded([torch.tensor(source) for source in sources])
    start = model.config.decoder_start_token_id
    read, written = padded([torch.tensor([start, *target[:-1]]) for target in targets])
    logits: Tensor = model(input_ids=ids, attention_mask=real.long(), decoder_input_ids=read).logits
    return logits[written]


def both_logits(folder: Path, theirs: Any, their_folder: Path) -> tuple[Tensor, Tensor]:
    """Ours, with the words in their order; and theirs."""
    description, model = load_model(folder, CPU)
    source, target = description.tokenizers.source, description.tokenizers.target
    tokenizer = their_tokenizer(their_folder)
    sources, targets = tokenizer(SENTENCES).input_ids, tokenizer(text_target=SENTENCES[::-1])
    ours = [
        side.encode_all(texts) for side, texts in ((source, SENTENCES), (target, SENTENCES[::-1]))
    ]
    predictions = model(Batch(with_ends(ours[0]), with_ends(ours[1])))
    logits = predictions.project(predictions.hidden)
    if isinstance(target, ForeignTokenizer):
        rows = torch.tensor(target.numbering.theirs)
        logits = torch.empty(len(logits), target.numbering.size).index_copy(
            1, rows[rows >= 0], logits[:, rows >= 0]
        )
    return logits, their_logits(theirs, sources, targets.input_ids)


def they_write(theirs: Any, tokenizer: Any, texts: list[str], **settings: Any) -> list[str]:
    """One by one, so that padding cannot matter."""
    found = []
    for text in texts:
        ids = theirs.generate(**tokenizer(text, return_tensors="pt"), **settings)
        found += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return found


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_logits_are_equal_there_and_back(form: dict[str, Any], tmp_path: Path) -> None:
    theirs = write_marian(tmp_path / "theirs", **form)
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    assert_close(*both_logits(tmp_path / "ours", theirs, tmp_path / "theirs"), atol=2e-5, rtol=0)

    name = export_folder(*load_model(tmp_path / "ours", CPU), tmp_path / "again")
    again = getattr(transformers, name).from_pretrained(tmp_path / "again").eval()
    assert_close(*both_logits(tmp_path / "ours", again, tmp_path / "again"), atol=2e-5, rtol=0)


@pytest.mark.parametrize("seed", [6, 7])
@pytest.mark.parametrize("beams", [1, 4])
def test_translate_writes_what_generate_writes(beams: int, seed: int, tmp_path: Path) -> None:
    theirs = write_marian(
        tmp_path / "theirs",
        seed=seed,
        talkative=True,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
    )
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    tokenizer = their_tokenizer(tmp_path / "theirs")
    expected = they_write(theirs, tokenizer, SENTENCES, num_beams=beams, length_penalty=0.6)
    assert len(set(expected)) > 1
    command = ["translate", str(tmp_path / "ours"), "--backend", "torch", "--max-ratio", "0"]
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
    done = CliRunner().invoke(
        build_app(), [*command, *options], input="".join(t + "\n" for t in SENTENCES)
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == expected


OWN: list[dict[str, Any]] = [
    {"activation": "gelu"},
    {"tied_embeddings": "decoder", "sinusoid_layout": "halves"},
    {"tied_embeddings": "none", "output_bias": True},
    {"norm_order": "pre"},
]


@pytest.mark.parametrize("form", OWN, ids=str)
def test_models_of_ours_are_marians_or_pegasuses_there(
    form: dict[str, Any], reversal_store: Store, tmp_path: Path
) -> None:
    ours = write_model_folder(tmp_path / "ours", reversal_store, **form)
    command = ["export", str(ours), "--to", "huggingface", "--out", str(tmp_path / "theirs")]
    done = CliRunner().invoke(build_app(), command)
    assert done.exit_code == 0, done.output
    name = json.loads((tmp_path / "theirs" / "config.json").read_text())["architectures"][0]
    theirs = getattr(transformers, name).from_pretrained(tmp_path / "theirs").eval()
    assert_close(*both_logits(ours, theirs, tmp_path / "theirs"), atol=2e-5, rtol=0)
    import_folder(tmp_path / "theirs", tmp_path / "again")
    assert_close(*both_logits(tmp_path / "again", theirs, tmp_path / "theirs"), atol=2e-5, rtol=0)


@pytest.mark.parametrize("beams", [1, 3])
def test_generate_writes_what_we_write(beams: int, reversal_store: Store, tmp_path: Path) -> None:
    ours = write_model_folder(tmp_path / "ours", reversal_store, scale_embedding=False)
    export_folder(*load_model(ours, CPU), tmp_path / "theirs")
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "theirs").eval()
    texts = ["a b c", "j", "d a d e f g"]
    tokenizer = their_tokenizer(tmp_path / "theirs")
    written = they_write(theirs, tokenizer, texts, num_beams=beams, max_length=21)
    found = Translator.load(ours, backend="torch").translate(
        texts, beam_size=beams, max_ratio=0.0, max_extra=20, at_limit="free"
    )
    assert [translation.text.strip() for translation in found] == written


def test_every_obstacle_is_named_at_once(tmp_path: Path) -> None:
    write_marian(tmp_path / "theirs", decoder_ffn_dim=40, activation_function="tanh")
    (tmp_path / "theirs" / "target.spm").unlink()
    with pytest.raises(ModelError, match="3 problems") as error:
        import_folder(tmp_path / "theirs", tmp_path / "ours")
    for what in ("decoder_ffn_dim differ", "is tanh", "target.spm cannot be found"):
        assert what in str(error.value)
    assert not (tmp_path / "ours").exists()


def test_every_obstacle_to_export_is_named_at_once(reversal_store: Store, tmp_path: Path) -> None:
    form: dict[str, Any] = {"norm": "rms", "positions": "rotary", "feedforward": "gated"}
    ours = write_model_folder(tmp_path / "ours", reversal_store, **form)
    with pytest.raises(ModelError, match="3 problems") as error:
        export_folder(*load_model(ours, CPU), tmp_path / "theirs")
    for name, value in form.items():
        assert f"model.{name} is {value}" in str(error.value)


def test_pickles_are_refused_with_a_way_out(tmp_path: Path) -> None:
    write_marian(tmp_path / "theirs")
    (tmp_path / "theirs" / "model.safetensors").rename(tmp_path / "theirs" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"MarianMTModel.from_pretrained") as error:
        import_folder(tmp_path / "theirs", tmp_path / "ours")
    assert "save_pretrained" in str(error.value)


def test_weights_that_do_not_belong_are_refused(tmp_path: Path) -> None:
    theirs = write_marian(tmp_path / "theirs")
    weights = {name: one.clone() for name, one in theirs.state_dict().items()}
    path = tmp_path / "theirs" / "model.safetensors"
    save_file({**weights, "model.encoder.layer_norm.weight": torch.ones(32)}, path)
    with pytest.raises(ModelError, match=r"1 tensors .* model.encoder.layer_norm.weight"):
        import_folder(tmp_path / "theirs", tmp_path / "ours")
    del weights["model.encoder.layers.0.fc1.weight"]
    save_file(weights, path)
    with pytest.raises(ModelError, match=r"lack 'model.encoder.layers.0.fc1.weight'"):
        import_folder(tmp_path / "theirs", tmp_path / "ours")


def test_damaged_folders_get_a_sentence(reversal_store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config.json"):
        import_folder(tmp_path / "nowhere", tmp_path / "ours")
    own = write_model_folder(tmp_path / "own", reversal_store)
    with pytest.raises(ModelError, match="regard's own already"):
        import_folder(own, tmp_path / "ours")
    theirs = tmp_path / "theirs"
    write_marian(theirs)
    (theirs / "source.spm").write_bytes(b"no model")
    with pytest.raises(ModelError, match="no SentencePiece model"):
        import_folder(theirs, tmp_path / "ours")
    write_marian(theirs)
    path = theirs / "config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"vocab_size": 500, "decoder_vocab_size": 500}))
    with pytest.raises(ModelError, match=r"theirs have a table of 60 words instead of 500"):
        import_folder(theirs, tmp_path / "ours")
    path.write_text(json.dumps(settings | {"model_type": "t5"}))
    with pytest.raises(ModelError, match="of type t5"):
        import_folder(theirs, tmp_path / "ours")


def test_the_command_says_how_to_search_as_they_do(tmp_path: Path) -> None:
    write_marian(tmp_path / "theirs")
    path = tmp_path / "theirs" / "generation_config.json"
    more = {"no_repeat_ngram_size": 3, "early_stopping": True}
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    command = ["import", str(tmp_path / "theirs"), "--out", str(tmp_path / "ours")]
    done = CliRunner().invoke(build_app(), command)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert (
        "--beam-size 4 --patience 1 --min-length 0 --max-ratio 0 --max-extra 29 --at-limit free"
        in said
    )
    assert "no_repeat_ngram_size=3" in said
    assert "early_stopping" not in said


def test_texts_are_cut_and_joined_as_theirs(tmp_path: Path) -> None:
    write_marian(tmp_path / "theirs")
    description = import_folder(tmp_path / "theirs", tmp_path / "ours")
    theirs = their_tokenizer(tmp_path / "theirs")
    texts = [*SENTENCES, ">>deu<< the dog", "", "Ünïcode 我 ▁ x", "two  spaces "]
    source = description.tokenizers.source
    assert isinstance(source, ForeignTokenizer)
    for text in texts:
        ids = theirs(text).input_ids
        ours = source.encode(text)
        assert source.numbering.written(ours) == ids[:-1]
        assert source.decode(ours) == theirs.decode(ids, skip_special_tokens=True)
        assert SPECIAL.unknown not in ours
