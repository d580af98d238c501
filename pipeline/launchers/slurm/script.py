"""The script that is given to sbatch. Pure: DRY_RUN=1 shows it as it would be submitted."""

from __future__ import annotations

import os
import shlex
import sys

from pipeline import errors, storage
from pipeline.cluster import topology
from pipeline.jobs.job import Job
from pipeline.launchers import inline_config
from pipeline.launchers.slurm.settings import Slurm
from pipeline.runs import fatal
from pipeline.runs.run_folder import RunFolder

MODULE = "pipeline.launchers.slurm.main"
# What names the output of the script itself in the logs of a run.
LOG = "slurm"
# The output of a script that is only shown, for which no folder is made: where the job runs.
HERE = "slurm-%j.out"
_HERE_IN_ARRAY = "slurm-%A_%a.out"


def comment(run: RunFolder, *, worker: int | None = None, is_array: bool = False) -> str:
    """Returns what the job of a run is found again by, that of a worker that joins it, or those of
    an array of runs."""
    what = "-array" if is_array else "" if worker is None else f"-worker-{worker}"
    return f"estimator-pipeline{what}:{run.path}"


def render(
    job: Job, submission: str, *, folder: str | None = None, inline: str | None = None
) -> str:
    """Returns the script of a training job, or of an array of them. `folder` is where it runs; by
    default, here.

    Its config is in the run folder, or the text `inline`: then it needs nothing that the command
    makes, and Slurm writes its output to `folder`. Raises `UsageError` for a run whose name or
    place a script cannot hold.
    """
    processes = sum(job.counts.values())
    slurm = Slurm.of(job.config)
    is_array = slurm.array is not None
    return _format_script(
        slurm,
        [
            f"--job-name=train-{job.name}",
            f"--comment={comment(job.run, is_array=is_array)}",
            *([f"--array={slurm.array}"] if is_array else []),
            *_build_size_options(slurm, processes),
            f"--signal=B:TERM@{slurm.warn_seconds}",
            f"--output={_build_log_path(job.run, is_array=is_array, is_shown=inline is not None)}",
        ],
        {fatal.SUBMISSION: submission}
        | ({} if inline is None else {inline_config.VARIABLE: inline}),
        arguments=[
            "-m",
            MODULE,
            f"--part={'element' if is_array else 'batch'}",
            f"--run={job.name}",
            f"--storage={job.storage_root}",
        ],
        folder=folder or os.getcwd(),
    )


def render_worker(
    run: RunFolder, storage_root: str, index: int, *, submission: str, folder: str
) -> str:
    """Returns the script of a worker that joins a run."""
    slurm, name = Slurm.of(run.read_config()), f"{topology.WORKER}-{index}"
    part = ["--part=joined", f"--worker={index}"]
    return _format_script(
        slurm,
        [
            f"--job-name=train-{run.name}-{name}",
            f"--comment={comment(run, worker=index)}",
            "--ntasks=1",
            "--nodes=1",
            f"--cpus-per-task={slurm.cpus}",
            f"--signal=B:TERM@{slurm.warn_seconds}",
            f"--output={_build_log_path(run, f'{LOG}-{name}')}",
        ],
        {fatal.SUBMISSION: submission},
        arguments=["-m", MODULE, *part, f"--run={run.name}", f"--storage={storage_root}"],
        folder=folder,
    )


def render_one(
    slurm: Slurm, name: str, arguments: list[str], *, cpus: int, output: str, folder: str | None
) -> str:
    """Returns the script of a job that is one Python process with several processors."""
    sizes = ["--ntasks=1", "--nodes=1", f"--cpus-per-task={cpus}"]
    signal = f"--signal=B:TERM@{slurm.warn_seconds}"
    options = [f"--job-name={name}", *sizes, signal, f"--output={output}"]
    return _format_script(slurm, options, {}, arguments=arguments, folder=folder or os.getcwd())


def _build_log_path(
    run: RunFolder, name: str = LOG, *, is_array: bool = False, is_shown: bool = False
) -> str:
    """Slurm writes it, on a disk: of a run on gs://, or a script that is only shown, it stays where
    the job was submitted."""
    if is_shown or storage.is_remote(run.path):
        return _HERE_IN_ARRAY if is_array else HERE
    path = run.path.replace("%", "%%") + ("-%a" if is_array else "")
    return RunFolder(path).log_path(name)


def _build_size_options(slurm: Slurm, processes: int) -> list[str]:
    nodes = [f"--nodes={min(slurm.nodes, processes)}"] if slurm.nodes else []
    return [f"--ntasks={processes}", *nodes, f"--cpus-per-task={slurm.cpus}"]


def sbatch_options(slurm: Slurm) -> list[str]:
    """Returns the options of sbatch that the section stands for, whatever the job is."""
    given = {
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "constraint": slurm.constraint,
        "time": slurm.time,
        "mem": None if slurm.memory_gb is None else f"{slurm.memory_gb}G",
        "gpus-per-task": slurm.gpus or None,
    }
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


def _format_script(
    slurm: Slurm,
    options: list[str],
    variables: dict[str, str],
    *,
    arguments: list[str],
    folder: str,
) -> str:
    again = "--requeue" if slurm.requeue else "--no-requeue"
    every = [*options, *sbatch_options(slurm), again, "--open-mode=append", f"--chdir={folder}"]
    for option in every:
        if "\n" in option or "\r" in option:
            raise errors.UsageError(f"{option!r}: must be on one line")
    lines = [f"#SBATCH {_quote(option)}" for option in every]
    lines += [f"#SBATCH {option}" for option in slurm.options]
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    command = shlex.join([sys.executable, *arguments])
    return "\n".join(
        ["#!/bin/bash", *lines, *exports, _format_python_check(), f"exec {command}", ""]
    )


def _format_python_check() -> str:
    """Returns a line that ends the script on a node with another Python: it lacks the packages that
    a message of ours needs."""
    python = shlex.quote(sys.executable)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return (
        f'here=$({python} -c "{code}"); [ "$here" = {version} ] || {{ echo "error: node '
        f"$SLURMD_NODENAME: its Python is ${{here:-missing}}, that of the command {version}. "
        f'Install the same on all nodes"; exit 64; }}'
    )


def _quote(option: str) -> str:
    """Returns an option as sbatch reads it from a script: in quotes if it has spaces."""
    if not any(c in option for c in " \t\"'#"):
        return option
    name, _, value = option.partition("=")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{escaped}"'
