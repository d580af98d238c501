"""Writes a page with a plot per column and split of the records of a config.

    estimator-pipeline stats --config=flights

It takes a second. The page is one file, stats.html, next to the manifest.
"""

from __future__ import annotations

from pipeline import cli, storage
from pipeline.config import config_file, own_input
from pipeline.console import terminal
from pipeline.records import builds, in_place, manifest
from preprocessing.statistics import stats_page

_CONFIG, _SET = cli.config_flags()
_STORAGE = cli.storage_flag()


def main() -> None:
    """Reads the manifest, writes the page, and says where it is."""
    job = config_file.load(_CONFIG.value, _SET.value)
    own_input.refuse(job, "stats")
    folder = builds.find_config_build(_STORAGE.value, job, given=_CONFIG.value)
    contents = manifest.read(folder)
    in_place.check_statistics(folder, contents)
    path = storage.join(folder, "stats.html")
    storage.write_text(path, stats_page.render(contents, f"Records of {job.name}"))
    print(terminal.display_path(path))


if __name__ == "__main__":
    cli.run(main)
