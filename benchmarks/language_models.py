"""Training speed of a GPT, with regard and with HuggingFace, in interleaved rounds.

    python benchmarks/language_models.py --device cuda
    python benchmarks/language_models.py --device cuda --write      # write the table into docs/

The model has the size of the smallest GPT-2 (preset `gpt-base`, 124M parameters): 12 layers of
width 768, learned positions, tied embeddings, a context of 1,024 and GPT-2's vocabulary. All
systems get the same random tokens in rows of the context's length, and use AdamW and bfloat16. The
share of peak is that of a large matrix product on the same device, measured in the same run;
attention is counted with half of its products, as it is causal.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import comparison
import machine
from comparison import Round, SystemResult
from memory import peak_memory
from pages import fill
from regard.config import build
from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.models import new_model
from regard.models.causal import CausalConfig
from regard.models.protocol import Vocabulary
from regard.training.config import RunConfig, TrainingConfig
from regard.training.execution_plan import ExecutionPlan
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.presets import PRESETS
from regard.training.step import Updater

PAGE = Path("docs/results/benchmarks.md")
RATE, WEIGHT_DECAY = 6e-4, 0.1
Update = Callable[[Tensor], Tensor]  # on rows (B, T + 1); returns the loss per token


@dataclass(frozen=True)
class Gpt:
    """The size of a model."""

    num_layers: int
    d_model: int
    num_heads: int
    context: int
    vocabulary: int
    dropout: float = 0.0

    def flops(self, rows: int) -> float:
        """FLOPs of the matrix products of an update, forward and backward."""
        square = self.d_model**2
        row = self.context * 12 * square + self.context**2 * self.d_model
        projection = self.context * self.d_model * self.vocabulary
        return 2 * 3 * rows * (self.num_layers * row + projection)


GPT2 = Gpt(num_layers=12, d_model=768, num_heads=12, context=1024, vocabulary=50257)


def ours(size: Gpt, device: torch.device, rows: int) -> Update:
    """The update of `regard train`."""
    preset = PRESETS["gpt-base"]["model"]
    changes = {
        "num_layers": size.num_layers,
        "d_model": size.d_model,
        "num_heads": size.num_heads,
        "ffn_dim": 4 * size.d_model,
        "max_positions": size.context,
        "dropout": size.dropout,
    }
    model_config = build(CausalConfig, {**preset, **changes})
    training = TrainingConfig(
        optimizer="adamw", weight_decay=WEIGHT_DECAY, label_smoothing=0.0, learning_rate=RATE
    )
    config = RunConfig(out="nowhere", model=model_config, training=training)
    vocabulary = Vocabulary(size.vocabulary, size.vocabulary, joint=True)
    model = new_model(model_config, vocabulary).to(device).train()
    updater = Updater(model, make_optimizer(model, training), Objective(training))
    stack = ExitStack()  # never closed
    plan = ExecutionPlan.choose(config, device)
    stack.enter_context(updater.use_plan(plan, rows * size.context))
    step = 0

    def update(tokens: Tensor) -> Tensor:
        nonlocal step
        step += 1
        lengths = Lengths.of([tokens.shape[1] - 1] * len(tokens))
        batch = Batch(
            Ragged(tokens[:, :-1].flatten(), lengths), Ragged(tokens[:, 1:].flatten(), lengths)
        )
        result = updater([batch], step=step, rate=RATE)
        return result.sums[0] / result.tokens

    return update


def huggingface(size: Gpt, device: torch.device, *, compiled: bool) -> Update:
    """`GPT2LMHeadModel` in a plain training loop, with autocast and a fused optimizer."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=size.vocabulary,
        n_positions=size.context,
        n_embd=size.d_model,
        n_layer=size.num_layers,
        n_head=size.num_heads,
        resid_pdrop=size.dropout,
        embd_pdrop=size.dropout,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    network = GPT2LMHeadModel(config).to(device).train()  # type: ignore[arg-type, no-untyped-call]
    model: Any = torch.compile(network) if compiled else network
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY, fused=device.type == "cuda"
    )

    def update(tokens: Tensor) -> Tensor:
        tokens = tokens.to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(input_ids=tokens[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), tokens[:, 1:].flatten()
            )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return update


class TrainingSystem:
    """An update function that is timed."""

    def __init__(
        self, name: str, is_peer: bool, make: Callable[[], Update], options: argparse.Namespace
    ) -> None:
        self.name, self.is_peer = name, is_peer
        self._make, self._options = make, options
        self._update: Update | None = None

    def round(self) -> Round:
        """Time some updates, after a warm-up in the first round."""
        generator = torch.Generator().manual_seed(1)
        shape = (self._options.rows, self._options.size.context + 1)
        high = self._options.size.vocabulary
        batches = [torch.randint(4, high, shape, generator=generator) for _ in range(4)]
        if self._update is None:
            self._update = self._make()
            self._first_loss = float(self._update(batches[0]))
            for number in range(self._options.warmup):
                self._update(batches[number % 4])
        begin = time.perf_counter()
        for number in range(self._options.updates):
            loss = self._update(batches[number % 4])
        float(loss)  # the device has finished
        seconds = time.perf_counter() - begin
        tokens = self._options.updates * self._options.rows * self._options.size.context
        metrics = {"loss": self._first_loss}
        return Round(tokens, seconds, peak_memory(self._options.device), metrics)


def systems(options: argparse.Namespace) -> list[TrainingSystem]:
    """regard, and HuggingFace with and without compilation."""
    device, size = torch.device(options.device), options.size
    makers = {
        "regard": lambda: ours(size, device, options.rows),
        "HuggingFace GPT-2": lambda: huggingface(size, device, compiled=False),
        "HuggingFace GPT-2, compiled": lambda: huggingface(size, device, compiled=True),
    }
    return [TrainingSystem(name, name != "regard", make, options) for name, make in makers.items()]


def report(results: Sequence[SystemResult], options: argparse.Namespace, peak: float) -> str:
    """The table; `peak` is in TFLOP/s."""
    flops_per_token = options.size.flops(1) / options.size.context

    def share(result: SystemResult) -> str:
        return f"{result.speed.median * flops_per_token / peak / 1e12:.0%}"

    def loss(result: SystemResult) -> str:
        return f"{statistics.median(r.metrics['loss'] for r in result.rounds):.2f}"

    hardware = machine.describe(options.device)
    head = (
        f"{hardware['device']}; {options.rows} rows of {options.size.context:,} tokens per update; "
        f"matrix products at {peak:,.0f} TFLOP/s."
    )
    table = comparison.table(results, "tokens", {"share of peak": share, "first loss": loss})
    return f"{head}\n\n{table}"


def main() -> None:
    """Print or write the table."""
    options = _options()
    results = comparison.run_interleaved(
        systems(options),
        options.rounds,
        lambda result, _: print(comparison.progress_line(result, "tokens"), flush=True),
    )
    text = report(results, options, machine.matmul_tflops())
    print(text)
    if options.write:
        fill(PAGE, "language-models", text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--rows", type=int, default=32, help="rows per update")
    parser.add_argument("--updates", type=int, default=20, help="per round")
    parser.add_argument("--warmup", type=int, default=5, help="updates that are not timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the table into docs/")
    options = parser.parse_args()
    options.size = GPT2
    return options


if __name__ == "__main__":
    main()
