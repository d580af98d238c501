"""The `slurm:` section of a config: what Slurm is asked for. Nothing of it changes a model."""

from __future__ import annotations

from typing import Annotated

import pydantic

from pipeline.sections import Like, NotNegative, PlaceSection, Positive

# One word, as Slurm names things; never an option of its own.
Word = Annotated[str, Like(r"^[A-Za-z0-9_.][^\s'\"]*$", "gpu")]
TimeLimit = Annotated[str, Like(r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$", "1-12:00:00")]
# A line of a script: whatever sbatch takes, and nothing that ends the line.
Option = Annotated[str, Like(r"^--[a-z][^\n\r]*$", "--exclude=n7")]


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
    looks at limits about twice a minute."""
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
    options: tuple[Option, ...] = ()
    """Other options of sbatch, one an item, such as `--exclusive`."""

    @pydantic.model_validator(mode="after")
    def _ports_are_a_range(self) -> Slurm:
        if self.last_port - self.first_port < 1000:
            raise ValueError(
                f"first_port={self.first_port} and last_port={self.last_port}: must be at least "
                "1,000 apart"
            )
        return self
