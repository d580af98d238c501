"""What is measured of a reader, and the rows as the formats of peers hold them.

- Rate: examples/s and processor seconds of the second epoch.
- Resume: a child reads, notes the keys of the rows of each batch as used, and saves the reader's
  state now and then, as a checkpoint of a model would. In mid-epoch it kills itself. Another child
  goes back to the state that was saved last and reads the epoch to its end. Rows that neither had
  are lost, those that were used twice are doubled: by the model of the checkpoint, so that what the
  first child read after it does not count.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from benchmarks.peers import measure

_SECONDS = 20.0  # of warming up, and of measuring, at most
_SAVED_EVERY, _KILLED_AT = 20, 90  # batches


class Reader(Protocol):
    """A way to read the train split."""

    def epoch(self, number: int) -> Iterator[Any]:
        """Yields the batches of an epoch, or what is left of it behind a state."""

    def keys(self, batch: Any) -> np.ndarray:
        """Returns the keys of the rows of a batch."""

    def state(self) -> Any:
        """Returns where the reader is, behind the batch it has yielded last; None if it cannot."""

    def restore(self, state: Any) -> None:
        """Goes there; is called before `epoch`."""


def main(make: Callable[[dict[str, Any]], Reader]) -> None:
    """Measures a reader and reports, or is one of its children."""
    given = measure.read_settings()
    if len(sys.argv) > 2:
        {"read": _read_and_die, "resume": _resume}[sys.argv[2]](
            make(given), pathlib.Path(sys.argv[3])
        )
        return
    reader = make(given)
    until = time.monotonic() + _SECONDS
    for _ in reader.epoch(0):  # which warms up
        if time.monotonic() > until:
            break
    measure.report(**measure.time_work(lambda: _read(reader)), **_measure_after_kill())


def _read(reader: Reader) -> int:
    """Returns how many rows it has read."""
    rows, until = 0, time.monotonic() + _SECONDS
    for batch in reader.epoch(1):
        rows += len(reader.keys(batch))
        if time.monotonic() > until:
            break
    return rows


def _measure_after_kill() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [sys.executable, "-m", sys.modules["__main__"].__spec__.name, sys.argv[1]]
        died = subprocess.Popen([*command, "read", name], stdout=sys.stderr, start_new_session=True)
        if died.wait() != -signal.SIGKILL:
            raise RuntimeError(f"the reader to kill has ended by itself, with {died.returncode}")
        with contextlib.suppress(ProcessLookupError):  # its loaders would wait for it for ever
            os.killpg(died.pid, signal.SIGKILL)
        subprocess.run([*command, "resume", name], check=True, stdout=sys.stderr)
        seconds, total = pickle.loads((folder / "resumed").read_bytes())
        saved = pickle.loads((folder / "state").read_bytes())["used"]
        used = np.fromfile(folder / "read", np.int64)[:saved]
        used = np.concatenate([used, np.fromfile(folder / "again", np.int64)])
    different = len(np.unique(used))
    return {"resume": seconds, "lost": total - different, "doubled": len(used) - different}


def _read_and_die(reader: Reader, folder: pathlib.Path) -> None:
    used = 0
    with (folder / "read").open("wb", buffering=0) as file:
        for number, batch in enumerate(reader.epoch(0), start=1):
            keys = np.asarray(reader.keys(batch), np.int64)
            used += len(keys)
            file.write(keys.tobytes())
            if number % _SAVED_EVERY == 0:
                state = pickle.dumps({"used": used, "state": reader.state()})
                (folder / "next").write_bytes(state)
                (folder / "next").rename(folder / "state")
            if number == _KILLED_AT:
                os.kill(os.getpid(), signal.SIGKILL)


def _resume(reader: Reader, folder: pathlib.Path) -> None:
    began, first = time.perf_counter(), 0.0
    state = pickle.loads((folder / "state").read_bytes())["state"]
    if state is not None:
        reader.restore(state)
    with (folder / "again").open("wb") as file:
        for batch in reader.epoch(0):
            first = first or time.perf_counter() - began
            file.write(np.asarray(reader.keys(batch), np.int64).tobytes())
    total = len(np.load(pathlib.Path(measure.read_settings()["arrays"], "train", "label.npy")))
    (folder / "resumed").write_bytes(pickle.dumps((first, total)))


def load_rows(given: dict[str, Any]) -> np.ndarray:
    """Returns the train split as one array, `[rows, columns]` of 4 bytes each: the key and the
    label, numbers as float32, ids and lists as int32."""
    folder = pathlib.Path(given["arrays"], "train")
    label = np.load(folder / "label.npy").astype(np.int32)
    numbers = np.load(folder / "numbers.npy").view(np.int32)
    lists = [np.load(folder / f"{of['name']}.npy") for of in given["lists"]]
    keys = np.arange(len(label), dtype=np.int32)
    whole = [keys[:, None], label[:, None], numbers, np.load(folder / "ids.npy"), *lists]
    return np.concatenate(whole, axis=1)


def split_features(batch: list[bytes], given: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns rows, of `load_rows` as bytes, as what a model takes."""
    whole = np.frombuffer(bytearray().join(batch), np.int32).reshape(len(batch), -1)
    widths = [2 * len(given["numbers"]), len(given["ids"])]
    widths += [of["max_items"] for of in given["lists"]]
    key, label, numbers, ids, *lists = np.split(whole, np.cumsum([1, 1, *widths])[:-1], axis=1)
    named = {of["name"]: x for of, x in zip(given["lists"], lists, strict=True)}
    return {
        "key": key[:, 0],
        "label": label,
        "numbers": numbers.view(np.float32),
        "ids": ids,
        **named,
    }


def convert_once(
    given: dict[str, Any], name: str, write: Callable[[pathlib.Path, np.ndarray], None]
):
    """Returns the folder that `write` has filled with the rows, now or in an earlier run."""
    folder = pathlib.Path(f"{given['arrays']}-{name}")
    if not (folder / "done").exists():
        folder.mkdir(exist_ok=True)
        write(folder, load_rows(given))
        (folder / "done").touch()
    return folder
