"""Metrics in the format of Prometheus; of all processes, if there are several."""

from __future__ import annotations

import os
from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of a server process."""

    def __init__(self) -> None:
        # With several processes, each writes to a folder, from which any of them reads all.
        self._shares = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "regard_requests_total",
            "Requests by API and status.",
            ["api", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "regard_request_seconds",
            "Time to answer.",
            ["api"],
            registry=registry,
            buckets=_SECONDS,
        )
        self.in_progress = Gauge(
            "regard_requests_in_progress",
            "Requests that are being processed.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.characters = Counter(
            "regard_characters_total", "Characters of the texts of requests.", registry=registry
        )
        self.batches = Histogram(
            "regard_batch_items", "Sentences of a batch.", registry=registry, buckets=_ITEMS
        )
        self.tokens = Counter(
            "regard_source_tokens_total", "Source tokens of all batches.", registry=registry
        )
        self.cancelled = Counter(
            "regard_cancelled_total", "Requests whose client hung up.", registry=registry
        )
        self._queued = Gauge(
            "regard_queued_items",
            "Sentences that wait for the model.",
            registry=registry,
            multiprocess_mode="livesum",
        )

    def observe_batch(self, items: int, tokens: int) -> None:
        """Count a batch."""
        self.batches.observe(items)
        self.tokens.inc(tokens)

    def text(self, queued: Callable[[], int]) -> bytes:
        """All metrics as text."""
        self._queued.set(queued())
        registry = self._registry
        if self._shares:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
