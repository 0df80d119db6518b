"""Worker processes that tokenize and detokenize give the results of this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from regard.data.store import Store
from regard.errors import ConfigError, RunError
from regard.pipelines import codec
from regard.pipelines.codec import WorkerCodec, running_codec
from regard.pipelines.directions import SameDirection, SelectedDirection
from regard.pipelines.segments import Source, TranslationCodec
from regard.pipelines.translator import Translator
from toys import write_model_folder

TEXTS = [" ".join("abcdefghij"[i % 7 : i % 7 + i % 6]) + "  " * (i % 3) for i in range(700)]


@pytest.fixture(autouse=True)
def always_use_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MIN_INPUTS", 0)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Translator:
    folder = write_model_folder(tmp_path_factory.mktemp("model"), reversal_store)
    return Translator.load(folder, device="cpu", backend="torch")


def test_translations_do_not_depend_on_workers_or_windows(translator: Translator) -> None:
    expected = translator.translate(TEXTS, num_hypotheses=2)
    for workers, window, batch_size in [(0, 1, None), (0, 97, 5), (2, 300, None), (1, 64, 7)]:
        stream = translator.translate_iterable(
            iter(TEXTS),
            workers=workers,
            window=window,
            batch_size=batch_size,
            num_hypotheses=2,
        )
        actual = [*stream]
        assert [t.source for t in actual] == TEXTS
        assert [t.text for t in actual] == [t.text for t in expected]
        assert [t.score for t in actual] == pytest.approx([t.score for t in expected], abs=1e-5)
        others = [[a.text for a in t.alternatives] for t in actual]
        assert others == [[a.text for a in t.alternatives] for t in expected]


def test_forced_prefixes_are_encoded_by_workers(translator: Translator) -> None:
    expected = translator.translate(TEXTS[:20], prefixes=["b a"] * 20)
    actual = translator.translate_iterable(TEXTS[:20], prefix="b a", workers=1, window=8)
    assert [t.text for t in actual] == [t.text for t in expected]


def test_split_lines_are_reported_with_their_numbers(translator: Translator) -> None:
    notices: list[str] = []
    texts = ["a b", "c " * 300, "d", "e " * 300]
    options: Any = {"workers": 1, "notice": notices.append}
    stream = translator.translate_iterable(texts, window=2, retry=False, **options)
    assert len([*stream]) == 4
    assert [notice.split(" has")[0] for notice in notices] == ["Line 2", "Line 4"]


def test_worker_that_is_killed_is_reported(translator: Translator) -> None:
    direction_of = SameDirection(SelectedDirection("", translator.text.data_statistics))
    translation = TranslationCodec(translator.text, 10, 1.0, str, direction_of)

    def encode_after_kill() -> None:
        with running_codec(translation, 1) as running:
            assert isinstance(running, WorkerCodec)
            running.encode([Source("a b")]).result()
            for process in running._pool._processes.values():
                os.kill(process.pid or 0, signal.SIGKILL)
            running.encode([Source("a b")]).result(timeout=60)

    with pytest.raises(RunError, match="worker process for tokenization ended early"):
        encode_after_kill()


CODEC = """
import os, signal, time
from regard.errors import RunError
from regard.pipelines import codec

codec.MIN_INPUTS = 0

class Copying:
    def __init__(self):
        self.data = bytes(1 << 20)  # does not fit into a pipe

    def encode(self, inputs):
        time.sleep(0.1)
        return [os.getpid()], None

def run(victim=None):
    with codec.running_codec(Copying(), 2) as running:
        started = set()
        while len(started) < 2:
            futures = [running.encode([1]) for _ in range(2)]
            started |= {future.result()[0][0] for future in futures}
        if victim is not None:
            time.sleep(0.3)  # both wait for work
            process = [*running._pool._processes.values()][victim]
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            running.encode([1]).result()

"""


def run_script(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(CODEC + program)
    command = [sys.executable, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_ends_although_a_worker_was_killed(tmp_path: Path) -> None:
    """The others wait for a lock that one of the workers holds while it waits for work."""
    program = """
if __name__ == "__main__":
    for victim in (0, 1):
        try:
            run(victim)
        except RunError:
            print("reported")
"""
    ended = run_script(tmp_path, program)
    assert (ended.returncode, ended.stdout) == (0, "reported\n" * 2)


def test_a_script_without_main_guard_is_reported(tmp_path: Path) -> None:
    ended = run_script(tmp_path, "run()")
    assert ended.returncode == 1
    assert "RunError: A worker process for tokenization ended early" in ended.stderr


def test_workers_end_with_a_killed_parent(tmp_path: Path, reversal_store: Store) -> None:
    model = write_model_folder(tmp_path / "model", reversal_store)
    command = [sys.executable, "-m", "regard", "translate", str(model), "--device", "cpu"]
    options = ["--workers", "2", "--buffer-size", "50"]
    pipes: Any = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen([*command, *options], text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("a b\n" * 100)
        process.stdin.flush()
        assert process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = [Path("/proc") / pid for pid in children.read_text().split()]
        assert len(workers) >= 2
        process.kill()
        process.wait()
    for _ in range(100):
        if not any(map(_is_running, workers)):
            return
        time.sleep(0.1)
    pytest.fail("a worker is still running")


def _is_running(process: Path) -> bool:
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_codecs_do_not_import_pytorch() -> None:
    """Which would take a second and 200 MB in each worker."""
    modules = "label_codecs, mask_codec, segments, text_codecs"
    program = f"from regard.pipelines import {modules}; import sys; print('torch' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert output.stdout == "False\n"


def test_invalid_arguments_are_refused_before_reading(
    translator: Translator, tmp_path: Path
) -> None:
    texts: Any = iter(())
    for name, value in [("workers", -1), ("workers", 1000), ("window", 0), ("batch_size", 0)]:
        keywords: Any = {name: value}
        with pytest.raises(ConfigError, match=name):
            translator.translate_iterable(texts, **keywords)
    with pytest.raises(ConfigError, match="list of texts"):
        translator.translate_iterable("abc")
    with pytest.raises(ConfigError, match="Text 2 is of type int"):
        list(translator.translate_iterable(["a", 1], window=1))  # type: ignore[list-item]
