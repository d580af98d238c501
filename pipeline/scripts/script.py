"""A command of the user's own, and what each of its processes is told."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence

from pipeline import errors, redaction
from pipeline.cluster import topology
from pipeline.runs.run_folder import RunFolder

# The address of a process that never opens a port.
_UNUSED = "127.0.0.1:1"
_NO_NAME = re.compile(r"[^a-z0-9_-]+")
_MODEL_DIR = re.compile(r"--?model[_-]dir(?:=(.*))?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Script:
    """What to run. `counts` are the processes of each role, `logs` a local folder.

    `model_dir` is where the script keeps its checkpoints, `steps` how many it will make; both may
    be unknown. An evaluator has `evaluator_seconds` after the end of training.
    """

    command: tuple[str, ...]
    counts: Mapping[str, int]
    logs: str = ""
    model_dir: str | None = None
    steps: int | None = None
    evaluator_seconds: float = 600.0

    def to_json(self) -> str:
        """Returns the script as text, for `from_json`."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Script:
        """Reads what `to_json` has written."""
        content = json.loads(text)
        return Script(**{**content, "command": tuple(content["command"])})

    @property
    def has_evaluator(self) -> bool:
        """True if a process of its own evaluates."""
        return bool(self.counts.get(topology.EVALUATOR))

    @property
    def name(self) -> str:
        """Returns what the script is called: `train` of `python -u train.py`."""
        return _NO_NAME.sub("-", _find_stem(self.command).lower()).strip("-_") or "script"

    @property
    def text(self) -> str:
        """Returns the command for people, without secrets."""
        return redaction.redact(" ".join(self.command))

    def describe(self, folder: str) -> dict[str, object]:
        """Returns what the run folder keeps; `folder` is where the command is run."""
        command = redaction.redact_all(list(self.command))
        return {"command": command, "folder": folder, "model_dir": self.model_dir}

    def find_checkpoint_folder(self) -> RunFolder | None:
        """Returns the folder of the checkpoints, if it is known and on this machine."""
        if not self.model_dir or "://" in self.model_dir:
            return None
        return RunFolder(os.path.abspath(self.model_dir))


def _find_stem(command: Sequence[str]) -> str:
    for before, word in zip(("", *command), command, strict=False):
        if before == "-m":
            return word.rpartition(".")[2]
        if word.endswith(".py"):
            return os.path.basename(word).removesuffix(".py")
    return os.path.basename(command[0])


def run_name(script: Script, folder: str) -> str:
    """Names a run after its command and the folder it is run in, so that the same command finds
    the same run again. How many processes it has is no part of that."""
    digest = hashlib.sha256(json.dumps([folder, *script.command]).encode()).hexdigest()
    return f"{script.name[:50]}-{digest[:8]}"


def model_dir_in(command: Sequence[str]) -> str | None:
    """Returns the value of `--model_dir` in a command, if there is one."""
    for word, following in zip(command, (*command[1:], ""), strict=True):
        found = _MODEL_DIR.fullmatch(word)
        if found is not None:
            return (following if found[1] is None else found[1]) or None
    return None


def check(command: Sequence[str]) -> None:
    """Raises `UsageError` if there is no such command."""
    first = command[0]
    if shutil.which(first) is not None:
        return
    if os.path.isdir(first):
        raise errors.UsageError(f"cannot run {first!r}: is a folder")
    if os.path.exists(first):
        how = f"python {first}" if first.endswith(".py") else f"chmod +x {first}"
        raise errors.UsageError(f"cannot run {first!r}: not an executable file. Try: {how}")
    raise errors.UsageError(f"cannot run {first!r}: there is no such command")


def tf_config(script: Script, task: topology.Task) -> str | None:
    """Returns the `TF_CONFIG` of a process; `None` for a process that has no others.

    In that of an evaluator the cluster has an evaluator, because strategies look for it there
    (docs/tensorflow-pitfalls.md#evaluator-outside-the-cluster).
    """
    cluster = {role: list(members) for role, members in task.cluster.items()}
    if not cluster:
        if not script.has_evaluator:
            return None
        cluster = {topology.CHIEF: [_UNUSED]}
    if task.job_name == topology.EVALUATOR:
        cluster[topology.EVALUATOR] = [_UNUSED]
    place = {"type": task.job_name, "index": task.task_index}
    return json.dumps({"cluster": cluster, "task": place})
