"""A script without TensorFlow that plays a role as stock Estimators do; `python played.py HOW`.

It logs steps as they do. A parameter server serves for ever, an evaluator waits for ever. `HOW`
maps roles to words: `exit:3` ends with a code, `steps` makes the steps and ends well, `wait` logs a
step and waits for SIGTERM, `save` does so and takes its time, `deaf` ignores it, `once:exit:3` does
so in the first attempt only.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time


def main() -> None:
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "chief", "index": 0})
    name = f"{task['type']}-{task['index']}"
    notes = pathlib.Path(os.environ["NOTES"]) / name
    attempt = len(notes.read_text().splitlines()) if notes.exists() else 0
    how = dict(word.split("=") for word in sys.argv[1:]).get(name, "")
    if how.startswith("once:"):
        how = how.removeprefix("once:") if attempt == 0 else ""
    default = {"ps": "serve", "evaluator": "serve"}.get(task["type"], "steps")
    verb, _, argument = (how or default).partition(":")
    play = {"exit": _exit, "steps": _steps, "wait": _wait, "save": _save, "deaf": _deaf}
    if verb == "save":
        signal.signal(signal.SIGTERM, _on_term)
    if verb == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with notes.open("a") as file:
        file.write(f"{os.getpid()} {json.dumps(config)}\n")
    play.get(verb, _serve)(argument)


def _log(step: int) -> None:
    print(f"INFO:tensorflow:loss = {1 / (step + 1):.4f}, step = {step} (0.1 sec)", flush=True)


def _exit(code: str) -> None:
    print(f"cannot go on: {code}", flush=True)
    sys.exit(int(code))


def _steps(until: str) -> None:
    """Makes steps, and if told so until another process has been started so often."""
    name, _, times = until.partition(":")
    for step in range(0, 100000, 10):
        _log(step)
        notes = pathlib.Path(os.environ["NOTES"]) / name
        begun = len(notes.read_text().splitlines()) if name and notes.exists() else 0
        if not name or begun >= int(times):
            break
        time.sleep(0.1)
    _log(500)


def _serve(_: str) -> None:
    print("Saving dict for global step 500: accuracy = 0.75, global_step = 500", flush=True)
    while True:
        time.sleep(60)


def _wait(_: str) -> None:
    _log(10)
    while True:
        time.sleep(60)


def _on_term(*_: object) -> None:
    (pathlib.Path(os.environ["NOTES"]) / "saved").write_text("saved")
    sys.exit(0)


_save = _deaf = _wait

if __name__ == "__main__":
    main()
