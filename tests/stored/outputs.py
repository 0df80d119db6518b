"""The outputs of regard for the stored folders: parsed output of the command, and all imports.

The command runs in the directory that holds the folders; what no verb prints (fingerprints and
batches of a store) is read from Python. Options have the names of the version that wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file
from torch import Tensor

from regard.data.batch import Batch
from regard.data.loader import Loader, validation_batches
from regard.data.ragged import Lengths, Ragged
from regard.data.sampling import Position
from regard.data.store import Store
from regard.tasks import task_of
from regard.tasks.recipes import build_run_config
from regard.training.config import RunConfig

Regard = Callable[..., str]  # arguments and `stdin` to standard output
Tree = dict[str, Any]

TRANSLATORS = ("transformer", "recurrent", "convolutional", "nonautoregressive", "ctc", "unilm")
LANGUAGE_MODELS = ("causal", "masked", "xl", "permuted")
KINDS = (*TRANSLATORS, *LANGUAGE_MODELS, "tagger", "classifier")
RUNS = {"transformer": "model average", "xl": "model", "adapter": "model"}  # weights in checkpoints
STORES = ("pairs", "distilled", "text", "tagged", "labelled")
READERS = (
    "transformer",
    "nonautoregressive",
    "unilm",
    *KINDS[6:],
    "distilled",
)  # different batch types
CPU = ("--device", "cpu")
# The version that wrote the outputs did not search again.
SEARCH = ("--backend", "torch", "--no-retry", *CPU)
PROMPTS = ("mira sen", "dov tolu")
BLANKS = ("mira [MASK] sen", "tolu [MASK] dov [MASK]")
SENTENCES = ("mira sen kapi", "lume dov")
OLD_NAMES = {  # of fields of batches, as expected.json has them
    "distributions": "likely",
    "segments": "doubles.segments",
    "next_sentence_labels": "doubles.strange",
    "word_bytes": "spelling",
    "token_ids": "words",
}
TWO_TEXTS = ("mira sen\tkapi mira", "lume\tdov tolu")


def model_outputs(regard: Regard, kind: str) -> Tree:
    """All outputs of the stored model of a kind, by name."""
    folder = f"models/{kind}"
    if kind in TRANSLATORS:
        return translator_outputs(regard, folder, kind)
    if kind in LANGUAGE_MODELS:
        return language_model_outputs(regard, folder, kind)
    if kind == "tagger":
        rows = _rows(regard("tag", folder, *SENTENCES, "--json", *CPU))
        tags = [[row["labels"], row["probabilities"]] for row in rows]
        return {"tags": tags, "metrics": label_metrics(regard, folder, "tagged")}
    rows = _rows(regard("classify", folder, *TWO_TEXTS, "--json", *CPU))
    labels = [[row["label"], row["probabilities"]] for row in rows]
    return {"labels": labels, "metrics": label_metrics(regard, folder, "labelled")}


def translator_outputs(regard: Regard, folder: str, kind: str) -> Tree:
    """Translations with scores, the scores of the references, and metrics."""
    if kind in ("nonautoregressive", "ctc"):
        several = ["--candidates", "3", "--top-beams", "2"]
        teacher = [] if kind == "ctc" else ["--teacher", "models/transformer"]
        searches = {"argmax": [], "candidates": [*several, *teacher]}
    else:
        searches = {"greedy": ["--beam-size", "1"], "beam": ["--beam-size", "3"]}
        searches["beam"] += ["--top-beams", "2"]
    outputs: Tree = {
        name: translations(regard, folder, *options) for name, options in searches.items()
    }
    files = ["--source", "texts/valid.source", "--target", "texts/valid.target"]
    if kind != "nonautoregressive":  # which cannot be scored
        scores = regard("score", folder, *files, *CPU)
        outputs["scores"] = [float(line.split("\t")[0]) for line in scores.splitlines()]
    if kind == "transformer":
        outputs["embeddings"] = embeddings(regard, folder)
    files = ["--source", "texts/valid.source", "--reference", "texts/valid.target"]
    report = json.loads(
        regard(
            "evaluate", folder, *files, "--no-retry", "--backend", "torch", "--format", "json", *CPU
        )
    )
    results = report["results"][0]["metrics"]
    return {**outputs, "metrics": {result["name"]: result["value"] for result in results}}


def translations(regard: Regard, folder: str, *options: str) -> list[list[Any]]:
    """For each validation line, texts and scores, the best first."""
    more = [*options, *SEARCH, "--format", "jsonl"]
    rows = _rows(regard("translate", folder, *more, stdin=Path("texts/valid.source").read_text()))
    return [
        [[each["text"], each.get("score")] for each in (row, *row.get("alternatives", []))]
        for row in rows
    ]


def language_model_outputs(regard: Regard, folder: str, kind: str) -> Tree:
    """Continuations, fillings and embeddings, as far as a kind has them, and perplexities."""
    outputs: Tree = {}
    if kind in ("causal", "xl"):
        for name, beams in (("greedy", "1"), ("beam", "3")):
            more = ["--beam-size", beams, "--max-tokens", "8", "--format", "jsonl", *CPU]
            rows = _rows(regard("generate", folder, *PROMPTS, *more))
            outputs[name] = [
                [[each["text"], each["score"]] for each in row["continuations"]] for row in rows
            ]
    if kind == "masked":
        more = ["--top-k", "3", "--format", "jsonl", *CPU]
        outputs["fill"] = [
            [[[each["word"], each["probability"]] for each in blank] for blank in row["blanks"]]
            for row in _rows(regard("fill", folder, *BLANKS, *more))
        ]
    if kind in ("causal", "masked"):
        outputs["embeddings"] = embeddings(regard, folder)
    more = ["--text", "texts/valid.text", "--format", "json", *CPU]
    (report,) = json.loads(regard("evaluate", folder, *more))["results"]
    names = ("perplexity", "per_word", "bits_per_byte", "tokens", "words", "bytes")
    return {**outputs, "metrics": {name: report[name] for name in names}}


def embeddings(regard: Regard, folder: str) -> list[list[float]]:
    """The first numbers of the vectors of two texts."""
    rows = _rows(regard("embed", folder, *CPU, stdin="\n".join(SENTENCES)))
    return [row[:4] for row in rows]


def label_metrics(regard: Regard, folder: str, content: str) -> Tree:
    """Metrics of a tagger or classifier on the validation text."""
    more = [f"--{content}", f"texts/valid.{content}", "--format", "json", *CPU]
    (report,) = json.loads(regard("evaluate", folder, *more))["results"]
    metrics = {name: report[name] for name in ("accuracy", "macro_f1", "confusion")}
    if report["spans"]:
        metrics["span_f1"] = report["spans"]["overall"]["f1"]
    return metrics


def run_outputs(regard: Regard, name: str) -> Tree:
    """Outputs of a stored run's best model, then losses and weights of two more updates."""
    run = Path("runs") / name
    (before,) = (int(path.name) for path in (run / "checkpoints").iterdir())
    is_text = name == "xl"
    model_outputs_of = language_model_outputs if is_text else translator_outputs
    published = model_outputs_of(regard, str(run), name)
    settings = [f"training.max_steps={before + 2}", "training.log_every=1"]
    overrides = [word for setting in settings for word in ("--set", setting)]
    regard("train", f"recipes/{name}.toml", *overrides, *CPU)
    rows = [row for row in _rows((run / "metrics.jsonl").read_text()) if row["step"] > before]
    checkpoint = run / "checkpoints" / f"{before + 2:08d}"
    return {
        "published": published,
        "losses": [row["loss"] for row in rows if "loss" in row],
        "valid_loss": rows[-1]["valid_loss"],
        **{name: weights(checkpoint / f"{name}.safetensors") for name in RUNS[name].split()},
    }


