"""Models with several EOS tokens: any of them ends a text, and probabilities are preserved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from exchange.language_models import TEXTS, byte_bpe, write_gpt2
from regard.decoding.wrappers import MultiEosModel
from regard.errors import RegardError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.causal import CausalConfig
from regard.models.folder import ModelFolder, load_model
from regard.pipelines.generator import Generator
from regard.text.special import SPECIAL

transformers = pytest.importorskip("transformers")


class ConstantModel:
    """A model that always returns the same logits."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def step(self, tokens: Tensor, state: None) -> Tensor:
        return self.logits.clone()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("others", [[7], [5, 9, 11]])
def test_probabilities_are_preserved(seed: int, others: list[int]) -> None:
    torch.manual_seed(seed)
    logits = 3 * torch.randn(2, 3, 12)
    logits[..., SPECIAL.pad] = -1000
    model: Any = ConstantModel(logits)
    before = logits.log_softmax(-1)
    after = MultiEosModel(model, others).step(logits, None).log_softmax(-1)
    eos = [SPECIAL.eos, *others]
    rest = [token for token in range(1, 12) if token not in eos]
    torch.testing.assert_close(after[..., rest], before[..., rest])
    torch.testing.assert_close(after[..., SPECIAL.eos], before[..., eos].amax(-1))
    assert (after[..., others] == -torch.inf).all()
    for temperature in (0.5, 1.0, 2.0):
        scaled = MultiEosModel(model, others, temperature).step(logits, None) / temperature
        expected = (logits / temperature).softmax(-1)[..., eos].sum(-1)
        torch.testing.assert_close(scaled.softmax(-1)[..., SPECIAL.eos], expected)


def generate_with(theirs: Any, text: str, beams: int, eos: list[int]) -> list[int]:
    """The continuation of a text by the HuggingFace model, without EOS."""
    ids = torch.tensor([byte_bpe().encode(text).ids])
    settings: Any = {"max_new_tokens": 20, "do_sample": False, "num_beams": beams}
    [output] = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), pad_token_id=0, eos_token_id=eos, **settings
    ).tolist()
    new: list[int] = output[ids.shape[1] :]
    return new[: next((index for index, token in enumerate(new) if token in eos), len(new))]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("where", ["config.json", "generation_config.json"])
def test_any_eos_token_ends_a_text(where: str, beams: int, tmp_path: Path) -> None:
    theirs = write_gpt2(tmp_path / "theirs", seed=2)
    outputs = [generate_with(theirs, text, 1, [0]) for text in TEXTS]
    eos = list(dict.fromkeys([0, *(ids[len(ids) // 2] for ids in outputs)]))
    path = tmp_path / "theirs" / where
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": eos}))
    if where == "config.json":
        (tmp_path / "theirs" / "generation_config.json").unlink()
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    generator = Generator.load(tmp_path / "ours", device="cpu")
    generations = generator.generate(TEXTS, max_tokens=20, beam_size=beams)
    for text, generation in zip(TEXTS, generations, strict=True):
        expected = byte_bpe().decode(
            byte_bpe().encode(text).ids + generate_with(theirs, text, beams, eos)
        )
        assert generation.prompt + generation.continuations[0].text == expected
    parts: list[str] = []
    generator.stream(TEXTS[0], parts.append, max_tokens=20)
    if beams == 1:
        assert "".join(parts) == generations[0].continuations[0].text
    export_folder(*load_model(tmp_path / "ours", torch.device("cpu")), tmp_path / "again")
    settings = json.loads((tmp_path / "again" / "config.json").read_text())
    assert sorted(settings["eos_token_id"]) == sorted(eos)


def test_bos_may_be_an_eos_token(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs", eos_token_id=[7, 0, 9, 50_000, 9])
    folder = import_folder(tmp_path / "theirs", tmp_path / "ours")
    assert isinstance(folder.config, CausalConfig)
    numbering = folder.tokenizers.target.id_mapping  # type: ignore[attr-defined]
    assert (numbering.end, folder.config.decoder_start_token) == (0, "eos")
    assert numbering.to_imported(folder.config.extra_eos_ids) == [7, 9]


def test_eos_ids_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs", eos_token_id=[0, 9])
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    path = tmp_path / "ours" / "config.json"
    content = json.loads(path.read_text())
    assert content["model"]["extra_eos_ids"]
    content["model"]["extra_eos_ids"] = [10_000]
    path.write_text(json.dumps(content))
    with pytest.raises(RegardError, match="extra_eos_ids"):
        load_model(tmp_path / "ours", torch.device("cpu"), ModelFolder.read(tmp_path / "ours"))
