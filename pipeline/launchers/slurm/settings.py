"""The `slurm:` section of a config: what Slurm is asked for. Nothing of it changes a model."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import pydantic

from pipeline.sections import Like, NotNegative, PlaceSection, Positive

# One word, as Slurm names things; never an option of its own.
Word = Annotated[str, Like(r"^[A-Za-z0-9_.][^\s'\"]*$", "gpu")]
TimeLimit = Annotated[str, Like(r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$", "1-12:00:00")]
# Indexes as sbatch takes them for an array, and how many of it may run at once.
_RANGE = r"\d{1,4}(-\d{1,4}(:[1-9]\d{0,3})?)?"
Indexes = Annotated[str, Like(rf"^{_RANGE}(,{_RANGE})*(%[1-9]\d{{0,3}})?$", "0-4%2")]
# Each run has a lock while they are submitted, and a process has about a thousand files.
_MOST_RUNS = 500
# A line of a script: whatever sbatch takes, and nothing that ends the line.
Option = Annotated[str, Like(r"^--[a-z][^\n\r]*$", "--exclude=n7")]

# Options of sbatch that the pipeline gives itself, or that would make another job of it, and what
# to do instead.
_OURS = {
    "account": "use slurm.account",
    "array": "use slurm.array",
    "chdir": "the job runs in the folder of the command",
    "clusters": "the job is looked for on this cluster. Run the command on the other one",
    "comment": "the job is found again by it",
    "constraint": "use slurm.constraint",
    "cpus-per-task": "use slurm.cpus",
    "error": "make logs shows the output",
    "gpus": "use slurm.gpus",
    "gpus-per-task": "use slurm.gpus",
    "job-name": "use RUN=",
    "no-requeue": "use slurm.requeue",
    "nodes": "use slurm.nodes",
    "ntasks": "use cluster.workers and cluster.ps",
    "open-mode": "make logs shows the output",
    "output": "make logs shows it",
    "partition": "use slurm.partition",
    "qos": "use slurm.qos",
    "requeue": "use slurm.requeue",
    "signal": "use slurm.warn_seconds",
    "test-only": "use DRY_RUN=1",
    "time": "use slurm.time",
    "wait": "the command follows the job",
    "wrap": "the script is that of the pipeline",
}


class Slurm(PlaceSection):
    """Jobs on a Slurm cluster (`CLUSTER=slurm`). The section does not change the model."""

    partition: Word | None = None
    """Partition to run in. Not set: the cluster's default."""
    account: Word | None = None
    """Account to charge. Not set: your default."""
    qos: Word | None = None
    """Quality of service. Not set: your default."""
    constraint: str | None = None
    """Features that nodes must have, such as `avx512&ssd`. Not set: none."""
    time: TimeLimit | None = None
    """Time limit. Before it the job saves and is put into the queue again, and continues from
    there. Not set: the partition's."""
    warn_seconds: Annotated[int, pydantic.Field(ge=30, le=65535)] = 180
    """Seconds before the time limit at which the job saves and ends; up to a minute more. Slurm
    looks at limits about twice a minute. Must be less than `time`."""
    nodes: Positive | None = None
    """Nodes to spread the processes over. Not set: as few as they fit on."""
    cpus: Positive = 1
    """Processors of each process, whatever its role."""
    memory_gb: Positive | None = None
    """Memory per node in GB. Not set: the cluster's default."""
    gpus: NotNegative = 0
    """GPUs of each process."""
    requeue: bool = True
    """Puts the job into the queue again when its time is up or a node is lost."""
    first_port: Annotated[int, pydantic.Field(ge=1024, le=65535)] = 10240
    """First of the ports that processes may listen on."""
    last_port: Annotated[int, pydantic.Field(ge=1024, le=65535)] = 32767
    """Last of these ports."""
    array: Indexes | None = None
    """Indexes of an array of runs, as sbatch takes them: `0-4%2` is five runs, of which at most two
    train at once. `0-10:5` is 0, 5 and 10; `"3"`, in quotes, is one run. There may be 500 runs. To
    the name of each its index is added, and to its `train.seed`, too. Not set: one run. See
    [Slurm](slurm.md#several-seeds)."""
    options: tuple[Option, ...] = ()
    """Other options of sbatch, one an item, such as `--exclusive`; none that the pipeline gives
    itself."""

    @pydantic.field_validator("options")
    @classmethod
    def _options_leave_the_job_as_it_is(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for option in value:
            _check_option(option)
        return value

    @property
    def indexes(self) -> list[int]:
        """The runs of the array; none if the job is one run."""
        return [] if self.array is None else _read_indexes(self.array)

    @pydantic.field_validator("array", mode="before")
    @classmethod
    def _array_is_a_text(cls, value: Any) -> Any:
        if type(value) is int:  # it may be meant as how many
            raise ValueError(
                f"got {value}: must be a text; '{value}' is one run, 0-4 are five runs"
            )
        if not isinstance(value, str | None):
            raise ValueError(
                f"got {value!r}: must be a text such as 0-4%2, or 0-10:5 for every fifth"
            )
        return value

    @pydantic.field_validator("array")
    @classmethod
    def _array_can_be_submitted(cls, value: str | None) -> str | None:
        if value is not None:
            _read_indexes(value)
        return value

    @pydantic.model_validator(mode="after")
    def _time_is_left_before_the_warning(self) -> Slurm:
        seconds = 0 if self.time is None else _parse_seconds(self.time)
        if seconds and self.warn_seconds >= seconds:  # 0 is no limit
            raise ValueError(
                f"warn_seconds={self.warn_seconds}: must be less than time={self.time}, which is "
                f"{seconds:,} s; else the job ends as soon as it starts"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _ports_are_a_range(self) -> Slurm:
        if self.last_port - self.first_port < 1000:
            raise ValueError(
                f"first_port={self.first_port} and last_port={self.last_port}: must be at least "
                "1,000 apart"
            )
        return self


def _parse_seconds(time: str) -> int:
    days, _, clock = time.rpartition("-")
    hours, minutes, seconds = map(int, clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _check_option(option: str) -> None:
    """Raises `ValueError` for an option that is not left to the user. Of a name sbatch takes any
    beginning that no other has."""
    try:
        first, *others = shlex.split(option)
    except ValueError as error:
        raise ValueError(f"{option!r}: {error}") from None
    if any(word.startswith("-") for word in others):
        raise ValueError(f"{option!r}: must be one option; give each an item of its own")
    name = first.partition("=")[0].removeprefix("--")
    why = next((why for known, why in _OURS.items() if known.startswith(name)), None)
    if why is not None:
        raise ValueError(f"{option!r} is not allowed: {why}")


def _read_indexes(array: str) -> list[int]:
    """Returns the indexes of an array in order. Raises `ValueError` for a range that is not one,
    or too many."""
    found: set[int] = set()
    for part in array.partition("%")[0].split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        if int(last or first) < int(first):
            raise ValueError(f"{part!r}: must not end before it begins")
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    if len(found) > _MOST_RUNS:
        raise ValueError(f"{array!r}: {len(found):,} runs; must be at most {_MOST_RUNS}")
    return sorted(found)
