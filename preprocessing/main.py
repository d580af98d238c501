"""Turns the raw data of a config into TFRecords and a manifest, with Apache Beam.

    estimator-pipeline preprocess --config=mnist

MNIST takes about five seconds. Prints what is read, a progress bar, and records per split; run
again on the same config and inputs it does nothing, unless --force is given. Records go to
<storage>/records/<config>/<build>/; builds that were made before stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from absl import flags

from pipeline import cli, places
from pipeline.config import config_file, own_input, raw_data
from pipeline.launchers.preprocessing import PreprocessingRequest
from pipeline.runs import run_folder
from preprocessing.build import job

_CONFIG, _SET = cli.config_flags()
_STORAGE = cli.storage_flag()
_WORKERS, _BEAM = cli.beam_flags()
_CLUSTER = cli.place_flag(places.list_preprocessing())
_FORCE = flags.DEFINE_bool("force", False, "Make the records again though they are up to date.")
_RUN = flags.DEFINE_string("run", None, "Run that is to train on them. Default: none.")
_DRY_RUN = cli.remote_dry_run_flag()


def main() -> None:
    """Loads the config and hands over."""
    wanted = config_file.load(_CONFIG.value, _SET.value)
    own_input.refuse(wanted, "preprocess")
    if _CLUSTER.value == places.HERE:
        raw_data.require(wanted.data, _CONFIG.value)
    request = PreprocessingRequest(
        wanted,
        _STORAGE.value,
        arguments=tuple(_list_arguments()),
        beam_options=tuple(_BEAM.value),
        num_workers=_WORKERS.value,
        dry_run=_DRY_RUN.value,
    )
    beam = places.load(places.PLACES[_CLUSTER.value].preprocessing)(request)
    if beam is None:
        return
    job.run(
        wanted,
        _STORAGE.value,
        num_workers=_WORKERS.value,
        pipeline_options=[*beam.options, *_BEAM.value],
        force=_FORCE.value,
        for_run=_find_run_folder(),
        elsewhere=beam.elsewhere,
    )


def _list_arguments() -> Iterator[str]:
    """Yields what makes the same records elsewhere."""
    yield f"--config={_CONFIG.value}"
    yield from (f"--set={override}" for override in _SET.value)
    if _BEAM.value:
        yield f"--pipeline_options={','.join(_BEAM.value)}"
    if _FORCE.value:
        yield "--force"


def _find_run_folder() -> run_folder.RunFolder | None:
    if _RUN.value is None:
        return None
    return run_folder.RunFolder(run_folder.run_folder(_STORAGE.value, _RUN.value))


if __name__ == "__main__":
    cli.run(main, outlives_reader=True)
