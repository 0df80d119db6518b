"""A process of a trial that trains nothing: it writes a metrics log by a formula.

BEHAVIOUR, a JSON object in the environment, has what a trial does differently, by its number:
"fail", "refuse", "error", "die", "hang", "worse" or "invalid".
"""

import json
import math
import os
import signal
import sys
import time
from pathlib import Path

job = json.loads(sys.stdin.readline())
settings = job["settings"]
training, out = settings["training"], Path(settings["out"])
behaviour = json.loads(os.environ.get("BEHAVIOUR", "{}")).get(str(int(out.name)), "")
(out / "checkpoints").mkdir(parents=True, exist_ok=True)
with (out / "starts").open("a") as file:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    file.write(f"{job['device']} {threads} {time.monotonic()}\n")
checkpoint, metrics = out / "checkpoints" / "step", out / "metrics.jsonl"
start = int(checkpoint.read_text()) if checkpoint.exists() else 0


def send(**message: object) -> None:
    print(json.dumps(message), flush=True)


def end(state: str, reason: str | None = None) -> None:
    send(event="end", state=state, reason=reason)
    sys.exit()


def stop(number: int, frame: object) -> None:
    end("stopped")


signal.signal(signal.SIGTERM, stop)
send(event="start", step=start, max_steps=training["max_steps"])
every = training["checkpoint_every"]
for step in range(start + every, training["max_steps"] + 1, every):
    if behaviour in ("fail", "refuse", "error"):
        end({"fail": "failed", "refuse": "refused"}.get(behaviour, behaviour), "No luck.")
    if behaviour == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "hang" and step > every:
        sys.stdin.read()  # until the tuner ends
        os._exit(0)
    loss = abs(math.log10(training["learning_rate"]) + 2) + 1 / step
    loss += {"worse": 10, "invalid": math.nan}.get(behaviour, 0)
    value = None if math.isnan(loss) else loss
    row = {"step": step, "valid_loss": value, "bleu": 1 / loss, "seconds": step / 10}
    with metrics.open("a") as file:
        file.write(json.dumps(row | ({"bleu": None} if value is None else {})) + "\n")
    (out / "model.safetensors").touch()
    send(event="validation", step=step, value=row["valid_loss"])
    answer = json.loads(sys.stdin.readline() or '{"stop": true}')
    checkpoint.write_text(str(step))
    if answer["stop"]:
        end("stopped")
end("finished")
