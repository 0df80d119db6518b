"""regard distill: training text in, the same with a teacher's translations out."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.command import Fields
from regard.cli.options import Overwrite, argument
from regard.cli.outputs import refuse_overlaps
from regard.decoding.config import DistillConfig, Runtime, SearchConfig
from regard.errors import ConfigError, StoppedError
from regard.notices import sparingly
from regard.progress import pace, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.data.retarget import Retargeted
    from regard.data.sampling import Turn
    from regard.data.store import Store
    from regard.decoding.distill import Distillation, Nearness
    from regard.decoding.translator import Translator

_COMPARED = 10_000  # pairs, for a figure that nobody waits for


def distill(
    teachers: Annotated[
        list[Path],
        argument(
            "A model folder, or a run folder; several teach together as an ensemble.", "TEACHER..."
        ),
    ],
    search: Annotated[SearchConfig, Fields(only=("beam_size", "length_penalty", "patience"))],
    distillation: Annotated[DistillConfig, Fields(without=("search",), panel="Distillation")],
    runtime: Runtime,
    data: Annotated[Path, typer.Option(help="A folder from `regard prepare`.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The prepared folder to write.", show_default=False)],
    share: Annotated[
        str, typer.Option(help="The part of the work to do here: 2/4 is the second of four.")
    ] = "1/1",
    overwrite: Overwrite = False,
) -> None:
    """Let a teacher translate the training text, for a smaller model to learn from.

    The same command again goes on where it stopped.
    """
    from regard.data.sampling import Turn
    from regard.data.store import Store
    from regard.decoding.distill import Distillation, refuse_unsuitable
    from regard.decoding.translator import Translator
    from regard.devices import keep_freed_memory

    refuse_overlaps({"--out": out}, [*teachers, data])
    config, turn, store = replace(distillation, search=search), _turn(share), Store(data)
    keep_freed_memory()
    translator = Translator.load(*teachers, **runtime.loading)
    say(translator.engine_told)
    refuse_unsuitable(translator, store, config)
    work = Distillation(store, teachers, out, config, overwrite=overwrite)
    if work.is_finished:
        work.join()
        say(f"This is finished; there is nothing left to do. The result is in {out}.")
        return
    _translate(work, turn, translator, runtime.batch_size, _nearness(store))
    made = work.join()
    if made is not None:
        _report(made, store, out, mix=config.mix)
    elif not work.is_finished:
        left = sum(len(work.sentences(number)) for number in work.missing(Turn()))
        say(
            f"Share {share} is done; {left:,} sentences of other shares are not. The process that "
            "ends last joins all, or this command again."
        )


def _turn(share: str) -> Turn:
    from regard.data.sampling import Turn

    match = re.fullmatch(r"(\d+)/(\d+)", share)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ConfigError(f"--share {share}: write it as 2/4, the second of four.")
    return Turn(int(match[1]) - 1, int(match[2]))


def _nearness(store: Store) -> Nearness:
    """BLEU over the store's subwords, which every language has."""
    from regard.evaluation.metrics import sentence_bleu

    def pieces(text: str) -> list[str]:
        return store.tokenizers.target.pieces(store.tokenizers.target.encode(text))

    return lambda text, old: sentence_bleu(pieces(text), pieces(old))


def _translate(
    work: Distillation,
    turn: Turn,
    translator: Translator,
    batch_size: int | None,
    nearness: Nearness,
) -> None:
    """What is missing of a share, with a progress bar."""
    with work.held(turn) as folder:
        missing = work.missing(turn)
        total = sum(len(work.sentences(number)) for number in work.portions(turn))
        done = total - sum(len(work.sentences(number)) for number in missing)
        if done:
            say(f"Going on: {done:,} of {total:,} sentences are done.")
        with pace("sentence", done, total, "sentences") as progress, sparingly(say) as notice:
            try:
                for number in missing:
                    work.translate(
                        number,
                        folder,
                        translator,
                        batch_size=batch_size,
                        nearness=nearness,
                        notice=notice,
                    )
                    done += len(work.sentences(number))
                    progress(done)
            except KeyboardInterrupt:
                raise StoppedError(
                    f"Stopped; {done:,} of {total:,} sentences are done. The same command goes on "
                    "from there.",
                    signal_number=signal.SIGINT,
                ) from None


def _report(made: Retargeted, old: Store, out: Path, *, mix: bool) -> None:
    """What came of it, and what to do with it."""
    from regard.data.distributions import DISTRIBUTIONS
    from regard.data.store import Store
    from regard.evaluation.metrics import bleu

    kept = "; ".join(f"{reason}: {count:,}" for reason, count in made.kept.items())
    say(
        f"{made.pairs:,} pairs have a new target; {sum(made.kept.values()):,} keep the old one"
        + (f" ({kept})." if kept else ".")
    )
    more = ' --set "data.weights=[1,1]"' if mix else ""
    if (out / DISTRIBUTIONS).is_file():
        size = (out / DISTRIBUTIONS).stat().st_size / 1e6
        say(f"The teacher's distributions take {size:,.1f} MB.")
        more += " --set training.word_distillation=0.5"
    every = range(0, len(old.part("train")), -(-len(old.part("train")) // _COMPARED))
    some = [pair for pair in every if pair not in made.unchanged]
    if some:
        new, before = (_targets(store, some) for store in (Store(out), old))
        say(f"BLEU of new targets against old ones, {len(new):,} pairs: {bleu(new, before):.2f}.")
    say(f"Written: {out}. Next: regard train --preset tiny --data {out} --out runs/NAME{more}")


def _targets(store: Store, pairs: Sequence[int]) -> list[str]:
    """Those of some training pairs."""
    target = store.part("train").target
    return [store.tokenizers.target.decode(target[pair].tolist()) for pair in pairs]
