"""Several EOS tokens: any of them ends a text, and probabilities stay the model's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from exchange.languages import TEXTS, byte_bpe, write_gpt2
from regard.decoding.generator import Generator
from regard.decoding.wrappers import SeveralEnds
from regard.errors import RegardError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.causal import CausalConfig
from regard.models.folder import ModelFolder, load_model
from regard.text.special import SPECIAL

transformers = pytest.importorskip("transformers")


class Fixed:
    """A model that always gives the same logits."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def step(self, tokens: Tensor, state: None) -> Tensor:
        return self.logits.clone()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("others", [[7], [5, 9, 11]])
def test_probabilities_are_kept(seed: int, others: list[int]) -> None:
    torch.manual_seed(seed)
    logits = 3 * torch.randn(2, 3, 12)
    logits[..., SPECIAL.pad] = -1000
    model: Any = Fixed(logits)
    before = logits.log_softmax(-1)
    after = SeveralEnds(model, others).step(logits, None).log_softmax(-1)
    ends = [SPECIAL.end, *others]
    plain = [column for column in range(1, 12) if column not in ends]
    torch.testing.assert_close(after[..., plain], before[..., plain])
    torch.testing.assert_close(after[..., SPECIAL.end], before[..., ends].amax(-1))
    assert (after[..., others] == -torch.inf).all()
    for temperature in (0.5, 1.0, 2.0):
        drawn = SeveralEnds(model, others, temperature).step(logits, None) / temperature
        expected = (logits / temperature).softmax(-1)[..., ends].sum(-1)
        torch.testing.assert_close(drawn.softmax(-1)[..., SPECIAL.end], expected)


def written(theirs: Any, text: str, beams: int, eos: list[int]) -> list[int]:
    """What theirs writes after a text, without the EOS that ends it."""
    ids = torch.tensor([byte_bpe().encode(text).ids])
    settings: Any = {"max_new_tokens": 20, "do_sample": False, "num_beams": beams}
    [found] = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), pad_token_id=0, eos_token_id=eos, **settings
    ).tolist()
    new: list[int] = found[ids.shape[1] :]
    return new[: next((at for at, number in enumerate(new) if number in eos), len(new))]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("where", ["config.json", "generation_config.json"])
def test_any_eos_token_ends_a_text(where: str, beams: int, tmp_path: Path) -> None:
    theirs = write_gpt2(tmp_path / "theirs", seed=2)
    unended = [written(theirs, text, 1, [0]) for text in TEXTS]
    eos = list(dict.fromkeys([0, *(ids[len(ids) // 2] for ids in unended)]))
    path = tmp_path / "theirs" / where
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": eos}))
    if where == "config.json":
        (tmp_path / "theirs" / "generation_config.json").unlink()
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    generator = Generator.load(tmp_path / "ours", device="cpu")
    found = generator.generate(TEXTS, max_tokens=20, beam_size=beams)
    for text, one in zip(TEXTS, found, strict=True):
        expected = byte_bpe().decode(
            byte_bpe().encode(text).ids + written(theirs, text, beams, eos)
        )
        assert one.prompt + one.continuations[0].text == expected
    told: list[str] = []
    generator.stream(TEXTS[0], told.append, max_tokens=20)
    if beams == 1:
        assert "".join(told) == found[0].continuations[0].text
    export_folder(*load_model(tmp_path / "ours", torch.device("cpu")), tmp_path / "again")
    settings = json.loads((tmp_path / "again" / "config.json").read_text())
    assert sorted(settings["eos_token_id"]) == sorted(eos)


def test_the_token_that_begins_texts_may_end_them(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs", eos_token_id=[7, 0, 9, 50_000, 9])
    folder = import_folder(tmp_path / "theirs", tmp_path / "ours")
    assert isinstance(folder.config, CausalConfig)
    numbering = folder.tokenizers.target.numbering  # type: ignore[attr-defined]
    assert (numbering.end, folder.config.start_token) == (0, "end")
    assert numbering.written(folder.config.extra_eos_ids) == [7, 9]


def test_ids_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs", eos_token_id=[0, 9])
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    path = tmp_path / "ours" / "config.json"
    content = json.loads(path.read_text())
    assert content["model"]["extra_eos_ids"]
    content["model"]["extra_eos_ids"] = [10_000]
    path.write_text(json.dumps(content))
    with pytest.raises(RegardError, match="extra_eos_ids"):
        load_model(tmp_path / "ours", torch.device("cpu"), ModelFolder.read(tmp_path / "ours"))
