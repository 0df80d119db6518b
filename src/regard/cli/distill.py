"""regard distill: replaces the targets of training data by translations of a teacher model."""

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
from regard.config import Flag
from regard.decoding.config import DistillConfig, SearchConfig
from regard.decoding.runtime import Runtime
from regard.errors import ConfigError, StoppedError
from regard.notices import limited_notices
from regard.progress import notify, progress_with_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.data.sampling import Shard
    from regard.data.store import Store
    from regard.data.target_replacement import TargetReplacement
    from regard.pipelines.distill import Distillation, Similarity
    from regard.pipelines.translator import Translator

_MAX_BLEU_PAIRS = 10_000


def distill(
    teachers: Annotated[
        list[Path],
        argument("Paths of teacher models; several are decoded as an ensemble.", "TEACHER..."),
    ],
    search: Annotated[SearchConfig, Fields(only=("beam_size", "length_penalty", "patience"))],
    distillation: Annotated[DistillConfig, Fields(without=("search",), panel="Distillation")],
    runtime: Runtime,
    data: Annotated[
        Path, typer.Option(help="Prepared folder of the training data.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="Prepared folder to write.", show_default=False)],
    shard: Annotated[
        str,
        typer.Option(help="Shard to translate in this process: 2/4 is the second of four."),
        Flag(formerly=("--share",)),
    ] = "1/1",
    overwrite: Overwrite = False,
) -> None:
    """Translate training data with a teacher model (sequence-level knowledge distillation).

    Running the same command again resumes stopped work.
    """
    from regard.data.sampling import Shard
    from regard.data.store import Store
    from regard.machine import keep_freed_memory
    from regard.pipelines.distill import Distillation, refuse_unsuitable_teacher
    from regard.pipelines.translator import Translator

    refuse_overlaps({"--out": out}, [*teachers, data])
    config, shard_spec, store = (
        replace(distillation, search=search),
        _parse_shard(shard),
        Store(data),
    )
    keep_freed_memory()
    translator = Translator.load(*teachers, **runtime.loading)
    notify(translator.backend_notice)
    refuse_unsuitable_teacher(translator, store, config)
    work = Distillation(store, teachers, out, config, overwrite=overwrite)
    if work.is_finished:
        work.join()
        notify(f"The distillation is already finished. The result is in {out}.")
        return
    _translate(work, shard_spec, translator, runtime.batch_size, _similarity(store))
    result = work.join()
    if result is not None:
        _report(result, store, out, mix=config.mix)
    elif not work.is_finished:
        left = sum(len(work.sentences(number)) for number in work.missing_chunks(Shard()))
        notify(
            f"Shard {shard} is finished; {left:,} sentences of other shards are not. The process "
            "that finishes last joins all shards; so does running this command again."
        )


def _parse_shard(text: str) -> Shard:
    from regard.data.sampling import Shard

    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ConfigError(f"--shard is {text}, but must be of the form 2/4, the second of four.")
    return Shard(int(match[1]) - 1, int(match[2]))


def _similarity(store: Store) -> Similarity:
    """Sentence BLEU over subwords, which also suits languages without spaces."""
    from regard.evaluation.metrics import sentence_bleu

    def tokens(text: str) -> list[str]:
        return store.tokenizers.target.ids_to_tokens(store.tokenizers.target.encode(text))

    return lambda text, reference: sentence_bleu(tokens(text), tokens(reference))


def _translate(
    work: Distillation,
    shard_spec: Shard,
    translator: Translator,
    batch_size: int | None,
    similarity: Similarity,
) -> None:
    """Translate the missing chunks of a shard, with a progress bar."""
    from regard.pipelines.text_stream import default_workers

    with work.locked_shard(shard_spec) as folder:
        missing = work.missing_chunks(shard_spec)
        total = sum(len(work.sentences(number)) for number in work.chunks(shard_spec))
        translated = total - sum(len(work.sentences(number)) for number in missing)
        if translated:
            notify(f"Resuming: {translated:,} of {total:,} sentences are translated.")
        with (
            progress_with_rate("sentence", translated, total, "sentences") as progress,
            limited_notices(notify) as notice,
        ):
            try:
                for number in work.translate(
                    missing,
                    folder,
                    translator,
                    similarity=similarity,
                    batch_size=batch_size,
                    workers=default_workers(translator.backend.device),
                    notice=notice,
                ):
                    translated += len(work.sentences(number))
                    progress(translated)
            except KeyboardInterrupt:
                raise StoppedError(
                    f"Stopped; {translated:,} of {total:,} sentences are translated. Run the same "
                    "command again to resume.",
                    signal_number=signal.SIGINT,
                ) from None


def _report(result: TargetReplacement, original: Store, out: Path, *, mix: bool) -> None:
    """Print statistics of the result, and the next command."""
    from regard.data.distributions import DISTRIBUTIONS
    from regard.data.store import Store
    from regard.evaluation.metrics import bleu

    kept = "; ".join(f"{reason}: {count:,}" for reason, count in result.kept.items())
    notify(
        f"{result.pairs:,} pairs have a new target; "
        f"{sum(result.kept.values()):,} keep the original target" + (f" ({kept})." if kept else ".")
    )
    options = ' --set "data.corpus_weights=[1,1]"' if mix else ""
    if (out / DISTRIBUTIONS).is_file():
        size = (out / DISTRIBUTIONS).stat().st_size / 1e6
        notify(f"The teacher's distributions take {size:,.1f} MB.")
        options += " --set training.word_distillation=0.5"
    sample = range(
        0, len(original.part("train")), -(-len(original.part("train")) // _MAX_BLEU_PAIRS)
    )
    changed = [pair for pair in sample if pair not in result.unchanged]
    if changed:
        new, old = (_targets(store, changed) for store in (Store(out), original))
        notify(f"BLEU of new against original targets, {len(new):,} pairs: {bleu(new, old):.2f}.")
    notify(f"Wrote {out}. Next: regard train --preset tiny --data {out} --out runs/NAME{options}")


def _targets(store: Store, pairs: Sequence[int]) -> list[str]:
    """The target texts of training pairs."""
    target = store.part("train").target
    return [store.tokenizers.target.decode(target[pair].tolist()) for pair in pairs]
