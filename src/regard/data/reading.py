"""What a run reads: pairs of sentences, or running text, each by its own loader."""

from __future__ import annotations

from collections.abc import Iterator

from regard.data.loader import Batches, DataConfig, Extras, Loader, in_order
from regard.data.ragged import Batch
from regard.data.sampling import Share
from regard.data.store import Store
from regard.data.streams import StreamLoader, stream_in_order
from regard.data.text_loader import TextLoader, text_in_order
from regard.data.text_rows import TextTask


def training_batches(
    store: Store,
    config: DataConfig,
    task: TextTask | None,
    *,
    seed: int,
    share: Share,
    extras: Extras,
) -> Batches:
    """The batches to learn from; without a task, they are pairs."""
    if task is None:
        return Loader(store, config, seed=seed, share=share, extras=extras)
    if task.streams:
        return StreamLoader(store, config, task, seed=seed)
    return TextLoader(store, config, task, seed=seed, share=share)


def validation_batches(
    store: Store, config: DataConfig, task: TextTask | None, extras: Extras
) -> Iterator[Batch]:
    """All of the validation part, once."""
    if task is None:
        return in_order(extras.part(store, "valid"), config.batch_tokens)
    if task.streams:
        return stream_in_order(store.text("valid"), config, task)
    return text_in_order(store, config, task)
