"""The Vertex AI CustomJob of a job, as the service's REST API takes it. Pure.

Pools are chief, worker, parameter server and evaluator, in this order; one that is not needed is
empty if another follows (docs/tensorflow-pitfalls.md#worker-pools). The service tells each process
its place in `TF_CONFIG` and `CLUSTER_SPEC`, which `pipeline.cluster.task_discovery` reads.
"""

from __future__ import annotations

from typing import Any

from pipeline import config, errors, storage
from pipeline.cluster import gpus, topology
from pipeline.config import own_code, strategy_table
from pipeline.jobs.job import Job
from pipeline.launchers import container, image, image_name, inline_config
from pipeline.launchers.gcp.settings import Gcp, Machine
from pipeline.processes import exits
from pipeline.runs import evaluator_patience, own_package, start_patience


def render(job: Job, submission: str, *, inline: str = "") -> dict[str, Any]:
    """Returns the body of `projects.locations.customJobs.create`.

    Processes read the config in the run folder, or the text `inline`, which is then part of the
    job. Raises what `check` does.
    """
    gcp = Gcp.of(job.config)
    check(job)
    pools = [_build_pool(job, role, submission, inline=inline) for role in topology.ROLES]
    while not pools[-1]:
        pools.pop()
    specification = {
        "workerPoolSpecs": pools,
        "scheduling": _build_scheduling(job.config.cluster, gcp),
        "serviceAccount": gcp.service_account,
        "network": gcp.network,
        "pscInterfaceConfig": _build_attachment(gcp),
        "baseOutputDirectory": {"outputUriPrefix": job.run.path},
        "tensorboard": gcp.tensorboard,
    }
    return {
        "displayName": job.name,
        "labels": {"pipeline": "estimator-pipeline", **gcp.labels, "run": label(job.name)},
        "jobSpec": {name: value for name, value in specification.items() if value is not None},
    }


def check(job: Job) -> list[str]:
    """Returns the modules that `gcp.package` must have: the config names them, and the image does
    not have them.

    Raises `UsageError` for a config without project, region, bucket and image, for an image that
    may change, for a run that the machines would not find, and for modules that are nowhere.
    """
    gcp = Gcp.of(job.config)
    gcp.check()
    image_name.check(str(gcp.image), "gcp")
    _check_storage(job)
    missing = image.lacks(own_code.modules(job.config), gcp.image_modules)
    if missing and gcp.package is None:
        raise errors.UsageError(
            f"CLUSTER=gcp: the config names {', '.join(missing)}, which the image does not "
            "have. Upload a wheel with it to gs:// and name that in gcp.package; or build "
            "an image that has it, and name it in gcp.image_modules"
        )
    return missing


def _check_storage(job: Job) -> None:
    if not storage.is_remote(job.run.path):
        raise errors.UsageError(
            f"CLUSTER=gcp: STORAGE is {job.storage_root!r}, which Google's machines do not see. "
            f"Use STORAGE=gs://{Gcp.of(job.config).bucket}/folder"
        )


def label(run: str) -> str:
    """Returns the label by which the job of a run is found again."""
    return run.replace(".", "_")


def _build_pool(job: Job, role: str, submission: str, *, inline: str) -> dict[str, Any]:
    count = job.counts.get(role, 0)
    if not count:
        return {}
    gcp = Gcp.of(job.config)
    machine = gcp.machine(role)
    return {
        "machineSpec": _build_machine(machine),
        "replicaCount": count,
        "diskSpec": {"bootDiskType": machine.boot_disk, "bootDiskSizeGb": machine.disk_gb},
        "containerSpec": {
            "imageUri": gcp.image,
            "command": ["python"],
            "args": container.arguments(job, inline_config.NAME if inline else job.run.config_path),
            "env": container.environment(
                job,
                submission,
                _build_variables(gcp, machine)
                | ({inline_config.VARIABLE: inline} if inline else {}),
            ),
        },
    }


def _build_machine(machine: Machine) -> dict[str, Any]:
    specification: dict[str, Any] = {"machineType": machine.type}
    if machine.accelerator is not None:
        specification["acceleratorType"] = machine.accelerator
        specification["acceleratorCount"] = machine.accelerators
    if machine.reservation == "any":
        specification["reservationAffinity"] = {"reservationAffinityType": "ANY_RESERVATION"}
    elif machine.reservation is not None:
        specification["reservationAffinity"] = {
            "reservationAffinityType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [machine.reservation],
        }
    return specification


def _build_variables(gcp: Gcp, machine: Machine) -> dict[str, str]:
    ours = {
        # The service starts a process when its machine is there: the others wait for it.
        start_patience.VARIABLE: str(round(gcp.timeout_hours * 3600)),
        evaluator_patience.VARIABLE: str(evaluator_patience.USUAL),
        own_package.VARIABLE: gcp.package or "",
        exits.VARIABLE: "1" if gcp.abort_to_retry else "",
        gpus.PROMISED: str(machine.accelerators or ""),
    }
    return {**{name: value for name, value in ours.items() if value}, **gcp.env}


def _build_attachment(gcp: Gcp) -> dict[str, str] | None:
    if gcp.network_attachment is None:
        return None
    return {"networkAttachment": gcp.network_attachment}


def _build_scheduling(cluster: config.Cluster, gcp: Gcp) -> dict[str, Any]:
    together = strategy_table.STRATEGIES[cluster.strategy].restart_unit == "gang"
    found = {
        "timeout": f"{round(gcp.timeout_hours * 3600)}s",
        "restartJobOnWorkerRestart": together,
        "strategy": "SPOT" if gcp.spot else "STANDARD",
    }
    if gcp.flex_start_hours is None:
        return found
    # https://cloud.google.com/vertex-ai/docs/training/schedule-jobs-dws
    wait = f"{round(gcp.flex_start_hours * 3600)}s"
    return {**found, "strategy": "FLEX_START", "maxWaitDuration": wait}
