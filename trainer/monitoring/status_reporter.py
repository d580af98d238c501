"""How a process says how it is doing: one small status file, rewritten every second or so.

While there is no news a thread rewrites it too, so that others see that the process is there. That
is no progress: a long piece of work calls `Reporter.report_progress` from within it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from pipeline import storage
from pipeline.cluster.tolerance import Tolerance
from pipeline.console import work
from pipeline.processes import machine
from pipeline.runs import run_folder
from trainer.monitoring.stopwatch import Stopwatch

_LOCAL_INTERVAL = 1.0  # seconds
# Cloud Storage takes about one write a second of one object; other processes write theirs too.
_REMOTE_INTERVAL = 15.0
_REST = 0.25  # seconds that the thread which gives signs of life sleeps at a time
_LAST = 5.0  # seconds for which the last status is tried again


class Reporter:
    """Keeps the status of one process and writes it when asked to, at most once an interval.

    A status that cannot be written never fails the process: the next one may be. `writing` is for
    who wants to know how long none could.
    """

    def __init__(
        self,
        run: run_folder.RunFolder,
        task: str,
        max_steps: int | None,
        *,
        beat: float | None = None,
        spread: Callable[[float], float] = lambda seconds: seconds,
        clock: Callable[[], float] = time.monotonic,
        pid: int | None = None,
    ) -> None:
        """`beat` is the time between signs of life in seconds, without it as the storage bears.
        `spread` makes the interval between reports on a disk longer, for a run of many processes.
        `clock` is for intervals: it must never be set back. `pid` is the process that others know
        this one by, if that is another."""
        self._run = run
        self._beat = run_folder.beat_interval(run) if beat is None else beat
        self._lock = threading.Lock()
        self.interval = _REMOTE_INTERVAL if storage.is_remote(run.path) else spread(_LOCAL_INTERVAL)
        self._clock = clock
        self.writing = Tolerance(f"writing the status of {task}", clock=clock)
        # Where the time of the process goes; kept together with the status.
        self.watch = Stopwatch(run, task, interval=self.interval)
        self._written: float | None = None
        self._made: int | None = None
        self._status = run_folder.Status(
            task=task,
            pid=os.getpid() if pid is None else pid,
            host=socket.gethostname(),
            state="preparing",
            time=time.time(),
            max_steps=max_steps,
            machine=machine.describe(),
        )

    @property
    def status(self) -> run_folder.Status:
        """What this process reports, written or not."""
        return self._status

    @property
    def due(self) -> bool:
        """True if the last word is older than the interval."""
        return self._measure_silence() >= self.interval

    @property
    def has_made_steps(self) -> bool:
        """True if the process has reported a step since it started."""
        return self._status.loss is not None

    def _measure_silence(self) -> float:
        """Seconds since the last word."""
        return math.inf if self._written is None else self._clock() - self._written

    def count_step(self, step: int) -> None:
        """Keeps the newest step for `describe_reached`; it is called in each step, and writes
        nothing."""
        self._made = step

    def describe_reached(self) -> dict[str, Any]:
        """Returns how far the process has got, as values of its last report after an exception."""
        step = self._status.step if self._made is None else self._made
        return {"step": step, "failed_in": self._status.state}

    def note(self, **values: Any) -> None:
        """Keeps `values` for the next word."""
        with self._lock:
            self._status = dataclasses.replace(self._status, **values)

    def add_note(self, line: str) -> None:
        """Adds a line that people should see to those of the next word, unless it is known."""
        known = self._status.note
        if known is not None and line in known:
            return
        self.note(note=line if known is None else f"{known}; {line}")

    def note_seconds(self, seconds: dict[str, float]) -> None:
        """Adds to what is known of where the time goes, for the next word."""
        rounded = {name: round(value, 6) for name, value in seconds.items()}
        self.note(seconds={**(self._status.seconds or {}), **rounded})

    def report(self, state: str, **values: Any) -> None:
        """Writes the status now. `values` are fields of `Status`; the others keep theirs, but a
        piece of work is over."""
        with self._lock:
            self._write(state=state, **{"work": None, **values})

    def report_progress(self, what: str, done: int = 0, total: int | None = None) -> None:
        """Reports from within a long piece of work, called `what`, that `done` units of it are
        done, of `total` if that is known. The state stays.

        A larger `done` counts as progress, like a step: without it the watchdog takes the process
        for one that hangs. It may be called often, from any thread: the status is written at most
        once an interval, and at once for another `what`.
        """
        with self._lock:
            piece = {"what": what, "done": done, "total": total}
            begins = self._status.work is None or self._status.work["what"] != what
            if begins or self.due:
                self._write(work=piece)
            else:
                self._status = dataclasses.replace(self._status, work=piece)

    @contextlib.contextmanager
    def count_progress(self, what: str) -> Iterator[None]:
        """Reports what `pipeline.console.work` counts in the body as progress of `what`."""
        done = 0

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            self.report_progress(what, done)

        self.report_progress(what)
        with work.count_work(advance):
            yield

    @contextlib.contextmanager
    def watch_folder(self, what: str, folder: str) -> Iterator[None]:
        """Reports as progress of `what` how many bytes there are below a local folder, while the
        body runs: for what a library writes there without reporting it."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(self.interval):
                self.report_progress(what, _count_bytes_below(folder))

        self.report_progress(what)
        thread = threading.Thread(target=look, name="watching", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _write(self, **values: Any) -> None:
        now, self._written = time.time(), self._clock()
        self._store(time=now, seen=now, **values)

    def _store(self, **values: Any) -> None:
        self._status = dataclasses.replace(self._status, **values)
        last = self._status.state in run_folder.ENDED
        if self._status.state == "done":
            # Its session may have been lost because others had ended already.
            self.watch.finish()
        run = dataclasses.replace(self._run, patience=_LAST if last else 0.0)
        with self.writing.survive():
            run_folder.write_status(run, self._status)
        self.watch.keep(now=last)

    def keep_alive(self) -> None:
        """From now on a thread gives signs of life when there is no news, until the last word."""
        threading.Thread(target=self.beat_on, name="heartbeat", daemon=True).start()

    def beat_on(self) -> None:
        """Gives signs of life until the last word."""
        while self._status.state not in run_folder.ENDED:
            self._sleep()
            with self._lock:
                # The first word is the process's own: others act on it.
                ended = self._status.state in run_folder.ENDED
                if ended or self._written is None or self._measure_silence() < self._beat:
                    continue
                self._store(seen=time.time())

    def _sleep(self) -> None:
        """Sleeps until the next beat."""
        end = self._clock() + self._beat
        while (left := end - self._clock()) > 0:
            piece = min(_REST, left)
            with self.watch.watch_sleep(piece):
                time.sleep(piece)


def _count_bytes_below(folder: str) -> int:
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # renamed meanwhile
                total += os.path.getsize(os.path.join(above, name))
    return total
