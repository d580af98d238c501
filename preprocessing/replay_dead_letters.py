"""Makes the records of a config again with the dead letters that people corrected.

    estimator-pipeline replay-dead-letter --config=flights
    estimator-pipeline replay-dead-letter --config=flights --fixed=corrected.jsonl

Edit values in `raw` of lines in records/<config>/<build>/dead_letter/, or in a copy of such a file;
lines that are left as they are stay dead letters. Takes as long as preprocessing.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, errors
from pipeline.config import config_file, own_input
from preprocessing.build import replay

_CONFIG = flags.DEFINE_string(
    "config", None, "Name in configs/, or path of a config file.", required=True
)
_FIXED = flags.DEFINE_string("fixed", "", "Corrected copy of a dead-letter file.")
_SET = flags.DEFINE_multi_string("set", [], "Overrides a value: section.key=value. Repeatable.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written, local or gs://.")
_WORKERS = flags.DEFINE_integer(
    "num_workers", 1, "Number of local worker processes.", lower_bound=1
)
_BEAM = flags.DEFINE_list("pipeline_options", [], "Beam's own flags, separated by commas.")


def main() -> None:
    """Loads the config and hands over."""
    job = config_file.load(_CONFIG.value, _SET.value)
    own_input.refuse(job, "replay-dead-letter")
    if job.data.in_place:
        raise errors.UsageError(
            "replay-dead-letter: with data.in_place there are no dead letters; correct the files"
        )
    replay.run(
        job,
        _STORAGE.value,
        _FIXED.value,
        num_workers=_WORKERS.value,
        pipeline_options=_BEAM.value,
    )


if __name__ == "__main__":
    cli.run(main)
