"""Translation: pairs of sentences, the target token by token.

L = - sum_t log p(y_t | y_<t, x)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.data.content import PAIRS
from regard.data.distributions import read_distributions
from regard.data.file_options import ParallelFiles
from regard.data.loader import Dataset
from regard.data.pairs import PairDataset, with_ends
from regard.data.store import Part, Store
from regard.decoding.config import SearchConfig
from regard.decoding.engine import by_length
from regard.decoding.search import search_with
from regard.errors import ConfigError
from regard.evaluation.metrics import bleu
from regard.evaluation.options import TranslationsOptions
from regard.models.base import Model, ModelConfig
from regard.models.folder import Training
from regard.tasks.base import Scorer, Task
from regard.tasks.pipelines import Translator
from regard.training.config import RunConfig

_AT_ONCE = 256  # sentences of a validation set


class Translation(Task):
    """Source to target, autoregressively."""

    name = "translation"
    content = PAIRS
    files = ParallelFiles
    evaluation = TranslationsOptions
    pipeline = Translator
    usage = "regard translate {} < your.txt"
    metrics = ("bleu",)
    reads_weights = True
    resegments = True
    distills = True

    def data_statistics(self, config: ModelConfig, store: Store) -> Training:
        """The longest source, and how often a line has several sentences."""
        train = store.description["parts"]["train"]
        return Training(train["longest_source"], train["several_sentences"])

    def training_data(self, store: Store, config: RunConfig) -> Dataset:
        """Pairs, with a teacher's distributions if the loss has a share of them."""
        return self.pairs(store, config, self.training_part(store, config))

    def training_part(self, store: Store, config: RunConfig) -> Part:
        """The training pairs and what belongs to them."""
        part = store.part("train")
        if not config.training.word_distillation:
            return part
        if config.data.sampling_candidates > 1:
            raise ConfigError(
                "data.sampling_candidates segments words anew each time, and the teacher's "
                "distributions are for the best segmentations. Set data.sampling_candidates=1, or "
                "training.word_distillation=0."
            )
        return replace(part, distributions=read_distributions(store))

    def pairs(self, store: Store, config: RunConfig, part: Part) -> PairDataset:
        """Training pairs as a dataset."""
        return PairDataset.of(store, part, config.data, config.training.seed)

    def validation_data(self, store: Store, config: RunConfig) -> Dataset:
        """Pairs."""
        return PairDataset(store.part("valid"))

    def scorer(self, store: Store, config: RunConfig) -> Scorer | None:
        """BLEU of greedy translations of the validation set."""
        if not config.training.validate_bleu:
            return None
        part, tokenizer = store.part("valid"), store.tokenizers.target
        references = [tokenizer.decode(part.target[i].tolist()) for i in range(len(part))]

        def score(model: Model) -> Mapping[str, float]:
            def translations(indices: list[int]) -> list[str]:
                source = with_ends([part.source[i] for i in indices]).to(model.device)
                found = search_with(model, source, SearchConfig(beam_size=1))
                return [tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]

            indices = list(range(len(part)))
            texts = by_length(indices, lambda i: len(part.source[i]), _AT_ONCE, translations)
            return {"bleu": bleu(texts, references)}

        return score

    def load(self, *folders: Path, device: str = "auto", **options: Any) -> Translator:
        """A translator, of several models as an ensemble."""
        return Translator.load(*folders, device=device, **options)
