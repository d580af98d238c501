"""The options of a preprocessing job on Dataflow, in Beam's own words."""

from __future__ import annotations

import importlib
import re

from pipeline import errors, gcp_config


def options(name: str, gcp: gcp_config.Gcp) -> list[str]:
    """Returns Beam's flags for the job of the config `name`.

    Raises `UsageError` for a config without project, region, bucket and image.
    """
    gcp.check()
    workers = gcp.dataflow
    flags = {
        "runner": "DataflowRunner",
        "project": gcp.project,
        "region": gcp.region,
        "job_name": "preprocess-" + re.sub("[^a-z0-9]+", "-", name).strip("-"),
        "temp_location": f"gs://{gcp.bucket}/dataflow/temporary",
        "staging_location": f"gs://{gcp.bucket}/dataflow/staging",
        # The same image as for training: workers install nothing.
        "sdk_container_image": gcp.image,
        "machine_type": workers.machine_type,
        "max_num_workers": workers.max_workers,
        "disk_size_gb": workers.disk_gb,
        "service_account_email": gcp.service_account,
        "subnetwork": workers.subnetwork,
    }
    listed = [f"--{flag}={value}" for flag, value in flags.items() if value is not None]
    listed += ["--sdk_location=container", "--no_use_public_ips"]
    labels = {"pipeline": "estimator-pipeline", **gcp.labels}
    return [*listed, *(f"--labels={key}={value}" for key, value in labels.items())]


def check_installed() -> None:
    """Raises `UsageError` if Beam cannot talk to Dataflow, which takes an extra."""
    try:
        importlib.import_module("apache_beam.runners.dataflow.internal.apiclient")
    except ImportError as error:
        raise errors.UsageError(
            f"CLUSTER=gcp: {error.name} is not installed, which Beam needs for Dataflow. Run "
            ".venv/bin/pip install 'apache-beam[gcp]' with the version of requirements.lock"
        ) from None


def link(gcp: gcp_config.Gcp) -> str:
    """Returns where the jobs of a project are in the console."""
    return f"https://console.cloud.google.com/dataflow/jobs?project={gcp.project}"
