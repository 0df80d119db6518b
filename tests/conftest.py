"""Shared fixtures and configuration of all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from regard.data.store import Store
from toys import write_reversal_store

torch.set_num_threads(1)  # tests run in parallel
settings.register_profile("no_deadline", deadline=None)  # the machine may be busy
settings.load_profile("no_deadline")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; read when Triton is imported


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache of its own, also for processes that tests start."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def default_signals() -> None:
    """Signals have an effect also where tests run in the background, whose shell ignores them."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def reversal_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A prepared folder of lines and their reversals, with a validation set."""
    return write_reversal_store(tmp_path_factory.mktemp("reversal"), valid=True)


@pytest.fixture(scope="session")
def unvalidated_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The same without a validation set."""
    return write_reversal_store(tmp_path_factory.mktemp("unvalidated"), valid=False)


@pytest.fixture(scope="session")
def multi30k() -> Path:
    """The Multi30k corpus, if it is beside the checkout."""
    path = Path(__file__).parents[2] / "shared" / "data" / "multi30k"
    if not path.is_dir():
        pytest.skip("Multi30k is not beside the checkout")
    return path
