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
from pipeline.records import builds
from preprocessing.build import replay

_CONFIG, _SET = cli.config_flags()
_FIXED = flags.DEFINE_string("fixed", "", "Corrected copy of a dead-letter file.")
_STORAGE = cli.storage_flag()
_WORKERS, _BEAM = cli.beam_flags()


def main() -> None:
    """Loads the config and hands over."""
    job = config_file.load(_CONFIG.value, _SET.value)
    own_input.refuse(job, "replay-dead-letter")
    if job.data.in_place:
        raise errors.UsageError(
            "replay-dead-letter: with data.in_place there are no dead letters; correct the files"
        )
    builds.refuse_other_inputs(_STORAGE.value, job, given=_CONFIG.value)
    replay.run(
        job,
        _STORAGE.value,
        _FIXED.value,
        num_workers=_WORKERS.value,
        pipeline_options=_BEAM.value,
    )


if __name__ == "__main__":
    cli.run(main)
