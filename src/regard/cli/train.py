"""regard train: a recipe or a preset in, a model out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Assignments, Device
from regard.training.presets import names_of_presets

if TYPE_CHECKING:
    from regard.data.store import Store
    from regard.processes import Team
    from regard.training.config import RunConfig
    from regard.training.validation import Bleu


def train(
    recipe: Annotated[Path | None, typer.Argument(help="A TOML file; see recipes/.")] = None,
    preset: Annotated[str | None, typer.Option(help=f"{names_of_presets()}.")] = None,
    data: Annotated[str | None, typer.Option(help="A folder from `regard prepare`.")] = None,
    out: Annotated[str | None, typer.Option(help="The run folder.")] = None,
    init_from: Annotated[
        str | None, typer.Option("--from", help="A model folder to begin with: fine-tuning.")
    ] = None,
    assignments: Assignments = None,
    device: Device = "auto",
) -> None:
    """Train a model; the same command again goes on where it stopped.

    Under torchrun, several processes train it together.
    """
    from regard.cli.screen import be_quiet, say
    from regard.processes import joined
    from regard.training.config import run_config

    changes: dict[str, object] = {}
    if data is not None:
        changes["data"] = {"folder": data}
    if out is not None:
        changes["out"] = out
    if init_from is not None:
        changes["init_from"] = init_from
    with joined() as team:
        if not team.is_first:
            be_quiet()
        config = run_config(recipe, preset=preset, changes=changes, assignments=assignments or [])
        finished_before = run_training(config, device, team)
    if finished_before:
        say(f"This run is finished; there is nothing left to do. Its model is in {config.out}.")
    else:
        say(f"Finished. Try: {_next_command(config)}")


def _next_command(config: RunConfig) -> str:
    commands = {
        "causal": f'regard generate {config.out} "Once upon a time"',
        "xl": f'regard generate {config.out} "Once upon a time"',
        "permuted": f"regard evaluate {config.out} --text your.txt",
        "masked": f'regard fill {config.out} "Once upon a [MASK]"',
        "tagger": f"regard tag {config.out} < your.txt",
        "classifier": f"regard classify {config.out} < your.txt",
    }
    return commands.get(config.model.kind, f"regard translate {config.out} < your.txt")


def run_training(config: RunConfig, device: str, team: Team | None = None) -> bool:
    """Train with a progress bar; True if there was nothing left to do."""
    from regard.cli.screen import TrainingBar, say
    from regard.data.store import Store
    from regard.devices import device_named, keep_freed_memory
    from regard.processes import ALONE
    from regard.training.loop import train as train_model

    store = Store(Path(config.data.folder))
    team = team or ALONE
    where = team.own(device_named(device))
    if where.type == "cpu":
        keep_freed_memory()
    if config.init_from is not None:
        _warn_of_another_direction(config, store)
    if not any(Path(config.out, "checkpoints").glob("*")):
        _tell_obstacles_to_export(config, store)
    if not store.has("valid"):
        say("There is no validation text: nothing is validated, and the last weights count.")
    with TrainingBar() as bar:
        bleu = validation_bleu(store, config) if team.is_first else None
        progress = train_model(config, store, where, watcher=bar, bleu=bleu, team=team)
    if progress.stopped_early and bar.advanced:
        say(f"Stopped early: {progress.waited} validations brought no improvement.")
    return not bar.advanced


def _warn_of_another_direction(config: RunConfig, store: Store) -> None:
    """A tokenizer of both languages fits data of the other direction, too."""
    from regard.cli.screen import say
    from regard.models.folder import ModelFolder
    from regard.training.config import origin_of

    assert config.init_from is not None
    old = ModelFolder.read(origin_of(config.init_from, config.out))
    new = ModelFolder.for_store(config.model, store)
    if old.other_side(new.languages):
        say(
            f"Mind that {config.init_from} translates {old.direction}, and this data is "
            f"{new.direction}. It begins with those weights all the same."
        )


def _tell_obstacles_to_export(config: RunConfig, store: Store) -> None:
    """Say before training what would make `regard export --to huggingface` refuse the model."""
    from regard.cli.screen import say
    from regard.exchange.huggingface import obstacles_after_training
    from regard.models.folder import ModelFolder

    found = obstacles_after_training(ModelFolder.for_store(config.model, store))
    if found:
        say(
            f"`regard export --to huggingface` will refuse this model: {'; '.join(found)}. If you "
            "need that export, change these settings before training."
        )


def validation_bleu(store: Store, config: RunConfig) -> Bleu | None:
    """A function that translates the validation set greedily and counts BLEU."""
    from regard.data.loader import with_ends
    from regard.decoding.config import SearchConfig
    from regard.decoding.engine import by_length
    from regard.decoding.search import search_with
    from regard.evaluation.metrics import bleu
    from regard.models.base import Model

    if {config.model.content, store.content} != {"pairs"} or not store.has("valid"):
        return None  # a store of other content is refused by whoever trains
    part = store.part("valid")
    tokenizer = store.tokenizers.target
    references = [tokenizer.decode(part.target[i].tolist()) for i in range(len(part))]

    def measure(model: Model) -> float:
        device = model.device

        def translations(indices: list[int]) -> list[str]:
            source = with_ends([part.source[i] for i in indices]).to(device)
            found = search_with(model, source, SearchConfig(beam_size=1))
            return [tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]

        indices = list(range(len(part)))
        texts = by_length(indices, lambda i: len(part.source[i]), 256, translations)
        return bleu(texts, references)

    return measure
