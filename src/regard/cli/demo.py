"""regard demo: prepares, trains and evaluates a small model in a few minutes."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Overwrite
from regard.cli.outputs import reserve_outputs
from regard.cli.tables import report_plot, table
from regard.cli.train import train_with_bar
from regard.config import build
from regard.files import locked_output, write_json, write_text
from regard.progress import console, notify
from regard.settings_tree import merge_trees

if TYPE_CHECKING:
    from regard.data.demo import DemoCorpus
    from regard.pipelines.translator import Translator

# A small Transformer for short, regular sentences; it trains in two minutes on two cores.
SETTINGS: dict[str, Any] = {
    "model": {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_model": 128,
        "num_heads": 4,
        "ffn_dim": 256,
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
    pair: Annotated[str, typer.Option(help="Language pair: en-fr or zh-en.")] = "en-fr",
    data: Annotated[Path, typer.Option(help="Folder for the corpus.")] = Path("data/demo"),
    out: Annotated[Path, typer.Option(help="Run folder to write.")] = Path("runs/demo"),
    overwrite: Overwrite = False,
) -> None:
    """Train a small Transformer on a synthetic corpus, evaluate it, and plot its attention."""
    from regard.data.demo import demo_corpus, write_demo_corpus
    from regard.pipelines.translator import Translator
    from regard.training.config import RunConfig

    start = time.monotonic()
    notify(f"1. Writing sentences to {data / 'text'} ...")
    corpus = demo_corpus(pair)
    prepared = data / "prepared"
    context.with_resource(locked_output(prepared))
    changed = write_demo_corpus(corpus, data / "text", overwrite=overwrite)
    if changed or overwrite or not (prepared / "store.json").is_file():
        notify("2. Filtering the corpus, training a tokenizer and tokenizing ...")
        reserve_outputs(context, {"--data": prepared}, inputs=[], overwrite=overwrite, folder=True)
        _prepare(corpus, data)
    else:
        notify("2. The corpus is already prepared.")
    notify(f"3. Training on {len(corpus.train):,} pairs; this takes longest ...")
    settings = {"out": str(out), "data": {"folder": str(data / "prepared")}}
    config = build(RunConfig, merge_trees(SETTINGS, settings))
    train_with_bar(config, "cpu")
    notify("4. Translating held-out sentences ...")
    translator = Translator.load(out, device="cpu")
    _report(corpus, translator, out)
    _plot_attention(corpus, translator, out)
    notify(f"Finished in {timedelta(seconds=round(time.monotonic() - start))}.")
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
    """Evaluate on the held-out sentences, and write them and the metrics to the run folder."""
    from regard.evaluation.metrics import bleu, exact_match
    from regard.training.metrics_log import read_metrics

    sources = [source for source, _ in corpus.heldout]
    references = [target for _, target in corpus.heldout]
    write_text(out / "heldout.source", "".join(line + "\n" for line in sources))
    write_text(out / "heldout.target", "".join(line + "\n" for line in references))
    translations = [translation.text for translation in translator.translate(sources, beam_size=4)]
    report = {
        "bleu": bleu(translations, references),
        "exact": exact_match(translations, references),
        "train_seconds": read_metrics(out)[-1]["seconds"],
    }
    write_json(out / "report.json", report)
    notify(
        f"   {len(sources):,} held-out sentences: BLEU {report['bleu']:.1f}, "
        f"{report['exact']:.1%} exact matches, after {report['train_seconds']:.0f} s of training"
    )
    samples = translator.translate(corpus.samples)
    console.print(table("", ["source", "translation"], [(t.source, t.text) for t in samples]))


def _plot_attention(corpus: DemoCorpus, translator: Translator, out: Path) -> None:
    from regard import plots

    notify("5. Plotting attention maps ...")
    [translation] = translator.translate(corpus.samples[1:2], attention=True)
    assert translation.attention is not None
    path = out / "attention.png"
    has_all_glyphs = plots.plot_attention_heads(
        path,
        translation.attention.cross,
        title=f"{translation.source}  →  {translation.text}",
        row_labels=translation.attention.target,
        column_labels=translation.attention.source,
    )
    report_plot(path, has_all_glyphs)


def _next_steps(corpus: DemoCorpus, data: Path, out: Path) -> None:
    source, target = corpus.languages
    notify(
        f"""
Next, with this model:
  echo "{corpus.samples[0]}" | regard translate {out} --num-hypotheses 3 --scores
  regard show attention {out} "{corpus.samples[0]}"
  regard evaluate {out} --source {out}/heldout.source --reference {out}/heldout.target
Next, with your own files:
  regard prepare --source train.{source} --target train.{target} --out data/mine
  regard train --preset tiny --data data/mine --out runs/mine
  regard translate runs/mine < test.{source}"""
    )
