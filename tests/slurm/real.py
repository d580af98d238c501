"""A real Slurm on loopback: slurmctld and slurmds as processes of a test, with their own config.

Nothing of the system's own Slurm is read or written, and everything is ended by its process id.
A job's ports follow from its number (`pipeline.launchers.slurm.ranks`): those of two clusters on
one machine, which know nothing of each other, are numbered from different starts.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping

from pipeline.processes import parent_death
from pipeline.supervision.ports import Reservation
from tests.pipeline.process_help import wait_until

# Debian: apt-get install slurm-wlm. The daemons lie where users have no PATH.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
USER = pwd.getpwuid(os.getuid()).pw_name
_PATIENCE = 120.0  # seconds: the machine may be busy
# What stands for the GPUs of each node: a resource has to be a device. Nobody opens them.
_GPUS = ("/dev/null", "/dev/zero")
_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
SlurmctldPort={port}
FirstJobId={port}
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SwitchType=switch/none
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=20
SlurmctldTimeout=300
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=30
MinJobAge=3600
EnforcePartLimits=ALL
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=ALL PriorityTier=2 MaxTime=INFINITE State=UP
PartitionName=closed Nodes=ALL AllowAccounts=others MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=00:10:00 State=UP
PartitionName=narrow Nodes=ALL MaxNodes=2 MaxTime=INFINITE State=UP
"""


def list_missing() -> list[str]:
    """Returns the programs of Slurm that this machine does not have."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


class Slurm:
    """One cluster. `environment` is what its clients need."""

    def __init__(
        self, root: pathlib.Path, *, nodes: int = 3, cpus: int = 4, tracking: str = "pgid"
    ) -> None:
        """By its `tracking`, Slurm knows which processes belong to a job: pgid or cgroup."""
        self._root = root
        self._ports = Reservation(nodes + 1)
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self._processes: dict[str, subprocess.Popen] = {}
        port, *others = self._ports.ports
        lines = [
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 "
            f"Port={other} CPUs={cpus} Gres=gpu:{len(_GPUS)} State=UNKNOWN"
            for name, other in zip(self.nodes, others, strict=True)
        ]
        self.config = root / "slurm.conf"
        self.config.write_text(
            _CONFIG.format(
                host=socket.gethostname(),
                user=USER,
                root=root,
                port=port,
                tracking=tracking,
                nodes="\n".join(lines),
            )
        )
        (root / "gres.conf").write_text("".join(f"Name=gpu File={path}\n" for path in _GPUS))
        (root / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        (root / "state").mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which Slurm's programs find this cluster."""
        return {"SLURM_CONF": str(self.config), "PATH": PATH}

    def start(self) -> None:
        """Returns when all nodes take jobs."""
        self.start_daemon("slurmctld")
        for node in self.nodes:
            self.start_daemon(node)
        self.wait_until_idle()

    def start_daemon(self, name: str, *, over: Mapping[str, str] | None = None) -> None:
        """Starts the controller, or the daemon of a node, which sees other folders `over` those of
        this machine, by path."""
        command = ["slurmctld", "-D", "-f", str(self.config)]
        if name != "slurmctld":
            command = ["slurmd", "-D", "-N", name, "-f", str(self.config)]
        if over:
            mounts = [f"mount --bind {shlex.quote(b)} {shlex.quote(a)}" for a, b in over.items()]
            script = " && ".join([*mounts, f"exec {shlex.join(command)}"])
            command = ["unshare", "--mount", "sh", "-c", script]
        with open(self._root / f"{name}.out", "ab") as output:
            self._processes[name] = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._root,
                start_new_session=True,
                preexec_fn=parent_death.arrange(),
            )

    def kill_daemon(self, name: str) -> None:
        """Kills a daemon that this object has started."""
        self._processes[name].kill()
        self._processes[name].wait()

    @contextlib.contextmanager
    def other_folders(self, node: str, over: Mapping[str, str]) -> Iterator[None]:
        """Has a node see other folders over those of this machine, by path, within the block."""
        self._stop_daemon(node)
        self.start_daemon(node, over=over)
        self.wait_until_idle()
        try:
            yield
        finally:
            self._stop_daemon(node)
            self.start_daemon(node)
            self.wait_until_idle()

    @contextlib.contextmanager
    def lenient(self) -> Iterator[None]:
        """Takes jobs that are over the limits of their partition, within the block: Slurm's
        default."""
        text = self.config.read_text()
        self.config.write_text(text.replace("EnforcePartLimits=ALL", "EnforcePartLimits=NO"))
        self.ask("scontrol", "reconfigure")
        try:
            yield
        finally:
            self.config.write_text(text)
            self.ask("scontrol", "reconfigure")

    def _stop_daemon(self, name: str) -> None:
        self._processes[name].terminate()
        self._processes[name].wait(60)

    def wait_until_idle(self) -> None:
        """Returns when all nodes take jobs and have none."""
        wait_for(lambda: self.states() == dict.fromkeys(self.nodes, "idle"), self.describe)

    def ask(self, *command: str) -> str:
        """Returns what one of Slurm's programs puts out."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return (done.stdout + done.stderr).strip()

    def states(self) -> dict[str, str]:
        """Returns the state of each node."""
        words = self.ask("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %T")
        return dict(line.split() for line in words.splitlines() if len(line.split()) == 2)

    def jobs(self) -> dict[str, str]:
        """Returns the state of each job by its number, also of those that have ended."""
        words = self.ask("squeue", "--noheader", "--states=all", "--format=%i %T")
        return dict(line.split() for line in words.splitlines() if len(line.split()) == 2)

    def describe(self) -> str:
        """Says how the cluster is, for the message of a test that fails."""
        log = self._root / "slurmctld.log"
        tail = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        return "\n".join([str(self.states()), str(self.jobs()), *tail])

    def stop(self) -> None:
        """Ends the jobs, then the daemons."""
        for job in self.jobs():
            self.ask("scancel", "--signal=KILL", "--full", job)
            self.ask("scancel", job)
        with contextlib.suppress(TimeoutError):
            wait_for(
                lambda: not self.ask("squeue", "--noheader", "--states=R,CG,PD"),
                self.describe,
                seconds=60.0,
            )
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._ports.release()


@contextlib.contextmanager
def run_cluster(root: pathlib.Path, *, tracking: str = "pgid") -> Iterator[Slurm]:
    """Yields a running cluster of three nodes, and ends it."""
    cluster = Slurm(root, tracking=tracking)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@contextlib.contextmanager
def daemon(cluster: Slurm, *command: str) -> Iterator[None]:
    """Runs another daemon that a cluster needs, within the block; its output is in a file of its
    name, with `.out`."""
    root = cluster.config.parent
    with open(root / f"{command[0]}.out", "ab") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **cluster.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=root,
            start_new_session=True,
            preexec_fn=parent_death.arrange(),
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def wait_for(
    condition: Callable[[], object], describe: Callable[[], str], *, seconds: float = _PATIENCE
) -> None:
    """Returns when the condition holds. Raises `TimeoutError` with what `describe` says."""
    wait_until(condition, seconds, poll=0.2, describe=describe)


def environment(cluster: Slurm, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the variables of a command that submits to the cluster."""
    return {**os.environ, **cluster.environment, **(more or {})}
