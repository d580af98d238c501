"""Where everything of a run lies, and the small files its processes speak to each other by.

All of them are single objects that appear whole, so they mean the same on a disk, on NFS and
on gs://, and from every host.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline import errors, places, redaction, storage
from pipeline.storage import strict_json

if TYPE_CHECKING:
    from pipeline import config

# What TensorFlow takes for a pattern where it looks for files, and what is no UTF-8.
_WILD = re.compile(r"[*?\[\\\ud800-\udfff]")
_RETRY = 0.5  # seconds
_T = TypeVar("_T")


def records_folder(storage_root: str, config_name: str) -> str:
    """Returns where the records of a config are kept."""
    return storage.child(storage.join(storage.make_absolute(storage_root), "records"), config_name)


def run_folder(storage_root: str, run: str) -> str:
    """Returns the folder of a run. Raises `UsageError` for names that could leave the root, and for
    a root in which TensorFlow would not find its checkpoints again."""
    root = storage.make_absolute(storage_root)
    if found := _WILD.search(root):
        raise errors.UsageError(
            f"--storage {root!r}: TensorFlow finds no checkpoint again in a folder with "
            f"{found[0]!r} in its path; use another one"
        )
    return storage.child(storage.join(root, "runs"), run, what="--run")


def storage_root(run: RunFolder) -> str:
    """Returns the root that a run lies in."""
    return storage.parent(storage.parent(run.path))


def run_name(job: config.Config) -> str:
    """Names a run after its config, so that the same command finds the same run again. Where it
    runs is not part of the name. A key that a later version adds does not rename older runs."""
    from pipeline import config

    given = job.model_dump(mode="json", exclude={*places.settings()}, exclude_defaults=True)
    return f"{job.name[:50]}-{config.digest(given)[:8]}"


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """Paths and marker files of one run. `path` is also the Estimator's `model_dir`.

    A file that cannot be read or written is tried again for `patience` seconds, and is then a
    `RetryableError`: what was possible a while ago may be possible again.
    """

    path: str
    patience: float = dataclasses.field(default=0.0, compare=False)

    @property
    def impatient(self) -> RunFolder:
        """The same folder, for who looks again anyway."""
        return dataclasses.replace(self, patience=0.0)

    @property
    def name(self) -> str:
        """What `RUN=` takes."""
        return self.path.rpartition("/")[2]

    @property
    def config_path(self) -> str:
        """The resolved config, as every process of the run reads it."""
        return storage.join(self.path, "config.yaml")

    @property
    def script_path(self) -> str:
        """What a run of a script has in place of a config: {"command": [word], ...}."""
        return storage.join(self.path, SCRIPT)

    @property
    def is_of_script(self) -> bool:
        """True if the run is one of a script, of which nothing is known but its command: one that
        calls `trainer.run` has a config, too."""
        return storage.exists(self.script_path) and not storage.exists(self.config_path)

    @property
    def begun_path(self) -> str:
        """The file that is written whenever the run is started."""
        return self.script_path if storage.exists(self.script_path) else self.config_path

    @property
    def record_path(self) -> str:
        """`run.json`: what happened, for machines."""
        return storage.join(self.path, RECORD)

    @property
    def exports(self) -> str:
        """Holds `best/` and `final/`."""
        return storage.join(self.path, "export")

    def make_relative(self, path: str) -> str:
        """Returns a path below the run's folder as files of the run call it: the folder may be
        moved or copied. `storage.join` with the folder's path turns it back."""
        return path.removeprefix(f"{self.path}/")

    def log_path(self, task_name: str) -> str:
        """The output of one process, appended over restarts."""
        return storage.join(self.path, "logs", f"{task_name}.log")

    def read_config(self, *, import_steps: bool = True) -> config.Config:
        """Returns the config the run was started with; of `import_steps` see `config_file.load`.
        Raises `UsageError` or `DataError` if it cannot be read."""
        from pipeline import steps
        from pipeline.config import config_file

        try:
            return config_file.load(self.config_path, import_steps=import_steps)
        except steps.ImportFailed:
            raise  # the file is as it should be
        except (errors.UsageError, errors.DataError) as error:
            raise type(error)(
                f"{error}. Remove that file, and repeat the command that began the run, with its "
                f"own CONFIG= and RUN={self.name}: that writes it again"
            ) from None

    def read(self, name: str) -> dict[str, Any] | None:
        """Returns a JSON file of the run, or `None` while there is none. Raises `DataError` for
        another content, and what `errors.translate_os_error` says of a file that cannot be read."""
        return self._retry(lambda: self._read(storage.join(self.path, name)))

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            content = strict_json.loads(storage.read_text(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # of another user, say
            raise errors.translate_os_error(error, f"cannot read {path!r}") from None
        except json.JSONDecodeError as error:
            raise errors.DataError(
                f"{path!r}: not JSON ({error}); remove it and run again"
            ) from None
        if not isinstance(content, dict):
            raise errors.DataError(f"{path!r}: not a JSON object; remove it and run again")
        return content

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Writes a JSON file of the run, by `strict_json`; readers see the old or the new one."""
        path = storage.join(self.path, name)

        def write() -> None:
            storage.write_text(path, strict_json.dumps(content, indent=1) + "\n", parents=True)

        self._retry(write)

    def _retry(self, action: Callable[[], _T]) -> _T:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return action()
            except (errors.UsageError, errors.RetryableError) as error:
                if not self.patience:
                    raise
                if time.monotonic() >= deadline:
                    line = str(error).partition(". ")[0]
                    raise errors.RetryableError(
                        f"{line}; tried for {self.patience:g} s. Run the same command again."
                    ) from None
            time.sleep(min(_RETRY, self.patience))

    def remove(self, name: str) -> None:
        """Removes a file of the run; absent is fine."""
        storage.remove(storage.join(self.path, name))


def find_saved_step(run: RunFolder) -> int | None:
    """Returns the step of the newest checkpoint by TensorFlow's list of them, or `None`. If the
    list is lost, or names one that is, it is that of the newest one there is."""
    path = storage.join(run.path, "checkpoint")
    text = storage.read_text(path) if storage.exists(path) else ""
    match = re.search(r'^model_checkpoint_path: ".*model\.ckpt-(\d+)"$', text, re.MULTILINE)
    if match and storage.exists(storage.join(run.path, f"model.ckpt-{match[1]}.index")):
        return int(match[1])
    names = [re.fullmatch(r"model\.ckpt-(\d+)\.index", n) for n in storage.listdir(run.path)]
    there = [int(name[1]) for name in names if name]
    return max(there, default=int(match[1]) if match else None)


# What happened, for machines: see `run_record`.
RECORD = "run.json"
# What the launcher of a script writes at each start: {"command": [word], "folder": path,
# "model_dir": path or null}.
SCRIPT = "command.json"
# What the chief writes when training is over: {"final_step": int, "reason": str}, and "final": true
# if the same command would end again at once. By it the evaluator knows which checkpoint is the
# last, and roles started by hand find the end.
TRAINING_DONE = "TRAINING_DONE.json"
# What a reason begins with if there are more steps to make: `train.pause_step`.
PAUSED = "paused"
# What a reason begins with if the seconds of `train.max_seconds` are used up.
DEADLINE = "deadline"
# The reason if `make stop` has ended training before its last step.
STOP_REQUESTED = "stop requested"
# What says that a run began as a copy: {"of": run, "step": int, of the checkpoint it began with}.
COPIED = "copied.json"
# What asks the chief to end training: {"reason": str}, and "final": true as above. Written by
# `make stop` and early stopping.
STOP = "STOP.json"
# What asks a launcher for another number of workers; it removes it. {"workers": int}
SCALE = "SCALE.json"
# What the chief writes at each start if records may be left out: which, and why.
# {"records": {split: count}, "blocks": {split: [number]}, "found": [line]}
EXCLUDED = "excluded.json"
# What the evaluating process writes when the final checkpoint has been evaluated and exported.
# {"final_step": int, "epochs": those that all steps were made of, or null,
# "metrics": {"eval": {...}, "test": {...}}, "baselines": the same of a constant answer,
# "intervals": the same, of both ends (third, that few records carry it) or of why there are none,
# "evaluated": records by split, "exports": {...}, "best": {...},
# "skipped": [step of a checkpoint that was not evaluated], ...}
# Paths of exports are relative to the run's folder.
RESULT = "RESULT.json"

# A folder, if the loss became no number: `<task>.json`, `<task>.npz`, `<task>.tfrecord`, and the
# last finite checkpoint.
DIVERGENCE = "divergence"
# The best model of a run so far: {"step": int, "metric": str, "value": float, "higher_is_better":
# bool, "checkpoint": path prefix, "interval": the ends of that of the value, or why there is none,
# "export": path, "sha256": {file: digest}}; while an export is replaced by another of its step,
# also "replacement", the same of that one.
BEST = "best.json"


# Seconds between two signs of life of a process or launcher that has no news, and how many of them
# may be missing.
_BEAT, _REMOTE_BEAT = 10.0, 60.0
_MISSED = 3


def beat_interval(run: RunFolder) -> float:
    """Returns how often the processes of a run give a sign of life, in seconds."""
    return _REMOTE_BEAT if storage.is_remote(run.path) else _BEAT


def silence(run: RunFolder) -> float:
    """Returns after how many seconds without a sign of life a process counts as gone."""
    return _MISSED * beat_interval(run)


# What a save is called as a piece of work: nothing is known of how far it is until it is over.
SAVING = "saving"
# And of a process that has no records for a step, while others have.
WAITING = "waiting for other processes to read their records"
# The states of a process after which it says no more.
ENDED = ("done", "stopped", "failed")
# The states of a process that evaluates, or exports what it has evaluated.
EVALUATING = ("evaluating", "exporting")
# The states of a process that is not at its work yet.
STARTING = ("preparing", "starting")


@dataclasses.dataclass(frozen=True)
class Status:
    """What one process last said of itself, in `status/<role>-<index>.json`.

    `state` is preparing, starting, waiting, serving, training, evaluating or exporting, and in the
    end one of `ENDED`; `time` is Unix time in seconds; rates are of this process alone.
    """

    task: str
    pid: int
    host: str
    state: str
    time: float
    # Its machine: see `pipeline.processes.machine`.
    machine: dict[str, Any] | None = None
    # The newest sign of life, in Unix time: written by a thread even while there is no news.
    seen: float | None = None
    step: int | None = None
    max_steps: int | None = None
    # If it trains: the global step that its newest session began with, as the checkpoint had it,
    # and when, in Unix time: {"step": int, "time": float}.
    continued: dict[str, float] | None = None
    loss: float | None = None
    # If it is a script, whose loss may be unknown: true once it has made a step.
    stepped: bool = False
    examples_per_second: float | None = None
    # The long piece of work that it is at: {"what": str, "done": int, "total": int or None}.
    work: dict[str, Any] | None = None
    # Newest evaluation, from the evaluating process: {"step": int, "accuracy": float, ...}.
    evaluation: dict[str, float] | None = None
    # Where the time of a step goes, in seconds: see `trainer.monitoring.trace_hook`. Of the chief
    # also "checkpoints", what all saves have taken.
    seconds: dict[str, float] | None = None
    # What a step of this process asks of each parameter server: {"rows": of tables, "bytes": to and
    # from it, "pulled": those of them that come from it}.
    servers: list[dict[str, float]] | None = None
    # If it is a parameter server: bytes that were free on its host before it held variables.
    memory: int | None = None
    # If it trains asynchronously: how many of its updates came after how many updates of others.
    staleness: dict[str, int] | None = None
    # If it is the chief: what has been read by the newest checkpoint, per epoch, and a line for
    # each that has ended since it started. See `trainer.exactly_once.report`.
    input: list[dict[str, int]] | None = None
    epochs: list[str] | None = None
    # If it has continued with other records: {"step": int, "applied": int}, the step from which on,
    # and how many of the old ones had been applied.
    new_data: dict[str, int] | None = None
    # One line for those who follow the run.
    note: str | None = None
    # One line on why it failed, with the exit code it ended with.
    error: str | None = None
    exit_code: int | None = None
    # If an exception ended it: the state it was in.
    failed_in: str | None = None

    @property
    def has_stepped(self) -> bool:
        """True once it has made a step: a step alone may be one that was restored."""
        return self.stepped or self.loss is not None

    @property
    def is_saving(self) -> bool:
        """True while it writes a checkpoint."""
        return self.work is not None and self.work["what"] == SAVING and not self.work["done"]

    @property
    def activity(self) -> str:
        """The state, with how far a piece of work is, for people."""
        if self.work is None or not self.work["done"]:
            return self.state if self.work is None else f"{self.state}, {self.work['what']}"
        done, total = self.work["done"], self.work["total"]
        far = f"{done / total:.0%}" if total else f"{done:,}"
        return f"{self.state}, {self.work['what']} {far}"


def write_status(run: RunFolder, status: Status) -> None:
    """Says how this process is doing; the launcher and `make status` read it."""
    run.write(f"status/{status.task}.json", redaction.redact_all(dataclasses.asdict(status)))


def read_status(run: RunFolder, task: str) -> Status | None:
    """Returns the newest status of a process, or `None` while none can be read: the next one
    follows soon. What only another version of this project says is passed
    over."""
    known = [field.name for field in dataclasses.fields(Status)]
    try:
        content = run.impatient.read(f"status/{task}.json") or {}
        return Status(**{name: content[name] for name in known if name in content})
    except (errors.DataError, errors.RetryableError, errors.UsageError, TypeError):
        return None


def read_statuses(run: RunFolder) -> dict[str, Status]:
    """Returns the newest word of every process of the run, by task name."""
    names = storage.listdir(storage.join(run.path, "status"))
    tasks = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    found = {task: read_status(run, task) for task in tasks}
    return {task: status for task, status in found.items() if status is not None}
