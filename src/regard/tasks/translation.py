"""Autoregressive translation of sentence pairs.

L = - sum_t log p(y_t | y_<t, x)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from regard.data.content import PAIRS
from regard.data.distributions import read_distributions
from regard.data.file_options import ParallelFiles
from regard.data.loader import Dataset, DatasetSubset, validation_batches
from regard.data.pairs import PairDataset, context_length, pairs_by_direction, with_eos
from regard.data.store import Part, Store
from regard.decoding.backend import ContextLengths, map_by_length
from regard.decoding.config import SearchConfig
from regard.decoding.search import decode_batch
from regard.errors import ConfigError
from regard.evaluation.metrics import bleu
from regard.evaluation.options import TranslationsOptions
from regard.models.base import Model, ModelConfig
from regard.models.folder import DataStatistics, ModelFolder
from regard.tasks.base import ContextSides, Scorer, Task
from regard.tasks.pipelines import Translator
from regard.training.config import RunConfig
from regard.training.task import Validation, Validator

_BATCH_SIZE = 256  # sentences, for translating the validation set


class Translation(Task):
    """Source to target, one token at a time."""

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
    document_context: ClassVar[ContextSides] = "both"

    def data_statistics(self, config: ModelConfig, store: Store) -> DataStatistics:
        """The longest source, and the fraction of lines with several sentences."""
        train = store.description["parts"]["train"]
        return DataStatistics(
            train["longest_source"],
            train["several_sentences"],
            annotated_terms=train.get("annotated_terms", 0.0),
        )

    def training_data(self, store: Store, config: RunConfig) -> Dataset:
        """Training pairs, with the teacher's distributions for word-level distillation."""
        return self.pairs(store, config, self.training_part(store, config))

    def training_part(self, store: Store, config: RunConfig) -> Part:
        """The training part of a store, with distributions if `word_distillation` is set."""
        part = store.part("train")
        if not config.training.word_distillation:
            return part
        if config.data.subword_nbest_size > 1:
            raise ConfigError(
                "data.subword_nbest_size samples segmentations, and the teacher's "
                "distributions are for the best segmentation. Set data.subword_nbest_size=1, or "
                "training.word_distillation=0."
            )
        return replace(part, distributions=read_distributions(store))

    def pairs(self, store: Store, config: RunConfig, part: Part) -> PairDataset:
        """A part of a store as a dataset."""
        return PairDataset.of(store, part, config.data, config.training.seed)

    def validation_data(self, store: Store, config: RunConfig) -> Dataset:
        """Validation pairs."""
        return PairDataset(store.part("valid"))

    def scorer(self, store: Store, config: RunConfig) -> Scorer | None:
        """BLEU of greedy translations of the validation set; of several directions, the mean.

        Target context is that of the references.
        """
        if not config.training.validate_bleu:
            return None
        part, tokenizer = store.part("valid"), store.tokenizers.target
        targets = [part.target[i].tolist() for i in range(len(part))]
        contexts = [ContextLengths()] * len(part)
        if store.document_context.size:
            contexts = [
                ContextLengths(context_length(part.source[i]), context_length(targets[i]))
                for i in range(len(part))
            ]
        starts = [context.target for context in contexts]
        references = [tokenizer.decode(ids[n:]) for ids, n in zip(targets, starts, strict=True)]
        language, directions = store.languages["target"], pairs_by_direction(part.corpora)

        def score(model: Model) -> Mapping[str, float]:
            def translate(indices: list[int]) -> list[str]:
                source = with_eos([part.source[i] for i in indices]).to(model.device)
                nbest_lists = decode_batch(
                    model,
                    source,
                    SearchConfig(beam_size=1),
                    prefixes=[targets[i][: starts[i]] for i in indices],
                    contexts=[contexts[i] for i in indices],
                )
                return [tokenizer.decode(hypotheses[0].tokens) for hypotheses in nbest_lists]

            indices = list(range(len(part)))
            texts = map_by_length(indices, lambda i: len(part.source[i]), _BATCH_SIZE, translate)
            if not directions:
                return {"bleu": bleu(texts, references, language)}
            scores = {
                f"bleu_{direction}": bleu(
                    [texts[i] for i in pairs], [references[i] for i in pairs], direction.target
                )
                for direction, pairs in directions.items()
            }
            return {"bleu": fmean(scores.values()), **scores}

        return score

    def validator(self, store: Store, config: RunConfig) -> Validator:
        """A function that validates a model; of several directions, each for itself."""
        directions = pairs_by_direction(store.part("valid").corpora)
        if not directions:
            return super().validator(store, config)
        data, scorer = self.validation_data(store, config), self.scorer(store, config)

        def validate(model: Model) -> Validation:
            losses = {}
            for direction, pairs in directions.items():
                batches = validation_batches(DatasetSubset(data, pairs), config.data.batch_tokens)
                losses[f"valid_loss_{direction}"] = self.validate(model, batches, config).loss
            scores = scorer(model) if scorer else {}
            return Validation(fmean(losses.values()), scores, losses)

        return validate

    def next_command(self, out: str) -> str:
        """A command to try with a trained model; with several directions, one of them."""
        command, directions = super().next_command(out), ModelFolder.read(Path(out)).directions
        if not directions:
            return command
        return command.replace(" <", f" --target-lang {directions[0].target} <")

    def load(self, *folders: Path, device: str = "auto", **options: Any) -> Translator:
        """Load a translator; several models form an ensemble."""
        return Translator.load(*folders, device=device, **options)
