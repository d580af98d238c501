"""Walks all records of a config: framing, checksums, counts, offsets; or repairs their manifest.

    estimator-pipeline verify --config=mnist
    estimator-pipeline verify --records=output/records/mnist --repair

About a second for each gigabyte. Exits with 65 if anything is damaged, and says where. With
--repair the manifest is written again from the shards that are intact, and the old one is kept
next to it. Neither needs TensorFlow.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, storage
from pipeline.config import config_file, own_input
from pipeline.records import builds, repair

_CONFIG = cli.config_flag("mnist")
_RECORDS = flags.DEFINE_string(
    "records", "", "Folder of records or of a build, instead of a config."
)
_STORAGE = cli.storage_flag()
_REPAIR = flags.DEFINE_bool("repair", False, "Leave damaged shards out of the manifest.")


def main() -> None:
    """Finds the records, and walks them."""
    if _RECORDS.value:
        folder = builds.find_current(storage.make_absolute(_RECORDS.value))
    else:
        job = config_file.load(_CONFIG.value)
        own_input.refuse(job, "verify")
        folder = builds.find_config_build(_STORAGE.value, job, given=_CONFIG.value)
    repair.run(folder) if _REPAIR.value else repair.verify(folder)


if __name__ == "__main__":
    cli.run(main)
