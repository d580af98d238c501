"""Lists the builds of records, and removes those that are neither current nor named by a run.

    estimator-pipeline clean-records                  all records below --storage
    make clean-records [CONFIG=flights] [DRY_RUN=1] [FORCE=1]

--force removes builds that runs name, too: those runs can then not be resumed or evaluated until
the records are made again. The current build stays in any case, and so does one that a run is
training on. Dead letters of failed preprocessing go with their build.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli
from pipeline.config import config_file
from pipeline.console import figures, terminal
from pipeline.records import builds
from pipeline.runs import run_folder
from preprocessing.build import cleaning

_CONFIG = flags.DEFINE_string("config", None, "Config whose records to clean. Default: all.")
_STORAGE = cli.storage_flag()
_FORCE = flags.DEFINE_bool("force", False, "Remove builds that runs name, too.")
_DRY_RUN = cli.dry_run_flag()


def main() -> None:
    """Prints a line for each build, and what was freed."""
    root = _STORAGE.value
    chosen = cleaning.list_names(root)
    if _CONFIG.value:
        job = config_file.load(_CONFIG.value)
        builds.refuse_other_inputs(root, job, given=_CONFIG.value)
        chosen = [job.name]
    freed = 0
    for name in chosen:
        if _DRY_RUN.value:
            listed = cleaning.find(root, name)
            found = [(b, b.explain_need(force=_FORCE.value) or "would be removed") for b in listed]
        else:
            found = list(cleaning.clean(root, name, force=_FORCE.value))
        if found:
            print(terminal.display_path(run_folder.records_folder(root, name)))
            print("\n".join(cleaning.format_lines(found)), flush=True)
        freed += sum(build.bytes for build, why in found if not why)
    if not _DRY_RUN.value:
        print(f"{figures.size(freed)} freed")


if __name__ == "__main__":
    cli.run(main)
