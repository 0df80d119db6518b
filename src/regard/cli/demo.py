"""regard demo: the whole way, from sentences to a picture of attention, in a few minutes."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Overwrite
from regard.cli.outputs import claim
from regard.cli.screen import table, written
from regard.cli.train import train_with_bar
from regard.config import build, merged
from regard.files import held_output, write_json, write_text
from regard.progress import console, say

if TYPE_CHECKING:
    from regard.data.demo import DemoCorpus
    from regard.decoding.translator import Translator

# A small Transformer for short, regular sentences: what two cores learn in two minutes.
SETTINGS: dict[str, Any] = {
    "model": {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "width": 128,
        "heads": 4,
        "feedforward_width": 256,
        "dropout": 0.0,
        "norm_order": "pre",
    },
    "data": {"batch_tokens": 1024},
    "training": {
        "max_steps": 1500,
        "checkpoint_every": 500,
        "learning_rate": 3e-3,
        "warmup_steps": 200,
        "schedule": "cosine",
        "tensorboard": False,
    },
}


def demo(
    context: typer.Context,
    pair: Annotated[str, typer.Option(help="en-fr or zh-en.")] = "en-fr",
    data: Annotated[Path, typer.Option(help="Where the corpus goes.")] = Path("data/demo"),
    out: Annotated[Path, typer.Option(help="Where the model goes.")] = Path("runs/demo"),
    overwrite: Overwrite = False,
) -> None:
    """Train a small Transformer on a corpus that regard writes itself, and look at it."""
    from regard.data.demo import demo_corpus, write_demo_corpus
    from regard.decoding.translator import Translator
    from regard.training.config import RunConfig

    began = time.monotonic()
    say(f"1. Writing sentences to {data / 'text'} ...")
    corpus = demo_corpus(pair)
    prepared = data / "prepared"
    context.with_resource(held_output(prepared))
    changed = write_demo_corpus(corpus, data / "text", overwrite=overwrite)
    if changed or overwrite or not (prepared / "store.json").is_file():
        say("2. Looking at every line, learning subwords, and writing the text in them ...")
        claim(context, {"--data": prepared}, inputs=[], overwrite=overwrite, folder=True)
        _prepare(corpus, data)
    else:
        say("2. The text is prepared already.")
    say(f"3. Training on {len(corpus.train):,} pairs, the longest part ...")
    settings = {"out": str(out), "data": {"folder": str(data / "prepared")}}
    config = build(RunConfig, merged(SETTINGS, settings))
    train_with_bar(config, "cpu")
    say("4. Translating what it has never seen ...")
    translator = Translator.load(out, device="cpu")
    _report(corpus, translator, out)
    _look(corpus, translator, out)
    say(f"Done, in {timedelta(seconds=round(time.monotonic() - began))}.")
    _next_steps(corpus, data, out)


def _prepare(corpus: DemoCorpus, data: Path) -> None:
    from regard.api import prepare

    source, target = corpus.languages
    options: dict[str, Any] = {
        f"{name}{side}": data / "text" / f"{part}.{language}"
        for part, name in (("train", ""), ("valid", "valid_"))
        for side, language in (("source", source), ("target", target))
    }
    options |= {"source_lang": source, "target_lang": target, "vocab_size": 2000}
    prepare(out=data / "prepared", overwrite=True, progress=True, **options)


def _report(corpus: DemoCorpus, translator: Translator, out: Path) -> None:
    """Measure on the held-out sentences, and leave them and the figures in the run folder."""
    from regard.evaluation.metrics import bleu, exact_matches
    from regard.training.metrics_log import read_metrics

    sources = [source for source, _ in corpus.heldout]
    references = [target for _, target in corpus.heldout]
    write_text(out / "heldout.source", "".join(line + "\n" for line in sources))
    write_text(out / "heldout.target", "".join(line + "\n" for line in references))
    found = [translation.text for translation in translator.translate(sources, beam_size=4)]
    report = {
        "bleu": bleu(found, references),
        "exact": exact_matches(found, references),
        "train_seconds": read_metrics(out)[-1]["seconds"],
    }
    write_json(out / "report.json", report)
    say(
        f"   {len(sources):,} held-out sentences: BLEU {report['bleu']:.1f}, "
        f"{report['exact']:.1%} exactly right, after {report['train_seconds']:.0f} s of training"
    )
    samples = translator.translate(corpus.samples)
    console.print(table("", ["source", "translation"], [(t.source, t.text) for t in samples]))


def _look(corpus: DemoCorpus, translator: Translator, out: Path) -> None:
    from regard import plots

    say("5. Looking where it looks ...")
    [seen] = translator.translate(corpus.samples[1:2], attention=True)
    assert seen.attention is not None
    path = out / "attention.png"
    complete = plots.attention_heads(
        path,
        seen.attention.cross,
        title=f"{seen.source}  →  {seen.text}",
        row_labels=seen.attention.target,
        column_labels=seen.attention.source,
    )
    written(path, complete)


def _next_steps(corpus: DemoCorpus, data: Path, out: Path) -> None:
    source, target = corpus.languages
    say(
        f"""
Next, with this model (the command is in .venv/bin):
  echo "{corpus.samples[0]}" | regard translate {out} --top-beams 3 --scores
  regard show attention {out} "{corpus.samples[0]}"
  regard evaluate {out} --source {out}/heldout.source --reference {out}/heldout.target
and with your own files:
  regard prepare --source train.{source} --target train.{target} --out data/mine
  regard train --preset tiny --data data/mine --out runs/mine
  regard translate runs/mine < test.{source}"""
    )
