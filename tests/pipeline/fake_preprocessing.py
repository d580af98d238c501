"""Stands in for preprocessing: writes a manifest of no records, or fails or waits as asked."""

from __future__ import annotations

import os
import signal
import time

from absl import flags

from pipeline import cli, errors, storage
from pipeline.config import config_file
from pipeline.records import manifest
from pipeline.runs import run_folder
from tests.support import builds

_CONFIG = flags.DEFINE_string("config", None, "", required=True)
_STORAGE = flags.DEFINE_string("storage", None, "", required=True)
_RUN = flags.DEFINE_string("run", None, "", required=True)


def main() -> None:
    asked = os.environ.get("PIPELINE_FAKE", "")
    if asked == "fail":
        raise errors.DataError("'raw/train-images': truncated")
    if asked == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if asked == "wait":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(f"preprocessing waits {os.getpid()}", flush=True)
        time.sleep(60)
    job = config_file.load(_CONFIG.value)
    folder = run_folder.records_folder(_STORAGE.value, job.name)
    storage.makedirs(folder)
    manifest.write(
        folder,
        manifest.Manifest(
            fingerprint="0",
            columns=job.data.columns,
            label=job.data.label,
            block_records=job.data.block_records,
            sources=(),
            splits=builds.describe_splits(job.data.block_records),
        ),
    )
    print("preprocessing done", flush=True)


if __name__ == "__main__":
    cli.run(main)
