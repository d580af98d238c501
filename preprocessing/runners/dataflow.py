"""The options of a preprocessing job on Dataflow, in Beam's own words."""

from __future__ import annotations

import importlib
import re
import sys

from pipeline import config, errors, storage
from pipeline.config import own_code
from pipeline.launchers import image, image_name
from pipeline.launchers.gcp.settings import Gcp
from pipeline.runs import own_package
from pipeline.storage import gcs_preflight
from preprocessing.sources.quiet_imports import silence_imports


def build_options(name: str, gcp: Gcp) -> list[str]:
    """Returns Beam's flags for the job of the config `name`.

    Raises `UsageError` for a config without project, region, bucket and image.
    """
    workers = gcp.dataflow
    gcp.check(image=workers.image)
    image_name.check(str(workers.image or gcp.image), "gcp")
    flags = {
        "runner": "DataflowRunner",
        "project": gcp.project,
        "region": gcp.region,
        "job_name": "preprocess-" + re.sub("[^a-z0-9]+", "-", name).strip("-"),
        "temp_location": f"gs://{gcp.bucket}/dataflow/temporary",
        "staging_location": f"gs://{gcp.bucket}/dataflow/staging",
        # Workers install nothing but a wheel of the user's own.
        "sdk_container_image": workers.image or gcp.image,
        "extra_package": gcp.package,
        "machine_type": workers.machine_type,
        "max_num_workers": workers.max_workers,
        "disk_size_gb": workers.disk_gb,
        "service_account_email": gcp.service_account,
        "subnetwork": workers.subnetwork,
    }
    listed = [f"--{flag}={value}" for flag, value in flags.items() if value is not None]
    listed += ["--sdk_location=container"]
    listed += [] if workers.public_ips else ["--no_use_public_ips"]
    labels = {"pipeline": "estimator-pipeline", **gcp.labels}
    return [*listed, *(f"--labels={key}={value}" for key, value in labels.items())]


def check_code(wanted: config.Config, python: tuple[int, int] = sys.version_info[:2]) -> None:
    """Raises `UsageError` if the workers could not run what they are sent: for a module that they
    do not have, or from another version of Python, whose bytecode they cannot read."""
    gcp = Gcp.of(wanted)
    if python != image.PYTHON:
        here, there = (".".join(map(str, version)) for version in (python, image.PYTHON))
        raise errors.UsageError(
            f"CLUSTER=gcp: this is Python {here}, and the image has {there}: Dataflow's workers "
            f"cannot run what another version sends. Run make clean setup PYTHON=python{there}"
        )
    missing = image.lacks(own_code.modules(wanted, preprocessing=True), gcp.image_modules)
    if missing and gcp.package is None:
        raise errors.UsageError(
            f"CLUSTER=gcp: data.source is in {missing[0]}, which the image does not have. Upload a "
            "wheel with it to gs:// and name that in gcp.package; or build an image that has it, "
            "and name it in gcp.image_modules"
        )
    if missing and gcp.package is not None:
        own_package.check(gcp.package, missing, image.packages())


def list_notes(gcp: Gcp) -> list[str]:
    """Returns what a job needs that only its user can do."""
    kept = (
        f"temporary files stay in gs://{gcp.bucket}/dataflow; docs/google-cloud.md has a rule by "
        "which the bucket removes them"
    )
    return [kept] if gcp.dataflow.public_ips else [describe_private_access(gcp), kept]


def describe_private_access(gcp: Gcp) -> str:
    """Returns what workers without public addresses need to reach the service and their image."""
    subnetwork = (gcp.dataflow.subnetwork or "default").rpartition("/")[2]
    return (
        "workers have no public addresses, so their subnetwork needs Private Google Access: gcloud "
        f"compute networks subnets update {subnetwork} --region={gcp.region} "
        "--enable-private-ip-google-access; or set gcp.dataflow.public_ips"
    )


def check_installed() -> None:
    """Raises `UsageError` if Beam cannot talk to Dataflow, which takes an extra."""
    try:
        with silence_imports():
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
    gcp = Gcp.of(wanted)
    for note in [*gcs_preflight.check_bucket(storage_root, gcp.region), *list_notes(gcp)]:
        print(f"note: {note}", flush=True)
