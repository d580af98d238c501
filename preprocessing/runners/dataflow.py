"""The options of a preprocessing job on Dataflow, in Beam's own words."""

from __future__ import annotations

import importlib
import re

from pipeline import config, errors, storage
from pipeline.launchers.gcp.settings import Gcp
from pipeline.storage import gcs_preflight
from preprocessing.runners import beam_import


def options(name: str, gcp: Gcp) -> list[str]:
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
        with beam_import.quiet():
            importlib.import_module("apache_beam.runners.dataflow.internal.apiclient")
    except ImportError as error:
        raise errors.UsageError(
            f"CLUSTER=gcp: {error.name} is not installed, which Beam needs for Dataflow. Run make "
            "preprocess CLUSTER=gcp, or .venv/bin/pip install --require-hashes -r "
            "requirements-gcp.lock"
        ) from None


def check_places(wanted: config.Config, storage_root: str) -> None:
    """Raises `UsageError` for raw data or records that the workers would not see, or find far away,
    and what Cloud Storage refuses."""
    if not storage.is_remote(storage_root):
        raise errors.UsageError(
            f"CLUSTER=gcp: STORAGE is {storage_root!r}, which Google's machines do not see. Use "
            f"STORAGE=gs://{Gcp.of(wanted).bucket}/folder"
        )
    for split, inputs in wanted.data.inputs.items():
        for name, path in inputs.items():
            # What a source of the user's own makes of its inputs, we do not know.
            if ":" not in wanted.data.source and not storage.is_remote(path):
                raise errors.UsageError(
                    f"data.inputs.{split}.{name}: {path!r} is on this machine, where Dataflow's "
                    "workers do not see it. Copy it to gs:// and name it there, or preprocess here "
                    "with CLUSTER=local and the same STORAGE=gs://"
                )
    gcs_preflight.check_google(storage_root)
    for note in gcs_preflight.check_bucket(storage_root, Gcp.of(wanted).region):
        print(f"note: {note}", flush=True)
