"""Turns the raw data of a config into TFRecords and a manifest, with Apache Beam.

    python -m preprocessing.main --config=mnist

MNIST takes about five seconds. Prints what is read, a progress bar, and records per split; run
again on the same config and inputs it does nothing. Records go to <storage>/records/<config>/.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, config_file
from preprocessing import job

_CONFIG = flags.DEFINE_string(
    "config", None, "Name in configs/, or path of a config file.", required=True
)
_SET = flags.DEFINE_multi_string("set", [], "Overrides a value: section.key=value. Repeatable.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of all that is written; may be gs://.")
_WORKERS = flags.DEFINE_integer("num_workers", 1, "Local processes that work.", lower_bound=1)
_BEAM = flags.DEFINE_list("pipeline_options", [], "Beam's own flags, separated by commas.")


def main() -> None:
    """Loads the config and hands over."""
    job.run(
        config_file.load(_CONFIG.value, _SET.value),
        _STORAGE.value,
        num_workers=_WORKERS.value,
        pipeline_options=_BEAM.value,
    )


if __name__ == "__main__":
    cli.run(main)