def weights(path: Path) -> Tree:
    """Of each tensor: its shape, the mean of its magnitudes, and its first numbers."""
    return {
        name: [list(array.shape), float(abs(array).mean()), array.flatten()[:3].tolist()]
        for name, array in sorted(load_file(path).items())
    }


def merged_outputs(regard: Regard) -> list[list[Any]]:
    """Translations by the stored adapter when it is merged with its base model."""
    regard("merge", "runs/adapter", "--out", "models/merged")
    return translations(regard, "models/merged", "--beam-size", "3")


def exported_shortlist(regard: Regard) -> list[str]:
    """Entries of the stored shortlist, as an export to CTranslate2 writes it."""
    regard("export", "models/transformer", "--to", "ctranslate2", "--out", "models/exported")
    (path,) = Path("models/exported").rglob("vmap.txt")
    return [line for line in path.read_text().splitlines() if " " in line]


def store_outputs(name: str) -> Tree:
    """Fingerprint, content and sizes of a stored store."""
    store = Store(Path("stores") / name)
    sizes = ("pairs", "examples", "tokens", "documents", "source_tokens", "target_tokens")
    parts = {
        part: {size: description[size] for size in sizes if size in description}
        for part, description in store.description["parts"].items()
    }
    return {"fingerprint": store.fingerprint, "content": store.content, "parts": parts}


def batch_outputs(name: str) -> Tree:
    """The first training and validation batches that a recipe reads from its store."""
    config = build_run_config(
        Path("recipes") / f"{name}.toml", preset=None, changes={}, assignments=[]
    )
    training, validation = _first_batches(config)
    return {
        "training": [batch_as_tree(batch) for batch in training],
        "validation": [batch_as_tree(batch) for batch in validation],
    }


def _first_batches(config: RunConfig) -> tuple[list[Batch], list[Batch]]:
    store, task, tokens = (
        Store(Path(config.data.folder)),
        task_of(config.model),
        config.data.batch_tokens,
    )
    loader = Loader(task.training_data(store, config), tokens, seed=config.training.seed)
    training = [batch for _, batch in islice(loader.batches(Position()), 2)]
    if config.training.word_distillation:  # validation has no distributions
        return training, []
    validation = validation_batches(task.validation_data(store, config), tokens)
    return training, list(islice(validation, 1))


def batch_as_tree(batch: Batch) -> Tree:
    """The fields of a batch as plain numbers: tokens per sentence, all others by name."""
    parts: Tree = {"target_tokens": batch.target_tokens}
    for field in fields(batch):
        value = getattr(batch, field.name)
        if value is not None and field.name not in ("filler", "continues"):
            parts.update(_plain(OLD_NAMES.get(field.name, field.name), value))
    return parts


def _plain(name: str, value: object) -> Tree:
    if isinstance(value, Ragged):
        split = value.tokens.split(value.lengths.lengths.tolist())
        return {name: [row.tolist() for row in split]}
    if isinstance(value, Lengths):
        return {name: value.lengths.tolist()}
    if isinstance(value, Tensor):
        return {name: value.tolist()}
    return {f"{name}.{OLD_NAMES.get(key, key)}": part.tolist() for key, part in vars(value).items()}


def _rows(lines: str) -> list[Any]:
    return [json.loads(line) for line in lines.splitlines()]
